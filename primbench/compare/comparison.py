"""What a comparison says, as data: verdicts case by case, and what explains them. Times in seconds."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from primbench.arms import Arm
from primbench.doctor import Part
from primbench.environment.difference import Difference
from primbench.record import Case

Verdict = Literal["slower", "faster", "equivalent", "different-but-small", "inconclusive"]
Effect = Literal["stack effect", "machine effect", "container effect", "place effect"]

FALSE_DISCOVERIES = 0.05
"""How many of the differences that are called some may be none: Benjamini and Hochberg's q."""

FAR = 0.1
"""From here on a mean that is not told yet is worth a row of its own: a quota of 0.9 CPUs puts it there."""


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """How many times as long one metric of a case takes as on the baseline, and what is certain of it.

    metric: "device_s", a median; "wall_p99_s" of a tail, "wall_mean_s" with all that comes between. primary: the one
    that comes first. judges: the case is judged by it: by the primary one and, on a CPU, by the mean of the same
    samples, in which a quota shows that stops every tenth of them, and no median. pairs: of processes; where they are
    not paired, processes of the side that has fewer.
    baseline_s, arm_s: seconds, medians over processes. interval, interval90: 95 % and 90 %, of the ratio; None for
    one pair, which has none. margin: below it a difference does not matter; is_equivalent: it is shown to be below.
    q: the least rate of false discoveries at which this is one, among all that judge or all others.
    minimum_detectable: the ratio that as many pairs with this scatter find in four of five tries.
    pairs_needed: about so many would settle it; None where it is settled, where so many there were already, and where
    it is not the scatter of the pairs that keeps it open.
    noise: the 95 % interval of the baseline against itself. reason: why there is no more of a verdict.
    at_full_speed: medians are of those samples alone beside which a loop showed the CPU at full speed.
    """

    metric: str
    primary: bool
    judges: bool
    pairs: int
    baseline_s: float
    arm_s: float
    ratio: float
    interval: tuple[float, float] | None = None
    interval90: tuple[float, float] | None = None
    margin: float
    is_equivalent: bool = False
    q: float | None = None
    verdict: Verdict = "inconclusive"
    minimum_detectable: float | None = None
    pairs_needed: int | None = None
    noise: tuple[float, float] | None = None
    reason: str | None = None
    at_full_speed: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it judges beside the primary one, is as far from 1 as a quota may put it, and is not told yet."""
        beside = self.judges and not self.primary
        return beside and self.verdict == "inconclusive" and abs(math.log(self.ratio)) > math.log1p(FAR)


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a case is slower or faster, as far as it is known.

    parts: what takes another time; [] where nothing does for certain, but the evidence tells of waiting. evidence:
    numbers of this case. causes: what differs between the places and can do it; [] is no known cause.
    next_experiment: a command that would tell more.
    """

    parts: list[Part]
    evidence: list[str]
    causes: list[str]
    next_experiment: str | None = None


class CaseComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One case in one arm. case: as the baseline ran it first. estimates: the primary one first.

    reason: what became of it in processes that did not measure it.
    """

    case: Case
    estimates: list[Estimate]
    reason: str | None = None
    explanation: Explanation | None = None

    @property
    def primary(self) -> Estimate | None:
        return self.estimates[0] if self.estimates else None

    @property
    def verdict(self) -> Verdict | None:
        """Of the case: a difference in any metric that judges, else that of the primary one."""
        found = [each.verdict for each in self.estimates if each.judges]
        return next((each for each in ("slower", "faster") if each in found), found[0] if found else None)


class Mean(msgspec.Struct, frozen=True, kw_only=True):
    """The geometric mean of the primary ratios of ``cases`` cases, over the ``pairs`` that measured all of them.

    of_all_samples: though some cases' own ratios are of samples at full speed alone, since too few pairs have such
    samples in every case.
    """

    ratio: float
    interval: tuple[float, float] | None
    cases: int
    pairs: int
    of_all_samples: bool = False


class ArmComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One arm against the baseline. arm: as it was asked for; None where the file does not say.

    effect: what a difference in time is one of; None where it is not known.
    differences: backend and device -> what tells the places apart, as the first worker of each side saw them.
    """

    name: str
    arm: Arm | None
    effect: Effect | None
    differences: dict[str, Difference]
    cases: list[CaseComparison]
    mean: Mean | None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """All arms against the baseline. again: the baseline against itself, where it was run twice.

    paired: whether process stands against process of the same pair. notes: what is to be known of the whole.
    """

    baseline: str
    paired: bool
    arms: list[ArmComparison]
    again: ArmComparison | None = None
    notes: list[str] = []

    @property
    def estimates(self) -> list[Estimate]:
        """Of all arms and cases; of the baseline against itself only where nothing else was compared."""
        arms = self.arms or [arm for arm in [self.again] if arm]
        return [each for arm in arms for case in arm.cases for each in case.estimates]

    @property
    def is_decided(self) -> bool:
        """Whether every case has a verdict by its primary metric."""
        primary = [each for each in self.estimates if each.primary]
        return bool(primary) and all(each.verdict != "inconclusive" for each in primary)
