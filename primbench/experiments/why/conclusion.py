"""What an investigation came to, as data."""

from __future__ import annotations

from typing import Literal

import msgspec

from primbench.experiments.why.rounds import RatioInterval, Subset

Role = Literal["adds", "only together", "enough by itself", "takes away"]
Resolution = Literal["no difference", "undecided", "explained", "partly explained", "not found", "failed"]


class Contribution(msgspec.Struct, frozen=True, kw_only=True):
    """What one difference of a proven set does, beside the others of the set and without them."""

    difference: int
    """Its number."""
    role: Role | None
    """None where it cannot be told, as one of the places does not run."""
    added: RatioInterval | None
    """The time with the whole set in FAST over the time with all of the set but this."""
    alone: RatioInterval | None
    """The time in SLOW with this alone of the set over the time in SLOW without the set."""
    share: float | None
    """Of what SLOW takes longer than FAST, in seconds: the mean of both. Below 0 where it takes away."""


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """A set of differences that harms FAST and whose absence heals SLOW, by pairs measured after it was suspected."""

    differences: Subset
    """The set."""
    base: Subset
    """What was proven before, and was in FAST, too, while this was proven."""
    harms: RatioInterval
    """The time in FAST with the set over the time in FAST."""
    heals: RatioInterval
    """The time in SLOW over the time in SLOW without the set."""
    contributions: tuple[Contribution, ...]
    """One of each difference."""
    share: float | None
    """Of what SLOW takes longer than FAST, in seconds: the mean of both directions."""
    pairs: int
    """That it is proven by."""
    repeated: bool | None = None
    """Whether it was there again after a pause; None where that was not asked."""


class Conclusion(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of why SLOW differs from FAST."""

    outcome: Resolution
    """Explained: sets are proven, and what is left cannot be told from nothing, or is below half a margin. Partly
    explained: something is certainly left. Not found: there is an effect, and no set is proven. Undecided: there may be
    an effect. Failed: FAST or SLOW does not run."""
    effect: RatioInterval | None
    """The time in SLOW over the time in FAST."""
    proofs: tuple[Proof, ...]
    """In the order in which they were found."""
    unexplained: RatioInterval | None
    """The time in SLOW over the time in FAST with all that is proven. Its interval has what equal places are off by;
    None where nothing is proven."""
    passed: tuple[Proof, ...]
    """Proven, and not there again after the pause."""
    refuted: tuple[Subset, ...]
    """Put to the test by fresh pairs, and not proven."""
    suspects: tuple[tuple[Subset, float], ...]
    """Not proven: the likeliest sets, each with its probability."""
    failed: tuple[tuple[Subset, str], ...]
    """Subsets that do not run, each with the reason that was told first."""
    pairs: int
    """That were measured."""
    places: int
    """Distinct designs that were measured."""
    scatter: float | None
    """Of one process beside another of its pair: the standard deviation of the logarithm of its time."""
    pairs_to_decide: int | None
    """About how many pairs would decide what is not; None where everything is, or where no number would."""
    final: bool
    """Whether nothing is left to measure."""
