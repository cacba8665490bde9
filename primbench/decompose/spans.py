"""What torch's profiler notes, as spans of time in nanoseconds, which may nest or overlap; how long of a step they
last, and how long a call takes, by which it is found out what noting costs.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.measurement.spans import union, within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_ROUNDS, _CALLS = 30, 200


class Noted(NamedTuple):
    """Something that ran on the host, or on a GPU."""

    start: int
    end: int
    name: str
    thread: int
    gpu: int | None
    """Its number; None on the host."""
    number: int
    """By which a call of the driver and what it launched are told to belong together."""

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.end


def noted(events: Iterable[Any]) -> list[Noted]:
    """events: as the profiler has them, which live no longer than it."""
    from torch.autograd import DeviceType

    return [
        Noted(
            start := each.start_ns(),
            start + each.duration_ns(),
            each.name(),
            each.start_thread_id(),
            None if each.device_type() == DeviceType.CPU else each.device_index(),
            each.correlation_id(),
        )
        for each in events
    ]


def lasting_s(spans: Iterable[tuple[int, int]], steps: Iterable[tuple[int, int]]) -> list[float]:
    """How long of each step some of them lasted, in seconds: they nest, and several threads have some."""
    covered = union(spans)
    return [1e-9 * within(covered, *step) for step in steps]


def least_s(call: Callable[[], object], begin: Callable[[], object] = bool) -> float:
    """Of a call, in rounds that begin with ``begin``."""
    found = []
    for _ in range(_ROUNDS):
        begin()
        begun = time.perf_counter()
        for _ in range(_CALLS):
            call()
        found.append(time.perf_counter() - begun)
    return min(found) / _CALLS
