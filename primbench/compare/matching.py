"""How the numbers of an arm and of the baseline belong together, and what they make a ratio of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import geometric_mean
from typing import TYPE_CHECKING

from primbench import stats
from primbench.stats import LogRatio

if TYPE_CHECKING:
    from primbench.compare.numbers import CaseNumbers, MetricValues
    from primbench.compare.sides import Side

CountedRatio = tuple[LogRatio, int]
"""A ratio, and of how many pairs it is."""
Ratio = Callable[[Mapping[int, float], Mapping[int, float]], CountedRatio | None]
"""Of an arm's processes to those of the baseline, by their numbers; None where there are no pairs."""


def paired(arm: Mapping[int, float], baseline: Mapping[int, float]) -> CountedRatio | None:
    """Process against process of the same number."""
    both = sorted(arm.keys() & baseline.keys())
    return (stats.paired([arm[each] for each in both], [baseline[each] for each in both]), len(both)) if both else None


def unpaired(arm: Mapping[int, float], baseline: Mapping[int, float]) -> CountedRatio | None:
    """All processes of one side against all of the other."""
    if not arm or not baseline:
        return None
    return stats.unpaired(list(arm.values()), list(baseline.values())), min(len(arm), len(baseline))


WHILE_LOOKING = 0.007
"""The level of each of the two tests of equivalence where a study looks at its verdicts after every pair, to end.

Simulated, 5 to 40 pairs of an arm that differs by just the margin, its pairs scattering by 0.3 to 2.5 times that: with
the 5 % of a single look up to 17 % of such studies end as equivalent; with this, up to 4 %, and 5 where nothing but
equivalence would end them. Equal arms whose pairs scatter by the margin take 13 pairs in place of 8. A test that is
valid at any time, an e-process of t, ends in 1 % so, and takes 17.
"""


@dataclass(frozen=True)
class Twin:
    """The baseline run once more."""

    side: Side
    agreed: frozenset[tuple[bytes, str]]
    """Cases and metrics in which it does not differ from itself. There both are the baseline, and an interval 0.87
    times as wide: more is found than by requiring, as one might, that the two are shown to be equivalent.
    """


@dataclass(frozen=True)
class Matching:
    """How sides were run."""

    ratio: Ratio
    level: float = stats.LEVEL
    """Level of tests of equivalence."""
    is_one_run: bool = False
    """Whether the places were not interleaved, and one of them was run once, or each in a session of its own: what
    differs between runs, or sessions, is not known.
    """
    twin: Twin | None = None
    """The baseline run once more; None where the baseline was run once."""

    def divisors(self, arm: Mapping[int, float], baseline: Mapping[int, float]) -> list[float]:
        """The numbers of the baseline that those of the arm are divided by."""
        return [value for process, value in baseline.items() if self.ratio is not paired or process in arm]

    def baselines(self, side: Side, key: bytes, metric: str) -> list[Side]:
        """The runs of the baseline that count as such: its twin, too, where they agree."""
        return [side] if self.twin is None or (key, metric) not in self.twin.agreed else [side, self.twin.side]

    def of_baseline(
        self, side: Side, key: bytes, metric: str, of: Callable[[CaseNumbers], MetricValues]
    ) -> Mapping[int, float]:
        """Process -> value, the geometric mean of both runs where they agree. of: which values of a side."""
        if self.twin is None:
            return of(side.numbers_of(key)).get(metric, {})
        own, *again = (of(each.numbers_of(key)).get(metric, {}) for each in self.baselines(side, key, metric))
        if not again:
            return own
        both = own | again[0]
        return {process: geometric_mean([run[process] for run in (own, *again) if process in run]) for process in both}
