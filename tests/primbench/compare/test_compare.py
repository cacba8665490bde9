"""Comparisons of studies and of files: verdicts, what they are called, what is refused, what explains them."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from primbench import stats
from primbench.compare.comparison import ArmComparison, Comparison
from primbench.compare.criteria import OF_HOST, margins_of
from primbench.compare.gate import Gate
from primbench.compare.judgement import ITSELF, ONE_RUN, SINGLE, TOO_BUSY, judged
from primbench.compare.pairs import compare, compare_runs
from primbench.compare.ratio import Estimate
from primbench.compare.settled import unsettled
from primbench.environment import fingerprint
from primbench.environment.container import ContainerRuntime
from primbench.environment.libraries import Library
from primbench.errors import InvalidRequest
from primbench.gpu.nvidia.gpu import Gpu
from primbench.measurement import Measurement, Samples
from primbench.measurement.readings import GpuReading, HostReading, Pages, Turns
from primbench.registry import build
from primbench.report import comparison as words
from primbench.report.headline import headline
from primbench.results import file as results_file
from primbench.results.file import Results
from primbench.results.record import Worker
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.spec.placement import Placement
from primbench.system.cores import CpuKind

from ..report.exports import text_of

MadeStudy = Callable[..., Results]
HERE = fingerprint.collect(gpus=False)
STUDIES = Path(__file__).parents[3] / "suites/reference/studies"
FIXTURES = Path(__file__).parents[1] / "fixtures"


def case(primitive: str = "gemm", device: str = "cpu", **changes: Any) -> Case:
    sizes = {"gemm": {"m": 64, "n": 64, "k": 64}, "memcpy": {"bytes": 2**26, "direction": "h2d"}}
    backend = "torch" if device.startswith("cuda") else "numpy"
    parameters = build(primitive, sizes.get(primitive, {}) | changes.pop("parameters", {})).parameters()
    return Case(**{"primitive": primitive, "parameters": parameters, "backend": backend, "device": device} | changes)


KERNEL = 0.01


def samples(median_s: float, count: int = 7) -> Samples:
    return Samples(samples_s=[median_s] * count, calls_per_sample=1, taken_by="host clock", stopped="noise")


def late(median_s: float) -> Samples:
    """Of which one took longer, so that the mean is another number."""
    return replace(samples(median_s), samples_s=[median_s] * 6 + [1.07 * median_s])


def scattered(scale: float, scatter: float = 0.002, arm: str = "podman") -> Callable[[str, Case, int], Measurement]:
    """Processes that scatter around 1 ms, in one arm ``scale`` times as long."""
    dice = np.random.default_rng(5)

    def measured(name: str, case: Case, pair: int) -> Measurement:
        time_s = 1e-3 * float(np.exp(dice.normal(0, scatter))) * (scale if name == arm else 1)
        return Measurement(batch_s=samples(time_s))

    return measured


def only(comparison: Comparison) -> Estimate:
    """The primary one of a single case."""
    (found,) = [each for each in comparison.estimates if each.primary]
    return found


def first(comparison: Comparison) -> ArmComparison:
    return comparison.arms[0]


# --- verdicts

FULL_S, SLOW_S = 25e-6, 40e-6


def shared_core(scale: float, slow: Callable[[str, int], int]) -> Callable[[str, Case, int], Measurement]:
    """Of 40 samples of a process so many, at first, beside a loop that shows the CPU slow, and 1.6 times as long."""
    timed = scattered(scale, 0.002)

    def measured(name: str, case: Case, pair: int) -> Measurement:
        measurement, slowed = timed(name, case, pair), slow(name, pair)
        assert measurement.batch_s
        time_s = measurement.batch_s.median_s
        loops_s = [(index, SLOW_S if index < slowed else FULL_S) for index in range(0, 40, 2)]
        times_s = [time_s * (1.6 if index < slowed else 1) for index in range(40)]
        return Measurement(batch_s=replace(measurement.batch_s, samples_s=times_s, loops_s=loops_s))

    return measured


@pytest.mark.parametrize(("scale", "verdict"), [(1.0, "equivalent-in-these-runs"), (1.05, "slower")])
def test_medians_are_of_samples_beside_which_the_cpu_was_at_full_speed(
    made_study: MadeStudy, scale: float, verdict: str
) -> None:
    busy = shared_core(scale, lambda name, pair: 26 if (len(name) + pair) % 2 else 0)
    comparison = compare(made_study(["host", "podman"], [case()], busy))
    found = only(comparison)
    assert found.at_full_speed
    assert verdict == found.outcome
    assert scale == pytest.approx(found.ratio, rel=0.005)
    assert any("the CPU was slow beside some samples (host 32.5%, podman 32.5%)" in note for note in comparison.notes)


def test_processes_that_took_turns_are_compared_by_all_samples_and_on_a_busy_machine_too(made_study: MadeStudy) -> None:
    """Whatever the machine did, it did to both."""
    busy = shared_core(1.05, lambda name, pair: 26 if pair % 2 else 0)
    turns = Turns(count=40, cpu=1, waited_s=0.1, queued_s=None, uncounted_s=0.01)

    def in_turn(name: str, case: Case, pair: int) -> Measurement:
        return replace(busy(name, case, pair), turns=turns)

    everything = {arm: {"waited_s": 0.8} for arm in ("host", "podman")}
    comparison = waiting(made_study, everything, in_turn)
    found = only(comparison)
    assert (False, "slower", 8) == (found.at_full_speed, found.outcome, found.pairs)
    assert 1.05 == pytest.approx(found.ratio, rel=0.005)
    assert not any("the CPU was slow" in note for note in comparison.notes)


@pytest.mark.parametrize(("scale", "verdict"), [(1.0, "equivalent-in-these-runs"), (1.03, "slower")])
def test_a_load_that_comes_and_goes_falls_on_processes_that_took_turns_at_the_same_moments(
    made_study: MadeStudy, scale: float, verdict: str
) -> None:
    """Half of the time all calls take twice as long: which kind the median of a process is of is chance."""
    turns, dice = Turns(count=60, cpu=1, waited_s=0.1, queued_s=None, uncounted_s=0.01), np.random.default_rng(7)
    loaded = {pair: dice.permutation([1, 2] * 15) for pair in range(8)}  # thirty moments

    def measured(name: str, case: Case, pair: int) -> Measurement:
        factor, count = (scale, 58) if name == "podman" else (1.0, 60)
        times_s = factor * 1e-3 * np.exp(dice.normal(0, 0.02, count)) * loaded[pair][30 * np.arange(count) // count]
        return Measurement(batch_s=replace(samples(1.0), samples_s=times_s.tolist()), turns=turns)

    found = only(compare(made_study(["host", "host (again)", "podman"], [case()], measured)))
    assert (verdict, 8) == (found.outcome, found.pairs)
    assert scale == pytest.approx(found.ratio, rel=0.006)


def held_up(
    scale: float, share: Callable[[str, int], float], seed: int = 7, moments: int = 60
) -> Callable[[str, Case, int], Measurement]:
    """In turn; while a share of the moments of a process, which are its own, a thread waits 1 to 20 times a call."""
    turns, dice = Turns(count=60, cpu=1, waited_s=0.1, queued_s=None, uncounted_s=0.01), np.random.default_rng(seed)

    def measured(name: str, case: Case, pair: int) -> Measurement:
        queued_s = 1e-3 * dice.uniform(1, 20, moments) * (dice.random(moments) < share(name, pair))
        times_s = (scale if name == "podman" else 1.0) * 1e-3 * np.exp(dice.normal(0, 0.02, moments)) + queued_s
        loops_s = [(index, FULL_S) for index in range(moments)]
        batch_s = replace(samples(1.0), samples_s=times_s.tolist(), loops_s=loops_s, queued_s=queued_s.tolist())
        return Measurement(batch_s=batch_s, turns=turns)

    return measured


@pytest.mark.parametrize(("scale", "verdict"), [(1.0, "equivalent-at-full-speed"), (1.03, "slower")])
def test_processes_in_turn_are_compared_by_what_others_did_not_hold_up(
    made_study: MadeStudy, scale: float, verdict: str
) -> None:
    loaded = np.random.default_rng(3).random(100)

    def share(name: str, pair: int) -> float:
        return float(loaded[2 * pair + (name == "podman")])

    comparison = compare(made_study(["host", "podman"], [case()], held_up(scale, share)))
    found = only(comparison)
    assert (verdict, True) == (found.outcome, found.at_full_speed)
    assert scale == pytest.approx(found.ratio, rel=0.005)
    assert found.baseline_s == pytest.approx(1e-3, rel=0.05)
    assert found.left_out is not None
    assert found.left_out.interval is not None
    low, high = found.left_out.interval
    assert high > 1.5 * low, "all samples tell nothing"
    (note,) = comparison.notes
    assert note.startswith("threads waited for a CPU beside up to ")


def test_a_place_that_is_held_up_more_is_compared_by_all_samples(made_study: MadeStudy) -> None:
    """It may be its own doing: too few CPUs for its threads."""
    measured = held_up(1.0, lambda name, pair: 0.7 if name == "podman" else 0.1)
    found = only(compare(made_study(["host", "podman"], [case()], measured)))
    assert (False, "slower") == (found.at_full_speed, found.outcome)


def test_processes_of_which_most_were_held_up_all_the_time_are_compared_by_all_samples(made_study: MadeStudy) -> None:
    measured = held_up(1.0, lambda name, pair: 0.5 if pair < 3 else 1.0)
    assert not only(compare(made_study(["host", "podman"], [case()], measured))).at_full_speed


def test_a_cpu_that_is_slow_in_most_processes_leaves_all_samples(made_study: MadeStudy) -> None:
    busy = shared_core(1.0, lambda name, pair: 0 if pair == 0 else 40)
    found = only(compare(made_study(["host", "podman"], [case()], busy)))
    assert not found.at_full_speed
    assert 8 == found.pairs


def test_a_place_that_may_be_slow_more_often_is_equivalent_at_full_speed_alone(made_study: MadeStudy) -> None:
    """Two slow processes of eight, which may be its own doing, and none of the baseline's: t does not tell."""
    busy = shared_core(1.0, lambda name, pair: 40 * (name == "podman" and pair in (2, 5)))
    comparison = compare(made_study(["host", "podman"], [case()], busy))
    found = only(comparison)
    assert found.left_out is not None
    assert ("equivalent-at-full-speed", 6) == (found.outcome, found.pairs)
    assert (0.0, 0.25) == (found.left_out.slowed.baseline, found.left_out.slowed.arm)
    assert 1.6**0.25 == pytest.approx(found.left_out.ratio, rel=0.005)


def test_what_one_place_alone_suffers_is_not_left_out(made_study: MadeStudy) -> None:
    """It may be its own doing, as where its threads get in each other's way."""
    busy = shared_core(1.0, lambda name, pair: 26 if name == "podman" else 0)
    comparison = compare(made_study(["host", "podman"], [case()], busy))
    found = only(comparison)
    assert (False, "slower") == (found.at_full_speed, found.outcome)
    assert "slow beside some samples (host 0.0%, podman 65.0%)" in comparison.notes[0]
    (explained_case,) = first(comparison).cases
    assert explained_case.explanation is not None
    (noise,) = explained_case.explanation.noise
    assert "the CPU was slow beside 65.0% of the samples in podman, 0.0% in host" == noise


