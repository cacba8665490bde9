"""A cause that can have made a case slower or faster, and how far it can have."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from primbench.system.meaning import FactId

LATE = 20
"""Of what is told after all of which it is known how far it goes."""
SYMPTOM = LATE + 1
"""Of what was read in one place: it is as slow as it is for some cause, which may be told before it."""
OF_UNKNOWN_EFFECT = LATE + 2
"""Of what arms set, and nobody knows who reads it."""


class Suspect(NamedTuple):
    """A cause that may be at work in a case of two places."""

    words: str
    at_least: float = 0.0
    """Between this and ``at_most`` the ratio of the arm to the baseline can come to lie by this cause alone."""
    at_most: float = math.inf
    title: str = ""
    """The same in few words, where there are more."""
    upstream: float | None = None
    """As the row of its cause has it, and from there where it is None."""
    stops: bool = False
    """As the row has it, too."""
    cause: str = ""
    """The id of its cause, which who walks the table fills in."""
    is_bystander: bool = False
    """Whether nothing is known to make it one, so that it is told, but is never the likely one."""
    about: tuple[FactId, ...] = ()
    """What differs and its words tell of, as Differing has it."""

    def rank(self) -> float:
        """By which causes are told one after the other."""
        return self.upstream or 0.0

    def works_towards(self, ratio: float) -> bool:
        return self.at_most > 1 if ratio > 1 else self.at_least < 1

    def suffices_for(self, ratio: float) -> bool:
        return self.at_least <= ratio <= self.at_most

    def of_baseline(self) -> Suspect:
        """The same cause where it is the baseline that it works on: the bounds of the ratio are upside down."""
        return self._replace(at_least=1 / self.at_most, at_most=1 / self.at_least if self.at_least else math.inf)

    def falling_short_of(self, ratio: float) -> str:
        """The cause in words, and the largest or smallest ratio of times that it can account for."""
        bound = f"{self.at_most:.3g}, no more" if ratio > self.at_most else f"{self.at_least:.3g}, no less"
        return f"{self.words}; that makes a ratio of {bound}"
