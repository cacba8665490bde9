"""The host against itself: what is told of made times, and of real processes."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from msgspec.structs import replace

from primbench.compare.pairs import compare
from primbench.errors import InvalidRequest
from primbench.experiments import selftest
from primbench.experiments.selftest import KindOfCase, least, self_test
from primbench.measurement import Measurement, Samples
from primbench.registry import build
from primbench.results.file import Results
from primbench.spec.case import Case

MadeStudy = Callable[..., Results]
Invoke = Callable[..., Result]

CASE = Case(primitive="gemm", parameters=build("gemm", {"m": 64, "n": 64, "k": 64}).parameters(), backend="numpy",
            device="cpu")  # fmt: skip
HOST, AGAIN = "host", "host (again)"


@pytest.fixture
def against_itself(made_study: MadeStudy) -> Callable[..., Results]:
    """A study of so many pairs; the second run takes ``longer``, and pairs scatter by some percent."""

    def make(pairs: int, longer: float = 1.0) -> Results:
        def measured(arm: str, case: Case, pair: int) -> Measurement:
            factor = longer if arm == AGAIN else 1.0
            seconds = 1e-3 * factor * (1 + 2e-3 * math.sin(7 * pair + len(arm)))
            return Measurement(
                batch_s=Samples(
                    samples_s=[seconds] * 7,
                    calls_per_sample=1,
                    taken_by="host clock",
                    stopped="noise",
                )
            )

        found = made_study([HOST, AGAIN], [CASE], measured, pairs=pairs)
        moments = [f"2026-11-28T10:00:{2 * number:02d}+00:00" for number in range(len(found.records))]
        records = [
            replace(each, started_utc=at, duration_s=0.5) for each, at in zip(found.records, moments, strict=True)
        ]
        return replace(
            found,
            header=replace(found.header, started_utc="2026-11-28T10:00:00+00:00"),
            records=records,
        )

    return make


@pytest.mark.parametrize(("pairs", "ways"), [(3, 4), (6, 32), (10, 64)])
def test_false_alarms_are_of_all_ways_to_swap_the_processes_of_pairs(
    against_itself: Callable[..., Results], pairs: int, ways: int
) -> None:
    found = against_itself(pairs)
    tested = self_test(found, compare(found))
    assert (pairs, ways, 0.0) == (
        tested.pairs,
        tested.relabellings,
        tested.false_alarms,
    )


def test_a_difference_that_is_no_chance_is_an_alarm_in_the_ways_that_keep_it(
    against_itself: Callable[..., Results],
) -> None:
    found = against_itself(6, longer=1.1)
    assert 0 < self_test(found, compare(found)).false_alarms < 0.2


def test_the_least_difference_is_of_the_scatter_and_of_the_pairs_that_fit(
    against_itself: Callable[..., Results],
) -> None:
    found = against_itself(6)
    (kind,) = self_test(found, compare(found)).kinds
    assert ("gemm", "batch_s") == (kind.primitive, kind.metric)
    assert kind.pair_s == pytest.approx((11 * 2 + 0.5) / 6), "with what no case took"
    assert {
        1: least(kind.deviation, int(60 / kind.pair_s)),
        5: least(kind.deviation, int(300 / kind.pair_s)),
    } == kind.told
    assert kind.told[1] is not None
    needed_s = kind.needs_s(kind.told[1])
    assert needed_s is not None
    assert needed_s <= 60


def test_two_pairs_tell_nothing(against_itself: Callable[..., Results]) -> None:
    found = against_itself(2)
    with pytest.raises(
        InvalidRequest,
        match=r"^2 pairs of processes were measured whole, and 3 tell of scatter: ",
    ):
        self_test(found, compare(found))
    assert least(0.01, 1) is None


def test_what_is_kept_stands_by_what_is_undecided_on_the_same_machine(
    against_itself: Callable[..., Results],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = against_itself(3)
    comparison = compare(found)
    assert comparison.again is not None
    cases = [replace(each, verdict="inconclusive") for each in comparison.again.cases]
    swapped = replace(comparison, arms=[replace(comparison.again, cases=cases)], again=None)  # as of another arm
    environment = found.header.environment
    assert [] == selftest.notes(swapped, environment), "nothing is kept yet"
    tested = replace(
        self_test(found, comparison),
        kinds=[
            KindOfCase(
                primitive="gemm",
                metric="batch_s",
                deviation=0.01,
                pair_s=12.0,
                told={1: 0.01, 5: 0.005},
            )
        ],
    )
    assert tmp_path / "cache/primbench/selftest.json" == selftest.keep(tested)
    assert ["here 1.0% of gemm takes about 2 minutes, by the last `primbench selftest`"] == selftest.notes(
        swapped, environment
    )
    other = replace(environment, machine=replace(environment.machine, cpus_total=999))
    assert [] == selftest.notes(swapped, other)
    selftest.place().write_text("{")
    assert [] == selftest.notes(swapped, environment)
