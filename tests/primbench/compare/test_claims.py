"""Whether a published ratio agrees with an interval here, by the rule that docs/measured.md states."""

from __future__ import annotations

import math
import statistics

import pytest

from primbench.compare.claims import answer, interval_of, ratio_of
from primbench.compare.ratio import Estimate
from primbench.spec.published import Claim, ClaimedValue

NO = "not reproduced with equal stacks"
EQUAL = Claim(says="equal", ratio=1.0)
SLOWER = Claim(says="slower", slower=True)
NATIVE = ClaimedValue(place="native", mean=82.94, std=0.98, runs=100)
SINGULARITY = ClaimedValue(place="Singularity", mean=110.34, std=0.85, runs=100)
TRAINED = Claim(says="SNN training", first=NATIVE, second=SINGULARITY)


def here(low: float, high: float, margin: float = 0.02) -> Estimate:
    ratio = math.sqrt(low * high)
    return Estimate(
        metric="batch_s", primary=True, judges=True, pairs=8, baseline_s=1.0, arm_s=ratio, ratio=ratio,
        interval=(low, high), margin=margin,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("claim", "low", "high", "said"),
    [
        (EQUAL, 0.999, 1.001, "reproduced"),
        (EQUAL, 0.981, 1.0199, "reproduced"),
        (EQUAL, 0.93, 1.16, "undecided"),
        (EQUAL, 1.01, 1.03, "undecided"),
        (EQUAL, 1.021, 1.03, NO),
        (EQUAL, 0.9, 0.98, NO),
        (Claim(says="a fifth fewer", ratio=1.25), 0.93, 1.02, NO),
        (Claim(says="a fifth fewer", ratio=1.25), 1.1, 1.4, "undecided"),
        (Claim(says="a fifth fewer", ratio=1.25), 1.23, 1.27, "reproduced"),
        (SLOWER, 0.999, 1.001, NO),
        (SLOWER, 1.001, 1.019, NO),
        (SLOWER, 1.01, 1.04, "undecided"),
        (SLOWER, 1.03, 1.5, "reproduced"),
        (TRAINED, 0.95, 1.05, NO),
        (TRAINED, 1.31, 1.35, "reproduced"),
        (TRAINED, 1.29, 1.35, "undecided"),
    ],
)
def test_the_rule(claim: Claim, low: float, high: float, said: str) -> None:
    assert said == answer(claim, here(low, high))


def test_a_wider_margin_agrees_with_more() -> None:
    assert [NO, "undecided", "reproduced"] == [
        answer(EQUAL, here(1.03, 1.04, margin)) for margin in (0.02, 0.035, 0.05)
    ]


def test_nothing_is_told_without_an_interval_or_a_number() -> None:
    one = here(1.0, 1.0)
    assert "not measured here" == answer(EQUAL, None)
    assert "not measured here" == answer(Claim(says="the image has 4.91 GB"), one)
    for found in (
        Estimate(metric="batch_s", primary=True, judges=True, pairs=1, baseline_s=1, arm_s=1, ratio=1.0, margin=0.02),
        Estimate(metric="batch_s", primary=True, judges=True, pairs=8, baseline_s=1, arm_s=1, ratio=1.0, margin=0.02,
                 interval=(1.0, 1.0), is_too_busy=True),
    ):  # fmt: skip
        assert "undecided" == answer(EQUAL, found)


def test_the_published_interval_is_that_of_a_ratio_of_two_means() -> None:
    """By ratios of means that are drawn; the seed is fixed."""
    draws = [statistics.NormalDist(each.mean, (each.std or 0) / 10).samples(20_000, seed=seed)
             for seed, each in enumerate((SINGULARITY, NATIVE))]  # fmt: skip
    ratios = sorted(above / below for above, below in zip(*draws, strict=True))
    assert pytest.approx((ratios[500], ratios[-501]), rel=5e-4) == interval_of(TRAINED)
    assert pytest.approx(110.34 / 82.94) == ratio_of(TRAINED)
    single = ClaimedValue(place="native", mean=5.2, runs=1)
    assert interval_of(Claim(says="once", first=single, second=SINGULARITY)) is None
    assert interval_of(EQUAL) is None
