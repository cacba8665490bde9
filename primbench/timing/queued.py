"""How long this thread has waited for a CPU, and at which moment."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from primbench.system.processes import quick_text

if TYPE_CHECKING:
    from collections.abc import Callable

_Read = TypeVar("_Read")

_COUNTED = Path("/proc/thread-self/schedstat")
_MOST_READINGS = 10


def queued_s() -> float:
    """How long this thread has waited for a CPU so far; nan where the kernel does not count it."""
    try:
        ran_ns, waited_ns, _ = map(int, quick_text(_COUNTED).split())
    except (OSError, ValueError):
        return math.nan
    return waited_ns * 1e-9 if ran_ns else math.nan


def with_queued_s(read: Callable[[], _Read]) -> tuple[_Read, float]:
    """What is read of one moment, and ``queued_s`` of the same one. Both are read again, a few times at most, where
    this thread waited for a CPU meanwhile, before that moment or after it.
    """
    before_s = queued_s()
    for _ in range(_MOST_READINGS):
        found, after_s = read(), queued_s()
        if not after_s > before_s:
            break
        before_s = after_s
    return found, after_s
