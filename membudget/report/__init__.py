"""Results -> text: one file per format, and the tables of formats in reporters.py."""
