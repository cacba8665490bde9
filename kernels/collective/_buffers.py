"""What a rank sends, and where it receives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from primbench.kernels.collective.problem import Collective
    from primbench.problem import Array


@dataclass(frozen=True)
class Buffers:
    """Arrays of the backend, views of one where the operation is in place; as a step's output: what is received."""

    backend: Any
    x: Any
    """What the rank brings."""
    sent: Any
    """What a call sends, which has x in it before."""
    received: Any
    """What a call receives."""

    def fill(self) -> None:
        self.sent[...] = self.x

    def poison(self) -> None:
        """In place, a call before may have overwritten what is sent."""
        self.backend.poison(self.received)
        self.fill()

    def get(self) -> Array:
        found: Array = self.backend.get(self.received)
        return found


def buffers(backend: Any, problem: Collective, x: Any, rank: int) -> Buffers:
    """Filled; out of place, x itself is what is sent."""
    if not problem.in_place:
        return Buffers(backend, x, x, backend.empty((problem.received_count(rank),), problem.dtype))
    buffer = backend.empty((problem.count,), problem.dtype)
    made = Buffers(backend, x, problem.sent_in(buffer, rank), problem.received_in(buffer, rank))
    made.fill()
    return made