def test_a_place_whose_cpu_is_always_slower_is_slower(made_study: MadeStudy) -> None:
    """Its own loop is what its samples are held against."""
    timed = scattered(1.6)

    def measured(name: str, case: Case, pair: int) -> Measurement:
        measurement = timed(name, case, pair)
        assert measurement.batch_s
        loops_s = [(0, SLOW_S if name == "podman" else FULL_S)]
        return Measurement(batch_s=replace(measurement.batch_s, loops_s=loops_s))

    comparison = compare(made_study(["host", "podman"], [case()], measured))
    assert "slower" == only(comparison).outcome
    (explained_case,) = first(comparison).cases
    assert explained_case.explanation is not None
    assert [
        "at its fastest the CPU takes for the same loop of Python 1.60 times as long in podman as in host: other CPUs, "
        "a load that never stops, or what slows Python itself"
    ] == explained_case.explanation.noise


def test_a_single_call_that_fills_a_batch_is_one_metric(made_study: MadeStudy) -> None:
    def measured(name: str, case: Case, pair: int) -> Measurement:
        timed = late(1e-3 * jitter(pair))
        return Measurement(batch_s=timed, wall_s=timed)

    (found,) = first(compare(made_study(["host", "podman"], [case()], measured))).cases
    assert ["batch_s", "batch_mean_s"] == [each.metric for each in found.estimates]


@pytest.mark.parametrize("count", [1, 2])
def test_one_number_is_one_test(made_study: MadeStudy, count: int) -> None:
    """Of one sample, or of two, a process's mean is its median: it must not enter the false discovery rate twice."""
    cases = [case(parameters={"m": 64 * (number + 1)}) for number in range(8)]

    def measured(name: str, case: Case, pair: int) -> Measurement:
        is_slower = name == "podman" and case.parameters["m"] == 64
        dice = np.random.default_rng([len(name), int(case.parameters["m"]), pair])
        times_s = [1e-3 * (1 + 0.02 * is_slower + dice.normal(0, 0.01)) for _ in range(count)]
        return Measurement(batch_s=replace(samples(1.0), samples_s=times_s))

    found = first(compare(made_study(["host", "podman"], cases, measured))).cases
    assert [["batch_s"]] * len(cases) == [[each.metric for each in one.estimates] for one in found]
    by_hand = []
    for one in cases:
        both = [[stats.quantile(measured(name, one, pair).batch_s.samples_s, 0.5) for pair in range(8)]  # type: ignore[union-attr]
                for name in ("podman", "host")]  # fmt: skip
        by_hand.append(stats.paired(*both).p())
    adjusted = stats.benjamini_hochberg([each for each in by_hand if each is not None])
    assert pytest.approx(adjusted) == [each.q for one in found for each in one.estimates]


def test_the_kept_study_of_single_samples_has_no_case_that_is_slower() -> None:
    """q of its smallest p is 0.034 if four numbers are counted twice, and 0.051 if once."""
    found = compare(results_file.read(FIXTURES / "single-samples.jsonl.xz"))
    assert {"equivalent-in-these-runs", "inconclusive"} == {each.verdict for each in found.cases}, "of four pairs"
    judging = [each for each in found.estimates if each.judges]
    assert 12 == len(judging)
    assert 0.05 < min(each.q for each in judging if each.q is not None) < 0.052


@pytest.mark.parametrize(
    ("pairs", "verdict", "unseen"),
    [(3, "equivalent-in-these-runs", 0.632), (10, "equivalent-in-these-runs", 0.259), (11, "equivalent", 0.238),
     (16, "equivalent", 0.171)],
)  # fmt: skip
def test_few_pairs_may_miss_that_many_processes_are_slow(
    made_study: MadeStudy, pairs: int, verdict: str, unseen: float
) -> None:
    def measured(name: str, case: Case, pair: int) -> Measurement:
        return Measurement(batch_s=samples(1e-3 * (1 + 1e-3 * math.sin(pair + len(name)))))

    found = compare(made_study(["host", "podman"], [case()], measured, pairs=pairs))
    assert verdict == first(found).cases[0].verdict
    assert only(found).unseen == pytest.approx(unseen, abs=1e-3)
    assert [] == unsettled(found, [case()])
    said = f"alike by {pairs} processes a side: if none of these was slow, up to {unseen:.1%} of a place's may be"
    said += "; 11 pairs tell of the places" * (verdict != "equivalent")
    assert 1 == text_of(words.document)(found).count(said)


@pytest.mark.parametrize(
    ("scale", "scatter", "verdict"),
    [
        (1.1, 0.002, "slower"),
        (0.9, 0.002, "faster"),
        (1.0, 0.001, "equivalent-in-these-runs"),
        (1.004, 0.0003, "different-but-small"),
        (1.008, 0.002, "different-about-the-margin"),
        (1.0, 0.02, "inconclusive"),
    ],
)
def test_verdict(made_study: MadeStudy, scale: float, scatter: float, verdict: str) -> None:
    found = only(compare(made_study(["host", "podman"], [case()], scattered(scale, scatter))))
    assert (verdict, 8, KERNEL, True) == (found.outcome, found.pairs, found.margin, found.primary)
    assert (found.pairs_needed is None) == (verdict != "inconclusive")


@pytest.mark.parametrize(
    ("scale", "scatter", "needed"),
    [
        (1.0, 0.05, 221),  # of equivalence
        (1.06, 0.05, 12),  # its side of the margin
        (1.0085, 0.009, 15),  # that it is about the margin
    ],
)
def test_pairs_are_those_that_tell_what_there_seems_to_be(
    made_study: MadeStudy, scale: float, scatter: float, needed: int
) -> None:
    """Among so many cases without a difference none is certain of a q of 5 %."""
    cases = [case(parameters={"m": size}) for size in range(1, 21)]
    offsets = [scatter * each for each in (-1.5, -1, -0.5, -0.2, 0.2, 0.5, 1, 1.5)]

    def measured(name: str, each: Case, pair: int) -> Measurement:
        longer = scale if each == cases[0] else 1.0
        return Measurement(batch_s=samples(1e-3 * (longer * math.exp(offsets[pair]) if name == "podman" else 1.0)))

    found = first(compare(made_study(["host", "podman"], cases, measured))).cases[0]
    assert found.primary is not None
    assert "inconclusive" == found.verdict
    assert needed == found.primary.pairs_needed


def test_the_numbers_are_those_of_the_paired_t(made_study: MadeStudy) -> None:
    results = made_study(["host", "podman"], [case()], scattered(1.03, 0.01))
    times = {
        arm: [record.measurement.batch_s.median_s for record in sorted(results.records, key=lambda r: r.case.process)
              if record.case.arm == arm and record.measurement and record.measurement.batch_s]
        for arm in ("host", "podman")
    }  # fmt: skip
    expected = stats.paired(times["podman"], times["host"])
    found = only(compare(results))
    assert (expected.ratio, expected.interval(), expected.interval(0.9), expected.p()) == (
        found.ratio, found.interval, found.interval90, found.q,
    )  # fmt: skip
    assert pytest.approx(tuple(map(geometric_mean, times.values()))) == (found.baseline_s, found.arm_s)
    assert expected.minimum_detectable() == found.minimum_detectable


def test_a_ratio_is_that_of_the_times_beside_it(made_study: MadeStudy) -> None:
    """Where medians over processes say the other way round, since pairs drift, and one arm lacks some of them."""

    def measured(name: str, each: Case, pair: int) -> Measurement | str:
        drift = 1 + 0.02 * pair
        if name == "podman":
            return "died" if pair > 5 else Measurement(batch_s=samples(1.06e-3 * drift))
        return Measurement(batch_s=samples(1e-3 * drift))

    found = only(compare(made_study(["host", "podman"], [case()], measured)))
    assert pytest.approx(1.06) == found.ratio == pytest.approx(found.arm_s / found.baseline_s)


@pytest.mark.parametrize("file", sorted(STUDIES.iterdir()), ids=lambda path: path.name)
def test_ratios_of_kept_studies_are_those_of_the_times_beside_them(file: Path) -> None:
    found = compare(results_file.read(file))
    every = [each for arm in [*found.arms, *([found.again] if found.again else [])] for each in arm.estimates]
    assert [each.ratio for each in every] == pytest.approx([each.arm_s / each.baseline_s for each in every])


def test_the_samples_of_a_process_are_one_number(made_study: MadeStudy) -> None:
    """A tail in every process moves no median."""

    def measured(arm: str, case: Case, pair: int) -> Measurement:
        tail = [5e-3] * 3 if arm == "podman" else []
        return Measurement(batch_s=replace(samples(1e-3), samples_s=[1e-3, 1.1e-3, 0.9e-3] * 3 + tail))

    found = only(compare(made_study(["host", "podman"], [case()], measured)))
    assert 1.0 == pytest.approx(found.ratio, rel=0.11)


def test_margins() -> None:
    bandwidth = 0.02
    gemm, launch = (margins_of(case(primitive)) for primitive in ("gemm", "launch"))
    assert {KERNEL} == {gemm[name] for name in ("device_s", "batch_s", "batch_mean_s")}
    assert {OF_HOST} == {gemm[name] for name in ("enqueue_s", "stream_s", "wall_s", "wall_p99_s", "wall_mean_s")}
    assert {OF_HOST} == set(launch.values())
    assert KERNEL == margins_of(replace(case(), primitive="of another installation"))["device_s"]
    large, small, within = (
        margins_of(case("memcpy", parameters={"bytes": size, "direction": direction}))
        for size, direction in ((2**20, "h2d"), (4096, "d2h"), (4096, "h2h"))
    )
    assert {bandwidth} == {large[name] for name in ("device_s", "stream_s", "batch_mean_s")}
    assert (OF_HOST, bandwidth) == (small["device_s"], within["batch_s"])


def on_gpu(enqueue_s: float = 3e-6, device_s: float = 50e-6, wall_s: float = 60e-6, **others: Any) -> Measurement:
    return Measurement(
        enqueue_s=samples(enqueue_s), device_s=samples(device_s), stream_s=samples(device_s), wall_s=samples(wall_s),
        **others,
    )  # fmt: skip


def jitter(pair: int) -> float:
    return 1 + 1e-4 * math.sin(pair)


def test_the_primary_metric_is_first_and_launches_have_their_own(made_study: MadeStudy) -> None:
    cases = [case(device="cuda:0"), case("launch", device="cuda:0"), case("memcpy", device="cuda:0")]

    def measured(name: str, case: Case, pair: int) -> Measurement:
        enqueue_s, device_s, stream_s, wall_s = (late(each * jitter(pair)) for each in (3e-6, 50e-6, 51e-6, 60e-6))
        return Measurement(enqueue_s=enqueue_s, device_s=device_s, stream_s=stream_s, wall_s=wall_s)

    found = first(compare(made_study(["host", "podman"], cases, measured)))
    assert ["device_s", "enqueue_s", "device_s"] == [each.estimates[0].metric for each in found.cases]
    assert all([each.primary for each in one.estimates] == [True] + 5 * [False] for one in found.cases)
    judging = [[each.metric for each in one.estimates if each.judges] for one in found.cases]
    assert [["device_s"], ["enqueue_s", "enqueue_mean_s"], ["device_s"]] == judging
    assert found.mean is not None
    assert (3, 8) == (found.mean.cases, found.mean.pairs)


