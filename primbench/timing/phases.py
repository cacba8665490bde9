"""What a case spends its time on, from the inputs to the last sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from primbench.timing.sampling import Clock


class Phases:
    """ended_s: phase -> seconds by the clock, in the order in which they ended."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self._last = clock, clock()
        self.ended_s: dict[str, float] = {}

    def end(self, name: str) -> None:
        now = self.clock()
        self.ended_s[name] = (now - self._last) / 1e9
        self._last = now
