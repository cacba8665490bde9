"""What is said of a case beside a neighbour: the verdict, the cause, and which part of the case it slows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from primbench.compare.comparison import CaseComparison, Comparison
from primbench.compare.pairs import compare
from primbench.measurement import Measurement, Samples
from primbench.measurement.readings import HostReading, NeighbourReading
from primbench.registry import build
from primbench.report.headline import headline
from primbench.results.file import Results
from primbench.spec.case import Case
from primbench.spec.neighbour import Neighbour

MadeStudy = Callable[..., Results]
BESIDE = "host beside model alexnet"
WORDS = "model alexnet --batch-size 512"
NEIGHBOUR = Neighbour(words=WORDS, primitive="model", parameters={})


def case(primitive: str, device: str = "cuda:0", **parameters: Any) -> Case:
    asked = build(primitive, parameters).parameters()
    return Case(primitive=primitive, parameters=asked, backend="torch", device=device)


MODEL = case("model", network="alexnet")
COPY = case("memcpy", bytes=2**26, direction="h2d")
GEMM = case("gemm", m=64, n=64, k=64)
LAUNCH = case("launch", call="dispatch")


def samples(median_s: float) -> Samples:
    return Samples(samples_s=[median_s] * 7, calls_per_sample=1, taken_by="host clock", stopped="noise")


def host(waited_s: float) -> HostReading:
    return HostReading(duration_s=1.0, cpu_time_s=0.5, voluntary_switches=0, involuntary_switches=0, waited_s=waited_s)


def slowed(
    scales: Mapping[str, tuple[float, float]], waited_s: Mapping[str, float] = {}
) -> Callable[[str, Case, int], Measurement]:
    """scales: primitive -> how many times as long enqueue and the device itself take beside the neighbour."""

    def measured(arm: str, case: Case, pair: int) -> Measurement:
        enqueue, device = scales[case.primitive] if arm == BESIDE else (1.0, 1.0)
        time_s = 1e-3 * (1 + pair / 10_000)
        reading = NeighbourReading(words=WORDS, backend="torch", device=case.device, calls=3, duration_s=1.5)
        found = Measurement(host=host(waited_s.get(arm, 0.0)), neighbour=reading if arm == BESIDE else None)
        if case.device == "cpu":
            return replace(found, batch_s=samples(time_s * device))
        return replace(found, enqueue_s=samples(time_s / 10 * enqueue), device_s=samples(time_s * device))

    return measured


def compared(made_study: MadeStudy, cases: list[Case], measured: Callable[..., Measurement]) -> Comparison:
    results = made_study(["host", f"host:name={BESIDE}"], cases, measured)
    study = results.header.study
    assert study is not None
    alone, beside = study.arms
    arms = [alone, replace(beside, neighbour=NEIGHBOUR)]
    return compare(replace(results, header=replace(results.header, study=replace(study, arms=arms))))


def of(comparison: Comparison, primitive: str) -> CaseComparison:
    (found,) = [each for each in comparison.cases if each.case.primitive == primitive]
    return found


def test_the_primitives_of_the_study_tell_which_part_it_slows(made_study: MadeStudy) -> None:
    scales = {"model": (1.0, 1.9), "memcpy": (1.0, 2.0), "gemm": (1.0, 1.0), "launch": (1.01, 1.0)}
    comparison = compared(made_study, [MODEL, COPY, GEMM, LAUNCH], slowed(scales))
    found = of(comparison, "model")
    assert "slower" == found.verdict
    assert found.explanation is not None
    parts = "copies to the GPU 2.00, kernels 1.00, launches 1.01"
    (cause,) = found.explanation.causes
    assert cause.startswith(f"the neighbour {WORDS}: beside it ")
    assert sorted(parts.split(", ")) == sorted(
        cause.removeprefix(f"the neighbour {WORDS}: beside it ").removesuffix(" times as long").split(", ")
    )
    assert "the neighbour model alexnet (copies to the GPU)" == found.explanation.likely
    assert any("enqueue 1.00" in each and "device 1.90" in each for each in found.explanation.evidence)
    assert "likely the neighbour model alexnet (copies to the GPU)" in headline(comparison)
    assert "neighbour effect" == comparison.arms[0].effect
    assert any(f"{BESIDE}: {WORDS} called 2 times a second" in note for note in comparison.notes)


@pytest.mark.parametrize(
    ("scales", "part"), [((1.0, 1.9), "kernels"), ((3.0, 1.9), "launches"), ((1.0, 1.9), "waiting for a CPU")]
)
def test_a_case_by_itself_tells_by_its_own_metrics(
    made_study: MadeStudy, scales: tuple[float, float], part: str
) -> None:
    waited_s = {BESIDE: 0.4} if part == "waiting for a CPU" else {}
    found = of(compared(made_study, [MODEL], slowed({"model": scales}, waited_s)), "model")
    assert found.explanation is not None
    assert f"the neighbour model alexnet ({part})" == found.explanation.likely


@pytest.mark.parametrize(
    ("waited_s", "verdict"),
    [({BESIDE: 0.5}, "slower"), ({"host": 0.5, BESIDE: 0.7}, "inconclusive")],
)
def test_a_neighbour_that_was_asked_for_does_not_make_a_machine_too_busy_and_others_do(
    made_study: MadeStudy, waited_s: dict[str, float], verdict: str
) -> None:
    measured = slowed({"gemm": (1.0, 2.0)}, waited_s)
    found = of(compared(made_study, [case("gemm", "cpu", m=64, n=64, k=64)], measured), "gemm")
    assert verdict == found.verdict
    assert (verdict == "inconclusive") == (found.deciding is not None and found.deciding.is_too_busy)


def test_threads_that_leave_no_cpu_to_others_wait_for_themselves_alone(made_study: MadeStudy) -> None:
    """Two threads on one CPU wait half of the time for each other, beside a neighbour longer."""
    measured = slowed({"gemm": (1.0, 2.0)}, {"host": 0.5, BESIDE: 0.7})

    def on_one_cpu(arm: str, case: Case, pair: int) -> Measurement:
        found = measured(arm, case, pair)
        assert found.host is not None
        return replace(found, host=replace(found.host, cpu_time_s=1.0 if arm == "host" else 0.5))

    found = of(compared(made_study, [case("gemm", "cpu", m=64, n=64, k=64)], on_one_cpu), "gemm")
    assert "slower" == found.verdict


def test_samples_beside_a_slow_cpu_count_where_a_neighbour_made_it_slow(made_study: MadeStudy) -> None:
    full_s, slow_s = 25e-6, 40e-6

    def measured(arm: str, case: Case, pair: int) -> Measurement:
        slow = 26 if arm == BESIDE else 0
        times_s = [1e-3 * (1 + pair / 10_000) * (1.6 if index < slow else 1) for index in range(40)]
        loops_s = [(index, slow_s if index < slow else full_s) for index in range(0, 40, 2)]
        return Measurement(batch_s=replace(samples(1.0), samples_s=times_s, loops_s=loops_s))

    found = of(compared(made_study, [case("gemm", "cpu", m=64, n=64, k=64)], measured), "gemm")
    assert found.primary is not None
    assert (False, "slower") == (found.primary.at_full_speed, found.verdict)
    assert 1.6 == pytest.approx(found.primary.ratio)


def test_a_baseline_with_a_neighbour_is_told_too(made_study: MadeStudy) -> None:
    results = made_study([f"host:name={BESIDE}", "host"], [MODEL], slowed({"model": (1.0, 1.9)}))
    study = results.header.study
    assert study is not None
    arms = [replace(study.arms[0], neighbour=NEIGHBOUR), study.arms[1]]
    found = of(compare(replace(results, header=replace(results.header, study=replace(study, arms=arms)))), "model")
    assert found.explanation is not None
    assert ("faster", [f"the neighbour of {BESIDE}, {WORDS}, which host has not"]) == (
        found.verdict,
        found.explanation.causes,
    )