def test_tails_need_a_thousand_single_calls(made_study: MadeStudy) -> None:
    def measured(count: int, calls: int) -> Callable[[str, Case, int], Measurement]:
        wall = replace(samples(1e-5), samples_s=[1e-5] * (count - 20) + [2e-5] * 20, calls_per_sample=calls)
        return lambda arm, case, pair: Measurement(wall_s=wall)

    names = [
        [
            each.metric
            for each in compare(made_study(["host", "podman"], [case()], measured(*how))).estimates
            if each.metric != "wall_mean_s"
        ]
        for how in ((1000, 1), (999, 1), (1000, 2))
    ]
    assert [["wall_s", "wall_p99_s"], ["wall_s"], ["wall_s"]] == names


def test_false_discoveries_are_counted_over_all_cases(made_study: MadeStudy) -> None:
    """A case that is past 5 % by itself is no discovery among twenty."""

    def measured(arm: str, case: Case, pair: int) -> Measurement:
        shift = 0.02 if case.parameters["m"] == 64 else 0.0
        log = (shift + 0.0176 * (-1) ** pair) if arm == "podman" else 0.0
        return Measurement(batch_s=samples(1e-3 * math.exp(log)))

    def of_sizes(count: int) -> Estimate:
        cases = [case(parameters={"m": 64 + number}) for number in range(count)]
        return first(compare(made_study(["host", "podman"], cases, measured))).cases[0].estimates[0]

    alone, among_twenty = of_sizes(1), of_sizes(20)
    assert ("slower", "inconclusive") == (alone.outcome, among_twenty.outcome)
    assert alone.q is not None
    assert among_twenty.q == pytest.approx(20 * alone.q)
    assert alone.interval == among_twenty.interval


def test_a_zero_difference_without_scatter_is_equivalence(made_study: MadeStudy) -> None:
    found = only(compare(made_study(["host", "podman"], [case()], lambda *_: Measurement(batch_s=samples(1e-3)))))
    assert ("equivalent-in-these-runs", 1.0, (1.0, 1.0)) == (found.outcome, found.ratio, found.interval)


def test_a_single_pair_has_no_interval(made_study: MadeStudy) -> None:
    found = only(compare(made_study(["host", "podman"], [case()], scattered(2.0), pairs=1)))
    assert ("inconclusive", None, None) == (found.outcome, found.interval, found.q)
    assert SINGLE == found.reason


# --- the baseline against itself


def itself(ratio: float, half_width: float) -> Estimate:
    low, high = ratio - half_width, ratio + half_width
    return Estimate(
        metric="batch_s", primary=True, judges=True, pairs=8, baseline_s=1.0, arm_s=ratio, ratio=ratio, q=0.001,
        margin=KERNEL, interval=(low, high), interval90=(low, high), is_equivalent=0.991 < low and high < 1.01,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("floor", "ratio", "verdict"),
    [
        (itself(1.0, 0.003), 1.05, "slower"),
        (itself(1.05, 0.01), 1.05, "inconclusive"),  # it differs from itself by as much
        (itself(1.05, 0.01), 2.0, "slower"),
        (itself(1.0, 0.04), 1.03, "slower"),  # noisy, which the interval of what is compared has in it, too
        (itself(1.0, 0.04), 0.9, "faster"),
        (itself(1.05, 0.01), 1.0, "inconclusive"),  # equivalence is not believed, either
        (itself(1.004, 0.001), 1.0, "equivalent"),  # unless the baseline differs by less than matters
        (itself(1.004, 0.001), 1.05, "slower"),
    ],
)
def test_what_the_baseline_differs_from_itself_by_is_no_difference(floor: Estimate, ratio: float, verdict: str) -> None:
    found = judged(replace(itself(ratio, 0.002), q=1.0 if ratio == 1.0 else 0.001), floor)
    assert (verdict, floor.interval) == (found.outcome, found.noise)
    assert (found.reason == ITSELF) == (verdict == "inconclusive")


def test_the_baseline_run_twice_is_no_arm(made_study: MadeStudy) -> None:
    found = compare(made_study(["host", "podman", "host (again)"], [case()], scattered(1.1)))
    assert ["podman"] == [arm.name for arm in found.arms]
    assert found.again is not None
    assert ("equivalent-in-these-runs", "slower") == (found.again.cases[0].estimates[0].outcome, only(found).outcome)
    assert only(found).noise == found.again.cases[0].estimates[0].interval


def test_the_baseline_and_its_twin_together_are_what_arms_are_set_against(made_study: MadeStudy) -> None:
    timed: dict[str, list[float]] = {}
    noisy = scattered(1.03, 0.01)

    def measured(name: str, case: Case, pair: int) -> Measurement:
        found = noisy(name, case, pair)
        assert found.batch_s
        timed.setdefault(name, []).append(found.batch_s.median_s)
        return found

    results = made_study(["host", "podman", "host (again)"], [case()], measured)
    both = [math.sqrt(one * other) for one, other in zip(timed["host"], timed["host (again)"], strict=True)]
    together, alone = stats.paired(timed["podman"], both), stats.paired(timed["podman"], timed["host"])
    found = compare(results)
    assert together.interval() == pytest.approx(only(found).interval)
    assert together.ratio == pytest.approx(only(found).ratio)
    mean = first(found).mean
    assert mean is not None
    assert together.interval() == pytest.approx(mean.interval)

    def differs(name: str, case: Case, pair: int) -> Measurement:
        return Measurement(batch_s=samples(1.1e-3 * jitter(pair) if "again" in name else timed[name][pair]))

    found = compare(made_study(["host", "podman", "host (again)"], [case()], differs))
    assert only(found).ratio == pytest.approx(alone.ratio), "it is no baseline where it differs"


@pytest.mark.parametrize("how", [{"until_settled": True}, {"pairs": 6}], ids=["settled", "gone on with"])
def test_a_study_that_looks_to_end_needs_more_to_be_equivalent(made_study: MadeStudy, how: dict[str, Any]) -> None:
    results = made_study(["host", "podman"], [case()], scattered(1.0, 0.005))
    assert results.header.study is not None
    looked = replace(results, header=replace(results.header, study=replace(results.header.study, **how)))
    once, again = only(compare(results)), only(compare(looked))
    assert ("equivalent-in-these-runs", "inconclusive") == (once.outcome, again.outcome)
    assert once.interval == again.interval
    assert again.pairs_needed is not None
    assert [case()] == unsettled(compare(looked), [case()])


# --- which cases are compared


def test_the_first_arm_is_the_baseline_or_the_one_that_is_named(made_study: MadeStudy) -> None:
    results = made_study(["host", "podman"], [case()], scattered(1.1))
    assert ("host", "slower") == (compare(results).baseline, only(compare(results)).outcome)
    assert "faster" == only(compare(results, "podman")).outcome
    with pytest.raises(InvalidRequest, match="baseline=nosuch: the arms are host, podman"):
        compare(results, "nosuch")


def test_placement_and_process_do_not_tell_cases_apart(made_study: MadeStudy) -> None:
    results = made_study(["host", "host:numa-node=0"], [case()], scattered(1.0, 0.001))
    placed = [
        replace(record, case=replace(record.case, placement=Placement(numa_node=0)))
        if record.case.arm != "host" else record
        for record in results.records
    ]  # fmt: skip
    assert "equivalent-in-these-runs" == only(compare(replace(results, records=placed))).outcome


def test_unequal_cases_are_refused_by_what_differs(made_study: MadeStudy) -> None:
    results = made_study(["host", "podman"], [case()], scattered(1.0))
    longer = [
        replace(record, case=replace(record.case, method=Method(cache="cold")))
        if record.case.arm == "podman"
        else record
        for record in results.records
    ]
    with pytest.raises(InvalidRequest, match=r'method\.cache is "hot" in host and "cold" in podman'):
        compare(replace(results, records=longer))


def test_sides_that_share_nothing_are_refused(made_study: MadeStudy) -> None:
    one = made_study(["host"], [case()], scattered(1.0))
    other = made_study(["host"], [case(parameters={"m": 128})], scattered(1.0))
    with pytest.raises(InvalidRequest, match=r"parameters\.m is 64 in a\.jsonl and 128 in b\.jsonl"):
        compare_runs([one], [other], ("a.jsonl", "b.jsonl"))


def test_cases_of_one_side_are_noted(made_study: MadeStudy) -> None:
    both = made_study(["host"], [case(), case(parameters={"m": 128})], scattered(1.0))
    one = made_study(["host"], [case()], scattered(1.0))
    assert "in a alone: 1 case of gemm" in compare_runs([both], [one], ("a", "b")).notes


def test_a_pair_with_a_failed_side_counts_for_nothing(made_study: MadeStudy) -> None:
    timed = scattered(1.1)

    def measured(arm: str, case: Case, pair: int) -> Measurement | str:
        return "out of memory" if (arm, pair) in (("podman", 2), ("host", 5)) else timed(arm, case, pair)

    (found,) = first(compare(made_study(["host", "podman"], [case()], measured))).cases
    assert (6, "slower") == (found.estimates[0].pairs, found.estimates[0].outcome)
    assert "host failed: out of memory (1 of 8); podman failed: out of memory (1 of 8)" == found.reason


def test_a_case_that_one_arm_never_ran_has_a_reason(made_study: MadeStudy) -> None:
    timed = scattered(1.0)
    arm = first(
        compare(made_study(["host", "podman"], [case()], lambda *of: "died" if of[0] == "podman" else timed(*of)))
    )
    assert ([], None) == (arm.cases[0].estimates, arm.mean)
    assert "podman failed: died (8 of 8)" in str(arm.cases[0].reason)


def test_the_mean_is_over_pairs_that_have_every_case(made_study: MadeStudy) -> None:
    cases = [case(parameters={"m": m}) for m in (64, 128)]

    def measured(arm: str, case: Case, pair: int) -> Measurement | str:
        if (arm, pair, case.parameters["m"]) == ("podman", 0, 64):
            return "died"
        slower = {64: 1.21, 128: 1.0}[int(case.parameters["m"])] if arm == "podman" else 1.0
        return Measurement(batch_s=samples(1e-3 * slower * (1 + 1e-4 * (pair % 3 == 0) * (arm == "host"))))

    found = first(compare(made_study(["host", "podman"], cases, measured))).mean
    assert found is not None
    assert (2, 7) == (found.cases, found.pairs)
    assert found.ratio == pytest.approx(1.1, rel=1e-3)
    assert found.interval is not None
    assert found.interval[0] < 1.1 < found.interval[1]


