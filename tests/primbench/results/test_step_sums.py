"""What parts add up to beside the whole, of made-up times."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from primbench.measurement import Measurement, Samples, Trace
from primbench.measurement.readings import HostReading
from primbench.report import explained as words
from primbench.report.step_bound import answer, is_told, ways_of
from primbench.report.step_totals import step_totals
from primbench.results.record import Record
from primbench.results.step_explained import (
    COLLECTIVES,
    FAULTS,
    LAUNCHES,
    LOADING,
    NOT_MEASURED,
    PYTHON,
    QUEUING,
    RANKS,
    UNEXPLAINED,
    Explained,
)
from primbench.results.step_parts import BEYOND, IN_STEP, OTHERS, SLOWER
from primbench.results.step_sums import explained
from primbench.results.step_timed import timed
from primbench.spec.captured import Captured, NotCalledAgain
from primbench.spec.case import Case

from ..report.exports import text_of

text = text_of(words.document)


VIEW: dict[str, Any] = {"operator": "aten.view.default", "host_only": True}
RELU = {"operator": "aten.relu.default", "arguments": '["float32[8]"]'}


def samples(seconds: float) -> Samples:
    return Samples(samples_s=[seconds] * 3, calls_per_sample=1, taken_by="host clock", stopped="count")


def record(
    primitive: str, count: int, measured: Measurement | None, device: str = "cuda:0", **parameters: Any
) -> Record:
    labels = {"set": "parts", "count": str(count), "label": "relu"} if count else {"set": "whole"}
    case = Case(primitive=primitive, parameters=parameters, backend="torch", device=device, labels=labels)
    status, reason = ("ok", None) if measured else ("failed", "a crash")
    return Record(case=case, status=status, reason=reason, measurement=measured, started_utc="", duration_s=1.0)  # type: ignore[arg-type]


def on_gpu(enqueue_s: float, device_s: float, stream_s: float | None = None) -> Measurement:
    return Measurement(
        enqueue_s=samples(enqueue_s), device_s=samples(device_s), stream_s=samples(stream_s or max(enqueue_s, device_s))
    )


def test_a_step_that_waits_for_launches() -> None:
    """10 kernels of 10 us, launched in 30 us each, and 20 views of 5 us; Python takes 100 us beside them."""
    view = Measurement(enqueue_s=samples(5e-6), missing={"device_s": "a call launches nothing"})
    parts = [
        record("gemm", 4, on_gpu(30e-6, 10e-6), m=1),
        record("aten", 6, on_gpu(30e-6, 10e-6), **RELU),
        record("aten", 20, view, **VIEW),
    ]
    found = explained([*parts, record("model", 0, on_gpu(500e-6, 110e-6, 520e-6))])
    assert found is not None
    assert [("device", 100, 110), ("host", 400, 500), ("step", 400, 520)] == [
        (each.name, round(1e6 * (each.parts_s or 0)), round(1e6 * (each.step_s or 0))) for each in found.numbers
    ]
    rows = [(row.name, round(1e6 * (row.seconds or 0)), row.calls) for row in found.rows]
    # 410 us without a kernel: 290 by launches alone, 100 more by all that the host does; 20 of neither.
    expected = [(OTHERS, 60, 6), ("gemm", 40, 4), (LAUNCHES, 290, 30), (PYTHON, 100, 0), (UNEXPLAINED, 30, 0)]
    assert expected == rows
    assert ({"relu": 60e-6}, {}) == ({name: round(each, 9) for name, each in found.others.items()}, found.unmeasured)


def test_a_part_that_was_kept_and_measured_again_is_one_in_whichever_order_its_parameters_stand() -> None:
    kept = record("aten", 6, on_gpu(30e-6, 10e-6), **dict(reversed([*RELU.items()])))
    found = explained([kept, record("aten", 6, on_gpu(30e-6, 20e-6), **RELU), record("model", 0, on_gpu(5e-4, 1e-4))])
    assert found is not None
    assert 6 == found.calls
    assert pytest.approx(6 * 15e-6) == found.numbers[0].parts_s


def test_kernels_that_were_concurrent_do_not_count_twice_against_waiting() -> None:
    """A step of 520 us whose kernels add up to 400 us, and take 110 us side by side: it waits for 410 us."""
    trace = Trace(busy_s=samples(400e-6), kernels_per_call=10, kernels=["k"])
    step = replace(on_gpu(500e-6, 110e-6, 520e-6), trace=trace, nodes_per_call=10.0)
    for longest_path, launches_s in ((3.0, 380e-6), (10.0, 90e-6)):
        whole = record("model", 0, replace(step, longest_path_per_call=longest_path))
        found = explained([record("gemm", 10, on_gpu(49e-6, 10e-6), m=1), whole])
        assert found is not None
        assert launches_s == pytest.approx(found.seconds(LAUNCHES))


def test_kernels_are_held_beside_kernels_where_all_were_traced() -> None:
    """10 kernels of 9 us, in graphs 10 us each, in a step 11: unlike with unlike would be 100 us beside 100."""

    def traced(found: Measurement, busy_s: float) -> Measurement:
        return replace(found, trace=Trace(busy_s=samples(busy_s), kernels_per_call=1, kernels=["k"]))

    whole = record("model", 0, traced(on_gpu(500e-6, 110e-6), 100e-6))
    view = record("aten", 20, Measurement(enqueue_s=samples(5e-6)), **VIEW)
    for part, expected in (
        (traced(on_gpu(30e-6, 10e-6), 9e-6), ("busy", 90, 100)),
        (on_gpu(30e-6, 10e-6), ("device", 100, 110)),  # not traced
    ):
        found = explained([record("gemm", 10, part, m=1), view, whole])
        assert found is not None
        number = found.numbers[0]
        assert expected == (number.name, round(1e6 * (number.parts_s or 0)), round(1e6 * (number.step_s or 0)))
        assert "kernels: counts x" in text([("A step", found)])


def test_what_a_scripts_step_does_between_operators() -> None:
    """Of 10 ms 3 ms were in operators and 2 ms in none's, since there was no CPU; parts have Python's call of each."""
    captured = Captured(
        step="a step", times_s=[10e-3] * 3, waits_s=[1e-3] * 3, queues_s=[2e-3] * 3, inside_s=[3e-3, 2e-3, 9e-3]
    )
    parts = [record("gemm", 4, Measurement(batch_s=samples(0.5e-3)), "cpu")]
    found = explained(parts, timed(captured))
    assert found is not None
    rows = [(row.name, round(1e3 * (row.seconds or 0.0), 6)) for row in found.rows]
    assert [("gemm", 2), (LOADING, 1), (QUEUING, 2), (PYTHON, 4), (UNEXPLAINED, 1)] == rows
    printed = text([("A step", found)])
    assert "Python and autograd: 1.00 ms beside each of 4 calls" in printed
    assert "1.00 ms of it for the data loader; 2.00 ms of it waiting for a CPU; no less than 4.00 ms between" in printed
    longer = explained([record("gemm", 10, Measurement(batch_s=samples(0.5e-3)), "cpu")], timed(captured))
    assert longer is not None
    assert (2, 0) == tuple(round(1e3 * longer.seconds(name), 6) for name in (PYTHON, UNEXPLAINED))
    on_one = explained([record("gemm", 4, on_gpu(0.5e-3, 0.4e-3))], timed(captured))
    assert on_one is not None
    rows = [(row.name, round(1e3 * (row.seconds or 0.0), 6)) for row in on_one.rows]
    assert [("gemm", 1.6), (LAUNCHES, 0.4), (PYTHON, 4), (LOADING, 1), (QUEUING, 2), (UNEXPLAINED, 1)] == rows
    unlike = timed(replace(captured, unlike=1))
    assert unlike is not None
    assert unlike.between_s is None
    found = explained(parts, unlike)
    assert found is not None
    assert "unexplained: 1.25 ms for each of 4 calls" in text([("A step", found)])


times = st.floats(1e-7, 1e-1)


@given(st.lists(st.tuples(st.integers(1, 99), times, times), min_size=1), times, times, times)
def test_rows_add_up_to_the_step(
    parts: list[tuple[int, float, float]], enqueue_s: float, device_s: float, stream_s: float
) -> None:
    records = [record("gemm", count, on_gpu(*each), m=number) for number, (count, *each) in enumerate(parts)]
    found = explained([*records, record("model", 0, on_gpu(enqueue_s, device_s, stream_s))])
    assert found is not None
    assert math.isclose(stream_s, sum(row.seconds or 0.0 for row in found.rows), rel_tol=1e-9, abs_tol=1e-12)
    assert found.seconds(LAUNCHES) >= 0 <= found.seconds(PYTHON)


def test_parts_that_failed_leave_a_lower_bound_and_nothing_to_explain() -> None:
    """4 of 7 kernels of 10 us launched in 30 us each were measured, and a call that waits for the GPU itself."""
    waits = Measurement(stream_s=samples(20e-6), missing={"device_s": "it waits for the GPU itself"})
    parts = [
        record("gemm", 4, on_gpu(30e-6, 10e-6), m=1),
        record("gemm", 3, None, m=2),
        record("aten", 1, waits, **RELU),
    ]
    found = explained([*parts, record("model", 0, on_gpu(500e-6, 110e-6, 520e-6))])
    assert found is not None
    sums = [(each.name, round(1e6 * (each.parts_s or 0)), each.is_least) for each in found.numbers]
    assert [("device", 60, True), ("host", 140, True), ("step", 140, True)] == sums
    rows = [(row.name, None if row.seconds is None else round(1e6 * row.seconds), row.calls) for row in found.rows]
    unknown = [(PYTHON, None, 0), (NOT_MEASURED, None, 3), (UNEXPLAINED, None, 0)]
    assert [("gemm", 40, 4), (OTHERS, 20, 1), (LAUNCHES, 30, 5), *unknown] == rows
    assert ({"relu: failed: a crash": 3}, None, 8) == (found.unmeasured, found.unexplained_fraction, found.calls)
    assert 430 == round(1e6 * (found.rest_s or 0))
    printed = text([("A step", found)])
    assert re.search(r"device +>= 60.0 us +110 us +>= 0\.545", printed)
    assert re.search(r"not measured +3 +- +-", printed)
    assert "what was not measured and what is unexplained take 430 us together" in printed
    assert re.search(r"unexplained +<= 430 us +<= 82\.7%", printed)
    assert "3 calls not measured: relu: failed: a crash" in printed
    assert answer([("A step", found)]).endswith(
        "gemm takes 7.7% of 520 us, 3 of its calls were not measured: with what is unexplained, they take 82.7%."
    )


def test_what_bounds_a_step_is_told_where_calls_that_were_not_measured_could_not_change_it() -> None:
    """Of 520 us a GPU computes 400 us in the calls that were."""
    parts = [record("gemm", 4, on_gpu(30e-6, 100e-6), m=1), record("gemm", 3, None, m=2)]
    found = explained([*parts, record("model", 0, on_gpu(100e-6, 510e-6, 520e-6))])
    assert found is not None
    assert answer([("A step", found)]) == (
        "The GPU's kernels bound this step: the GPU computes 400 us of 520 us, gemm most, for 400 us; without any wait "
        "it would still take 400 us: make the kernels faster. 3 of its calls were not measured: with what is "
        "unexplained, they take 23.1%."
    )


def test_a_part_that_failed_leaves_what_lies_between_operators_known() -> None:
    """Of a script's step of 100 us, each call of which takes 30 us to launch and 10 us to compute."""
    step = Captured(step="a step", times_s=[100e-6] * 12, inside_s=[70e-6] * 5)
    parts = [record("gemm", 1, on_gpu(30e-6, 10e-6), m=1), record("gemm", 1, None, m=2)]
    for measured, left in ((parts, None), ([parts[0], record("gemm", 1, on_gpu(30e-6, 10e-6), m=2)], 10e-6)):
        found = explained(measured, timed(step), captured=step)
        assert found is not None
        assert math.isclose(30e-6, found.seconds(PYTHON))
        assert (left is None) == (found.unexplained_fraction is None)
        assert found.rest_s is not None
        assert 0 <= found.rest_s <= 100e-6


