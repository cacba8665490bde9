"""What one metric of a case says of two places, as data: the ratio, its interval, and what is certain of it."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

Verdict = Literal[
    "slower", "faster", "different-about-the-margin", "different-but-small", "equivalent", "equivalent-at-full-speed",
    "equivalent-in-these-runs", "inconclusive",
]  # fmt: skip
DIFFERENT: tuple[Verdict, ...] = ("slower", "faster", "different-about-the-margin", "different-but-small")
WITHIN_MARGIN: tuple[Verdict, ...] = (
    "different-but-small", "equivalent", "equivalent-at-full-speed", "equivalent-in-these-runs",
)  # fmt: skip

FALSE_DISCOVERIES = 0.05
FALSE_DISCOVERIES_BESIDE = 0.01
"""How many of the differences that are called some may be none, Benjamini and Hochberg's q, among the metrics that
judge, and among all others: of studies of equal arms, 2 to 5 % call one so; with 5 % of both, up to 7.
"""

MOST_UNSEEN = 0.25
"""Where as large a share of a place's processes may be slow unseen, or a larger one, equivalence is told of these runs
alone: of fewer than eleven pairs, since 1 - 0.05^(1/n) is 0.26 for 10 and 0.24 for 11. Nothing but processes tells of
processes that are seldom slow: where a fifth of an arm's take 10 % longer, none of 5 does in a third of all studies, in
which all cases look alike. 5 pairs would call 31 % of such arms equivalent, 8 20 % and 11 9 %.
"""

FAR = 0.1
"""From here on a mean that is not told yet is worth a row of its own: a quota of 0.9 CPUs puts it there."""


class Slowed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How often the CPU was slow beside a case, or, in LeftOut of processes in turn, one of its threads waited for one:
    shares of the loops timed between samples, means over processes.
    """

    baseline: float
    arm: float
    may_be_alike: bool
    """Whether the speeds may be alike, and so are the shares as far as Student's t tells at 1 %; else it may
    be a place's own doing, which is not to be left out.
    """
    are_alike: bool
    """Whether the shares are shown to be alike."""


class LeftOut(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a median at full CPU speed leaves out."""

    slowed: Slowed
    ratio: float
    """95 % interval of the ratio of all samples, those left out included."""
    interval: tuple[float, float] | None
    """The ratio of all samples, those left out included."""


class Estimate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How many times as long one metric of a case takes as on the baseline, and what is certain of it."""

    metric: str
    """"device_s", a median; "wall_p99_s" of a tail, "wall_mean_s" with all that comes between."""
    primary: bool
    """Whether it is the metric that comes first."""
    judges: bool
    """Whether the case is judged by it before others: by the primary one and by the mean of the same samples, in which
    a quota shows that stops every tenth of them, and no median.
    """
    pairs: int
    """Pairs of processes; where they are not paired, processes of the side that has fewer; of sessions, those that tell
    of scatter.
    """
    baseline_s: float
    """Seconds on the baseline: geometric means over the processes that count, of both runs of a baseline that is run
    twice, and of the arm as it stands to these where processes took turns.
    """
    arm_s: float
    """Seconds in the arm, likewise."""
    ratio: float
    interval: tuple[float, float] | None = None
    """95 % interval of the ratio; None for one pair, which has none."""
    interval90: tuple[float, float] | None = None
    """90 % interval of the ratio; None for one pair."""
    margin: float
    """Ratio below which a difference does not matter."""
    is_equivalent: bool = False
    """Whether the difference is shown to be below."""
    q: float | None = None
    """The least rate of false discoveries at which this is one, among all that judge or all others."""
    outcome: Verdict = "inconclusive"
    """What this metric says by itself; the verdict is the case's."""
    minimum_detectable: float | None = None
    """The ratio that as many pairs with this scatter find in four of five tries."""
    pairs_needed: int | None = None
    """About how many pairs would settle it; None where it is settled, where so many there were already, and where it is
    not the scatter of the pairs that keeps it open.
    """
    noise: tuple[float, float] | None = None
    """The 95 % interval of the baseline against itself."""
    reason: str | None = None
    """Why there is no more of an outcome."""
    left_out: LeftOut | None = None
    """What samples say beside which a loop showed the CPU slow, or, where processes took turns, one of their threads
    waited for a CPU; None where these count, too.
    """
    is_one_run: bool = False
    """Whether the places were not interleaved, and one of them was run once, or each in a session of its own, so that
    no difference is certain, and that they are alike of these runs alone.
    """
    unseen: float | None = None
    """The share of a place's processes that may be of another kind, such as slow, though none of ``pairs`` was."""
    deviation: float | None = None
    """Standard deviation of the logarithm of the ratio in one pair, with what is borrowed."""
    freedom: float | None = None
    """Degrees of freedom that its intervals stand on."""
    borrowed_freedom: float = 0.0
    """Of these degrees of freedom, those of the scatter of the study's other cases; the others are its own, of its
    pairs.
    """
    is_too_busy: bool = False
    """Whether both places waited for a CPU for so long that nothing is told."""

    @property
    def is_single(self) -> bool:
        """Whether there is but one process on a side, which tells of no scatter."""
        return self.interval is None

    @property
    def differs(self) -> bool:
        """Whether it is not 1 for certain, among all that are looked at."""
        if self.q is None or self.is_one_run:
            return False
        most = FALSE_DISCOVERIES if self.judges else FALSE_DISCOVERIES_BESIDE
        return self.excludes_1 and self.q <= most

    @property
    def excludes_1(self) -> bool:
        """Whether its interval does, by itself."""
        return self.interval is not None and not self.interval[0] <= 1 <= self.interval[1]

    @property
    def is_beyond_margin(self) -> bool:
        """Whether the ratio itself, whatever its interval, is further from 1 than the margin."""
        return abs(math.log(self.ratio)) > math.log1p(self.margin)

    @property
    def at_full_speed(self) -> bool:
        """Whether medians are of the samples alone that no other program made longer."""
        return self.left_out is not None

    @property
    def holds_at_full_speed_alone(self) -> bool:
        """Whether one of the places may be slow more often, and the samples do not show it."""
        return self.left_out is not None and not self.left_out.slowed.are_alike

    @property
    def is_of_few(self) -> bool:
        """Whether so few processes were alike that a large share of a place's may be of another kind."""
        return self.unseen is not None and self.unseen >= MOST_UNSEEN

    @property
    def is_narrow(self) -> bool:
        """Whether the interval is no wider than the margin: a ratio of 1 would have been shown to be within it."""
        return self.interval is not None and self.interval[1] <= (1 + self.margin) * self.interval[0]

    @property
    def has_moved(self) -> bool:
        """Whether it is slower or faster for certain."""
        return self.outcome in ("slower", "faster")

    @property
    def is_open(self) -> bool:
        """Whether it judges beside the primary one, is as far from 1 as a quota may put it, and is not told yet."""
        beside = self.judges and not self.primary
        return beside and self.outcome == "inconclusive" and abs(math.log(self.ratio)) > math.log1p(FAR)
