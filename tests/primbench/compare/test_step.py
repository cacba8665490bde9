"""A step in two places, of made-up times: what its difference is made of."""

from __future__ import annotations

import math
import random
from typing import Any

from msgspec.structs import replace

from primbench.compare.pairs import compare
from primbench.compare.sides import sides_of
from primbench.compare.step import StepComparison, compare_step
from primbench.environment import fingerprint
from primbench.measurement import Measurement, Samples
from primbench.report import comparison as words
from primbench.results.file import Results
from primbench.results.record import Header, Record
from primbench.spec.arm import Arm
from primbench.spec.case import Case
from primbench.spec.study import Study

from ..report.exports import text_of

PAIRS, CALLS = 5, 1089


printed = text_of(words.document)


def samples(seconds: float) -> Samples:
    return Samples(samples_s=[seconds] * 7, calls_per_sample=1, taken_by="host clock", stopped="count")


def held_up(seconds: float, times: float) -> Samples:
    """Most of them took so many times as long, while a thread waited for a CPU."""
    taken_s = [times * seconds] * 4 + [seconds] * 3
    loops_s, queued_s = [(number, 1e-5) for number in range(7)], [(times - 1) * seconds] * 4 + [0.0] * 3
    return replace(samples(seconds), samples_s=taken_s, loops_s=loops_s, queued_s=queued_s)


def results_of(
    dearer_s: float, slower_s: float, dice: random.Random, failing: str = "", *, is_busy: bool = False
) -> Results:
    """Of a step with 1089 launches of 5 us and one copy of 1 ms, in an arm where each is so much longer.

    failing: the primitive whose case fails there. is_busy: whether another program takes the CPU in one process.
    """
    model: dict[str, Any] = {"network": "mnist_cnn", "batch_size": 1}
    relu: dict[str, Any] = {"operator": "aten.relu.default", "arguments": '["float32[8]"]'}
    parts = {"set": "parts", "phase": "forward"}
    cases = [
        Case(primitive="aten", parameters=relu, backend="torch", device="cuda:0", labels=parts | {"count": str(CALLS)}),
        Case(primitive="memcpy", parameters={"bytes": 4096, "direction": "h2d"}, backend="torch", device="cuda:0",
             labels=parts | {"count": "1"}),
        Case(primitive="model", parameters=model, backend="torch", device="cuda:0", labels={"set": "whole"}),
    ]  # fmt: skip

    def record(case: Case, arm: str, process: int) -> Record:
        noise = 1 + dice.gauss(0, 1e-3)
        launch_s, copy_s = (5e-6 + dearer_s * (arm == "other")) * noise, (1e-3 + slower_s * (arm == "other")) * noise
        host_s, device_s = CALLS * launch_s + 2e-4, CALLS * 1e-6 + copy_s
        times = {
            "aten": (launch_s, 1e-6, launch_s), "memcpy": (1e-6, copy_s, copy_s), "model": (host_s, device_s, host_s),
        }[case.primitive]  # fmt: skip
        enqueue_s, alone_s, stream_s = map(samples, times)
        if is_busy and (case.primitive, process) == ("model", 1):
            enqueue_s, alone_s, stream_s = (held_up(each, 5.0 if arm == "other" else 1.0) for each in times)
        measurement = Measurement(enqueue_s=enqueue_s, device_s=alone_s, stream_s=stream_s)
        ran = Case(**{name: getattr(case, name) for name in case.__struct_fields__} | {"arm": arm, "process": process})
        if (case.primitive, arm) == (failing, "other"):
            return Record(case=ran, status="failed", reason="a crash", started_utc="", duration_s=1.0)
        return Record(case=ran, status="ok", measurement=measurement, started_utc="", duration_s=1.0)

    records = [record(case, arm, process) for process in range(PAIRS) for arm in ("host", "other") for case in cases]
    study = Study(arms=[Arm(name="host"), Arm(name="other")], cases=cases, pairs=PAIRS, seed=0)
    here = fingerprint.collect(gpus=False)
    head = Header(schema_version=1, command=[], started_utc="", labels={}, environment=here, study=study)
    return Results(header=head, workers=[], records=records)


def compared(dearer_s: float, slower_s: float, dice: random.Random, failing: str = "") -> tuple[StepComparison, str]:
    found = compare(results_of(dearer_s, slower_s, dice, failing))
    (arm,) = found.arms
    assert arm.step is not None
    return arm.step, printed(found)


