"""`membudget schema`."""

from __future__ import annotations

from membudget.cli.options import Output
from membudget.cli.outcome import Outcome


def schema(output: Output = None) -> Outcome:
    """Print the JSON Schema of the configuration.

    Draft-07, for editors and other validators.
    """
    from membudget.config.schema import schema_text

    return Outcome(schema_text(), output=output)