def test_a_mean_of_other_samples_than_the_cases_own_says_so(made_study: MadeStudy) -> None:
    """Each case has half of the pairs at full speed, and the two together none."""
    cases = [case(parameters={"m": m}) for m in (64, 128)]

    def half(*, odd: bool) -> Callable[[str, Case, int], Measurement]:
        return shared_core(1.0, lambda name, pair: 40 if pair % 2 == odd else 0)

    halves = {64: half(odd=True), 128: half(odd=False)}

    def measured(name: str, case: Case, pair: int) -> Measurement:
        return halves[int(case.parameters["m"])](name, case, pair)

    arm = first(compare(made_study(["host", "podman"], cases, measured)))
    assert [(True, 4)] * 2 == [(each.primary.at_full_speed, each.primary.pairs) for each in arm.cases if each.primary]
    assert arm.mean is not None
    assert (True, 8) == (arm.mean.of_all_samples, arm.mean.pairs)
    alone = first(compare(made_study(["host", "podman"], cases[:1], halves[64]))).mean
    assert alone is not None
    assert (False, 4) == (alone.of_all_samples, alone.pairs)


# --- two files


def a_run(made_study: MadeStudy, scale: float, pairs: int = 6, environment: Any = HERE) -> Results:
    timed = scattered(scale, arm="host")
    return made_study(["host"], [case()], timed, pairs=pairs, environments={"host": environment})


@pytest.mark.parametrize(
    ("scale", "outcome", "reason"),
    [(1.1, "inconclusive", ONE_RUN), (0.5, "inconclusive", ONE_RUN), (1.003, "equivalent-in-these-runs", None)],
)
def test_one_run_of_each_of_two_files_shows_no_difference(
    made_study: MadeStudy, scale: float, outcome: str, reason: str | None
) -> None:
    one, other = a_run(made_study, 1.0), a_run(made_study, scale, pairs=5, environment=place("podman"))
    comparison = compare_runs([one], [other], ("a.jsonl", "b.jsonl"))
    assert (False, "a.jsonl", "b.jsonl") == (comparison.paired, comparison.baseline, first(comparison).name)
    found = only(comparison)
    assert (outcome, reason, 5, None) == (found.outcome, found.reason, found.pairs, first(comparison).effect)
    assert (outcome == "inconclusive") == first(comparison).cases[0].is_untellable
    assert "primbench study --arm host --arm podman --primitive gemm" in comparison.notes[-1]
    assert not any(each.is_single for each in comparison.estimates)


def test_two_places_are_run_in_turns_by_what_tells_them_apart(made_study: MadeStudy) -> None:
    run = a_run(made_study, 1.0)
    placed = [replace(each, case=replace(each.case, placement=Placement(threads=1))) for each in run.records]
    (note,) = compare_runs([run], [replace(run, records=placed)], ("a", "b")).notes
    assert (
        "`primbench study --arm host --arm host:threads=1 --primitive gemm` interleaves the places, pair by pair"
        in note
    )
    (note,) = compare_runs([run], [run], ("a", "b")).notes
    assert note.endswith("run each several times, one now and the other next, and compare two folders of runs")


def test_several_runs_a_side_are_what_a_verdict_is_by(made_study: MadeStudy) -> None:
    """Processes of a run agree to 0.2 %, and runs differ by 5 %."""
    moods = {"a": (1.0, 1.05, 0.97), "b": (1.06, 0.98, 1.02), "c": (1.5, 1.55, 1.46)}
    runs = {name: [a_run(made_study, mood) for mood in of_one] for name, of_one in moods.items()}
    alike, slower = (
        compare_runs(runs["a"], runs[other], ("a", other), ("a/3.jsonl", f"{other}/3.jsonl")) for other in "bc"
    )
    assert [("inconclusive", 3, None), ("slower", 3, None)] == [
        (only(each).outcome, only(each).pairs, only(each).reason) for each in (alike, slower)
    ]
    assert (3, "place effect") == (slower.runs, first(slower).effect)
    assert stats.unpaired(moods["c"], moods["a"]).interval() == pytest.approx(only(slower).interval, rel=0.01)
    assert alike.notes[-1].endswith("unpaired: of 3 runs a side; more of them, one of each in turn, tell more")
    (explained_case,) = first(slower).cases
    assert explained_case.explanation is not None
    why = "primbench why a/3.jsonl c/3.jsonl --primitive 'gemm --m 64 --n 64 --k 64 --accumulate float32'"
    assert why == explained_case.explanation.next_experiment


def begun(results: Results, when: str, boot: str | None = None) -> Results:
    machine = replace(HERE.machine, boot_id=boot)
    header = replace(results.header, started_utc=when, environment=replace(HERE, machine=machine))
    return replace(results, header=header)


def on_days(made_study: MadeStudy, *moods: float, first: int = 1, boot: str | None = None) -> list[Results]:
    """Three runs on each of these days, of which each has its mood."""
    return [
        begun(a_run(made_study, mood * slight), f"2026-11-{first + day:02}T0{hour}:00:00+00:00", boot)
        for day, mood in enumerate(moods)
        for hour, slight in ((7, 0.999), (8, 1.001), (9, 1.0))
    ]


def test_runs_of_one_day_beside_those_of_another_show_no_difference(made_study: MadeStudy) -> None:
    """Each side's runs agree to 0.2 %; the day may be what makes one 8 % longer."""
    before, after = on_days(made_study, 1.0), on_days(made_study, 1.08, first=2)
    found = compare_runs(before, after, ("before", "after"))
    assert ((1, 1), True, False) == (found.sessions, found.is_of_other_sessions, found.has_sessions)
    assert ("inconclusive", ONE_RUN, None) == (only(found).outcome, only(found).reason, first(found).effect)
    assert (
        "each of one session (2026-11-01 07:00 and 2026-11-02 07:00 UTC), so that what differs may be the day"
        in (found.notes[-1])
    )
    with pytest.raises(InvalidRequest, match="--fail-above of one session a side: what differs may be the day"):
        Gate(above=0.05).check(found)
    Gate().check(found)
    same_day = compare_runs(before, on_days(made_study, 1.08), ("before", "after"))
    assert (None, "slower") == (same_day.sessions, only(same_day).outcome)


def test_several_days_are_what_a_verdict_is_by(made_study: MadeStudy) -> None:
    """Days differ by 3 %, so that 2 % more on another day is nothing, and 30 % more is something."""
    before = on_days(made_study, 1.0, 1.03, 0.98, 1.02, 0.99)
    alike, slower = (
        compare_runs(before, on_days(made_study, mood, first=9), ("before", "after")) for mood in (1.02, 1.3)
    )
    assert [(5, 1), (5, 1)] == [alike.sessions, slower.sessions]
    assert [("inconclusive", 5), ("slower", 5)] == [(only(each).outcome, only(each).pairs) for each in (alike, slower)]
    assert "judged by the scatter between 5 and 1 sessions" in slower.notes[-1]
    expected = stats.pooled([1.3], [1.0, 1.03, 0.98, 1.02, 0.99])
    assert expected.interval() == pytest.approx(only(slower).interval, rel=0.01)
    Gate(above=0.05).check(slower)
    assert not Gate(above=0.05).passes(slower)


def test_a_start_of_the_machine_between_two_sides_makes_two_sessions_of_a_day(made_study: MadeStudy) -> None:
    before, after = on_days(made_study, 1.0, boot="x"), on_days(made_study, 1.08, boot="y")
    later = [begun(each, f"2026-11-01T1{number}:00:00+00:00", "y") for number, each in enumerate(after)]
    assert (1, 1) == compare_runs(before, later, ("a", "b")).sessions
    assert compare_runs(before, after, ("a", "b")).sessions is None, "two machines at the same times"


def test_one_process_a_file_has_no_interval_and_says_what_that_costs(made_study: MadeStudy) -> None:
    one, other = (made_study(["host"], [case()], scattered(scale, arm="host"), pairs=1) for scale in (1.0, 2.0))
    comparison = compare_runs([one], [other], ("a", "b"))
    assert ("inconclusive", None) == (only(comparison).outcome, only(comparison).interval)
    assert 2.0 == pytest.approx(only(comparison).ratio, rel=0.02)
    assert all(each.is_single for each in comparison.estimates)


def test_a_file_of_several_arms_is_none_of_two(made_study: MadeStudy) -> None:
    study = made_study(["host", "podman"], [case()], scattered(1.0))
    with pytest.raises(InvalidRequest, match="a: holds 2 arms, host, podman: compare it alone"):
        compare_runs([study], [study], ("a", "b"))
    with pytest.raises(InvalidRequest, match="one arm alone"):
        compare(made_study(["host"], [case()], scattered(1.0)))


def test_arms_without_a_study_need_a_baseline(made_study: MadeStudy) -> None:
    results = made_study(["host", "podman"], [case()], scattered(1.1))
    bare = replace(results, header=replace(results.header, study=None))
    with pytest.raises(InvalidRequest, match=r"baseline= is needed, .*: one of host, podman"):
        compare(bare)
    assert "slower" == only(compare(bare, "host")).outcome


# --- what a difference is called


def place(name: str = "host", **changes: Any) -> fingerprint.Environment:
    runtime = ContainerRuntime(name=name, in_container=name != "host", evidence=[])
    confinement = replace(HERE.confinement, runtime=runtime, **changes.pop("confinement", {}))
    software = replace(HERE.software, **{"libraries": {"libcublas": [library("ab")]}} | changes.pop("software", {}))
    return replace(HERE, confinement=confinement, software=software, **changes)


def library(build_id: str) -> Library:
    return Library(path="/usr/lib/libcublas.so", build_id=build_id)


def effect(made_study: MadeStudy, one: fingerprint.Environment, other: fingerprint.Environment) -> str | None:
    environments = {"host": one, "podman": other}
    results = made_study(["host", "podman"], [case()], scattered(1.1), environments=environments)
    return first(compare(results)).effect


def test_effects(made_study: MadeStudy) -> None:
    host, podman = place(), place("podman")
    assert "container effect" == effect(made_study, host, podman)
    assert "place effect" == effect(made_study, host, host)
    other = replace(podman, software=replace(podman.software, libraries={"libcublas": [library("cd")]}))
    assert "stack effect" == effect(made_study, host, other)
    elsewhere = replace(podman, machine=replace(podman.machine, cpu_model="another"))
    assert "machine effect" == effect(made_study, host, elsewhere)
    unknown = replace(podman, software=replace(podman.software, libraries=None, missing={"libraries": "EPERM"}))
    assert None is effect(made_study, host, unknown)


def test_two_machines_that_are_alike_in_all_but_their_kernels_identity_are_two(made_study: MadeStudy) -> None:
    def effect_of(boots: list[Any], arm: str = "ssh:far") -> str | None:
        places = [replace(place(), machine=replace(HERE.machine, boot_id=boot)) for boot in boots]
        results = made_study(
            ["host", arm], [case()], scattered(1.1), environments=dict(zip(["host", arm], places, strict=True))
        )
        return first(compare(results)).effect

    assert "machine effect" == effect_of(["a", "b"])
    assert "place effect" == effect_of(["a", "a"])
    assert "machine effect" == effect_of([None, "b"]), "the name is what is known"
    assert "place effect" == effect_of([None, None], "host:nice=5")


