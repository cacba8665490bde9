"""One thing that can have made a case slower or faster, and how far it can have."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from primbench.system.meaning import FactId

LATE = 20
"""Of what is told after all that rules know of."""
SYMPTOM = LATE + 1
"""Of what was read in one place: it is as slow as it is for some cause, which may be told before it."""
OF_UNKNOWN_EFFECT = LATE + 2
"""Of what arms set, and nobody knows who reads it."""


class Cause(NamedTuple):
    """at_least, at_most: between which the ratio of the arm to the baseline can come to lie by this cause alone.

    title: the same in few words, where there are more. upstream, stops: as Rule has them. check: of the doctor, that
    found it. is_bystander: nothing is known to make it one, so that it is told, but is never the likely one.
    about: what differs and its words tell of, as Differing has it.
    """

    words: str
    at_least: float = 0.0
    at_most: float = math.inf
    title: str = ""
    upstream: int = LATE
    stops: bool = False
    check: str = ""
    is_bystander: bool = False
    about: tuple[FactId, ...] = ()

    def works_towards(self, ratio: float) -> bool:
        return self.at_most > 1 if ratio > 1 else self.at_least < 1

    def suffices_for(self, ratio: float) -> bool:
        return self.at_least <= ratio <= self.at_most

    def of_baseline(self) -> Cause:
        """The same cause where it is the baseline that it works on: the bounds of the ratio are upside down."""
        return self._replace(at_least=1 / self.at_most, at_most=1 / self.at_least if self.at_least else math.inf)

    def falling_short_of(self, ratio: float) -> str:
        """The cause in words, and the largest or smallest ratio of times that it can account for."""
        bound = f"{self.at_most:.3g}, no more" if ratio > self.at_most else f"{self.at_least:.3g}, no less"
        return f"{self.words}; that makes a ratio of {bound}"
