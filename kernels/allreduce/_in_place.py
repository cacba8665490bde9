"""The output of a sum in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.problem import Array


@dataclass(frozen=True)
class InPlace:
    """A buffer that a call reduces in place, as the output of a step."""

    poison: Callable[[], object]
    """Fills it with the inputs again, so that an element which the next call leaves out is no sum."""
    get: Callable[[], Array]
    """Copies it to the host."""