@pytest.mark.parametrize("boot", [None, "b"])
def test_another_kernel_that_is_started_here_is_no_other_machine(made_study: MadeStudy, boot: str | None) -> None:
    """gVisor tells no identity, a virtual machine has one of its own; neither shows the processor as it is."""

    def effect_of(arm: str) -> str | None:
        inside = replace(HERE.machine, boot_id=boot, cpu_model="QEMU TCG CPU version 2.5+", kernel="4.4.0")
        here = replace(HERE.machine, boot_id="a")
        places = {"host": replace(place(), machine=here), arm: replace(place(), machine=inside)}
        return first(compare(made_study(["host", arm], [case()], scattered(1.1), environments=places))).effect

    assert ["place effect", "place effect", "machine effect"] == [*map(effect_of, ["runsc", "qemu", "ssh:far"])]


def test_on_another_machine_other_libraries_are_the_machines(made_study: MadeStudy) -> None:
    there = place(software={"libraries": {"libcublas": [library("cd")]}}, machine=replace(HERE.machine, boot_id="b"))
    environments = {"host": place(software={}), "ssh:far": there}
    found = first(compare(made_study(["host", "ssh:far"], [case()], scattered(1.1), environments=environments)))
    assert "machine effect" == found.effect
    assert not any("host is not set" in each.words for each in found.differing)


def moved(results: Results, *arms: str) -> Results:
    """The later half of these arms' workers on another CPU."""

    def elsewhere(number: int, worker: Worker) -> Worker:
        if worker.arm is None or worker.arm.name not in arms or number < len(results.workers) / 2:
            return worker
        machine = replace(worker.environment.machine, cpu_model="another")
        return replace(worker, environment=replace(worker.environment, machine=machine))

    return replace(results, workers=[elsewhere(number, worker) for number, worker in enumerate(results.workers)])


def test_a_side_of_two_machines_is_told_and_names_the_effect(made_study: MadeStudy) -> None:
    places = {"host": place(), "podman": place("podman")}
    results = made_study(["host", "podman"], [case()], scattered(1.1), environments=places)
    assert {} == compare(results).mixed
    found = compare(moved(results, "podman"))
    assert ("machine effect", ["podman"]) == (first(found).effect, [*found.mixed])
    ((change, *counts),) = map(msgspec.structs.astuple, found.mixed["podman"])
    assert ("machine.cpu_model", "another", [4, 8]) == (str(change.field), change.b, counts)
    together = compare(moved(results, "host", "podman"))
    assert ("container effect", ["host", "podman"]) == (first(together).effect, [*together.mixed]), "pair by pair"


def test_a_second_worker_of_one_process_is_looked_at_too(made_study: MadeStudy) -> None:
    """As where a run was gone on with elsewhere."""
    results = made_study(["host", "podman"], [case()], scattered(1.1), pairs=1)
    last = results.workers[-1]
    machine = replace(last.environment.machine, kernel="2.6")
    worker = replace(last, worker=2, environment=replace(last.environment, machine=machine))
    resumed = replace(
        results, workers=[*results.workers, worker], records=[*results.records, replace(results.records[-1], worker=2)]
    )
    found = compare(resumed)
    (mixed,) = [each for each in found.mixed["podman"] if each.change.field == ("machine", "kernel")]
    assert ("machine effect", "2.6", 1, 2) == (first(found).effect, mixed.change.b, mixed.workers, mixed.of)


@pytest.mark.parametrize("count", [1, 2])
def test_a_place_that_was_not_had_is_noted_and_is_a_cause_where_there_are_others(
    made_study: MadeStudy, count: int
) -> None:
    assert HERE.nodes
    nodes = [replace(HERE.nodes[0], id=number) for number in range(count)]
    environments = {"host": place(nodes=nodes), "podman": place("podman", nodes=nodes)}
    results = made_study(["host", "podman"], [case()], scattered(1.1), environments=environments)
    refused = {"set_mempolicy": "EPERM"}
    workers = [
        replace(worker, placement=replace(worker.placement, reasons=refused))
        if worker.arm and worker.arm.name == "podman"
        else worker
        for worker in results.workers
    ]
    found = compare(replace(results, workers=workers))
    sentence = "podman was not placed as asked: memory is where it was first touched: set_mempolicy: EPERM"
    assert sentence in found.notes
    (one,) = first(found).cases
    assert one.explanation is not None
    assert [sentence] * (count > 1) == one.explanation.causes


# --- explanations


def explained(
    made_study: MadeStudy, cases: list[Case], measured: Callable[[str, Case, int], Measurement], **how: Any
) -> dict[str, Any]:
    arms = how.pop("arms", ["host", "podman"])
    found = first(compare(made_study(arms, cases, measured, **how)))
    return {each.case.primitive: each.explanation for each in found.cases}


def test_dearer_launches_account_for_what_a_call_of_many_kernels_takes(made_study: MadeStudy) -> None:
    cases = [case("launch", device="cuda:0"), case(device="cuda:0")]

    def measured(arm: str, case: Case, pair: int) -> Measurement:
        dearer_s = 1.5e-6 * (arm == "podman")
        enqueue_s = (3e-6 + dearer_s) * jitter(pair)
        if case.primitive == "launch":
            return on_gpu(enqueue_s)
        found = on_gpu(20 * enqueue_s, wall_s=(90e-6 + 20 * dearer_s) * jitter(pair), nodes_per_call=20.0)
        return replace(found, stream_s=samples((80e-6 + 20 * dearer_s) * jitter(pair)))

    found = explained(made_study, cases, measured)
    assert ["launch"] == found["gemm"].parts
    assert any(
        "20 kernels a call x 1.50 us more a launch = 30.0 us more; stream takes 30.0 us more" == line
        for line in found["gemm"].evidence
    ), found["gemm"].evidence


def test_a_slower_kernel_is_no_launch(made_study: MadeStudy) -> None:
    def measured(arm: str, case: Case, pair: int) -> Measurement:
        device_s = 50e-6 * jitter(pair) * (1.1 if arm == "podman" else 1)
        clock = GpuReading(sm_clock_hz=1.8e9 if arm == "podman" else 1.98e9)
        return on_gpu(3e-6, device_s, device_s * 1.2, gpu=clock, algorithm=f"tile {arm}")

    found = explained(made_study, [case(device="cuda:0")], measured)["gemm"]
    assert ["kernel"] == found.parts
    assert "the SM clock was 1.8 GHz in podman, 1.98 GHz in host: counted in cycles, the ratio of device is 1.000" in (
        found.evidence
    )
    assert "done by tile podman in podman, by tile host in host" in found.evidence


def test_waiting_and_pages_are_evidence(made_study: MadeStudy) -> None:
    def measured(arm: str, case: Case, pair: int) -> Measurement:
        there = arm == "podman"
        host = HostReading(
            duration_s=2.0, cpu_time_s=1.0, voluntary_switches=1, involuntary_switches=1,
            throttled_s=0.8 * there, waited_s=0.01,
        )  # fmt: skip
        pages = Pages(by_node={0: 1}, asked=[1], misplaced=there, read_by="numa_maps")
        time_s = 1e-3 * jitter(pair) * (1.4 if there else 1)
        return Measurement(batch_s=samples(time_s), host=host, pages=pages)

    found = explained(made_study, [case()], measured)["gemm"]
    assert ["everything on the CPU"] == found.parts
    assert [
        "the CPU quota held back podman for 6.40 s added up over CPUs, in 16.0 s (cpu.stat), host never",
        "pages were not where they were asked for in 8 of 8 processes in podman, 0 of 8 in host",
    ] == found.evidence


def test_what_stops_every_tenth_sample_is_seen_by_the_mean_and_by_the_counters(made_study: MadeStudy) -> None:
    def measured(arm: str, case: Case, pair: int) -> Measurement:
        stopped = arm == "podman"
        times_s = [1e-3 * jitter(pair)] * 9 + [(50e-3 if stopped else 1e-3) * jitter(2 * pair)]
        host = HostReading(
            duration_s=1.0, cpu_time_s=0.5, voluntary_switches=1, involuntary_switches=1,
            throttled_s=0.5 * stopped, quota_periods=10 * stopped, throttled_periods=9 * stopped,
        )  # fmt: skip
        return Measurement(batch_s=replace(samples(1.0), samples_s=times_s), host=host)

    (found,) = first(compare(made_study(["host", "podman"], [case()], measured))).cases
    assert {"batch_s": "equivalent-in-these-runs", "batch_mean_s": "slower"} == {
        each.metric: each.outcome for each in found.estimates
    }
    assert found.explanation is not None
    assert [
        "the CPU quota held back podman in 72 of 80 periods, for 4.00 s added up over CPUs, in 8.00 s (cpu.stat), "
        "host never"
    ] == found.explanation.evidence
    assert ("slower", "batch_mean_s") == (found.verdict, found.decided_by), "a mean judges a case, too"


def test_a_certain_loss_of_the_mean_is_no_equivalence(made_study: MadeStudy) -> None:
    """One batch of fifty takes three times as long: 4 % of all time, and nothing of the median."""

    def measured(arm: str, case: Case, pair: int) -> Measurement:
        times_s = [1e-3 * jitter(pair)] * 49 + [(3e-3 if arm == "podman" else 1e-3) * jitter(2 * pair)]
        return Measurement(batch_s=replace(samples(1.0), samples_s=times_s))

    (found,) = first(compare(made_study(["host", "podman"], [case()], measured))).cases
    assert ("equivalent-in-these-runs", "slower", "batch_mean_s") == (
        found.estimates[0].outcome,
        found.verdict,
        found.decided_by,
    )


# --- a machine that is too busy


def waiting(
    made_study: MadeStudy,
    of: dict[str, dict[str, float]],
    measured: Callable[[str, Case, int], Measurement],
    **how: Any,
) -> Comparison:
    """of: arm -> what differs, of a second of each process, from a thread that was never held up."""

    def read(arm: str, case: Case, pair: int) -> Measurement:
        fields: dict[str, Any] = {"duration_s": 1.0, "cpu_time_s": 0.5, "waited_s": 0.0, **of.get(arm, {})}
        return replace(
            measured(arm, case, pair), host=HostReading(voluntary_switches=1, involuntary_switches=1, **fields)
        )

    return compare(made_study(["host", "podman"], how.pop("cases", [case()]), read, **how))


