"""What the GPU itself logged while a step ran: the time of each kernel, copy and fill, by CUPTI.

CUPTI slows launches down, and still does after it is off: a trace runs in a process of its own. Only one user
of CUPTI fits into a process: torch brings its own, the other backends go through cupti-python.
"""

from __future__ import annotations

import ctypes
import functools
import math
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from primbench.errors import UnsupportedCase
from primbench.measurement import Samples, Trace
from primbench.registry import setup_of
from primbench.timing.calls import CallLoop
from primbench.timing.feasibility import check_memory
from primbench.timing.inputs import set_up
from primbench.timing.sampling import CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from primbench.backends import Backend
    from primbench.problem import Problem
    from primbench.spec.method import Method


TRACED_S = 20e-3
MIN_TRACED, MAX_TRACED = 10, 200  # calls
_BUFFER_BYTES = 8 * 2**20
_FLUSH_FORCED = 1  # CUPTI_ACTIVITY_FLAG_FLUSH_FORCED, cupti_activity.h


class TracedActivity(NamedTuple):
    """One kernel, copy or fill, by one clock."""

    start_ns: int
    end_ns: int
    name: str
    correlation: int = 0
    """What it has in common with the call that launched it."""


class ApiCall(NamedTuple):
    """A call of CUDA."""

    correlation: int
    start_ns: int


class Log(NamedTuple):
    """What the GPU did, and the calls of CUDA where they were asked for; in any order."""

    work: list[TracedActivity]
    calls: list[ApiCall]