def test_what_disturbed_the_step_and_its_parts_is_told() -> None:
    """Or sums that come to many times the step would stand there as if they were the step's."""
    host = HostReading(duration_s=1.0, cpu_time_s=0.5, waited_s=0.4, involuntary_switches=0, voluntary_switches=0)
    held_up = replace(Measurement(batch_s=samples(3e-3)), host=host)
    parts = [record("gemm", 2, Measurement(batch_s=samples(1e-3)), "cpu"), record("gemm", 1, held_up, "cpu", m=2)]
    found = explained([*parts, record("model", 0, held_up, "cpu")])
    assert found is not None
    assert (3e-3, {"the step", "relu"}) == (found.disturbed_s, set(found.disturbances))
    printed = text([("A step", found)])
    assert "! the step: it waited for a CPU during 40.0% of its time" in printed
    assert "! 3.00 ms of what parts take are of calls that something disturbed" in printed
    assert printed.startswith("TOO BUSY TO TELL in A step: of what its parts take, 3.00 ms is of calls that something")
    assert "A step: too busy to tell" in answer([("A step", found)])


def test_what_disturbs_parts_alone_leaves_the_bound_that_steps_tell() -> None:
    """Of 10 ms 8 ms were in operators, of which something disturbed the one that is measured."""
    host = HostReading(duration_s=1.0, cpu_time_s=0.5, waited_s=0.4, involuntary_switches=0, voluntary_switches=0)
    parts = [record("gemm", 1, replace(Measurement(batch_s=samples(30e-3)), host=host), "cpu")]
    for between_s, said in (
        (2e-3, "Torch's operators bound this step: 8.00 ms of 10.0 ms; faster operators"),
        (4.8e-3, "Torch's operators and Python between operators bound this step about equally: 5.20 ms and 4.80 ms"),
    ):
        inside_s = [10e-3 - between_s] * 6
        step = Captured(step="a step", times_s=[10e-3] * 6, inside_s=inside_s, between_s=[between_s] * 6)
        found = explained(parts, timed(step), captured=step)
        assert found is not None
        assert is_told(found)
        printed = text([("A", found)])
        assert printed.startswith(said)
        assert "Something disturbed its parts while they were measured alone" in printed
        assert "! relu: it waited for a CPU during 40.0% of its time" in printed