@pytest.mark.parametrize(
    ("host", "podman", "is_busy"),
    [
        ({"waited_s": 0.8}, {"waited_s": 0.5}, True),
        ({"waited_s": 0.8}, {"waited_s": 0.1}, False),  # slower or faster for its place's sake
        ({"waited_s": 0.2}, {"waited_s": 0.2}, False),
        ({"waited_s": 0.67}, {"waited_s": 0.91, "throttled_s": 1.4}, True),  # a quota on a busy machine
        ({"waited_s": 0.5, "throttled_s": 0.5}, {"waited_s": 0.5, "throttled_s": 0.5}, False),  # the same quota twice
        ({"waited_s": 0.5, "cpu_time_s": 0.99}, {"waited_s": 0.5, "cpu_time_s": 0.99}, False),  # its own second thread
        ({"waited_s": None}, {"waited_s": 0.5}, False),  # not known
    ],
)
def test_where_both_sides_wait_for_others_no_verdict_stands(
    made_study: MadeStudy, host: dict[str, float], podman: dict[str, float], is_busy: bool
) -> None:
    comparison = waiting(made_study, {"host": host, "podman": podman}, scattered(0.41))
    (found,) = first(comparison).cases
    expected = ("inconclusive", TOO_BUSY) if is_busy else ("faster", None)
    assert expected == (found.verdict, found.estimates[0].reason)
    assert is_busy == (first(comparison).mean is None)


def test_kernels_of_a_gpu_do_not_wait_for_a_cpu(made_study: MadeStudy) -> None:
    def measured(arm: str, case: Case, pair: int) -> Measurement:
        return on_gpu(3e-6 * jitter(pair) * (2 if arm == "podman" else 1), 50e-6 * jitter(pair))

    cases = [case(device="cuda:0"), case("launch", device="cuda:0")]
    waited = {arm: {"waited_s": 0.6} for arm in ("host", "podman")}
    found = first(waiting(made_study, waited, measured, cases=cases)).cases
    assert [("equivalent-in-these-runs", "device_s"), ("inconclusive", "enqueue_s")] == [
        (one.verdict, one.decided_by) for one in found
    ]


# --- failures


@pytest.mark.parametrize(
    ("failed", "verdict", "fails_more"),
    [
        ({"podman": 5}, "inconclusive", "podman"),
        ({"host": 1}, "inconclusive", "host"),
        ({"host": 2, "podman": 2}, "equivalent-in-these-runs", None),
        ({"podman": 8}, None, "podman"),
    ],
)
def test_what_fails_more_often_on_one_side_is_not_alike(
    made_study: MadeStudy, failed: dict[str, int], verdict: str | None, fails_more: str | None
) -> None:
    timed = scattered(1.0, 0.001)

    def measured(arm: str, case: Case, pair: int) -> Measurement | str:
        return "died" if pair < failed.get(arm, 0) else timed(arm, case, pair)

    (found,) = first(compare(made_study(["host", "podman"], [case()], measured))).cases
    assert (verdict, fails_more) == (found.verdict, found.fails_more)


@pytest.mark.parametrize(
    ("said", "limits", "likely"),
    [
        ("BlockingIOError: [Errno 11] Resource temporarily unavailable", {"processes_max": 2}, "processes_max is none"),
        ("OSError: [Errno 24] Too many open files", {"open_files": 64}, "open_files is 1024 in host and 64 in podman"),
        ("OSError: [Errno 24] Too many open files", {"processes_max": 2}, None),
        (
            "loader_workers: RuntimeError: unable to allocate shared memory(shm): is out of memory (/dev/shm)",
            {"shm_bytes": 2**26, "memory_limit_bytes": 2**34},
            "shm_bytes is 64 GiB in host and 64 MiB in podman",
        ),
        ("UnsupportedCase: io_uring_setup: EPERM; Seccomp is 2", {"io_uring": "EPERM"}, "io_uring is allowed in host"),
        (
            "worker was killed by SIGKILL: the kernel's out-of-memory killer (see dmesg), or somebody",
            {"cpu_time_limit_s": 60},
            "cpu_time_limit_s is none in host and 60.0 s in podman",
        ),
        ("worker died of signal SIGXCPU", {"cpu_time_limit_s": 60, "memory_limit_bytes": 2**30}, "cpu_time_limit_s"),
        ("ValueError: nothing that was refused", {"processes_max": 2, "open_files": 64}, None),
        ("MemoryError", {"memory_limit_bytes": None}, None),  # more than the host has refuses nothing
    ],
)
def test_what_fails_is_explained_by_what_refuses_it(
    made_study: MadeStudy, said: str, limits: dict[str, Any], likely: str | None
) -> None:
    timed = scattered(1.0, 0.001)

    def measured(arm: str, case: Case, pair: int) -> Measurement | str:
        return said if arm == "podman" else timed(arm, case, pair)

    usual = replace(HERE.limits, processes_max=None, open_files=1024, shm_bytes=2**36, memory_limit_bytes=2**37)
    filtered = {"io_uring": limits.get("io_uring", "allowed"), "root_filesystem": "overlay"}
    limits = {name: value for name, value in limits.items() if name != "io_uring"}
    environments = {
        "host": place("host", limits=usual, confinement={"io_uring": "allowed", "root_filesystem": "ext4"}),
        "podman": place("podman", limits=replace(usual, **limits), confinement=filtered),
    }
    found = compare(made_study(["host", "podman"], [case()], measured, environments=environments))
    (failing,) = first(found).cases
    assert "podman" == failing.fails_more
    if likely is None:
        assert failing.explanation is None
        assert "Fails more often in podman: 1 of 1 case; nothing was compared." == headline(found)
    else:
        assert failing.explanation is not None
        assert likely in str(failing.explanation.likely)
        assert headline(found).startswith("Fails more often in podman: 1 of 1 case; likely ")


@pytest.mark.parametrize(("pairs", "verdict"), [(2, "inconclusive"), (3, "faster")])
def test_two_pairs_that_agree_make_nothing_certain(made_study: MadeStudy, pairs: int, verdict: str) -> None:
    found = only(compare(made_study(["host", "podman"], [case()], scattered(0.821, 1e-6), pairs=pairs)))
    assert (verdict, None if pairs > 2 else "two processes a side may agree by chance") == (found.outcome, found.reason)


def waited_in_podman(
    timed: Callable[[str, Case, int], Measurement], turns: Turns | None = None
) -> Callable[[str, Case, int], Measurement]:
    def measured(arm: str, case: Case, pair: int) -> Measurement:
        waited_s = 0.3 * (arm == "podman")
        host = HostReading(
            duration_s=1.0, cpu_time_s=0.5, voluntary_switches=1, involuntary_switches=1, waited_s=waited_s
        )
        return replace(timed(arm, case, pair), host=host, turns=turns)

    return measured


WAITED = "waiting for a CPU for 30.0% of its time in podman, 0.0% in host"


def test_waiting_is_said_where_no_difference_is_certain(made_study: MadeStudy) -> None:
    found = explained(made_study, [case()], waited_in_podman(scattered(1.0)))["gemm"]
    assert [WAITED] == found.noise
    assert ([], []) == (found.parts, found.evidence)


def test_others_are_not_blamed_for_waits_of_what_sleeps_for_files_beside_the_same_others(made_study: MadeStudy) -> None:
    files = case("files", parameters={"bytes": 4096, "what": "write"})
    in_turn = Turns(count=40, cpu=1, waited_s=0.1, queued_s=None, uncounted_s=0.01)
    noise = {
        (name, turns is not None): explained(made_study, [each], waited_in_podman(scattered(1.5), turns))[name].noise
        for name, each in (("files", files), ("gemm", case()))
        for turns in (in_turn, None)
    }
    assert {
        ("files", True): [],
        ("files", False): [WAITED],
        ("gemm", True): [WAITED],
        ("gemm", False): [WAITED],
    } == noise


def test_causes_are_what_doctor_finds_in_one_place_and_why_proves_them(made_study: MadeStudy) -> None:
    limits = replace(HERE.limits, cpu_quota=0.5, cpu_period_s=0.1, throttled_periods=9)
    environments = {"host": place(), "podman:cpus=0.5": place("podman", limits=limits, software={"threads": None})}
    found = explained(
        made_study, [case()], scattered(1.4, arm="podman:cpus=0.5"), arms=["host", "podman:cpus=0.5"],
        environments=environments,
    )["gemm"]  # fmt: skip
    assert ["in podman:cpus=0.5 alone: the CPU quota grants 0.5 of the"] == [
        cause.split(f" {len(HERE.limits.cpus_allowed)} ")[0] for cause in found.causes
    ]
    assert found.likely is not None
    assert found.likely.startswith("the CPU quota grants 0.5 of the ")
    assert found.likely.endswith(", in podman:cpus=0.5 alone")
    assert found.next_experiment.startswith("primbench why host podman:cpus=0.5 --primitive 'gemm --m 64 --n 64 --k 64")


def test_slower_cpus_in_one_place_are_named(made_study: MadeStudy) -> None:
    quick = CpuKind(name="performance", cpus=[0, 1], told_by="cpu_core")
    slow = CpuKind(name="efficiency", cpus=[2, 3], told_by="cpu_atom")
    machine = replace(HERE.machine, cpu_kinds=[quick, slow])
    limits = {cpus: replace(HERE.limits, cpus_allowed=list(cpus)) for cpus in ((0, 1), (2, 3))}
    found = explained(
        made_study, [case()], scattered(1.8, arm="podman:cpuset=2-3"), arms=["host", "podman:cpuset=2-3"],
        environments={"host": place(machine=machine, limits=limits[0, 1]),
                      "podman:cpuset=2-3": place("podman", machine=machine, limits=limits[2, 3])},
    )["gemm"]  # fmt: skip
    slower = "threads may run on efficiency CPUs alone: this machine has quicker ones (cpu-kinds)"
    assert f"in podman:cpuset=2-3 alone: {slower}" in found.causes, found.causes


def test_a_refused_memory_policy_is_quoted_where_there_are_nodes_to_choose(made_study: MadeStudy) -> None:
    assert HERE.nodes
    node = HERE.nodes[0]
    for nodes in ([node], [node, replace(node, id=node.id + 1)]):
        denied = place("docker", nodes=nodes, confinement={"set_mempolicy": "EPERM", "mbind": "EPERM"})
        allowed = place(nodes=nodes, confinement={"set_mempolicy": "allowed", "mbind": "allowed"})
        found = explained(
            made_study, [case("memcpy", parameters={"direction": "h2h"})], scattered(1.4, arm="docker"),
            arms=["host", "docker"], environments={"host": allowed, "docker": denied},
        )["memcpy"]  # fmt: skip
        quoted = "set_mempolicy and mbind denied: memory can be placed by first touch only (memory-policy)"
        assert [f"in docker alone: {quoted}"] * (len(nodes) > 1) == found.causes


def test_what_is_in_both_places_with_other_readings_is_no_cause(made_study: MadeStudy) -> None:
    slow = {name: replace(HERE.machine, clocksource="hpet", clock_s=clock_s) for name, clock_s in
            (("host", 1.2e-6), ("podman", 1.21e-6))}  # fmt: skip
    killed = {name: replace(HERE.limits, out_of_memory_kills=kills) for name, kills in (("host", 3), ("podman", 4))}
    environments = {name: place(name, machine=slow[name], limits=killed[name]) for name in slow}
    assert [] == explained(made_study, [case()], scattered(1.1), environments=environments)["gemm"].causes
    environments["host"] = place(limits=replace(HERE.limits, out_of_memory_kills=1), machine=replace(
        HERE.machine, clocksource="hpet", clock_s=12.1e-6
    ))  # fmt: skip
    causes = explained(made_study, [case()], scattered(1.1), environments=environments)["gemm"].causes
    assert {
        "in podman alone: the clock is read from hpet, at 1.21 us a reading (clock); that makes a ratio of 1, no more",
        "in podman alone: 4 processes were killed here",
    } == {cause.partition(" for want")[0] for cause in causes}


