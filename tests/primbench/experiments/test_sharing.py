"""How long a metric is worth sampling, by processes whose scatter is known because it was made."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from primbench.experiments import sharing
from primbench.experiments.sharing import LEAST_PAIRS, Sharing, shares
from primbench.measurement import Measurement, Samples
from primbench.measurement.readings import Turns
from primbench.results.record import Record
from primbench.spec.case import Case
from primbench.spec.method import Method

QUICK = Method(min_time_s=0.001)
GEMM = Case(primitive="gemm", parameters={"m": 8, "n": 8, "k": 8}, backend="numpy", device="cpu", method=QUICK)
CALL_S = 1e-3
COUNT = 400  # samples of a process, which it takes 0.4 s to take
BESIDES_S = 0.5
TURNS = Turns(count=9, cpu=0, waited_s=1.0, queued_s=0.0, uncounted_s=0.0)


def process(
    rng: random.Random, pair: int, arm: str, *, within: float, between: float, common: Callable[[int], float]
) -> Record:
    own = rng.gauss(0, between)
    times_s = [CALL_S * math.exp(own + common(i) + rng.gauss(0, within)) for i in range(COUNT)]
    return record(pair, arm, times_s)


def record(pair: int, arm: str, times_s: list[float], case: Case = GEMM) -> Record:
    samples = Samples(samples_s=times_s, calls_per_sample=1, taken_by="host clock", stopped="max time")
    return Record(
        case=replace(case, process=pair, arm=arm),
        status="ok",
        measurement=Measurement(batch_s=samples, wall_s=samples, turns=TURNS),
        started_utc="2026-11-22T00:00:00+00:00",
        duration_s=BESIDES_S + sum(times_s),
    )


def study(
    pairs: int, *, within: float, between: float, common: Callable[[int], float] = lambda sample: 0.0
) -> list[list[Record]]:
    rng = random.Random(1)
    return [
        [process(rng, pair, arm, within=within, between=between, common=common) for arm in ("here", "there")]
        for pair in range(pairs)
    ]


@pytest.mark.parametrize(("within", "between"), [(0.1, 0.01), (0.1, 0.03), (0.02, 0.01), (0.3, 0.02)])
def test_the_share_is_the_root_of_cost_times_the_ratio_of_variances(within: float, between: float) -> None:
    """A second holds 1000 samples, of whose median the variance is pi/2 of the mean's."""
    expected = math.sqrt(BESIDES_S * (math.pi / 2 * within**2 * CALL_S) / between**2)
    found = shares(GEMM, study(60, within=within, between=between))
    assert found["batch_s"] == pytest.approx(expected, rel=0.35)


def test_what_processes_of_a_pair_have_in_common_is_no_scatter() -> None:
    quiet = shares(GEMM, study(20, within=0.05, between=0.02))
    waves = shares(GEMM, study(20, within=0.05, between=0.02, common=lambda sample: 0.05 * math.sin(sample / 40)))
    assert quiet["batch_s"] == pytest.approx(waves["batch_s"], rel=0.3)


@pytest.mark.parametrize("slower", [0.03, 0.3])
def test_what_an_arm_differs_by_in_every_pair_is_no_scatter(slower: float) -> None:
    pairs = study(20, within=0.1, between=0.01)
    slowed = [[here, _slowed(there, 1 + slower)] for here, there in pairs]
    assert shares(GEMM, slowed)["wall_s"] == pytest.approx(shares(GEMM, pairs)["wall_s"], rel=slower)  # seconds grow


def _slowed(found: Record, times: float) -> Record:
    assert found.measurement is not None
    assert found.measurement.batch_s is not None
    samples_s = [times * each for each in found.measurement.batch_s.samples_s]
    return record(found.case.process, found.case.arm, samples_s)


def test_what_differs_no_more_from_process_to_process_than_within_is_sampled_longer() -> None:
    share_s = shares(GEMM, study(40, within=0.5, between=0.0)).get("batch_s", math.inf)
    assert share_s > CALL_S * COUNT


def test_a_tail_that_is_judged_keeps_all_its_samples() -> None:
    launch = replace(GEMM, primitive="launch", parameters={"call": "getppid"})
    pairs = study(10, within=0.1, between=0.03)
    assert ["batch_s"] == list(shares(launch, pairs))
    assert {"batch_s", "wall_s"} == set(shares(GEMM, pairs))


@pytest.mark.parametrize("times_s", [[CALL_S] * (2 * sharing.PARTS - 1), [0.0] * COUNT])
def test_too_few_samples_tell_nothing_and_neither_do_times_of_0(times_s: list[float]) -> None:
    pairs = study(10, within=0.1, between=0.03)
    pairs[3][1] = record(3, "there", times_s)
    assert {} == shares(GEMM, pairs)


def test_the_main_metric_is_sampled_as_long_as_was_asked_for_at_least() -> None:
    asked = replace(GEMM, method=Method(min_time_s=0.25))
    found = shares(asked, study(10, within=0.02, between=0.1))
    assert 0.25 == found["batch_s"] > found["wall_s"]


def test_rounds_over_places_in_memory_have_no_share() -> None:
    pairs = study(10, within=0.1, between=0.03)
    for places, expected in ((1, ["device_s"]), (16, [])):
        on_gpu = [[replace(each, measurement=_on_gpu(each, places)) for each in pair] for pair in pairs]
        assert expected == list(shares(GEMM, on_gpu))


def _on_gpu(found: Record, places: int) -> Measurement:
    assert found.measurement is not None
    return Measurement(device_s=found.measurement.batch_s, places=places, turns=TURNS)


def test_it_is_learnt_from_the_first_pairs_and_kept() -> None:
    pairs, records = study(LEAST_PAIRS + 1, within=0.1, between=0.03), list[Record]()
    share, found = Sharing(records), []
    for pair in pairs:
        found.append(share(GEMM))
        records += pair
    assert LEAST_PAIRS * [{}] == found[:LEAST_PAIRS]
    assert shares(GEMM, pairs[:LEAST_PAIRS]) == found[LEAST_PAIRS] == share(GEMM)
    assert found[LEAST_PAIRS]
    assert found[LEAST_PAIRS] == Sharing(records)(GEMM), "a study that goes on with its file"
    assert {} == share(replace(GEMM, method=Method(max_time_s=3))), "another case"


def test_pairs_in_which_an_arm_failed_do_not_count_and_their_order_does_not_matter() -> None:
    whole = study(LEAST_PAIRS, within=0.1, between=0.03)
    mirrored = [pair[:: -1 if pair[0].case.process % 2 else 1] for pair in whole]
    lacking = record(LEAST_PAIRS, "here", [CALL_S] * COUNT)
    for pairs in ([*mirrored, [lacking]], [[lacking], *mirrored]):
        assert shares(GEMM, whole) == Sharing([each for pair in pairs for each in pair])(GEMM)


def test_pairs_in_which_fewer_than_two_took_turns_do_not_count() -> None:
    pairs = study(LEAST_PAIRS, within=0.1, between=0.03)
    alone = replace(pairs[0][0], measurement=Measurement(missing={"turns": "not beside other arms"}))
    failed = replace(pairs[1][0], status="failed", measurement=None)
    for lacking in (alone, failed):
        assert {} == Sharing([lacking, pairs[0][1], *pairs[1], *pairs[2]])(GEMM)