class Recorder(Protocol):
    def __call__(self, run: Callable[[], None], *, calls: bool = False) -> Log:
        """Run a function that ends with a synchronize. calls: log the calls of CUDA, too."""


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

    def run_apart() -> None:
        for _ in range(calls):
            run(1)

    # Loading CUPTI takes long enough for the clocks to sink, so the first recording comes before the warm-up.
    record(functools.partial(run, 1))
    warm()
    backend.synchronize()
    work = record(functools.partial(run, calls)).work
    samples_s, kernels_per_call, kernels = split_calls(work, calls)
    # Last, since logging the API's calls slows them further.
    apart_s = launch_to_start(record(run_apart, calls=True), calls)
    taken_by = "torch.profiler" if is_torch else "cupti"

    def taken(seconds: list[float]) -> Samples:
        return Samples(samples_s=seconds, calls_per_sample=calls // len(seconds), taken_by=taken_by, stopped="count")

    return Trace(
        busy_s=taken(samples_s),
        kernels_per_call=kernels_per_call,
        kernels=kernels,
        launch_to_start_s=taken(apart_s) if apart_s else None,
        overlapped_s=overlapped_ns(work) / calls / 1e9,
    )


def split_calls(records: Sequence[TracedActivity], calls: int) -> tuple[list[float], float, list[str]]:
    """Busy seconds of each call, kernels a call, and names in order of first appearance.

    Calls are told apart only where each launches the same sequence; else the one sample is the mean of all.
    Raises UnsupportedCase when nothing was recorded.
    """
    if not records:
        raise UnsupportedCase(f"CUPTI recorded no kernel, copy or fill in {calls} calls")
    ordered = sorted(records)
    durations = [record.end_ns - record.start_ns for record in ordered]
    names = [record.name for record in ordered]
    length, left_over = divmod(len(names), calls)
    if left_over or names != names[:length] * calls:
        busy_ns = [sum(durations) / calls]
    else:
        busy_ns = [sum(durations[first : first + length]) for first in range(0, len(names), length)]
    return [duration / 1e9 for duration in busy_ns], len(names) / calls, list(dict.fromkeys(names))


def overlapped_ns(records: Sequence[TracedActivity]) -> int:
    """How much less time went by with a kernel running than all of them ran for."""
    overlapped = end_ns = 0
    for record in sorted(records):
        overlapped += max(0, min(end_ns, record.end_ns) - record.start_ns)
        end_ns = max(end_ns, record.end_ns)
    return overlapped


def launch_to_start(log: Log, calls: int) -> list[float]:
    """Seconds from the call that launches to the start of what it launches, of the first launch of each of ``calls``.

    [] where the log does not say which call launched what.
    """
    began = _earliest(log.calls)
    started = _earliest(ApiCall(record.correlation, record.start_ns) for record in log.work)
    launches = sorted((began[each], started[each]) for each in began.keys() & started.keys())
    per_call, left_over = divmod(len(launches), calls)
    # A start ahead of its call is two clocks that disagree.
    if left_over or not per_call or any(start < begin for begin, start in launches):
        return []
    return [(start - begin) / 1e9 for begin, start in launches[::per_call]]


def _earliest(calls: Iterable[ApiCall]) -> dict[int, int]:
    """Correlation -> start: a call of the runtime may show as one of the driver, too; a graph's kernels share one."""
    latest_first = sorted(calls, key=lambda call: -call.start_ns)
    return {call.correlation: call.start_ns for call in latest_first}


def _torch_recorder() -> Recorder:
    from torch.profiler import ProfilerActivity, profile

    def record(run: Callable[[], None], *, calls: bool = False) -> Log:
        """The calls are logged in any case."""
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            run()
        # events() is public. Since torch 2.4 its time_range, in microseconds from the start of the trace, is
        # whole nanoseconds over 1000, a float, so that rounding gives them back.
        events = [
            (event.device_type.name, round(event.time_range.start * 1e3), round(event.time_range.end * 1e3), event)
            for event in profiler.events()
            if not getattr(event, "is_user_annotation", False)
        ]
        return Log(
            [
                TracedActivity(start, end, event.name, event.id)
                for device, start, end, event in events
                if device == "CUDA"
            ],
            [ApiCall(event.id, start) for device, start, _, event in events if device == "CPU"],
        )

    return record


@functools.cache  # CUPTI takes its callbacks once in a process
def _cupti_recorder() -> Recorder:
    try:
        from cupti import cupti
    except ImportError:
        raise UnsupportedCase(
            "the time inside kernels needs CUPTI: pip install cupti-python of the driver's CUDA major version"
        ) from None
    return _CuptiRecorder(cupti)


class _CuptiRecorder:
    def __init__(self, cupti: Any) -> None:
        kinds = cupti.ActivityKind
        self._cupti = cupti
        self._work_kinds = [kinds.CONCURRENT_KERNEL, kinds.MEMCPY, kinds.MEMCPY2, kinds.MEMSET]
        self._call_kinds = [kinds.RUNTIME, kinds.DRIVER]
        self._demangle = _demangler()
        self._log = Log([], [])
        try:
            # 0: as many records as fit
            cupti.activity_register_callbacks(lambda: (_BUFFER_BYTES, 0), self._read)
        except (cupti.cuptiError, RuntimeError) as error:
            raise UnsupportedCase(f"CUPTI does not start: {error}") from error

    def __call__(self, run: Callable[[], None], *, calls: bool = False) -> Log:
        cupti, log = self._cupti, Log([], [])
        self._log = log
        kinds = self._work_kinds + (self._call_kinds if calls else [])
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
        if not all(record.start_ns and record.end_ns for record in log.work):
            raise UnsupportedCase("CUPTI recorded kernels without their times")
        return log

    def _read(self, activities: Iterable[Any]) -> None:
        """CUPTI's records are its own again when this returns."""
        for activity in activities:
            if activity.kind in self._call_kinds:
                self._log.calls.append(ApiCall(activity.correlation_id, activity.start))
            else:
                name = _name(self._cupti, self._demangle, activity)
                self._log.work.append(TracedActivity(activity.start, activity.end, name, activity.correlation_id))


def _name(cupti: Any, demangle: Callable[[str], str], activity: Any) -> str:
    # The classes are renamed from release to release, the kinds are not.
    if activity.kind == cupti.ActivityKind.CONCURRENT_KERNEL:
        return demangle(activity.name)
    if activity.kind == cupti.ActivityKind.MEMSET:
        return "Memset"
    copied: str = cupti.ActivityMemcpyKind(activity.copy_kind).name
    return "Memcpy " + copied.replace("TO", "to")


def _demangler() -> Callable[[str], str]:
    """C++ names as in the source, where a libstdc++ is at hand; others, and names of C, as they are."""
    try:
        demangle = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
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


def trace_on(backend: Backend, problem: Problem, method: Method, kernel: str = "") -> Trace:
    """What the GPU itself logs of back-to-back calls, warmed up for as long as they were before being timed.

    For a process that times nothing: tracing makes launches slower, and they stay so. Raises UnsupportedCase where
    no tracer is installed.
    """
    import numpy as np

    check_memory(backend, problem)
    inputs = problem.inputs(np.random.default_rng(method.seed))
    steps, _ = set_up(backend, problem, inputs, method, setup_of(problem.primitive, backend.name, kernel))
    calls = CallLoop(steps)
    calls(1)
    backend.synchronize()
    call_s = _one_call_s(backend, calls)
    warm_calls = math.ceil(1.5 * method.min_time_s / call_s)
    traced_calls = min(MAX_TRACED, max(MIN_TRACED, math.ceil(TRACED_S / call_s)))
    return trace(backend, lambda: calls(1), traced_calls, lambda: calls(warm_calls))


def _one_call_s(backend: Backend, calls: CallLoop) -> float:
    start = CLOCK()
    calls(1)
    backend.synchronize()
    return (CLOCK() - start) / 1e9
