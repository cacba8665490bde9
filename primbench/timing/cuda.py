"""The times of a case on an NVIDIA GPU: enqueue, wall, stream and device, each by the means that isolates it."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.cuda import driver
from primbench.errors import UnsupportedCase
from primbench.measurement import GpuReading, Measurement, Samples
from primbench.timing import gpu_counters
from primbench.timing.sampling import Calls, Pace, StoppingRule, Take, collect, main_rule, warm_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.backends import CudaBackend, Graph
    from primbench.spec.method import Method

SAMPLE_S = 1e-3  # what lies between two graphs, an event and a start, is 2 us: 0.2 % of this
BATCH_S = 500e-6  # an event's 0.5 us is 0.1 % of this
ROUND_S = 20e-3  # work queued at once between two looks at the clock
STREAM_ROUND_S = 5e-3  # shorter: a wait of 20 us between rounds lets no clock recover
LOAD_S = 10e-3  # work under which clocks and power are read
MAX_GRAPH_CALLS = 4096
MIN_QUEUED = 4  # a first call begins some us after the event: another engine may have to be told
MAX_QUEUED = 400  # launches; the queue of a stream holds about a thousand
ENQUEUE_CALLS = 64
ENQUEUE_WAIT_S = 2e-3
HELD_TRIES = 3


@dataclass(frozen=True)
class DeviceSampler:
    """The means by which device_s is sampled. enqueue: puts the calls of one sample on the stream and returns."""

    take: Take
    enqueue: Callable[[], None]
    calls_per_sample: int
    taken_by: str
    nodes_per_call: float | None


def measure(backend: CudaBackend, calls: Calls, method: Method, secondary: StoppingRule, pace: Pace) -> Measurement:
    """The times of a case whose kernels have all run before.

    secondary: when to stop sampling what is not device_s.

    device_s comes first, after a warm-up in which clocks and power settle, and stream_s right behind it: a large
    product runs 10 % faster in its first milliseconds than once the board has reached its power limit.
    """
    before = gpu_counters.start(backend.device)
    stream = backend.stream_handle
    rough_s = _rough_time_s(calls, stream, pace)
    missing = {"batch_s": "on a GPU stream_s is the period of back-to-back calls"}
    device = _device_sampler(backend, calls, rough_s, pace, missing)
    device_s, gpu = _device(backend, device, method, pace) if device else (None, GpuReading())
    stream_s = _stream(calls, stream, rough_s, secondary, pace, settle_s=method.max_time_s / 100)
    wall_s, single_s = _round_trip(backend, calls, secondary, pace)
    gpu = gpu_counters.since(before, gpu)
    timed = Measurement(wall_s=wall_s, stream_s=stream_s, device_s=device_s, gpu=gpu, missing=missing)
    if device is None or device_s is None:
        waits = dict.fromkeys(("enqueue_s", "enqueue_single_s"), missing["device_s"])
        return replace(timed, missing=missing | waits)
    enqueue_s = _enqueue(backend, calls, device_s.median_s, secondary, pace, nodes=device.nodes_per_call)
    return replace(timed, enqueue_s=enqueue_s, enqueue_single_s=single_s, nodes_per_call=device.nodes_per_call)


def _device(backend: CudaBackend, sampler: DeviceSampler, method: Method, pace: Pace) -> tuple[Samples, GpuReading]:
    """device_s, with the energy it took and the clocks it ran at."""
    warm_up(sampler.take, pace.now, window_s=method.min_time_s, max_time_s=method.max_time_s / 2)
    (before_j, reason), start = gpu_counters.energy_j(backend.device), pace.clock()
    device_s = collect(
        sampler.take,
        main_rule(method),
        pace.now,
        calls_per_sample=sampler.calls_per_sample,
        taken_by=sampler.taken_by,
    )
    (after_j, _), energy_time_s = gpu_counters.energy_j(backend.device), (pace.clock() - start) / 1e9
    gpu = _load(backend, sampler, device_s.median_s)
    if before_j is None or after_j is None:
        return device_s, replace(gpu, missing=gpu.missing | {"energy_j": reason or "the counter vanished"})
    return device_s, replace(gpu, energy_j=after_j - before_j, energy_time_s=energy_time_s)


def _stream(
    calls: Calls, stream: int, call_s: float, secondary: StoppingRule, pace: Pace, *, settle_s: float
) -> Samples:
    """The period of back-to-back calls, launched as they come. settle_s: the most that the warm-up takes."""
    count = math.ceil(BATCH_S / call_s)
    take = _chained(lambda: calls(count), stream, count, STREAM_ROUND_S, pace)
    warm_up(take, pace.now, window_s=0.0, max_time_s=settle_s)
    return collect(take, secondary, pace.now, calls_per_sample=count, taken_by="event pair")


def _chained(enqueue: Callable[[], None], stream: int, count: int, round_s: float, pace: Pace) -> Take:
    """Samples of ``enqueue``, which makes ``count`` calls, one behind the other with an event between each two.

    One more is queued ahead of the first event, so that no sample waits for the host to begin, and rounds last long
    enough that clocks do not recover in between.
    """
    events = [driver.Event(), driver.Event()]

    def take() -> list[float]:
        enqueue()
        for event in events:
            event.record(stream)
            if event is not events[-1]:
                enqueue()
        driver.synchronize(stream)
        samples = pace.slowest([before.seconds_until(after) / count for before, after in itertools.pairwise(events)])
        while len(events) <= min(100, round_s / (samples[-1] * count)):
            events.append(driver.Event())
        return samples

    return take


def event_pair(calls: Calls, stream: int, count: int) -> float:
    """Seconds a call by two events around ``count`` calls, with one call queued ahead of the first event.

    The call ahead keeps the stream from waiting for the host after the first event has been reached.
    """
    before, after = driver.Event(), driver.Event()
    calls(1)
    before.record(stream)
    calls(count)
    after.record(stream)
    driver.synchronize(stream)
    return before.seconds_until(after) / count


def _rough_time_s(calls: Calls, stream: int, pace: Pace) -> float:
    event_pair(calls, stream, 1)
    (call_s,) = pace.slowest([event_pair(calls, stream, 3)])
    return max(call_s, 1e-7)


def _device_sampler(
    backend: CudaBackend, calls: Calls, call_s: float, pace: Pace, missing: dict[str, str]
) -> DeviceSampler | None:
    """A graph, or a blocking kernel where one is not wanted or refused; None where neither will do."""
    if calls.stream_only:
        return _without_graph(backend, calls, call_s, pace, missing, why="its time is taken on a stream")
    try:
        graph, count = _graph(backend, calls, call_s, pace)
    except Exception as refusal:  # each framework has its own error for "not while capturing"
        driver.synchronize(backend.stream_handle)
        return _without_graph(backend, calls, call_s, pace, missing, why=f"{type(refusal).__name__}: {refusal}"[:300])
    take = _chained(graph.launch, backend.stream_handle, count, ROUND_S, pace)
    (nodes_per_call,) = pace.slowest([graph.nodes / count])
    return DeviceSampler(take, graph.launch, count, "graph", nodes_per_call)


def _without_graph(
    backend: CudaBackend, calls: Calls, call_s: float, pace: Pace, missing: dict[str, str], *, why: str
) -> DeviceSampler | None:
    missing["nodes_per_call"] = f"not captured in a graph: {why}"
    blocked = _blocked_sampler(backend.stream_handle, calls, call_s, pace)
    if blocked is None:
        missing["device_s"] = "a call does not return while the stream is held: it waits for the GPU itself"
    return blocked


def _graph(backend: CudaBackend, calls: Calls, stream_s: float, pace: Pace) -> tuple[Graph, int]:
    """A graph of enough calls for one sample; captured again when launches had hidden how short a call is."""
    count = _graph_calls(stream_s, calls.sets)
    graph = _captured(backend, calls, count, pace)
    take = _chained(graph.launch, backend.stream_handle, count, ROUND_S, pace)
    take()
    needed = _graph_calls(min(take()), calls.sets)
    if needed > 1.5 * count:
        return _captured(backend, calls, needed, pace), needed
    return graph, count


def _captured(backend: CudaBackend, calls: Calls, count: int, pace: Pace) -> Graph:
    """Raises where the framework refuses, in every process where it does so in one."""
    try:
        graph = backend.capture(lambda: calls(count))
    except Exception:
        pace.slowest([1.0])
        raise
    if any(pace.slowest([0.0])):
        raise UnsupportedCase("another rank could not capture")
    return graph


def _graph_calls(call_s: float, sets: int) -> int:
    """Calls that fill a sample, rounded up to whole rounds of the input sets."""
    wanted = min(MAX_GRAPH_CALLS, max(1, math.ceil(SAMPLE_S / max(call_s, 1e-8))))
    return math.ceil(wanted / sets) * sets


def _blocked_sampler(stream: int, calls: Calls, call_s: float, pace: Pace) -> DeviceSampler | None:
    """Samples of calls queued behind a kernel that holds the stream; None where the host cannot run ahead."""
    blocker = driver.Blocker(stream)
    if _blocked_sample(blocker, stream, calls, 1, pace) is None:
        return None
    count = min(MAX_QUEUED, max(MIN_QUEUED, math.ceil(SAMPLE_S / call_s)))
    while _blocked_sample(blocker, stream, calls, count, pace) is None:
        if count == 1:
            return None
        count = max(1, count // 4)  # the queue was full: a call makes more launches than one

    def take() -> list[float]:
        for _ in range(HELD_TRIES):
            sample = _blocked_sample(blocker, stream, calls, count, pace)
            if sample is not None:
                return [sample]
        raise UnsupportedCase(f"the host could not queue {count} calls within the second that the stream was held")

    return DeviceSampler(take, lambda: calls(count), count, "blocking kernel", None)


def _blocked_sample(blocker: driver.Blocker, stream: int, calls: Calls, count: int, pace: Pace) -> float | None:
    """Seconds a call; None where the stream was let go too early, and the time would hold launches."""
    before, after = driver.Event(), driver.Event()
    blocker.hold()
    before.record(stream)
    calls(count)
    after.record(stream)
    blocker.release()
    driver.synchronize(stream)
    early, sample_s = pace.slowest([float(blocker.timed_out), before.seconds_until(after) / count])
    return None if early else sample_s


def _enqueue(
    backend: CudaBackend, calls: Calls, device_s: float, secondary: StoppingRule, pace: Pace, *, nodes: float | None
) -> Samples:
    """Host time of calls that never find the queue full, each batch starting from an idle stream."""
    queueable = MAX_QUEUED / max(1.0, nodes or 8.0)
    count = max(1, int(min(ENQUEUE_CALLS, queueable, ENQUEUE_WAIT_S / device_s)))
    timed = pace.host_timed(calls, count)

    def take() -> list[float]:
        backend.synchronize()
        return timed()

    take()
    return collect(take, secondary, pace.now, calls_per_sample=count, taken_by="host clock", loop=pace.loop)


def _round_trip(backend: CudaBackend, calls: Calls, secondary: StoppingRule, pace: Pace) -> tuple[Samples, Samples]:
    """One call and a wait, from an idle stream, and within it the time until the call returned."""
    singles: list[float] = []
    clock = pace.clock

    def take() -> list[float]:
        backend.synchronize()
        pace.begin()
        start = clock()
        calls(1)
        returned = clock()
        backend.synchronize()
        end = clock()
        single_s, wall_s = pace.slowest([(returned - start) / 1e9, (end - start) / 1e9])
        singles.append(single_s)
        return [wall_s]

    for _ in range(3):
        take()
    singles.clear()
    wall_s = collect(take, secondary, pace.now, calls_per_sample=1, taken_by="host clock", loop=pace.loop)
    single_s = replace(wall_s, samples_s=singles, loops_s=[])
    return wall_s, single_s


def _load(backend: CudaBackend, sampler: DeviceSampler, call_s: float) -> GpuReading:
    """Clocks, power and what holds them back, read while the case's own calls run."""
    for _ in range(max(1, math.ceil(LOAD_S / (call_s * sampler.calls_per_sample)))):
        sampler.enqueue()
    load = gpu_counters.read_load(backend.device)
    driver.synchronize(backend.stream_handle)
    return load
