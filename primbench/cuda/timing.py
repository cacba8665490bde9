"""The times of a case on an NVIDIA GPU: enqueue, wall, stream and device, each by the means that isolates it."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from msgspec.structs import replace

from primbench import nvml
from primbench.backends import CudaBackend, Graph
from primbench.cuda import driver
from primbench.measurement import GpuReading, Method, Samples
from primbench.sampling import Calls, Clock, Take, collect, host_timed, main_rule, secondary_rule, warm_up

SAMPLE_S = 1e-3  # what lies between two graphs, an event and a start, is 2 us: 0.2 % of this
BATCH_S = 500e-6  # an event's 0.5 us is 0.1 % of this
ROUND_S = 20e-3  # work queued at once between two looks at the clock
LOAD_S = 20e-3  # work under which clocks and power are read
MAX_GRAPH_CALLS = 4096
MAX_QUEUED = 400  # launches; the queue of a stream holds about a thousand
ENQUEUE_CALLS = 64
ENQUEUE_WAIT_S = 2e-3


@dataclass(frozen=True)
class CudaTimes:
    """The timed metrics of one case; ``missing`` says why one is None."""

    enqueue_s: Samples
    enqueue_single_s: Samples
    wall_s: Samples
    stream_s: Samples
    device_s: Samples | None
    nodes_per_call: float | None
    gpu: GpuReading
    missing: dict[str, str]


@dataclass(frozen=True)
class DeviceSampler:
    """The means by which device_s is sampled."""

    take: Take
    calls_per_sample: int
    taken_by: str
    nodes_per_call: float | None


def measure(backend: CudaBackend, calls: Calls, sets: int, method: Method, clock: Clock) -> CudaTimes:
    """Time a case whose kernels have all run before. ``sets`` input sets are rotated by ``calls``.

    device_s comes first, after a warm-up in which clocks and power settle, and stream_s right behind it: a large
    product runs 10 % faster in its first milliseconds than once the board has reached its power limit.
    """
    stream = backend.stream_handle
    rough_s = _rough_time_s(calls, stream)
    missing = {"batch_s": "on a GPU stream_s is the period of back-to-back calls"}
    device = _device_sampler(backend, calls, sets, rough_s, missing)
    device_s, gpu = _device(backend, device, calls, rough_s, method, clock) if device else (None, GpuReading())
    stream_s = _stream(calls, stream, rough_s, method, clock)
    call_s = device_s.median_s if device_s else stream_s.median_s
    nodes = device.nodes_per_call if device else None
    enqueue_s = _enqueue(backend, calls, call_s, nodes, method, clock)
    wall_s, single_s = _round_trip(backend, calls, method, clock)
    return CudaTimes(enqueue_s, single_s, wall_s, stream_s, device_s, nodes, gpu, missing)


def _device(
    backend: CudaBackend, sampler: DeviceSampler, calls: Calls, call_s: float, method: Method, clock: Clock
) -> tuple[Samples, GpuReading]:
    """device_s, with the energy it took and the clocks it ran at."""
    warm_up(sampler.take, clock, window_s=method.min_time_s, max_time_s=method.max_time_s / 2)
    (before_j, reason), start = nvml.energy_j(backend.device), clock()
    device_s = collect(
        sampler.take,
        main_rule(method),
        clock,
        calls_per_sample=sampler.calls_per_sample,
        taken_by=sampler.taken_by,
    )
    (after_j, _), energy_time_s = nvml.energy_j(backend.device), (clock() - start) / 1e9
    gpu = _load(backend, calls, call_s)
    if before_j is None or after_j is None:
        return device_s, replace(gpu, missing=gpu.missing | {"energy_j": reason or "the counter vanished"})
    return device_s, replace(gpu, energy_j=after_j - before_j, energy_time_s=energy_time_s)


def _stream(calls: Calls, stream: int, call_s: float, method: Method, clock: Clock) -> Samples:
    """The period of back-to-back calls, launched as they come."""
    count = max(3, math.ceil(BATCH_S / call_s))

    def take() -> list[float]:
        return [event_pair(calls, stream, count)]

    warm_up(take, clock, window_s=0.0, max_time_s=method.max_time_s / 20)
    return collect(take, secondary_rule(method), clock, calls_per_sample=count, taken_by="event pair")


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


def _rough_time_s(calls: Calls, stream: int) -> float:
    event_pair(calls, stream, 1)
    return max(event_pair(calls, stream, 3), 1e-7)


def _device_sampler(
    backend: CudaBackend, calls: Calls, sets: int, call_s: float, missing: dict[str, str]
) -> DeviceSampler | None:
    """A graph, or a blocking kernel where the library refuses to be captured; None where neither will do."""
    try:
        graph, count = _graph(backend, calls, sets, call_s)
    except Exception as refusal:  # each framework has its own error for "not while capturing"
        driver.synchronize(backend.stream_handle)
        missing["nodes_per_call"] = f"not captured in a graph: {type(refusal).__name__}: {refusal}"[:300]
        blocked = _blocked_sampler(backend.stream_handle, calls, call_s)
        if blocked is None:
            missing["device_s"] = "a call does not return while the stream is held: it waits for the GPU itself"
        return blocked
    take = _graph_sampler(graph, backend.stream_handle, count)
    return DeviceSampler(take, count, "graph", graph.nodes / count)


def _graph(backend: CudaBackend, calls: Calls, sets: int, stream_s: float) -> tuple[Graph, int]:
    """A graph of enough calls for one sample; captured again when launches had hidden how short a call is."""
    count = _graph_calls(stream_s, sets)
    graph = backend.capture(lambda: calls(count))
    take = _graph_sampler(graph, backend.stream_handle, count)
    take()
    needed = _graph_calls(min(take()), sets)
    if needed > 1.5 * count:
        return backend.capture(lambda: calls(needed)), needed
    return graph, count


def _graph_calls(call_s: float, sets: int) -> int:
    """Calls that fill a sample, rounded up to whole rounds of the input sets."""
    wanted = min(MAX_GRAPH_CALLS, max(1, math.ceil(SAMPLE_S / max(call_s, 1e-8))))
    return math.ceil(wanted / sets) * sets


def _graph_sampler(graph: Graph, stream: int, count: int) -> Take:
    """Each round queues one graph ahead, then graphs with an event between each two: no sample sees the host."""
    events = [driver.Event(), driver.Event()]

    def take() -> list[float]:
        graph.launch()
        for event in events:
            event.record(stream)
            if event is not events[-1]:
                graph.launch()
        driver.synchronize(stream)
        samples = [before.seconds_until(after) / count for before, after in itertools.pairwise(events)]
        while len(events) <= min(100, ROUND_S / (samples[-1] * count)):
            events.append(driver.Event())
        return samples

    return take


def _blocked_sampler(stream: int, calls: Calls, call_s: float) -> DeviceSampler | None:
    """Samples of calls queued behind a kernel that holds the stream; None where the host cannot run ahead."""
    blocker = driver.Blocker(stream)
    count = min(MAX_QUEUED, max(1, math.ceil(SAMPLE_S / call_s)))
    while count >= 1:
        take = _blocked(blocker, stream, calls, count)
        take()
        if not blocker.timed_out:
            return DeviceSampler(take, count, "blocking kernel", None)
        count //= 4  # the queue was full: a call makes more launches than one
    return None


def _blocked(blocker: driver.Blocker, stream: int, calls: Calls, count: int) -> Take:
    before, after = driver.Event(), driver.Event()

    def take() -> list[float]:
        blocker.hold()
        before.record(stream)
        calls(count)
        after.record(stream)
        blocker.release()
        driver.synchronize(stream)
        return [before.seconds_until(after) / count]

    return take


def _enqueue(
    backend: CudaBackend, calls: Calls, device_s: float, nodes: float | None, method: Method, clock: Clock
) -> Samples:
    """Host time of calls that never find the queue full, each batch starting from an idle stream."""
    queueable = MAX_QUEUED / max(1.0, nodes or 8.0)
    count = max(1, int(min(ENQUEUE_CALLS, queueable, ENQUEUE_WAIT_S / device_s)))
    timed = host_timed(calls, count, clock)

    def take() -> list[float]:
        backend.synchronize()
        return timed()

    take()
    return collect(take, secondary_rule(method), clock, calls_per_sample=count, taken_by="host clock")


def _round_trip(backend: CudaBackend, calls: Calls, method: Method, clock: Clock) -> tuple[Samples, Samples]:
    """One call and a wait, from an idle stream, and within it the time until the call returned."""
    singles: list[float] = []

    def take() -> list[float]:
        backend.synchronize()
        start = clock()
        calls(1)
        returned = clock()
        backend.synchronize()
        end = clock()
        singles.append((returned - start) / 1e9)
        return [(end - start) / 1e9]

    for _ in range(3):
        take()
    singles.clear()
    wall_s = collect(take, secondary_rule(method), clock, calls_per_sample=1, taken_by="host clock")
    single_s = Samples(samples_s=singles, calls_per_sample=1, taken_by="host clock", stopped=wall_s.stopped)
    return wall_s, single_s


def _load(backend: CudaBackend, calls: Calls, call_s: float) -> GpuReading:
    """Clocks, power and what holds them back, read while the case's own calls run."""
    calls(max(1, min(MAX_QUEUED, math.ceil(LOAD_S / call_s))))
    load = nvml.read_load(backend.device)
    driver.synchronize(backend.stream_handle)
    return load