@pytest.mark.parametrize(
    ("inside_ms", "between_ms", "python_ms", "said"),
    [
        (
            7,
            5,
            (4.166667, 4.166667),
            "Torch's operators bound this step: 5.83 ms of 10.0 ms, gemm",
        ),  # 2 ms the profiler's
        (
            5.2,
            2.8,
            (2.8, 4.8),
            "Torch's operators bound this step, or Python between operators: 5.20 ms to 7.20 ms and",
        ),
    ],
)
def test_the_profilers_time_is_shared_as_all_and_what_it_missed_may_be_of_either_part(
    inside_ms: float, between_ms: float, python_ms: tuple[float, float], said: str
) -> None:
    inside_s, between_s = ([each * 1e-3] * 6 for each in (inside_ms, between_ms))
    step = Captured(step="a step", times_s=[10e-3] * 6, inside_s=inside_s, between_s=between_s)
    found = explained([record("gemm", 5, Measurement(batch_s=samples(1e-3)), "cpu")], timed(step), captured=step)
    assert found is not None
    assert python_ms == tuple(round(1e3 * way["python"], 6) for way in ways_of(found))
    assert found.seconds(UNEXPLAINED) == pytest.approx(max(0.0, 10 - inside_ms - between_ms) * 1e-3, abs=0.0)
    assert answer([("A", found)]).startswith(said)


def test_pages_that_only_other_steps_touched_first_are_not_of_python() -> None:
    """Of 10 ms 5 ms in operators and 1 ms between them, where no memory is new; it takes 3.5 ms."""
    times: Any = {"inside_s": [5e-3] * 6, "between_s": [1e-3] * 6, "faults_s": [3.5e-3] * 6}
    step = Captured(step="a step", times_s=[10e-3] * 6, **times)
    found = explained([record("gemm", 5, Measurement(batch_s=samples(1e-3)), "cpu")], timed(step), captured=step)
    assert found is not None
    assert [1.0, 1.666667] == [round(1e3 * way["python"], 6) for way in ways_of(found)]


def test_parts_that_take_more_than_the_step_leave_its_own_steps_to_tell() -> None:
    """Of 10 ms 9 ms in operators, which take 15 ms alone."""
    step = Captured(step="a step", times_s=[10e-3] * 6, inside_s=[9e-3] * 6, between_s=[1e-3] * 6)
    found = explained([record("gemm", 5, Measurement(batch_s=samples(3e-3)), "cpu")], timed(step), captured=step)
    assert found is not None
    said = answer([("A", found)])
    assert said.startswith("Torch's operators bound this step: 9.00 ms of 10.0 ms, gemm most, for 15.0 ms;")
    assert said.endswith("Measured alone, its parts take 50.0% more than the step.")


def test_a_cpu_that_is_slow_now_and_then_leaves_a_step_told() -> None:
    """As on a quiet machine in a cloud."""
    slow = Measurement(batch_s=replace(samples(1e-3), loops_s=[(0, 25e-6), (1, 40e-6), (2, 40e-6)]))
    found = explained([record("gemm", 2, slow, "cpu"), record("model", 0, slow, "cpu")])
    assert found is not None
    assert (0.0, {}) == (found.disturbed_s, found.disturbances)
    assert "too busy" not in text([("A step", found)]).lower()


def test_time_between_operators_that_is_less_than_the_scatter_of_steps_is_not_known() -> None:
    quiet, noisy = ([9e-3, 10e-3, 10e-3, 10e-3, 11e-3, 10e-3 + scatter_s] for scatter_s in (0, 30e-3))
    for times_s, expected in ((quiet, 7e-3), (noisy, None)):
        found = timed(Captured(step="a step", times_s=times_s, inside_s=[3e-3]))
        assert found is not None
        assert expected == (found.between_s and round(found.between_s, 6))


