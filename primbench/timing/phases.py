"""What a process spends its time on: a worker until it is ready, a case from its inputs to the last look around."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Phases:
    """One follows the other without a gap, so that they add up to the time since this was made.

    ended_s: phase -> seconds by the clock, which counts nanoseconds, in the order in which they first ended.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock, self._last = clock, clock()
        self.ended_s: dict[str, float] = {}

    def end(self, name: str) -> None:
        """All since the last end was this phase, which there may have been before."""
        now = self.clock()
        self.ended_s[name] = self.ended_s.get(name, 0.0) + (now - self._last) / 1e9
        self._last = now
