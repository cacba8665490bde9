"""What the GPU itself logged while a step ran: the time of each kernel, copy and fill, by CUPTI.

CUPTI slows launches down, and still does after it is off: a trace runs in a process of its own. Only one user
of CUPTI fits into a process: torch brings its own, the other backends go through cupti-python.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from primbench.errors import UnsupportedCase
from primbench.measurement import Samples, Trace

Record = tuple[int, int, str]
"""Start and end in nanoseconds on one clock, and the name, of one kernel, copy or fill."""
Recorder = Callable[[Callable[[], None]], list[Record]]
"""Runs a function that ends with a synchronize, and returns what the GPU did meanwhile."""

_BUFFER_BYTES = 8 * 2**20
_FLUSH_FORCED = 1  # CUPTI_ACTIVITY_FLAG_FLUSH_FORCED, cupti_activity.h


class _Synchronizable(Protocol):
    name: str

    def synchronize(self) -> None: ...


def trace(backend: _Synchronizable, step: Callable[[], Any], calls: int, warm: Callable[[], None]) -> Trace:
    """Trace ``calls`` back-to-back calls after ``warm``. Raises UnsupportedCase where that cannot be done."""
    is_torch = backend.name == "torch"
    record = _torch_recorder() if is_torch else _cupti_recorder()

    def run(times: int) -> None:
        for _ in range(times):
            step()
        backend.synchronize()

    # Loading CUPTI takes long enough for the clocks to sink, so the first recording comes before the warm-up.
    record(functools.partial(run, 1))
    warm()
    backend.synchronize()
    samples_s, kernels_per_call, kernels = split_calls(record(functools.partial(run, calls)), calls)
    busy_s = Samples(
        samples_s=samples_s,
        calls_per_sample=calls // len(samples_s),
        taken_by="torch.profiler" if is_torch else "cupti",
        stopped="count",
    )
    return Trace(busy_s=busy_s, kernels_per_call=kernels_per_call, kernels=kernels)


def split_calls(records: Sequence[Record], calls: int) -> tuple[list[float], float, list[str]]:
    """Busy seconds of each call, kernels a call, and names in order of first appearance.

    Calls are told apart only where each launches the same sequence; else the one sample is the mean of all.
    Raises UnsupportedCase when nothing was recorded.
    """
    if not records:
        raise UnsupportedCase(f"CUPTI recorded no kernel, copy or fill in {calls} calls")
    ordered = sorted(records)
    durations = [end - start for start, end, _ in ordered]
    names = [name for _, _, name in ordered]
    length, left_over = divmod(len(names), calls)
    if left_over or names != names[:length] * calls:
        busy_ns = [sum(durations) / calls]
    else:
        busy_ns = [sum(durations[first : first + length]) for first in range(0, len(names), length)]
    return [duration / 1e9 for duration in busy_ns], len(names) / calls, list(dict.fromkeys(names))


def _torch_recorder() -> Recorder:
    from torch.profiler import ProfilerActivity, profile

    def record(run: Callable[[], None]) -> list[Record]:
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            run()
        # events() is public. Since torch 2.4 its time_range, in microseconds from the start of the trace, is
        # whole nanoseconds over 1000, a float, so that rounding gives them back.
        return [
            (round(event.time_range.start * 1e3), round(event.time_range.end * 1e3), event.name)
            for event in profiler.events()
            if event.device_type.name == "CUDA" and not getattr(event, "is_user_annotation", False)
        ]

    return record


@functools.cache  # CUPTI takes its callbacks once a process
def _cupti_recorder() -> Recorder:
    try:
        from cupti import cupti
    except ImportError:
        raise UnsupportedCase(
            "the time inside kernels needs CUPTI: pip install cupti-python of the driver's CUDA major version"
        ) from None
    kinds = [getattr(cupti.ActivityKind, name) for name in ("CONCURRENT_KERNEL", "MEMCPY", "MEMCPY2", "MEMSET")]
    completed: list[Record] = []
    read = functools.partial(_read, cupti, _demangler())
    try:
        cupti.activity_register_callbacks(
            lambda: (_BUFFER_BYTES, 0),  # 0: as many records as fit
            lambda activities: completed.extend(map(read, activities)),
        )
    except (cupti.cuptiError, RuntimeError) as error:
        raise UnsupportedCase(f"CUPTI does not start: {error}") from error

    def record(run: Callable[[], None]) -> list[Record]:
        completed.clear()
        try:
            for kind in kinds:
                cupti.activity_enable(kind)
        except (cupti.cuptiError, RuntimeError) as error:
            raise UnsupportedCase(f"CUPTI does not trace: {error}") from error
        run()
        cupti.activity_flush_all(_FLUSH_FORCED)
        for kind in kinds:
            cupti.activity_disable(kind)
        dropped = ctypes.c_size_t()
        cupti.activity_get_num_dropped_records(0, 0, ctypes.addressof(dropped))
        if dropped.value:
            raise UnsupportedCase(f"CUPTI dropped {dropped.value} records: trace fewer calls")
        if not all(start and end for start, end, _ in completed):
            raise UnsupportedCase("CUPTI recorded kernels without their times")
        return list(completed)

    return record


def _read(cupti: Any, demangle: Callable[[str], str], activity: Any) -> Record:
    # The classes are renamed from release to release, the kinds are not.
    if activity.kind == cupti.ActivityKind.CONCURRENT_KERNEL:
        name = demangle(activity.name)
    elif activity.kind == cupti.ActivityKind.MEMSET:
        name = "Memset"
    else:
        name = "Memcpy " + cupti.ActivityMemcpyKind(activity.copy_kind).name.replace("TO", "to")
    return activity.start, activity.end, name


def _demangler() -> Callable[[str], str]:
    """C++ names as in the source, where a libstdc++ is at hand; others, and names of C, as they are."""
    try:
        demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except OSError:
        return str
    demangle.restype = ctypes.c_void_p
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]

    def readable(name: str) -> str:
        text = demangle(name.encode(), None, None, None)
        if text is None:
            return name
        try:
            return ctypes.string_at(text).decode()
        finally:
            free(text)

    return readable