def test_what_operators_take_longer_in_the_step_than_alone_is_a_row_of_its_own() -> None:
    """Of 10 ms 6 ms were in operators, 1 ms of them for new memory, that take 2 ms alone; however steps scatter."""
    times_s, inside_s = [9e-3, 10e-3, 10e-3, 10e-3, 11e-3, 30e-3], [5e-3, 6e-3, 6e-3, 6e-3, 6e-3, 7e-3]
    step = Captured(
        step="a step", times_s=times_s, inside_s=inside_s, between_s=[3e-3] * 5 + [4e-3], faults_s=[1e-3] * 6
    )
    parts = [record("gemm", 4, Measurement(batch_s=samples(0.5e-3)), "cpu")]
    found = explained(parts, timed(step), captured=step)
    assert found is not None
    rows = [(row.name, round(1e3 * (row.seconds or 0.0), 6)) for row in found.rows]
    assert [("gemm", 2), (PYTHON, 3), (FAULTS, 1), (SLOWER, 3), (UNEXPLAINED, 1)] == rows
    printed = text([("A", found)])
    assert printed.startswith("Torch's operators bound this step: 5.00 ms of 10.0 ms, gemm most, for 2.00 ms;")
    assert "In it operators take 3.00 ms more than alone." in printed
    assert "6.00 ms in operators and 3.00 ms (95 % interval 3.00 ms to 4.00 ms) between them" in printed
    elsewhere = explained(parts, timed(step, ["another CPU"]), captured=step)
    assert elsewhere is not None
    assert (0.0, 4e-3) == (elsewhere.seconds(SLOWER), round(elsewhere.seconds(UNEXPLAINED), 9))
    assert "took 9.00 ms" not in text([("A", elsewhere)])


def test_steps_that_the_profiler_makes_much_longer_do_not_tell_of_others() -> None:
    """They took 16 ms, others 10 ms, of which parts take 2 ms: the rest stays unexplained."""
    step = Captured(step="a step", times_s=[10e-3] * 6, inside_s=[12e-3] * 6, between_s=[4e-3] * 6)
    found = explained([record("gemm", 4, Measurement(batch_s=samples(0.5e-3)), "cpu")], timed(step), captured=step)
    assert found is not None
    assert (0.0, 0.0, 8e-3) == tuple(round(found.seconds(name), 9) for name in (SLOWER, PYTHON, UNEXPLAINED))
    assert "under torch's profiler steps take 16.0 ms, too long to tell of others" in text([("A", found)])


def test_what_the_host_is_in_operators_for_beyond_both_the_gpu_and_their_launches_is_told() -> None:
    """Of 10 ms 8 ms were in operators that take 1 ms to be enqueued, and 2 ms to compute."""
    step = Captured(step="a step", times_s=[10e-3] * 6, inside_s=[8e-3] * 6, between_s=[1e-3] * 6)
    parts = [record("gemm", 4, Measurement(enqueue_s=samples(0.25e-3), device_s=samples(0.5e-3)))]
    found = explained(parts, timed(step), captured=step)
    assert found is not None
    assert (5e-3, 3e-3) == (round(found.seconds(SLOWER), 9), round(found.seconds(UNEXPLAINED), 9))
    printed = text([("A", found)])
    assert printed.startswith("The host's operators and launches bound this step")
    assert "In it operators take 5.00 ms more than alone." in printed


def test_what_was_not_measured_of_a_step_that_was_captured_is_not_unexplained() -> None:
    """Of a run that was cut off, or calls that nothing stands for."""
    step = Captured(step="a step", parts=9, left_out=2, times_s=[5e-3])
    parts = [record("gemm", 4, Measurement(batch_s=samples(1e-3)), "cpu")]
    found = explained(parts, timed(step), captured=step)
    assert found is not None
    assert (True, 4e-3, 11) == (found.numbers[0].is_least, found.numbers[0].parts_s, found.calls)
    assert [5, 2] == list(found.unmeasured.values())
    assert [("gemm", 4), (NOT_MEASURED, 7), (UNEXPLAINED, 0)] == [(row.name, row.calls) for row in found.rows]
    assert found.unexplained_fraction is None
    assert "5 calls not measured: captured, but not in these results" in text([("A step", found)])
    whole = explained(parts, captured=Captured(step="a step", parts=4))
    assert whole is not None
    assert {} == whole.unmeasured


def test_what_cannot_be_called_again_counts_as_long_as_it_took_in_the_step() -> None:
    """One is of a library that the process which measures has not, of the other nothing is known."""
    gone = [
        NotCalledAgain(name="mm", calls=2, reason="sparse", seconds=3e-3),
        NotCalledAgain(name="sort", calls=1, reason="nested"),
    ]
    step = Captured(step="a step", parts=5, left_out=gone[:1], times_s=[10e-3])
    own = record("aten", 1, None, "cpu", operator="mine.own.default")
    own = replace(own, case=replace(own.case, labels=own.case.labels | {"label": "own", "in_step_ns": "2000000"}))
    parts = [record("gemm", 4, Measurement(batch_s=samples(1e-3)), "cpu"), own]
    found = explained(parts, timed(step), captured=step)
    assert found is not None
    assert [(IN_STEP, 5e-3, 3), ("gemm", 4e-3, 4), (UNEXPLAINED, 1e-3, 0)] == [
        (row.name, round(row.seconds or 0, 9), row.calls) for row in found.rows
    ]
    assert (0.1, {}) == (round(found.unexplained_fraction or 0, 9), found.unmeasured)
    assert [("mm", "sparse"), ("own", "failed: a crash")] == [(each.name, each.reason) for each in found.in_step]
    assert "mm, 2 calls, not measured alone: sparse; in the captured step they took 3.00 ms" in text([("A", found)])
    assert "operators bound this step: 9.00 ms of 10.0 ms, gemm most" in answer([("A", found)])
    short = replace(step, times_s=[2e-3])
    found = explained(parts, timed(short), captured=short)
    assert found is not None
    said = answer([("A", found)])
    assert "timed as it was recorded, calls that cannot be made again take 5.00 ms, and the step took 2.00 ms" in said
    assert "--threads" not in said
    step = replace(step, left_out=gone)
    found = explained(parts, timed(step), captured=step)
    assert found is not None
    assert {"sort: nested": 1} == found.unmeasured
    assert found.unexplained_fraction is None


