"""Whether the CPU was slow for two places alike, so that samples beside a slow one may be left out of both."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.compare.ratio import Slowed
from primbench.results import cpu_speed
from primbench.results.cpu_speed import SLOWED
from primbench.results.metrics import SAMPLED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from primbench.compare.matching import Ratio
    from primbench.compare.sides import Side
    from primbench.results.cpu_speed import Speed

UNLIKE = 0.01
"""Where chance alone makes shares so unlike, ratios of all samples are off: with 5 %, their intervals held the truth in
92 to 93 % of studies of equal arms, with this in 94 to 95.
"""
ALIKE = 0.1
"""Shares that differ by less are alike, if their 90 % interval says so: what takes 1.4 times as long beside a slow CPU
moves a mean by 4 % then.
"""


def slowed(baseline: Side, arm: Side, key: bytes, ratio: Ratio) -> Slowed | None:
    """None where no loop was timed on one side."""
    if key not in baseline.speeds or key not in arm.speeds:
        return None
    found = _shares(baseline.slowed(key), arm.slowed(key), ratio)
    if found is None or _are_as_fast(baseline.speeds[key], arm.speeds[key]):
        return found
    return replace(found, may_be_alike=False, are_alike=False)


def held_up(baseline: Side, arm: Side, key: bytes, ratio: Ratio) -> Slowed | None:
    """As ``slowed``, by the shares in which another program held the process up; None where one side does not know."""
    return _shares(_held_up(baseline, key), _held_up(arm, key), ratio)


def _held_up(side: Side, key: bytes) -> dict[int, float]:
    """Process -> the share of the time from loop to loop in which another program held it up."""
    laps: dict[int, list[bool]] = {}
    for record in side.cases[key]:
        sampled = [metric.distinct_samples(record.measurement) for metric in SAMPLED if record.measurement]
        laps.setdefault(record.case.process, []).extend(
            lap for each in sampled if each for lap in cpu_speed.held_up(each)
        )
    return {process: sum(each) / len(each) for process, each in laps.items() if each}


def _shares(here: Mapping[int, float], there: Mapping[int, float], ratio: Ratio) -> Slowed | None:
    found = ratio(_as_ratios(there), _as_ratios(here))
    if found is None:
        return None
    difference, _ = found
    p = difference.p()
    may_be_alike = p is None or p > UNLIKE
    are_alike = may_be_alike and bool(difference.is_within(math.expm1(ALIKE)))
    return Slowed(baseline=_mean(here), arm=_mean(there), may_be_alike=may_be_alike, are_alike=are_alike)


def _as_ratios(shares: Mapping[int, float]) -> dict[int, float]:
    """Of which a ratio takes the logarithms, to give the difference of the shares."""
    return {process: math.exp(share) for process, share in shares.items()}


def _are_as_fast(one: Speed, other: Speed) -> bool:
    quick_s, slow_s = sorted((one.full_s, other.full_s))
    return slow_s <= SLOWED * quick_s


def _mean(shares: Mapping[int, float]) -> float:
    return math.fsum(shares.values()) / len(shares)
