"""`membudget probe`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from membudget.cli import probe_options as options
from membudget.cli.arguments import choose
from membudget.cli.options import Color, screen_for
from membudget.cli.outcome import Outcome
from membudget.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from membudget.report.probe_result import ProbeReport

EXAMPLES = """\b
Examples:
  membudget probe --device cpu --chunk 4096
  membudget probe run.yaml --method fused_head --save measured.json
  membudget probe --check measured.json --tolerance 1%
"""


def probe(
    config: options.Config = None,
    device: options.Device = None,
    method: options.Method = None,
    chunk: options.Chunk = None,
    repeat: options.Repeat = None,
    scale: options.Scale = None,
    force: options.Force = False,
    save: options.Save = None,
    check: options.Check = None,
    tolerance: options.Tolerance = None,
    format_: options.Format = "table",
    color: Color = "auto",
) -> Outcome:
    """Run the real loss on the device, and compare it with the prediction.

    The loss of CONFIG, by every method: forward and backward, the peak beside the prediction. Ends in 3 when nothing
    could be measured or a row ran out of memory. With --check no device is needed: it ends in 1 when a saved
    measurement and the prediction part by more than the tolerance.
    """
    from membudget.report.probe_formats import PROBE_REPORTERS

    report = choose("--format", format_, PROBE_REPORTERS)
    screen = screen_for(color, None)
    if check is not None:
        given = {
            "CONFIG": config, "--device": device, "--method": method, "--chunk": chunk, "--repeat": repeat,
            "--scale": scale, "--force": force, "--save": save,
        }  # fmt: skip
        _refuse_beside_check(given)
        checked = _check(check, tolerance)
        return Outcome(report(checked, screen), _exit_code(checked))
    if tolerance is not None:
        raise UsageError("--tolerance belongs to --check FILE")
    from membudget.cli.probe_run import Choices, measure

    measured = measure(Choices(config, device, method or [], chunk or [], repeat, scale, force, save))
    return Outcome(report(measured, screen), _exit_code(measured))


def _refuse_beside_check(given: Mapping[str, object]) -> None:
    names = [name for name, value in given.items() if value]
    if names:
        raise UsageError(f"--check runs nothing: {', '.join(names)} does not go with it")


def _check(path: str, tolerance: str | None) -> ProbeReport:
    from membudget.probe.checking import check_measurement, parse_tolerance
    from membudget.probe.measurement_file import read_measurement
    from membudget.report.probe_result import ProbeReport

    allowed = parse_tolerance("0" if tolerance is None else tolerance)
    checked = check_measurement(read_measurement(path), allowed)
    return ProbeReport(checked.measurement, checked)


def _exit_code(report: ProbeReport) -> ExitCode:
    if report.checked is not None:
        return ExitCode.FITS if report.checked.passed else ExitCode.OVER
    ran_out = any(row.status == "out_of_memory" for row in report.measurement.rows)
    return ExitCode.CANNOT_MEASURE if ran_out or not report.measured else ExitCode.FITS