def test_parts_that_take_longer_than_the_step_do_not_tell_what_bounds_it() -> None:
    """Of a step of 1 ms, of which 0.6 ms pass in Python where that is known."""
    python = Captured(step="a step", times_s=[1e-3] * 6, inside_s=[0.4e-3] * 5)
    unknown = replace(python, inside_s=[])
    for captured, each_s, said in (
        (
            unknown,
            1.2e-3,
            "Measured alone, its parts take 20.0% more than the step.",
        ),
        (python, 1.2e-3, "measured alone, its parts take 1.20 ms, and the step took 1.00 ms: slower than in"),
        (unknown, 8e-3, "ask for fewer --threads, or quiet the machine"),
    ):
        parts = [record("gemm", 1, Measurement(batch_s=samples(each_s)), "cpu")]
        found = explained(parts, timed(captured), captured=captured)
        assert found is not None
        assert said in answer([("A", found)])
        assert is_told(found) == ("bound this step" in answer([("A", found)]))


def test_the_rank_that_all_wait_for_is_named_and_the_wait_is_a_row() -> None:
    """Of 10 ms it is 5 ms in collectives that nothing hides, of which it waits 4 ms, and passes 3 ms in operators.
    Alone collectives take 7 ms: 2 ms of them are hidden.
    """
    step = Captured(step="a step", times_s=[10e-3] * 6, inside_s=[3e-3] * 5, exposed_s=[5e-3, 6e-3, 1e-3])
    parts = [
        record("gemm", 1, Measurement(batch_s=samples(3e-3)), "cpu"),
        record("allreduce", 1, Measurement(batch_s=samples(7e-3)), "cpu", ranks=3),
    ]
    found = explained(parts, timed(step), captured=step)
    assert found is not None
    rows = [(row.name, round(row.seconds or 0.0, 9)) for row in found.rows]
    assert [("gemm", 3e-3), (COLLECTIVES, 1e-3), (RANKS, 4e-3), (PYTHON, 2e-3), (UNEXPLAINED, 0.0)] == rows
    assert "collectives alone: relu 7.00 ms; the step hides 2.00 ms of that, or they are faster in it" in text(
        [("A", found)]
    )
    said = answer([("A", found)])
    assert said.endswith("Rank 2 comes last: it is 1.00 ms a step in collectives, where others wait 5.00 ms and more.")
    assert "4.00 ms of it for another rank" in text([("A", found)])
    alike = replace(step, exposed_s=[1.2e-3, 1e-3])
    found = explained(parts, timed(alike), captured=alike)
    assert found is not None
    assert "comes last" not in answer([("A", found)])


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_collectives_that_nothing_hides_bound_a_step_that_no_rank_holds_up(device: str) -> None:
    """6 of 10 ms they run alone, as they take 5 ms by themselves, and 3 ms operators: of a CPU, or kernels."""
    on_host: dict[str, Any] = {"inside_s": [3e-3] * 6, "between_s": [1e-3] * 6, "exposed_s": [6.2e-3, 6e-3]}
    step = Captured(step="a step", times_s=[10e-3] * 6, **on_host)
    if device == "cpu":
        alone = Measurement(batch_s=samples(3e-3)), Measurement(batch_s=samples(5e-3))
    else:
        alone, step = (on_gpu(1e-3, 3e-3), on_gpu(0.1e-3, 5e-3)), replace(step, host_s=[2e-3] * 6, inside_s=[1e-3] * 6)
    parts = [record("gemm", 1, alone[0], device), record("allreduce", 1, alone[1], device, ranks=2)]
    found = explained(parts, timed(step), captured=step)
    assert found is not None
    assert 0.0 == found.hidden_s
    assert 6e-3 == pytest.approx(found.seconds(COLLECTIVES))
    said = answer([("A", found)])
    assert said.startswith("Collectives that nothing hides bound this step: ")
    assert "begun earlier, or in larger pieces, beside what computes: 4.00 ms at best" in said
    assert "comes last" not in said


def test_what_ranks_exchange_counts_once_however_its_own_time_is_known() -> None:
    """Of 10 ms they are 5 ms in collectives, one of which was not measured, one took 4 ms in the captured step with a
    wait of 3 ms, as a barrier did that blocks.
    """
    took = {"set": "parts", "count": "1", "in_step_ns": "4000000"}
    wait = record("aten", 1, None, "cpu", operator="_c10d_functional.wait_tensor.default")
    parts = [
        record("gemm", 1, Measurement(batch_s=samples(3e-3)), "cpu"),
        record("allreduce", 1, Measurement(batch_s=samples(7e-3)), "cpu", ranks=2),
        record("collective", 1, None, "cpu", ranks=2),
        *(replace(each, case=replace(each.case, labels=took | {"label": "late"}))
          for each in (record("collective", 1, None, "cpu", ranks=2, bytes=8), wait)),
    ]  # fmt: skip
    barrier = NotCalledAgain(name="monitored_barrier_", calls=1, reason="an argument", seconds=3e-3)
    known: dict[str, Any] = {"inside_s": [3e-3] * 6, "between_s": [2e-3] * 6, "exposed_s": [5e-3, 5e-3]}
    step = Captured(step="a step", times_s=[10e-3] * 6, left_out=[barrier], parts=5, **known)
    found = explained(parts, timed(step), captured=step)
    assert found is not None
    rows = {row.name: row.seconds and round(row.seconds, 9) for row in found.rows}
    assert {COLLECTIVES: 5e-3, "gemm": 3e-3, PYTHON: 2e-3, NOT_MEASURED: None, UNEXPLAINED: None} == rows
    assert 0.0 == found.rest_s
    assert ({"relu": 7e-3}, None) == (found.collectives, found.hidden_s)
    assert "collectives alone: relu 7.00 ms\n" in text([("A", found)])


