"""The command line: one short file per command, wired in app.py; no arithmetic here."""
