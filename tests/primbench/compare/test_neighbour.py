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
MadeMeasurement = Callable[[str, Case, int], Measurement]
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


@pytest.mark.parametrize(("enqueue", "part"), [(1.9, "waiting for the GPU"), (40.0, "launches")])
def test_an_empty_kernel_waits_for_those_of_the_neighbour(made_study: MadeStudy, enqueue: float, part: str) -> None:
    """Two processes take turns on a GPU: a call comes back 40 times as late, and what launches it does little more."""

    def measured(arm: str, case: Case, pair: int) -> Measurement:
        late, longer = (40.0, enqueue) if arm == BESIDE else (1.0, 1.0)
        time_s = 1e-5 * (1 + pair / 10_000)
        return Measurement(wall_s=samples(time_s * late), enqueue_s=samples(time_s / 2 * longer))

    found = of(compared(made_study, [LAUNCH], measured), "launch")
    assert "slower" == found.verdict
    assert found.explanation is not None
    assert f"the neighbour model alexnet ({part})" == found.explanation.likely
    assert any(f"beside it launches {enqueue:.2f} times as long" in each for each in found.explanation.causes)


FED, UNFED = (case("model", network="alexnet", data=data) for data in ("host", "device"))
ALONE_S = (0.040, 0.030, 0.029)


def step_beside(stream_s: Callable[[int], float], unfed_s: Callable[[int], float], device_s: float) -> MadeMeasurement:
    """A step that is fed, and the same on data that are there, alone and beside: in a loop, and by its kernels."""

    def measured(arm: str, case: Case, pair: int) -> Measurement:
        fed, unfed, device = (stream_s(pair), unfed_s(pair), device_s) if arm == BESIDE else ALONE_S
        drift = 1 + pair / 10_000
        if case == replace(FED, arm=case.arm, process=case.process):
            return Measurement(stream_s=samples(fed * drift))
        return Measurement(stream_s=samples(unfed * drift), device_s=samples(device * drift))

    return measured


@pytest.mark.parametrize(
    ("beside_s", "parts", "words"),
    [
        ((0.060, 0.031, 0.030), "copies to the GPU", "copies to the GPU 19.0 ms"),
        ((0.068, 0.058, 0.057), "kernels", "kernels 28.0 ms"),
        ((0.084, 0.050, 0.049), "copies to the GPU and kernels", "of 44.0 ms that a step takes longer"),
        ((0.075, 0.063, 0.030), "launches", "launches 32.0 ms"),
    ],
)
def test_a_step_that_is_fed_is_taken_apart_by_the_same_step_on_data_that_are_there(
    made_study: MadeStudy, beside_s: tuple[float, float, float], parts: str, words: str
) -> None:
    """What the primitives say, here that products take twice as long, does not tell what the step is made of."""
    fed_s, unfed_s, device_s = beside_s
    steps = step_beside(lambda pair: fed_s, lambda pair: unfed_s, device_s)
    products = slowed({"gemm": (1.0, 2.0)})

    def measured(arm: str, case: Case, pair: int) -> Measurement:
        return (products if case.primitive == "gemm" else steps)(arm, case, pair)

    comparison = compared(made_study, [FED, UNFED, GEMM], measured)
    (found,) = [each for each in comparison.cases if each.case.parameters.get("data") == "host"]
    assert found.explanation is not None
    assert f"the neighbour model alexnet ({parts})" == found.explanation.likely
    assert words in " ".join(found.explanation.evidence)


def test_no_part_is_named_where_the_pairs_do_not_agree_which(made_study: MadeStudy) -> None:
    steps = step_beside(lambda pair: 0.062, lambda pair: 0.045 + (0.025 if pair % 2 else -0.025), 0.029)
    comparison = compared(made_study, [FED, UNFED], steps)
    (found,) = [each for each in comparison.cases if each.case.parameters["data"] == "host"]
    assert found.explanation is not None
    assert ("slower", "the neighbour model alexnet") == (found.verdict, found.explanation.likely)


@pytest.mark.parametrize(
    ("copies", "kernels", "likely"),
    [
        (1.27, 2.14, "the neighbour model alexnet (kernels)"),
        (1.9, 1.7, "the neighbour model alexnet (copies to the GPU or kernels)"),
        (1.27, 1.1, "the neighbour model alexnet"),
    ],
)
def test_primitives_name_what_is_slowed_enough_and_not_which_of_several(
    made_study: MadeStudy, copies: float, kernels: float, likely: str
) -> None:
    scales = {"model": (1.0, 1.9), "memcpy": (1.0, copies), "gemm": (1.0, kernels)}
    found = of(compared(made_study, [MODEL, COPY, GEMM], slowed(scales)), "model")
    assert found.explanation is not None
    assert likely == found.explanation.likely


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