def test_what_begins_a_collective_is_not_slower_than_alone() -> None:
    """Of 10 ms 3 ms pass in operators, of which 2 ms are the calls that begin collectives."""
    known: dict[str, Any] = {"inside_s": [3e-3] * 6, "between_s": [1e-3] * 6, "exposed_s": [6e-3, 6e-3]}
    step = Captured(step="a step", times_s=[10e-3] * 6, operators_s={"relu": 2e-3}, **known)
    parts = [
        record("gemm", 1, Measurement(batch_s=samples(0.5e-3)), "cpu"),
        record("allreduce", 1, Measurement(batch_s=samples(4e-3)), "cpu", ranks=2),
    ]
    parts[0] = replace(parts[0], case=replace(parts[0].case, labels=parts[0].case.labels | {"label": "mm"}))
    found = explained(parts, timed(step), captured=step)
    assert found is not None
    assert 0.5e-3 == pytest.approx(found.seconds(SLOWER))
    assert found.slowest is None


def test_collectives_that_a_profiler_has_not_seen_count_as_they_take_alone() -> None:
    step = Captured(step="a step", times_s=[10e-3] * 6, exposed_s=[0.0, 0.0])
    parts = [record("allreduce", 1, Measurement(batch_s=samples(4e-3)), "cpu", ranks=2)]
    found = explained(parts, timed(step), captured=step)
    assert found is not None
    assert [("allreduce", 4e-3), (UNEXPLAINED, 6e-3)] == [(row.name, row.seconds) for row in found.rows]


def test_what_the_host_waits_for_its_gpu_is_told_apart_in_steps_of_several_ranks() -> None:
    """Of 10 ms operators take 3 ms, alone 1 ms, and the host waits 5 ms, as its GPU waits for another rank's."""
    known: dict[str, Any] = {"inside_s": [3e-3] * 6, "between_s": [1e-3] * 6, "exposed_s": [6e-3, 1e-3]}
    for host_s, slower_s in (([5e-3] * 6, 2e-3), ([], 0.0)):  # not known: it may have waited as long as 2 ms
        step = Captured(step="a step", times_s=[10e-3] * 6, host_s=host_s, **known)
        found = explained([record("gemm", 1, on_gpu(1e-3, 2e-3))], timed(step), captured=step)
        assert found is not None
        assert [2e-3, 5e-3, slower_s] == [round(found.seconds(name), 9) for name in ("gemm", RANKS, SLOWER)]
        assert answer([("A", found)]).startswith("Waiting for a slower rank bounds this step")
        assert "Rank 1 comes last: it is 1.00 ms a step in collectives" in answer([("A", found)])


def test_a_host_that_never_waits_for_its_gpu_bounds_the_step_however_long_that_computes() -> None:
    """The GPU computes 6 of 10 ms, all of them while the host goes on, or while it waits."""
    known: dict[str, Any] = {"between_s": [4e-3] * 6, "exposed_s": [1e-3, 1e-3]}
    for inside_s, host_s, said in (
        (
            6e-3,
            10e-3,
            "The host's operators and launches bound this step: the GPU computes 6.00 ms of 10.0 ms, and waits",
        ),
        (1e-3, 5e-3, "The GPU's kernels bound this step: the GPU computes 6.00 ms of 10.0 ms"),
    ):
        steps = Captured(step="a step", times_s=[10e-3] * 6, inside_s=[inside_s] * 6, host_s=[host_s] * 6, **known)
        found = explained([record("gemm", 1, on_gpu(1e-3, 6e-3))], timed(steps), captured=steps)
        assert found is not None
        assert answer([("A", found)]).startswith(said)


def told(parts: list[Record], steps: Captured) -> Explained:
    """Of a captured step that ran in this place."""
    found = explained(parts, timed(steps), captured=steps)
    assert found is not None
    return found


def test_a_host_is_known_to_be_the_bound_where_the_profiler_takes_too_long_to_tell_its_time_apart() -> None:
    """Of 11 ms the GPU computes 8 ms, of which the host knows nothing; under the profiler a step takes 18 ms."""
    steps = Captured(
        step="a step", times_s=[11e-3] * 6, inside_s=[12e-3] * 6, between_s=[6e-3] * 6, host_s=[11.2e-3] * 6,
        on_gpu_s=[8e-3] * 6,
    )  # fmt: skip
    found = told([record("gemm", 1, on_gpu(5e-3, 8.2e-3))], steps)
    device, host, _ = found.numbers
    assert (8e-3, 11e-3) == (device.step_s, host.step_s)
    assert [2.8e-3, 0.0] == [round(found.seconds(name), 9) for name in (PYTHON, UNEXPLAINED)]
    said = answer([("A", found)])
    assert said.startswith(
        "The host's operators and launches bound this step: the GPU computes 8.20 ms of 11.0 ms, and"
    )
    assert "under torch's profiler steps take 18.0 ms, too long to tell of others" in text([("A", found)])
    waits = replace(steps, host_s=[6e-3] * 6)
    found = told([record("gemm", 1, on_gpu(5e-3, 8.2e-3))], waits)
    assert 6e-3 == pytest.approx(found.numbers[1].step_s)
    assert answer([("A", found)]).startswith("The GPU's kernels bound this step")


def test_the_operator_that_takes_longer_than_alone_is_named_where_one_has_most_of_that() -> None:
    """Of 60 ms one takes 50 ms, or two 20 ms each."""
    steps = Captured(
        step="a step", times_s=[60e-3] * 6, inside_s=[55e-3] * 6, between_s=[5e-3] * 6, host_s=[60e-3] * 6,
        on_gpu_s=[1e-3] * 6, operators_s={"relu": 50e-3, "add": 4e-3},
    )  # fmt: skip
    parts = [record("gemm", 1, on_gpu(1e-3, 0.5e-3))]
    found = told(parts, steps)
    assert "In it operators take 54.0 ms more than alone, of which relu takes 49.0 ms." in answer([("A", found)])
    alike = replace(steps, operators_s={"relu": 20e-3, "add": 20e-3})
    found = told(parts, alike)
    assert "In it operators take 54.0 ms more than alone." in answer([("A", found)])
    assert found.slowest is None


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"waits_s": [6e-3] * 6}, "The data loader bounds this step"),
        ({"queues_s": [6e-3] * 6}, "Waiting for a CPU bounds this step"),
        ({"exposed_s": [6.5e-3, 0.5e-3]}, "Waiting for a slower rank bounds this step"),
        ({"between_s": [1e-3] * 6, "inside_s": [1e-3] * 6}, "Most of this step is unexplained"),
    ],
)
def test_a_host_that_waits_for_something_else_than_its_gpu_is_not_the_bound(other: dict[str, Any], said: str) -> None:
    """Of 10 ms the GPU computes 1 ms; the host has 9.8 ms to do, in which it waits for 6 ms, or nothing is known."""
    known: dict[str, Any] = {"inside_s": [1.2e-3] * 6, "between_s": [2e-3] * 6, **other}
    steps = Captured(step="a step", times_s=[10e-3] * 6, host_s=[9.8e-3] * 6, on_gpu_s=[1e-3] * 6, **known)
    found = told([record("gemm", 1, on_gpu(1e-3, 1e-3))], steps)
    assert answer([("A", found)]).startswith(said)


