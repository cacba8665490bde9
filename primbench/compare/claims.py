"""Whether times here are what was published: a published ratio against an interval of one here."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from primbench.compare.ratio import Estimate
    from primbench.spec.published import Claim, ClaimedValue

ClaimAnswer = Literal["reproduced", "not reproduced with equal stacks", "undecided", "not measured here"]

_NORMAL_95 = statistics.NormalDist().inv_cdf(0.975)


def ratio_of(claim: Claim) -> float | None:
    """The published ratio of times, the second place over the first; None where no number was published."""
    if claim.first is not None and claim.second is not None:
        return claim.second.mean / claim.first.mean
    return claim.ratio


def interval_of(claim: Claim) -> tuple[float, float] | None:
    """Its 95 % interval, by the published standard deviations; None where these are not known.

    That of the logarithm of a ratio of two means, to the first order.
    """
    if claim.first is None or claim.second is None:
        return None
    errors = [_relative_error(each) for each in (claim.first, claim.second)]
    known = [each for each in errors if each is not None]
    if len(known) < len(errors):
        return None
    ratio, wide = claim.second.mean / claim.first.mean, math.exp(_NORMAL_95 * math.hypot(*known))
    return ratio / wide, ratio * wide


def _relative_error(value: ClaimedValue) -> float | None:
    """Of its mean."""
    return None if value.std is None or value.runs < 2 else value.std / value.mean / math.sqrt(value.runs)


def agreeing(claim: Claim, margin: float) -> tuple[float, float] | None:
    """The ratios that agree with a claim: the published interval, or ratio, and the margin to both sides of it.

    Of a place that is said to be slower, and not by how much, all that are beyond the margin. None where the claim is
    not of times.
    """
    if claim.slower:
        return 1 + margin, math.inf
    if (ratio := ratio_of(claim)) is None:
        return None
    low, high = interval_of(claim) or (ratio, ratio)
    return low / (1 + margin), high * (1 + margin)


def answer(claim: Claim, found: Estimate | None) -> ClaimAnswer:
    """found: what the case that the claim is of takes here, by its primary metric; None where nothing was compared.

    Reproduced: the whole 95 % interval agrees with the claim. Not reproduced: none of it does. Else undecided, as where
    there is no interval, or the machine was too busy to tell.
    """
    if found is None or (agrees := agreeing(claim, found.margin)) is None:
        return "not measured here"
    if found.interval is None or found.is_too_busy or found.is_one_run:
        return "undecided"
    return _beside(found.interval, agrees)


def _beside(interval: tuple[float, float], agrees: tuple[float, float]) -> ClaimAnswer:
    (least, most), (low, high) = interval, agrees
    if low <= least and most <= high:
        return "reproduced"
    return "not reproduced with equal stacks" if most < low or high < least else "undecided"