def test_a_cause_works_the_way_that_was_seen_and_comes_last_where_it_cannot_do_so_much(made_study: MadeStudy) -> None:
    def told(lacking: str, ratio: float) -> list[str]:
        """Where the Python of one place lacks an optimization of at most 30 %, and hpet is the arm's clock."""
        places = {name: place(name, software={"python_build": "GCC 13.2.0, PGO"}) for name in ("host", "podman")}
        software = replace(places[lacking].software, python_build="GCC 13.2.0", python_implementation="cpython")
        places[lacking] = replace(places[lacking], software=software)
        machines = {name: replace(HERE.machine, architecture="x86_64", clocksource=clock, clock_s=45e-9)
                    for name, clock in (("host", "tsc"), ("podman", "hpet"))}  # fmt: skip
        environments = {name: replace(each, machine=machines[name]) for name, each in places.items()}
        causes: list[str] = explained(made_study, [case()], scattered(ratio), environments=environments)["gemm"].causes
        return [cause for cause in causes if cause.startswith("in ")]

    clock = (
        "in podman alone: the clock is read from hpet, at 45.0 ns a reading (clock); that makes a ratio of 1, no more"
    )
    build = "alone: this Python was built without profile-guided optimization: 10 to 20 % slower, and so is launching"
    bound = "; that makes a ratio of {}"
    assert [clock] == told("host", 1.2) == told("host", 17.0)
    assert [f"in host {build} (python-build)"] == told("host", 0.9)
    assert [f"in host {build} (python-build){bound.format('0.769, no less')}"] == told("host", 0.5)
    assert [f"in podman {build} (python-build)", clock] == told("podman", 1.2)
    assert [clock, f"in podman {build} (python-build){bound.format('1.3, no more')}"] == told("podman", 17.0)
    assert [] == told("podman", 0.5)


def test_a_clock_that_some_processes_read_slowly_is_no_cause(made_study: MadeStudy) -> None:
    """As while others began beside them."""
    quick = replace(HERE.machine, architecture="x86_64", clocksource="tsc", clock_s=1e-7)
    environments = {"host": place(machine=quick), "podman": place("podman", machine=replace(quick, clock_s=5e-7))}
    results = made_study(["host", "podman"], [case()], scattered(1.2), environments=environments)
    last = next(each for each in reversed(results.workers) if each.arm and each.arm.name == "podman")
    changed = replace(last, environment=place("podman", machine=quick))
    workers = [changed if each is last else each for each in results.workers]
    clock = "in podman alone: the clock is read from tsc, at 500 ns a reading (clock); that makes a ratio of 1, no more"
    for of_study, causes in ((results.workers, [clock]), (workers, [])):
        (found,) = first(compare(replace(results, workers=of_study))).cases
        assert found.explanation
        assert causes == [cause for cause in found.explanation.causes if "clock" in cause]


def causes_of(made_study: MadeStudy, ratio: float, one: dict[str, Any], other: dict[str, Any], **how: Any) -> list[str]:
    """one, other: what of the software, or by "limits" and "machine" of these, is other than here."""

    def changed(name: str, changes: dict[str, Any]) -> fingerprint.Environment:
        groups = {
            group: replace(getattr(HERE, group), **changes.pop(group))
            for group in ("limits", "machine")
            if group in changes
        }
        return place(name, software=changes, **groups)

    environments = {"host": changed("host", dict(one)), "podman": changed("podman", dict(other))}
    cases = [case(**how)]
    (explanation,) = explained(made_study, cases, scattered(ratio), environments=environments).values()
    return [*explanation.causes]


ONE_THREAD: dict[str, Any] = {"threads": {"openblas": 1}, "variables": {"OMP_NUM_THREADS": "1"}}
TWO_THREADS: dict[str, Any] = {"threads": {"openblas": 2}, "variables": {}}
REFERENCE_BLAS: dict[str, Any] = {"providers": {"NumPy's gemm": Library(path="/usr/lib/libblas.so.3", build_id="aa")}}
OPENBLAS: dict[str, Any] = {"providers": {"NumPy's gemm": Library(path="/usr/lib/libopenblas.so.0", build_id="bb")}}


def test_fewer_threads_are_named_with_the_variable_that_sets_them(made_study: MadeStudy) -> None:
    words = "threads.openblas is 2 in host and 1 in podman; OMP_NUM_THREADS is none in host and 1 in podman"
    assert [f"fewer threads in podman: {words}"] == causes_of(made_study, 2.0, TWO_THREADS, ONE_THREAD)
    (faster,) = causes_of(made_study, 0.2, TWO_THREADS, ONE_THREAD)
    assert faster.startswith("fewer threads in podman: "), "they may have been in each other's way"
    assert causes_of(made_study, 2.0, TWO_THREADS, ONE_THREAD | {"threads": {"openblas": 0}}), "as a file may say"
    (more,) = causes_of(made_study, 0.5, ONE_THREAD, TWO_THREADS)
    assert more.startswith("more threads in podman: ")
    (more,) = causes_of(made_study, 0.1, ONE_THREAD, TWO_THREADS)
    assert more.endswith("; that makes a ratio of 0.354, no less")


@pytest.mark.parametrize(("ratio", "likely"), [(2.0, "fewer threads in podman"), (17.0, None)])
def test_a_cause_is_likely_where_it_can_do_so_much(made_study: MadeStudy, ratio: float, likely: str | None) -> None:
    environments = {name: place(name, software=threads) for name, threads in
                    (("host", TWO_THREADS), ("podman", ONE_THREAD))}  # fmt: skip
    found = explained(made_study, [case()], scattered(ratio), environments=environments)["gemm"]
    assert (1, likely) == (len(found.causes), found.likely)


def test_less_memory_makes_nothing_faster(made_study: MadeStudy) -> None:
    less: dict[str, Any] = {"limits": {"memory_limit_bytes": 2**30}}
    assert ["other memory: memory_limit_bytes is none in host and 1 GiB in podman"] == causes_of(
        made_study, 1.5, {}, less
    )
    assert [] == causes_of(made_study, 0.5, {}, less)
    assert len(causes_of(made_study, 0.5, less, {})) == 1
    other_node: dict[str, Any] = {"limits": {"memory_limit_bytes": 2**30, "memory_nodes_allowed": [1]}}
    assert len(causes_of(made_study, 0.5, {}, other_node)) == 1


def test_who_comes_last_is_not_the_faster_for_it(made_study: MadeStudy) -> None:
    niced: tuple[dict[str, Any], ...] = ({"limits": {"niceness": 0}}, {"limits": {"niceness": 10}})
    assert ["another priority: niceness is 0 in host and 10 in podman"] == causes_of(made_study, 1.5, *niced)
    assert [] == causes_of(made_study, 0.5, *niced)
    assert [] == causes_of(made_study, 1.5, *reversed(niced))
    batch: dict[str, Any] = {"limits": {"niceness": 0, "scheduling": "batch"}}
    assert 1 == len(causes_of(made_study, 0.5, niced[1], batch))


def test_a_cause_that_suffices_comes_before_threads_that_do_not(made_study: MadeStudy) -> None:
    blas, threads = causes_of(made_study, 17.0, TWO_THREADS | OPENBLAS, ONE_THREAD | REFERENCE_BLAS)
    assert blas == (
        "another BLAS: NumPy's gemm is /usr/lib/libopenblas.so.0, build id bb in host and /usr/lib/libblas.so.3, "
        "build id aa in podman"
    )
    assert threads.endswith("; that makes a ratio of 2.83, no more")


def test_a_blas_is_no_cause_of_what_does_not_multiply(made_study: MadeStudy) -> None:
    assert [] == causes_of(made_study, 1.5, OPENBLAS, REFERENCE_BLAS, primitive="launch")


