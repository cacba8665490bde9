"""Whether a suspected set of differences is a cause: by fresh pairs alone, in both directions, and each of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

from primbench.experiments.why.conclusion import Contribution, Proof
from primbench.experiments.why.contrasts import Contrasts, reach
from primbench.experiments.why.rounds import RatioInterval, Subset

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from primbench.experiments.why.conclusion import Role
    from primbench.experiments.why.evidence import Row
    from primbench.stats import LogRatio

LOOKS = (4, 7, 11, 18)
"""Pairs after which it is looked, at an equal share of LEVEL each."""
LEVEL = 0.05
"""Of all looks together, two-sided."""
BY_CHANCE = 0.05
"""Of one look and one direction, two-sided: both directions come from different places, so that of a set which does
nothing both are certain, and with the same sign, at one look in 800."""
ONLY = 0.35
"""Of what a difference does beside the others of its set: what it does by itself and is less counts for nothing."""


class Judgement(NamedTuple):
    """What pairs say of a set of differences."""

    state: Literal["proven", "refuted", "open", "more"]
    proof: Proof | None = None
    """The proof of the set, or of what is left of it without differences that do nothing; with "proven" alone."""
    more_pairs: int | None = None
    """About how many pairs would tell, of one that is open."""


class Certificate:
    """The places that a set is proven by, and what its pairs come to.

    base: what was proven before; the set and slow hold no less.
    """

    def __init__(self, causes: Subset, base: Subset, slow: Subset, failed: Iterable[Subset] = ()) -> None:
        self.causes, self.base, self.slow = causes, base, slow
        self.harmed, self.healed = base | causes, slow - causes
        self.within = {i: self.harmed - {i} for i in sorted(causes)}
        self.beside = {i: self.healed | {i} for i in sorted(causes)}
        self._failed = set(failed)

    def designs(self) -> list[Subset]:
        """FAST, FAST with the set, SLOW without it, SLOW; of several each left out and each alone. Not what fails."""
        every = [self.base, self.harmed, self.healed, self.slow, *self.within.values(), *self.beside.values()]
        return [design for design in dict.fromkeys(every) if design not in self._failed]

    def can_run(self) -> bool:
        return not self._failed & {self.base, self.harmed, self.healed, self.slow}

    def judge(self, rows: Sequence[Row], look: int, margin: float, before: float) -> Judgement:
        """After the look of this number, from 0. before: the time of the base over that of FAST."""
        contrasts = Contrasts(rows, self.designs())
        is_last = look >= len(LOOKS) - 1
        if contrasts.pairs < 2:
            return Judgement("refuted" if is_last else "more")
        least = math.log1p(margin) / 2
        needed = frozenset(i for i in self.causes if self._is_needed(contrasts, i))
        is_told = is_last or all(self._does_little(contrasts, i, least) for i in self.causes - needed)
        smaller = Certificate(needed, self.base, self.slow, self._failed)
        if needed and is_told and smaller._is_cause(contrasts):
            return Judgement("proven", smaller.proof(contrasts, before))
        return self._unproven(contrasts, least, is_last=is_last)

    def _unproven(self, contrasts: Contrasts, least: float, *, is_last: bool) -> Judgement:
        both = self._both(contrasts)
        sign = 1 if both[0].log + both[1].log > 0 else -1
        ends = [max(sign * end for end in reach(each, _level())) for each in both]
        if min(ends) < least or self._is_one_way(contrasts, sign):
            return Judgement("refuted")
        if not is_last:
            return Judgement("more")
        missing = [self._missing([each], 1 - BY_CHANCE, least) for each in both]
        if len(self.causes) > 1:
            level = _level(2 * len(self.causes))
            missing += [self._missing(self._of_each(contrasts, i), level, least) for i in self.causes]
        return Judgement("open", more_pairs=math.ceil(contrasts.pairs * max(*missing, 0.0)))

    @staticmethod
    def _missing(either: Sequence[LogRatio], level: float, least: float) -> float:
        """How many times as many pairs more one of these takes to be certain; at most what a small effect takes."""
        widths = [(reach(each, level)[1] - each.log) / max(abs(each.log), least) for each in either]
        return min(widths, default=1.0) ** 2 - 1

    def _is_one_way(self, contrasts: Contrasts, sign: int) -> bool:
        """Whether it certainly does less than half as much in one direction as in the other: another has a part."""
        times = Times(contrasts, self.base)
        places = ((self.harmed, self.base), (self.slow, self.healed))
        done = [sign * times.excess(above, below) for above, below in places]
        most = [
            max(sign * math.expm1(end) * times.times[below] for end in reach(each, _level()))
            for each, (_, below) in zip(self._both(contrasts), places, strict=True)
        ]
        return most[0] < done[1] / 2 or most[1] < done[0] / 2

    def _both(self, contrasts: Contrasts) -> tuple[LogRatio, LogRatio]:
        return contrasts.of([self.harmed], [self.base]), contrasts.of([self.slow], [self.healed])

    def _is_cause(self, contrasts: Contrasts) -> bool:
        if not {self.harmed, self.healed} <= contrasts.designs.keys():
            return False
        (low, high), (other_low, other_high) = (reach(each, 1 - BY_CHANCE) for each in self._both(contrasts))
        return (low > 0 and other_low > 0) or (high < 0 and other_high < 0)

    def _of_each(self, contrasts: Contrasts, i: int) -> list[LogRatio]:
        """Beside the others of the set, and by itself; without those whose place does not run."""
        places = ((self.harmed, self.within[i]), (self.beside[i], self.healed))
        return [contrasts.of([above], [below]) for above, below in places if {above, below} <= contrasts.designs.keys()]

    def _is_needed(self, contrasts: Contrasts, i: int) -> bool:
        each_way = self._of_each(contrasts, i)
        if len(self.causes) == 1 or len(each_way) < 2:  # nothing runs with the others and without it, or the reverse
            return True
        ends = [reach(each, _level(2 * len(self.causes))) for each in each_way]
        return any(low > 0 or high < 0 for low, high in ends)

    def _does_little(self, contrasts: Contrasts, i: int, least: float) -> bool:
        return all(abs(each.log) < least for each in self._of_each(contrasts, i))

    def proof(self, contrasts: Contrasts, before: float) -> Proof:
        harms, heals = self._both(contrasts)
        times = Times(contrasts, self.base, before)
        both = ((self.harmed, self.base), (self.slow, self.healed))
        return Proof(
            differences=self.causes,
            base=self.base,
            harms=interval(harms),
            heals=interval(heals),
            contributions=tuple(self._contribution(contrasts, times, i) for i in sorted(self.causes)),
            share=times.share(self.slow, both),
            pairs=contrasts.pairs,
        )

    def _contribution(self, contrasts: Contrasts, times: Times, i: int) -> Contribution:
        places = ((self.harmed, self.within[i]), (self.beside[i], self.healed))
        ran = [{above, below} <= contrasts.designs.keys() for above, below in places]
        ratios = [interval(contrasts.of([a], [b])) if runs else None for (a, b), runs in zip(places, ran, strict=True)]
        excesses = [times.excess(a, b) for (a, b), runs in zip(places, ran, strict=True) if runs]
        return Contribution(
            difference=i,
            role=role(*excesses, whole=times.excess(self.slow, self.base)) if all(ran) else None,
            added=ratios[0],
            alone=ratios[1],
            share=times.share(self.slow, [place for place, runs in zip(places, ran, strict=True) if runs]),
        )


class Times:
    """Of designs, in units of the base's. before: the time of the base over that of FAST."""

    def __init__(self, contrasts: Contrasts, base: Subset, before: float = 1.0) -> None:
        self.times = {design: math.exp(contrasts.of([design], [base]).log) for design in contrasts.designs}
        self.base, self.before = base, before

    def excess(self, above: Subset, below: Subset) -> float:
        return self.times[above] - self.times[below]

    def share(self, slow: Subset, places: Iterable[tuple[Subset, Subset]]) -> float | None:
        """Of what SLOW takes longer than FAST: the mean of these differences. None where SLOW takes no longer."""
        whole = self.times[slow] - 1 / self.before
        each = [self.excess(above, below) for above, below in places]
        return sum(each) / len(each) / whole if each and whole else None


def role(beside: float, alone: float, *, whole: float) -> Role:
    """Of a difference that takes so much longer beside the others of its set, and by itself, where all take whole."""
    larger = max(beside, alone, key=abs)
    if larger * whole < 0:
        return "takes away"
    sign = math.copysign(1, larger)
    if sign * alone < ONLY * sign * beside:
        return "only together"
    return "enough by itself" if sign * beside < ONLY * sign * alone else "adds"


def interval(contrast: LogRatio, level: float = 1 - LEVEL) -> RatioInterval:
    low, high = contrast.interval(level) or (0.0, None)
    return RatioInterval(ratio=contrast.ratio, low=low, high=high)


def _level(tests: int = 1) -> float:
    """Of one look, where so many tests are equally enough."""
    return 1 - LEVEL / len(LOOKS) / tests
