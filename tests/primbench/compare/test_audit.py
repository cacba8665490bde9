"""Verdicts are as rarely wrong, and find as much, as they are to: `bench/audit.py` has a longer table."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pytest

from bench import audit
from bench.audited_studies import launches
from primbench.compare.ratio import WITHIN_MARGIN


@pytest.fixture
def dice() -> np.random.Generator:
    return np.random.default_rng(14)


@pytest.mark.parametrize(("pairs", "twice"), [(8, False), (35, True)])
def test_equal_arms_are_rarely_different_and_intervals_hold_the_truth(
    dice: np.random.Generator, pairs: int, twice: bool
) -> None:
    found = audit.of_equal_arms([launches()], dice, 150, pairs, twice=twice)
    assert found.false_alarms <= 0.05
    assert 0.93 <= found.coverage <= 0.97


@pytest.mark.parametrize(("pairs", "twice"), [(8, False), (16, True)])
def test_what_differs_by_the_margin_is_rarely_equivalent(dice: np.random.Generator, pairs: int, twice: bool) -> None:
    assert audit.share(audit.told(launches(), dice, 100, pairs, 1.05, twice=twice), *WITHIN_MARGIN) <= 0.06


def test_nor_is_it_where_a_study_looks_to_end(dice: np.random.Generator) -> None:
    ended, _ = audit.settled(launches(), dice, 60, 1.05)
    assert audit.share(ended, *WITHIN_MARGIN) <= 0.06


def test_ten_percent_of_a_launch_are_found(dice: np.random.Generator) -> None:
    assert audit.share(audit.told(launches(), dice, 150, 8, 1.1, twice=True), "slower") >= 0.85


@pytest.mark.parametrize(
    ("make", "verdicts", "at_least", "at_most"),
    [
        (partial(audit.sometimes_slow, p=0.15), ("equivalent", "different-but-small"), 0.0, 0.15),
        (partial(audit.sometimes_slow, p=0.3), ("equivalent", "different-but-small"), 0.0, 0.15),
        (audit.lost_mean, ("slower",), 1.0, 1.0),
        (audit.moody, ("slower", "faster"), 0.0, 0.0),
        (audit.about_the_margin, ("inconclusive",), 0.0, 0.0),
        (audit.failing, ("inconclusive",), 1.0, 1.0),
    ],
)
def test_what_is_made_has_the_verdict_that_it_is_to_have(
    dice: np.random.Generator, make: Any, verdicts: tuple[str, ...], at_least: float, at_most: float
) -> None:
    found = audit.share(Counter(make(dice).verdict for _ in range(150)), *verdicts)
    assert at_least <= found <= at_most
