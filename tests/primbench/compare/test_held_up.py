"""Verdicts are as rarely wrong where samples are left out that another program held up: by made processes, seeded."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from msgspec.structs import replace

from primbench.compare.matching import Matching, paired
from primbench.compare.ratio import WITHIN_MARGIN
from primbench.compare.sides import Side
from primbench.compare.verdicts import verdicts
from primbench.measurement import Measurement, Samples
from primbench.measurement.readings import Turns
from primbench.registry import build
from primbench.results.record import Record
from primbench.spec.case import Case

SHAPE = {"m": 512, "n": 512, "k": 512}
GEMM = Case(primitive="gemm", parameters=build("gemm", SHAPE).parameters(), backend="numpy", device="cpu")
TURNS = Turns(count=60, cpu=None, waited_s=0.1, queued_s=None, uncounted_s=0.01)
MOMENTS = 40


def process(dice: np.random.Generator, call_s: float, is_loaded: np.ndarray) -> Measurement:
    """Calls of two threads, of which one waits, in two of three calls under load, for some slices of 4 ms.

    That makes a call longer by half of it to a little more.
    """
    count = int(MOMENTS * dice.uniform(0.7, 1.3))
    waits = is_loaded[MOMENTS * np.arange(count) // count] & (dice.random(count) < 0.7)
    queued_s = np.where(waits, 4e-3 * (1 + dice.poisson(3, count)), dice.exponential(1e-5, count))
    taken_s = call_s * np.exp(dice.normal(0, 0.03, count)) + queued_s * dice.uniform(0.5, 1.3, count)
    batch_s = Samples(
        samples_s=taken_s.tolist(), calls_per_sample=1, taken_by="host clock", stopped="max time",
        loops_s=[(number, 25e-6) for number in range(count)], queued_s=queued_s.tolist(),
    )  # fmt: skip
    return Measurement(batch_s=batch_s, turns=TURNS)


def verdict(dice: np.random.Generator, factor: float, pairs: int = 8) -> str | None:
    """Of an arm that takes ``factor`` times as long as the baseline, which is run twice."""
    records: dict[str, list[Record]] = {"host": [], "again": [], "arm": []}
    for pair in range(pairs):
        share = 1.0 if dice.random() < 0.3 else dice.random()  # of the moments, four at a time, that have the load
        is_loaded = np.repeat(dice.random(MOMENTS // 4) < share, 4)
        pair_s = 2e-3 * math.exp(dice.normal(0, 0.02))
        for name, found in records.items():
            measurement = process(dice, pair_s * (factor if name == "arm" else 1.0), is_loaded)
            case = replace(GEMM, arm=name, process=pair)
            found.append(Record(case=case, status="ok", started_utc="", duration_s=1.0, measurement=measurement))
    host, again, arm = (Side(name=name, records=found, workers={}) for name, found in records.items())
    return verdicts(host, [arm], again, Matching(paired)).arms[0].cases[0].verdict


@pytest.mark.parametrize(
    ("factor", "wrong", "at_most"), [(1.0, ("slower", "faster"), 0.05), (1.01, WITHIN_MARGIN, 0.06)]
)
def test_equal_arms_are_rarely_different_and_unequal_ones_rarely_equivalent(
    factor: float, wrong: tuple[str, ...], at_most: float
) -> None:
    dice = np.random.default_rng(14)
    found = Counter(verdict(dice, factor) for _ in range(80))
    assert sum(found[word] for word in wrong) <= at_most * found.total()


def test_three_percent_are_found() -> None:
    dice = np.random.default_rng(14)
    assert 50 == Counter(verdict(dice, 1.03) for _ in range(50))["slower"]
