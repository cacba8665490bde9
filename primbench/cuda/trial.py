"""The time of a call in a short trial, by which one of several ways to the same result is chosen."""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any

from primbench.errors import PrimbenchError
from primbench.gpu.nvidia import driver

if TYPE_CHECKING:
    from collections.abc import Callable

_SAMPLE_S, _SAMPLES, _MAX_CALLS = 0.3e-3, 3, 50
_HOPELESS = 2.0  # times another way's time
_LOADED_S, _LAUNCHED_S = 0.1, 1e-3  # that the host may take of a first and of a later call


def device_s(
    call: Callable[[], object],
    stream_handle: int,
    other_s: float = math.inf,
    capture: Callable[[Callable[[], None]], Any] | None = None,
) -> float:
    """The least of some samples, each a graph of calls: else launching them would be what is timed.

    Of a long call two samples are enough; a graph's first launch may be slower. other_s: of the fastest other way; what
    takes much longer than that is not called again. capture: a backend's own, where its allocator must know of it.
    """
    for by_the_host_s in (_LOADED_S, _LAUNCHED_S):  # kernels are loaded at their first call
        once_s = _elapsed_s(call, stream_handle)
        if once_s - by_the_host_s > _HOPELESS * other_s:
            return once_s
    calls = min(_MAX_CALLS, max(1, int(_SAMPLE_S / max(once_s, 1e-6))))

    def several() -> None:
        for _ in range(calls):
            call()

    graph = None  # kept until the end: memory that its calls allocated is its own
    with contextlib.suppress(PrimbenchError, RuntimeError):  # what cannot be captured is timed as it is called
        graph = capture(several) if capture else driver.capture(stream_handle, several)
    launch = graph.launch if graph else several
    samples = _SAMPLES if calls > 1 else 2
    return min(_elapsed_s(launch, stream_handle) for _ in range(samples)) / calls


def _elapsed_s(launch: Callable[[], object], stream_handle: int) -> float:
    before, after = driver.Event(), driver.Event()
    before.record(stream_handle)
    launch()
    after.record(stream_handle)
    driver.synchronize(stream_handle)
    return before.seconds_until(after)