def test_a_step_is_of_the_samples_that_its_verdict_is_of() -> None:
    """Of one process most samples are of moments when another program had the CPU; of the others that is not known."""
    sides = sides_of(results_of(1.6e-6, 0.0, random.Random(0), is_busy=True))
    of_all = compare_step(sides["host"], sides["other"])
    alone = compare_step(sides["host"], sides["other"], alone=True)
    assert of_all is not None
    assert alone is not None
    assert of_all.whole.seconds > 3e-3 > alone.whole.seconds > 1.5e-3
    assert (PAIRS, 1) == (of_all.pairs, alone.pairs)


def test_a_gpus_own_time_of_a_step_counts_where_the_verdict_is_of_the_hosts() -> None:
    """Waits for a CPU are counted beside launches, and beside nothing that a GPU's clock times."""
    results = results_of(1.6e-6, 0.0, random.Random(0))
    for number, record in enumerate(results.records):
        assert record.measurement is not None
        if record.case.labels["set"] == "whole" and (enqueue_s := record.measurement.enqueue_s):
            counted = replace(record.measurement, enqueue_s=held_up(enqueue_s.median_s, 2.0))
            results.records[number] = replace(record, measurement=counted)
    sides = sides_of(results)
    of_all, alone = (compare_step(sides["host"], sides["other"], alone=alone) for alone in (False, True))
    assert of_all is not None
    assert alone is not None
    assert alone.is_whole
    assert (PAIRS, of_all.whole) == (alone.pairs, alone.whole)


def test_dearer_launches_explain_a_step_that_waits_for_them() -> None:
    step, text = compared(1.6e-6, 0.0, random.Random(0))
    assert step.differs
    assert step.is_explained
    assert math.isclose(step.whole.seconds, sum(each.seconds for each in step.changes), rel_tol=1e-9)
    launches = step.changes[0]
    assert ("launches", CALLS + 1) == (launches.name, launches.calls)
    assert launches.each_s is not None
    assert 1.5e-6 < launches.each_s < 1.7e-6
    assert "launches 1.7 ms [" in text or "launches 1.74 ms [" in text
    assert "within the interval of the whole" in text


def test_of_a_step_that_no_case_is_the_parts_together_are_compared() -> None:
    """As of a script's, which ran where it was captured alone."""
    results = results_of(1.6e-6, 0.0, random.Random(0))
    for record in [each for each in results.records if each.case.labels["set"] == "whole"]:
        results.records.remove(record)
    found = compare(results)
    (step,) = [arm.step for arm in found.arms]
    assert step is not None
    assert step.differs
    assert not step.is_whole
    assert math.isclose(step.whole.seconds, sum(each.seconds for each in step.changes), rel_tol=1e-9)
    assert ("launches", CALLS + 1) == (step.changes[0].name, step.changes[0].calls)
    text = printed(found)
    assert "the step's parts together, as the whole is no case of both: " in text
    assert "unexplained" not in text


def test_a_part_that_fails_in_one_place_is_not_quicker_there() -> None:
    step, text = compared(1.6e-6, 0.0, random.Random(0), failing="memcpy")
    assert "memcpy" not in [each.name for each in step.changes]
    assert ("launches", CALLS) == (step.changes[0].name, step.changes[0].calls)
    assert abs(step.changes[-1].seconds) < 1e-4
    assert "(with 1 call not measured in both)" in text


def test_a_part_is_named_that_is_longer_for_certain_where_the_step_is_too_noisy_to_tell() -> None:
    """As on a machine whose CPU is a fifth slower for a second or two, while the step was timed."""
    results, dice = results_of(1.6e-6, 0.0, random.Random(0)), random.Random(1)
    for number, record in enumerate(results.records):
        if record.case.labels["set"] == "whole" and record.measurement is not None:
            seconds = 1.2e-2 * (1 + dice.uniform(-0.2, 0.2))
            longer = replace(record.measurement, enqueue_s=samples(seconds), stream_s=samples(seconds))
            results.records[number] = replace(record, measurement=longer)
    found = compare(results)
    (step,) = [arm.step for arm in found.arms]
    assert step is not None
    assert not step.differs
    (line,) = [line for line in printed(found).splitlines() if "no difference of the step is certain" in line]
    assert "certain; of its parts: launches 1.7" in line
    assert f"({CALLS + 1} calls x 1.6" in line


def test_equal_places_have_nothing_to_explain() -> None:
    step, text = compared(0.0, 0.0, random.Random(3))
    assert not step.differs
    assert "no difference of the step is certain" in text