def test_what_is_known_of_a_gpu_is_left_out_of_a_step_on_a_cpu() -> None:
    steps = Captured(
        step="a step", times_s=[10e-3] * 6, inside_s=[8.6e-3] * 6, between_s=[1.2e-3] * 6, host_s=[9.9e-3] * 6,
        on_gpu_s=[1e-3] * 6,
    )  # fmt: skip
    found = told([record("gemm", 1, Measurement(batch_s=samples(8.4e-3)), "cpu")], steps)
    assert answer([("A", found)]).startswith("Torch's operators bound this step: 8.60 ms of 10.0 ms")


def test_what_a_gpu_runs_beside_the_parts_is_none_of_the_hosts() -> None:
    """Of 10 ms it runs a graph for 9.5 ms, of whose operators none is a part, and the host asks whether it is done."""
    steps = Captured(
        step="a step", times_s=[10e-3] * 6, inside_s=[0.5e-3] * 6, between_s=[9e-3] * 6, host_s=[9.9e-3] * 6,
        on_gpu_s=[9.5e-3] * 6,
    )  # fmt: skip
    found = told([record("gemm", 1, on_gpu(10e-6, 100e-6))], steps)
    said = "the GPU computes 9.50 ms of 10.0 ms, kernels beyond its parts most, for 9.40 ms"
    assert said in answer([("A", found)])


def test_kernels_that_are_slower_behind_others_count_as_the_gpus_where_all_parts_are_known() -> None:
    """Of 10 ms the GPU computes 8 ms, by its parts 7."""
    steps = Captured(
        step="a step", times_s=[10e-3] * 6, inside_s=[3e-3] * 6, between_s=[1e-3] * 6, host_s=[4e-3] * 6,
        on_gpu_s=[8e-3] * 6,
    )  # fmt: skip
    parts = [record("gemm", 1, on_gpu(3e-3, 7e-3)), record("norm", 1, on_gpu(1e-6, 1e-6))]
    found = told(parts, steps)
    assert pytest.approx(1e-3, rel=0.01) == found.seconds(BEYOND)
    assert "the GPU computes 8.00 ms of 10.0 ms, gemm most, for 7.00 ms" in answer([("A", found)])
    more = "Its kernels take {} ms more than those of its parts alone."
    assert more.format("1.00") not in answer([("A", found)])  # a tenth of the step may go unsaid
    half = told([record("gemm", 1, on_gpu(3e-3, 4e-3))], steps)
    assert more.format("4.00") in answer([("A", half)])
    summed = record("allreduce", 1, on_gpu(1e-6, 1e-6), ranks=2)
    for other in ([parts[0], record("norm", 1, None)], [*parts, summed]):
        assert 0 == told(other, steps).seconds(BEYOND)
    there = timed(steps, elsewhere=["the GPU is another one there"])
    assert there is not None
    unlike = explained(parts, there, captured=steps)
    assert unlike is not None
    assert 0 == unlike.seconds(BEYOND)


def test_what_graphs_take_that_a_step_replays_is_beyond_its_parts_where_that_is_known() -> None:
    steps = Captured(step="a step", times_s=[10e-3] * 6, host_s=[4e-3] * 6, on_gpu_s=[8e-3] * 6, cuda_graphs=1)
    unknown = replace(steps, on_gpu_s=[], host_s=[])
    for known, where in ((steps, "in kernels beyond its parts"), (unknown, "unexplained")):
        found = told([record("gemm", 1, on_gpu(1e-3, 1e-3))], known)
        assert f"no operator is seen: what they take is {where}\n" in text([("A", found)])


def test_an_operator_is_named_by_all_that_it_takes_longer_and_not_where_it_waits_for_the_gpu() -> None:
    """Of 50 ms more than alone 15 ms are left beside what the GPU computes: 40 of 50 are of one operator."""
    steps = Captured(
        step="a step", times_s=[100e-3] * 6, inside_s=[90e-3] * 6, between_s=[0.0] * 6, host_s=[90e-3] * 6,
        on_gpu_s=[85e-3] * 6, operators_s={"foo": 10e-3, "bar": 40e-3, "relu": 40e-3},
    )  # fmt: skip
    found = told([record("gemm", 1, on_gpu(40e-3, 85e-3))], steps)
    assert found.slowest is not None
    name, longer_s = found.slowest
    assert ("bar", 12) == (name, round(1e3 * longer_s, 6))
    waiting = Measurement(stream_s=samples(10e-6), missing={"device_s": "it waits for the GPU itself"})
    reads = replace(steps, operators_s={"relu": 80e-3})
    parts = [record("gemm", 1, on_gpu(40e-3, 1e-3)), record("aten", 1, waiting)]
    assert told(parts, reads).slowest is None


