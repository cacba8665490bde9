"""All that was told of an investigation: times pair by pair, and what does not run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from primbench.experiments.why.rounds import Observation, Round, Subset

MOST_NEEDED = 3
"""Differences that one which does not run alone is proven with: what may be needed has to be known as well as that."""

Row = dict["Subset", float]
"""One pair: the logarithm of each design's time in seconds."""


class MeasuredPair(NamedTuple):
    """What is known of one pair."""

    round: Round
    """That it belongs to."""
    logs: Row


class Evidence:
    """All pairs in order, and failures."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.pairs: list[MeasuredPair] = []
        self.failed: dict[Subset, str] = {}
        self.ran: set[Subset] = set()

    def add(self, told: Round, observations: Iterable[Observation]) -> None:
        rows: dict[int, Row] = {}
        reasons: dict[Subset, str] = {}
        for each in observations:
            if each.value_s is not None and each.value_s > 0 and math.isfinite(each.value_s):
                rows.setdefault(each.pair, {})[each.design] = math.log(each.value_s)
            else:
                reasons.setdefault(each.design, each.failure or "no time")
        self.pairs += [MeasuredPair(told, rows[number]) for number in sorted(rows)]
        ran = set().union(*rows.values()) if rows else set()
        self.ran |= ran
        self.failed = {each: reason for each, reason in (reasons | self.failed).items() if each not in self.ran}

    def rows_with(self, designs: Iterable[Subset], *, stages: Iterable[str] = ()) -> list[Row]:
        """The pairs, of rounds of these stages where any are named, in which all these designs have a time."""
        wanted, among = set(designs), set(stages)
        pairs = (pair for pair in self.pairs if not among or pair.round.stage in among)
        return [pair.logs for pair in pairs if wanted <= pair.logs.keys()]

    def needs(self) -> list[tuple[int, int]]:
        """(i, j) for each pair of differences of which i without j may be why a subset did not run.

        SLOW has all of them and runs, so what fails is one difference that needs another which is not there. Told
        apart by what ran: a pair of which i was there without j in a place that ran is none.
        """
        return sorted(self._lacking(self.failed) - self._lacking(self.ran)) if self.failed else []

    def _lacking(self, designs: Iterable[Subset]) -> set[tuple[int, int]]:
        return {(i, j) for design in designs for i in design for j in range(self.n) if j not in design}

    def with_needs(self, causes: Subset, base: Subset, slow: Subset) -> Subset:
        """The set with what it needs, or what needs it, where FAST with it or SLOW without it does not run."""
        needs, added = self.needs(), base | causes
        found: set[int] = set()
        if added in self.failed:
            found |= {j for i, j in needs if i in added and j not in added}
        if slow - causes in self.failed:
            found |= {i for i, j in needs if j in causes and i not in causes}
        return causes | found if len(found) <= MOST_NEEDED else causes

    def chance_to_run(self, design: Subset, needs: Sequence[tuple[int, int]]) -> float:
        """That a design runs, by which of the failures it might share: 1 where none is known."""
        chance = 1.0
        for failure in self.failed:
            possible = [(i, j) for i, j in needs if i in failure and j not in failure]
            shared = sum(i in design and j not in design for i, j in possible)
            chance *= 1 - shared / len(possible) if possible else 1.0
        return chance
