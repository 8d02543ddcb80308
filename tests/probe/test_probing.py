"""The loop of a probe on a device that is made up."""

from __future__ import annotations

from dataclasses import replace

from membudget.calculator.loss_request import LossRequest, with_method
from membudget.calculator.section_totals import section_totals
from membudget.errors import CannotMeasureError
from membudget.probe.device import DeviceOutOfMemoryError, Sample
from membudget.probe.prediction import inputs_bytes, predicted
from membudget.probe.probing import Options, probe
from tests.probe.examples import FakeDevice, measured, settings

WHOLE = settings().request
WHOLE_BYTES = section_totals(predicted(WHOLE, "cuda")).peak_bytes
NEEDED = WHOLE_BYTES + inputs_bytes(WHOLE)


def out_of_memory(request: LossRequest, count: int) -> Sample | None:
    if request.terms[0][1].method == "whole":
        raise DeviceOutOfMemoryError("Tried to allocate 11.37 GiB.")
    return None


def test_measured_beside_predicted() -> None:
    measurement = measured(FakeDevice(excess=512))
    assert [row.method for row in measurement.rows] == ["whole", "fused_head"]
    row = measurement.rows[0]
    assert (row.status, row.predicted_bytes, row.measured_bytes) == ("measured", WHOLE_BYTES, WHOLE_BYTES + 512)
    assert (row.difference_bytes, row.milliseconds, row.same_events) == (512, 2.5, None)
    assert (row.reserved_bytes, row.device_bytes) == (10**9, 2 * 10**9)


def test_out_of_memory_is_a_fact_and_the_next_row_runs() -> None:
    first, second = measured(FakeDevice(on_run=out_of_memory)).rows
    assert (first.status, first.measured_bytes, first.difference_bytes) == ("out_of_memory", None, None)
    assert first.reason == "Tried to allocate 11.37 GiB."
    assert first.predicted_bytes == WHOLE_BYTES
    assert second.status == "measured"


def test_what_does_not_fit_is_refused_and_not_run() -> None:
    device = FakeDevice(free_bytes=NEEDED - 1)
    first, second = measured(device).rows
    assert first.status == "skipped"
    assert first.reason.startswith(f"needs {NEEDED}, {NEEDED - 1} are free; --force runs it all the same")
    assert second.status == "measured"
    assert [request.terms[0][1].method for request in device.ran] == ["fused_head"]
    assert measured(FakeDevice(free_bytes=NEEDED)).rows[0].status == "measured"


def test_force_runs_what_does_not_fit() -> None:
    device = FakeDevice(free_bytes=NEEDED - 1)
    assert measured(device, options=Options(force=True)).rows[0].status == "measured"
    assert len(device.ran) == 2


def test_a_part_of_the_tokens_is_run_only_where_all_do_not_fit() -> None:
    device = FakeDevice(free_bytes=NEEDED - 1, excess=512)
    first, second = measured(device, options=Options(scale=4)).rows
    assert [request.tokens for request in device.ran] == [6, 24]
    part = section_totals(predicted(replace(WHOLE, tokens=6), "cuda")).peak_bytes
    assert (first.scale, first.predicted_bytes, first.measured_bytes) == (4, part, part + 512)
    assert first.extrapolated_bytes == WHOLE_BYTES + 4 * 512
    assert first.reason.startswith("extrapolated: 1/4 of the tokens was run, since all of them do not fit")
    assert (second.scale, second.extrapolated_bytes) == (1, None)


def test_a_part_that_does_not_fit_either() -> None:
    (row,) = measured(FakeDevice(free_bytes=1), (("whole", None),), Options(scale=4)).rows
    assert row.status == "skipped"
    assert "choose a larger --scale" in row.reason


def test_out_of_memory_of_a_part_says_that_it_was_a_part() -> None:
    device = FakeDevice(free_bytes=NEEDED - 1, on_run=out_of_memory)
    (row,) = measured(device, (("whole", None),), Options(scale=4)).rows
    assert (row.status, row.scale, row.extrapolated_bytes) == ("out_of_memory", 4, None)


def test_the_largest_of_several_runs_counts() -> None:
    def growing(request: LossRequest, count: int) -> Sample:
        return Sample(WHOLE_BYTES + 512 * (count % 3), 0, 10.0 - count)

    (row,) = measured(FakeDevice(on_run=growing), (("whole", None),), Options(repeat=3)).rows
    assert (row.difference_bytes, row.runs_differ, row.milliseconds) == (1024, True, 7.0)
    assert row.reason == f"the runs differ: from {WHOLE_BYTES:,} B to {WHOLE_BYTES + 1024:,} B"


def test_equal_runs_are_not_said_to_differ() -> None:
    device = FakeDevice()
    (row,) = measured(device, (("whole", None),), Options(repeat=3)).rows
    assert (len(device.ran), row.runs_differ, row.reason) == (3, False, "")


def test_events_are_compared_where_the_device_tells_them() -> None:
    timeline = predicted(WHOLE, "cuda")
    other = predicted(with_method(WHOLE, "chunked", 5), "cuda")

    def telling(request: LossRequest, count: int) -> Sample:
        return Sample(WHOLE_BYTES, 0, 1.0, timeline=timeline if count == 1 else other)

    device = FakeDevice(on_run=telling)
    assert [row.same_events for row in measured(device, (("whole", None), ("whole", None))).rows] == [True, False]


def test_other_processes_are_warned_of() -> None:
    assert measured(FakeDevice(others=("process 17 uses 3 GB",))).warnings == ("process 17 uses 3 GB",)


def test_what_cannot_run_is_skipped_with_the_reason() -> None:
    def broken(request: LossRequest, count: int) -> Sample:
        raise CannotMeasureError("pip install something")

    first, second, third = measured(
        FakeDevice(on_run=broken), (("fused_kernel", None), ("liger", None), ("whole", None))
    ).rows
    assert (first.status, first.reason) == ("skipped", "no kernel")
    assert first.predicted_bytes
    # The terms are not of this library: not even predicted.
    assert (second.status, second.predicted_bytes) == ("skipped", None)
    assert "cross_entropy alone" in second.reason
    assert (third.status, third.reason) == ("skipped", "pip install something")


def test_an_operator_that_fails_is_a_reason_of_one_line_and_not_the_end() -> None:
    def fails(request: LossRequest, count: int) -> None:
        if count == 1:
            raise RuntimeError("not implemented for 'Half' " + "x" * 5000 + "\nC++ trace")

    first, second = measured(FakeDevice(on_run=fails)).rows
    assert first.status == "skipped"
    assert first.reason.startswith("the run failed: not implemented for 'Half' xxx")
    assert len(first.reason) == 900
    assert second.status == "measured"


def test_terms_as_configured_name_the_one_that_cannot_run() -> None:
    loss = {"cross_entropy": {"method": "fused_kernel"}, "kl": {}}
    (row,) = measured(wanted=(("configured", None),), loss=loss).rows
    assert (row.status, row.reason) == ("skipped", "cross_entropy by fused_kernel: no kernel")
    (row,) = measured(wanted=(("configured", None),), loss={"cross_entropy": {}, "kl": {}}).rows
    assert row.status == "measured"


def test_rows_are_announced_before_they_run() -> None:
    heard: list[object] = []

    def on_run(request: LossRequest, count: int) -> None:
        heard.append("run")

    device = FakeDevice(on_run=on_run)
    probe(device, settings(), [("whole", None), ("chunked", 5)], Options(), lambda *row: heard.append(row))
    assert heard == [(0, ("whole", None)), "run", (1, ("chunked", 5)), "run"]