def test_what_threads_of_a_step_ran_at_the_same_time_is_as_much_shorter() -> None:
    """Two GPUs, each half of 12 ms; the numbers beside each other stay as they were measured."""
    steps = Captured(step="a step", times_s=[10e-3] * 6, host_s=[4e-3] * 6, on_gpu_s=[8e-3] * 6, helpers=2)
    parts = [record("gemm", 2, on_gpu(1e-6, 3e-3)), record("norm", 2, on_gpu(1e-6, 3e-3))]
    found = told(parts, steps)
    assert ("gemm", 4e-3) == (found.rows[0].name, found.rows[0].seconds)
    assert (12e-3, 8e-3) == (found.numbers[0].parts_s, found.numbers[0].step_s)
    said = text([("A step", found)])
    assert "the GPU computes 8.00 ms of 10.0 ms, gemm most, for 4.00 ms" in said
    assert "2 threads that it started computed for it, as DataParallel's do" in said
    alone = told(parts, replace(steps, helpers=0))
    assert 6e-3 == alone.rows[0].seconds


def test_what_launches_nothing_is_the_hosts() -> None:
    """Of a tensor on the host: its period is no time of the GPU."""
    of_host = Measurement(stream_s=samples(2e-6), enqueue_s=samples(1e-6), nodes_per_call=0.0)
    found = explained([record("gemm", 1, on_gpu(1e-3, 6e-3)), record("elementwise", 100, of_host)])
    assert found is not None
    device, host, _ = found.numbers
    assert device.parts_s == 6e-3
    assert host.parts_s == pytest.approx(1.1e-3)


def test_memory_that_is_touched_first_is_a_row() -> None:
    """Of a step of 10 ms operators that find theirs at hand take 3 ms."""
    step = Captured(step="a step", times_s=[10e-3] * 6, inside_s=[9e-3] * 5, faults_s=[6e-3] * 5 + [0.0])
    parts = [record("gemm", 1, Measurement(batch_s=samples(3e-3)), "cpu")]
    found = explained(parts, timed(step), captured=step)
    assert found is not None
    rows = [(row.name, round(row.seconds or 0.0, 9)) for row in found.rows]
    assert [("gemm", 3e-3), (PYTHON, 1e-3), (FAULTS, 6e-3), (UNEXPLAINED, 0.0)] == rows
    assert answer([("A", found)]).startswith("New memory bounds this step: 6.00 ms of 10.0 ms; with an allocator that")


def test_without_a_whole_or_with_parts_that_failed() -> None:
    parts = [record("gemm", 2, Measurement(batch_s=samples(1e-3)), "cpu"), record("gemm", 3, None, "cpu", m=2)]
    found = explained(parts)
    assert found is not None
    (number,) = found.numbers
    assert (2e-3, None, "no case is all of it, nor were others like it timed as they ran") == (
        number.parts_s,
        number.step_s,
        number.missing,
    )
    assert {"relu: failed: a crash": 3} == found.unmeasured
    found = explained(parts, timed(Captured(step="a step", times_s=[5e-3, 4e-3, 9e-3])))
    assert found is not None
    assert (5e-3, 3e-3) == (found.step_s, found.rest_s)
    assert [("gemm", 2e-3), (NOT_MEASURED, None), (UNEXPLAINED, None)] == [
        (row.name, row.seconds) for row in found.rows
    ]
    ran = Captured(step="a step", times_s=[5e-3, 4e-3, 9e-3], waits_s=[1e-3, 5e-4, 6e-3])
    loading = timed(ran, ["gpu A, B"])
    found = explained(parts[:1], loading)
    assert found is not None
    assert [("gemm", 2), (LOADING, 1), (UNEXPLAINED, 2)] == [
        (row.name, round(1e3 * (row.seconds or 0))) for row in found.rows
    ]
    printed = text([("A step", found)])
    assert "the median of 3 as they ran, whose whole time is known: 4.00 ms to 9.00 ms; 1.00 ms of it for" in printed
    assert "the step is of another place than its parts: gpu A, B" in printed
    unlike = replace(loading, unlike=2) if loading else None
    found = explained(
        [record("gemm", 1, on_gpu(1e-3, 1e-3))], unlike, captured=Captured(step="", compiled=2, cuda_graphs=1)
    )
    assert found is not None
    printed = text([("A step", found)])
    assert "2 of these 3 steps called other modules than the captured one, or them more or fewer times: " in printed
    assert "torch had compiled 2 graphs of the script" in printed
    assert "the step replayed 1 CUDA graph, in which no operator is seen" in printed
    assert "not known" not in printed  # of a script's step no more than the whole time ever is
    assert found.rows[2].seconds is None  # nothing is known of what lies between its operators
    printed = text([("A step", found)]) if (found := explained([record("gemm", 1, on_gpu(1e-3, 1e-3))])) else ""
    said = (
        "the step's device time, the step's host time and the step's own time are not known: no case is all of it, nor"
    )
    assert 1 == printed.count(said)
    found = explained([record("gemm", 1, on_gpu(1e-3, 4.5e-3))], loading)  # which a GPU computes beside the loader
    assert found is not None
    assert [4.5, 0.5, 0] == [round(1e3 * found.seconds(name), 6) for name in ("gemm", LOADING, UNEXPLAINED)]
    assert explained([record("model", 0, on_gpu(1e-3, 1e-3))]) is None
    found = explained([parts[1], record("model", 0, Measurement(batch_s=samples(1e-3)), "cpu")])
    assert found is not None
    assert (None, None, 1e-3) == (found.numbers[0].parts_s, found.numbers[0].ratio, found.step_s)


def test_a_step_takes_in_no_more_tokens_than_its_calls_have_time_for() -> None:
    """64 tokens whose calls take 2 ms on the GPU, and more to be launched, which a graph would not."""
    step = [
        record("embedding", 1, on_gpu(1e-3, 1e-3), tokens=64, num_embeddings=100, embedding_dim=8),
        record("gemm", 10, on_gpu(1e-3, 1e-4), m=1, n=1, k=1),
    ]
    decode = [replace(each, case=replace(each.case, labels=each.case.labels | {"set": "decode"})) for each in step]
    (table,) = step_totals(decode)
    (rate,) = (column.cells() for column in table.columns if column.heading == "tokens/s")
    assert ["<= 32,000"] == rate
    assert "tokens/s: the tokens of a step over" in table.notes[0].words
    for no_tokens in (step, decode[1:]):  # a captured step, whose rows are looked up for whatever reason
        (table,) = step_totals(no_tokens)
        assert "tokens/s" not in [column.heading for column in table.columns]