@pytest.mark.parametrize(
    ("one", "other", "backend", "words"),
    [
        (
            {},
            {"variables": {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-ERMS"}},
            "numpy",
            "other tuning of the C library: GLIBC",
        ),
        (
            {"libraries": {"libc": [library("aa")]}},
            {"libraries": {"libc": [library("bb")]}},
            "numpy",
            "other libraries",
        ),
        (TWO_THREADS, ONE_THREAD, "torch", "fewer threads in podman"),
        (TWO_THREADS, ONE_THREAD, "numpy", None),
        (
            {"machine": {"transparent_hugepage": "always"}},
            {"machine": {"transparent_hugepage": "madvise"}},
            "numpy",
            "other huge pages",
        ),
    ],
)
def test_what_differs_makes_copies_slower_too(
    made_study: MadeStudy, one: dict[str, Any], other: dict[str, Any], backend: str, words: str | None
) -> None:
    copies = {"primitive": "memcpy", "parameters": {"direction": "h2h"}, "backend": backend}
    found = causes_of(made_study, 1.5, {"variables": {}, **one}, {"variables": {}, **other}, **copies)
    assert ([words] if words else []) == [cause[: len(words or "")] for cause in found]


def test_the_machine_comes_before_its_cpus_and_these_before_their_threads(made_study: MadeStudy) -> None:
    here = TWO_THREADS | {"limits": {"cpus_allowed": [0, 1]}, "machine": {"cpu_model": "Xeon"}}
    there = ONE_THREAD | {"limits": {"cpus_allowed": [3]}, "machine": {"cpu_model": "EPYC"}}
    found = causes_of(made_study, 2.0, here, there)
    assert "another machine: cpu_model is Xeon in host and EPYC in podman" == found[0]
    assert "fewer CPUs in podman: cpus_allowed is 0-1 in host and 3 in podman" == found[1]
    assert found[2].startswith("fewer threads in podman: ")


def test_a_variable_that_doctor_knows_is_told_once_and_by_its_name(made_study: MadeStudy) -> None:
    environments = {
        "host": place(software={"variables": {}}),
        "podman": place("podman", software={"variables": {"PYTHONMALLOC": "debug"}}),
    }
    found = explained(made_study, [case()], scattered(1.05), environments=environments)["gemm"]
    assert ["other settings of Python: PYTHONMALLOC is none in host and debug in podman"] == found.causes
    assert "other settings of Python: PYTHONMALLOC" == found.likely


def test_a_variable_that_one_arm_sets_and_no_library_reads_is_named_without_its_value(made_study: MadeStudy) -> None:
    arms = ["host", "host:env.SETTING_OF_A_USER=secret,name=podman"]
    found = explained(made_study, [case()], scattered(1.4), arms=arms)["gemm"]
    assert ["the variable SETTING_OF_A_USER is set in podman, which nothing is known to read"] == found.causes


def test_a_variable_that_need_not_be_alike_is_named_where_an_arm_sets_it(made_study: MadeStudy) -> None:
    """Such as the path of a sitecustomize that makes Python slower."""
    arms = ["host", "host:env.PYTHONPATH=/opt/site,env.LD_LIBRARY_PATH=/opt/lib,name=podman"]
    there = place(software={"variables": {"PYTHONPATH": "/opt/site", "LD_LIBRARY_PATH": "/opt/lib"}})
    environments = {"host": place(software={"variables": {}}), "podman": there}
    found = explained(made_study, [case()], scattered(1.4), arms=arms, environments=environments)["gemm"]
    assert ["the variable PYTHONPATH is set in podman"] == found.causes


def with_threads(results: Results, counts: dict[str, int], asked: int | None = None) -> Results:
    """The results with so many threads in the workers of an arm."""
    workers = [
        replace(each, placement=replace(each.placement, threads=counts[each.arm.name])) if each.arm else each
        for each in results.workers
    ]
    placed = [
        replace(each, case=replace(each.case, placement=Placement(threads=asked)))
        if each.case.arm == "podman"
        else each
        for each in results.records
    ]
    return replace(results, workers=workers, records=placed)


def test_threads_that_were_had_and_asked_for_are_told(made_study: MadeStudy) -> None:
    environments = {name: place(name, software={"threads": None}) for name in ("host", "podman")}
    study = made_study(["host", "podman"], [case()], scattered(1.6), environments=environments)
    found = first(compare(with_threads(study, {"host": 2, "podman": 1})))
    (explanation,) = [each.explanation for each in found.cases]
    assert explanation is not None
    assert ["2 threads in host and 1 thread in podman"] == explanation.causes
    comparison = compare(with_threads(study, {"host": 2, "podman": 2}, asked=1))
    (explanation,) = [each.explanation for each in first(comparison).cases]
    assert explanation is not None
    sentence = "podman was not placed as asked: threads=1, and the largest pool has 2 (numpy)"
    assert ([sentence], True) == (explanation.causes, sentence in comparison.notes)


def test_by_what_a_machine_is_reached_is_no_difference(made_study: MadeStudy) -> None:
    name = "ssh:far,runtime=podman,python=/opt/python3,config=/opt/ssh"
    arms = {each: place("podman" if each == name else "host") for each in ("ssh:near", name)}
    found = first(compare(made_study([*arms], [case()], scattered(1.0, 0.001), environments=arms)))
    told = [each.words for each in found.differing]
    assert [f"runtime.name is host in ssh:near and podman in {name}"] == [
        words for words in told if "in_container" not in words
    ]


def test_whatever_differs_is_told_though_nobody_knows_what_it_does(made_study: MadeStudy) -> None:
    """And though nothing is slower."""
    name = "podman:cap-drop=CHOWN,env.SETTING_OF_A_USER=secret"
    names = HERE.confinement.namespaces or {}
    confined = {"namespaces": {**names, "ipc": "ipc:[1]"}, "seccomp": "filter", "capabilities": ["CAP_KILL"]}
    free = {"namespaces": {**names, "ipc": "ipc:[2]"}, "seccomp": "disabled", "capabilities": ["CAP_KILL", "CAP_CHOWN"]}
    environments = {
        "host": place(confinement=free, software={"variables": {"OMP_NUM_THREADS": "1", "PYTHONPATH": "/a"}}),
        name: place("podman", confinement=confined, software={"variables": {"PYTHONPATH": "/b"}}),
    }
    arm = first(compare(made_study(["host", name], [case()], scattered(1.0, 0.001), environments=environments)))
    assert [None] == [each.explanation for each in arm.cases]
    told = {each.words: each.is_known for each in arm.differing}
    assert {
        "OMP_NUM_THREADS is 1 in host and none in " + name: True,
        "seccomp is disabled in host and filter in " + name: True,
        "runtime.name is host in host and podman in " + name: True,
        "runtime.in_container is no in host and yes in " + name: False,
        "capabilities has CAP_CHOWN in host alone": False,
        "PYTHONPATH is /a in host and /b in " + name: False,
        "cap-drop is not set in host and CHOWN in " + name: False,
        "the variable SETTING_OF_A_USER is set in " + name: False,
    } == {words: is_known for words, is_known in told.items() if "namespaces.ipc" not in words}


@pytest.mark.parametrize(
    ("arm", "fields", "without"),
    [
        ("enroot:image=x", {"libraries": {"libcublas": "cd"}}, None),
        ("ssh:far,runtime=docker,shm=1GiB", {"ipc": "ipc:[1]"}, "ssh:far,runtime=docker,ipc=host"),
        ("k8s:x", {"libraries": {"libcublas": "cd"}}, None),
        ("ssh:far,python=/in/a/namespace", {"net": "net:[1]"}, None),
    ],
)
def test_the_next_experiment_changes_one_thing_and_names_arms_that_there_can_be(
    arm: str, fields: dict[str, Any], without: str | None, made_study: MadeStudy
) -> None:
    environments = {"host": place(confinement={"set_mempolicy": "allowed"}), arm: place("docker", **differing(fields))}
    primitive = "memcpy" if "set_mempolicy" in fields else "allreduce"
    cases = [case(primitive, parameters={"direction": "h2h"} if primitive == "memcpy" else {"ranks": 2, "bytes": 4096})]
    found = explained(
        made_study, cases, scattered(1.5, arm=arm), arms=["host", arm], environments=environments
    )[primitive]  # fmt: skip
    where = f"--primitive {primitive} --backend numpy --device cpu"
    asked = f"primbench study --arm host --arm {arm} --arm {without} {where}"
    assert (asked if without else None) == found.next_experiment


def differing(fields: dict[str, Any]) -> dict[str, Any]:
    """For place(): the groups of an environment with one field that is not as it is here."""
    ((name, value),) = fields.items()
    if name in ("ipc", "net"):
        return {"confinement": {"namespaces": {**(HERE.confinement.namespaces or {}), name: value}}}
    if name == "shm_bytes":
        return {"limits": replace(HERE.limits, shm_bytes=value)}
    if name == "libraries":
        return {"software": {"python_version": "3.99"}}
    return {"confinement": {name: value}}


@pytest.mark.parametrize(("ratio", "places"), [(1.1, "host podman"), (0.9, "podman host")])
def test_where_settings_lie_between_two_places_why_asks_about_them(
    ratio: float, places: str, made_study: MadeStudy
) -> None:
    """The fast one comes first."""
    found = explained(made_study, [case()], scattered(ratio), environments={"podman": place("podman")})["gemm"]
    where = "--backend numpy --device cpu"
    sizes = "--m 64 --n 64 --k 64 --accumulate float32"
    assert f"primbench why {places} --primitive 'gemm {sizes}' {where}" == found.next_experiment


@pytest.mark.parametrize(
    ("placed", "first", "without"),
    [
        (Placement(), "host", "podman:image=mine,env.A=b"),
        (Placement(numa_node=0, threads=1), "host:numa-node=0,threads=1",
         "podman:image=mine,numa-node=0,threads=1,env.A=b"),
    ],
)  # fmt: skip
def test_the_next_experiment_keeps_all_other_settings(
    placed: Placement, first: str, without: str, made_study: MadeStudy
) -> None:
    """Those of the arm, and a placement that was given to all arms."""
    arm = "podman:image=mine,cpus=0.5,env.A=b"
    limits = replace(HERE.limits, cpu_quota=0.5, cpu_period_s=0.1, throttled_periods=9)
    found = explained(
        made_study, [case(placement=placed)], scattered(1.4, arm=arm), arms=["host", arm],
        environments={"host": place(), arm: place("podman", limits=limits)},
    )["gemm"]  # fmt: skip
    asked = found.next_experiment.split()
    arms = [asked[number + 1] for number, word in enumerate(asked) if word == "--arm"]
    assert [first, without] == arms[::2]
    assert without.replace("image=mine,", "image=mine,cpus=0.5,") == arms[1]


def test_another_stack_is_to_be_measured_on_the_same_one(made_study: MadeStudy) -> None:
    other = place("podman")
    other = replace(other, software=replace(other.software, libraries={"libcublas": [library("cd")]}))
    environments = {"host": place(), "podman:image=mine": other}
    found = explained(
        made_study, [case()], scattered(1.4, arm="podman:image=mine"), arms=["host", "podman:image=mine"],
        environments=environments,
    )["gemm"]  # fmt: skip
    where = "--primitive gemm --backend numpy --device cpu --other-builds"
    assert found.next_experiment.endswith(f"--arm host --arm podman:image=mine --arm podman {where}")


def test_another_board_of_the_same_kind_is_named_as_the_cause(made_study: MadeStudy) -> None:
    def measured(arm: str, case: Case, pair: int) -> Measurement:
        return on_gpu(3e-6, 50e-6 * jitter(pair) * (1.1 if arm == "podman" else 1), 60e-6)

    def seeing(runtime: str, *uuids: str | None) -> fingerprint.Environment:
        gpus = [Gpu(name="H200", uuid=uuid, pci_address="00:01.0") for uuid in uuids]
        return place(runtime, devices=replace(HERE.devices, gpus=gpus))

    def other_gpus(*uuids: str | None) -> list[str]:
        environments = {"host": seeing("host", "GPU-a", "GPU-b"), "podman": seeing("podman", *uuids)}
        found = explained(made_study, [case(device="cuda:1")], measured, environments=environments)["gemm"]
        return [cause for cause in found.causes if "another GPU" in cause]

    (cause,) = other_gpus("GPU-b", "GPU-c")
    assert cause.startswith("another GPU: GPU-c at 00:01.0 in podman, GPU-b at 00:01.0 in host, ")
    assert cause.endswith("env.CUDA_VISIBLE_DEVICES=GPU-b")
    assert [] == other_gpus("GPU-c", "GPU-b") == other_gpus("GPU-a", None) == other_gpus("GPU-b")


def test_the_board_of_another_machine_is_named_and_not_asked_for(made_study: MadeStudy) -> None:
    def measured(arm: str, case: Case, pair: int) -> Measurement:
        return on_gpu(3e-6, 50e-6 * jitter(pair) * (1.1 if arm == "b" else 1), 60e-6)

    def run_with(name: str, gpu: Gpu) -> Results:
        environments = {name: place(devices=replace(HERE.devices, gpus=[gpu]))}
        found = made_study([f"host:name={name}"], [case(device="cuda:0")], measured, environments=environments)
        plain = [replace(each, arm=None) for each in found.workers]
        return replace(found, header=replace(found.header, study=None), workers=plain)

    one, other = run_with("a", Gpu(name="H100", uuid="GPU-a")), run_with("b", Gpu(name="H200", uuid="GPU-b"))
    (found,) = first(compare_runs([one] * 3, [other] * 3, ("a.jsonl", "b.jsonl"))).cases
    assert found.explanation is not None
    assert "another GPU: GPU-b in b.jsonl, GPU-a in a.jsonl" in found.explanation.causes


def test_equal_places_have_no_known_cause(made_study: MadeStudy) -> None:
    environments = {"host": place(), "podman": place("podman")}
    found = explained(made_study, [case()], scattered(1.1), environments=environments)["gemm"]
    assert [] == found.causes


def test_what_is_equivalent_needs_no_explanation(made_study: MadeStudy) -> None:
    assert {"gemm": None} == explained(made_study, [case()], scattered(1.0, 0.001))
