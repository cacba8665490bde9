"""The times of a case on an NVIDIA GPU: enqueue, wall, stream and device, each by the means that isolates it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from msgspec.structs import replace

from primbench import nvml
from primbench.backends import CudaBackend, Graph
from primbench.cuda import driver
from primbench.measurement import GpuReading, Method, Samples
from primbench.sampling import Calls, Clock, Take, collect, host_timed, main_rule, secondary_rule, warm_up

SAMPLE_S = 250e-6  # an event's 0.5 us is 0.2 % of this, and a graph's start vanishes in it
ROUND_S = 10e-3  # work queued at once between two looks at the clock
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


def measure(backend: CudaBackend, calls: Calls, sets: int, method: Method, clock: Clock) -> CudaTimes:
    """Time a case whose kernels have all run before. ``sets`` input sets are rotated by ``calls``."""
    stream = backend.stream_handle
    rough_s = _rough_time_s(calls, stream)
    batch = _stream_batch(calls, stream, rough_s)
    warm_up(batch, clock, min_time_s=0.0, max_time_s=method.max_time_s / 2)
    stream_s = collect(
        batch, secondary_rule(method), clock, calls_per_sample=_batch_calls(rough_s), taken_by="event pair"
    )
    missing: dict[str, str] = {}
    take, per_sample, taken_by, nodes = _device_sampler(backend, calls, sets, stream_s.median_s, missing)
    device_s, gpu = None, GpuReading()
    if take is not None:
        warm_up(take, clock, min_time_s=method.min_time_s / 2, max_time_s=method.max_time_s / 2)
        before_j, start = nvml.energy_j(backend.device), clock()
        device_s = collect(take, main_rule(method), clock, calls_per_sample=per_sample, taken_by=taken_by)
        after_j, energy_time_s = nvml.energy_j(backend.device), (clock() - start) / 1e9
        energy_j = after_j - before_j if after_j is not None and before_j is not None else None
        gpu = replace(_load(backend, calls, rough_s), energy_j=energy_j, energy_time_s=energy_time_s)
    busy_s = device_s.median_s if device_s else stream_s.median_s
    enqueue_s = _enqueue(backend, calls, busy_s, nodes, method, clock)
    wall_s, single_s = _round_trip(backend, calls, method, clock)
    return CudaTimes(enqueue_s, single_s, wall_s, stream_s, device_s, nodes, gpu, missing)


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


def _batch_calls(call_s: float) -> int:
    return max(3, math.ceil(2 * SAMPLE_S / call_s))


def _stream_batch(calls: Calls, stream: int, call_s: float) -> Take:
    count = _batch_calls(call_s)
    return lambda: [event_pair(calls, stream, count)]


def _device_sampler(
    backend: CudaBackend, calls: Calls, sets: int, stream_s: float, missing: dict[str, str]
) -> tuple[Take | None, int, str, float | None]:
    """The means for device_s: a graph, or a blocking kernel where the library refuses to be captured."""
    try:
        graph, count = _graph(backend, calls, sets, stream_s)
    except Exception as refusal:  # each framework has its own error for "not while capturing"
        driver.synchronize(backend.stream_handle)
        missing["nodes_per_call"] = f"not captured in a graph: {type(refusal).__name__}: {refusal}"[:300]
        take, count = _blocked_sampler(backend.stream_handle, calls, stream_s)
        if take is None:
            missing["device_s"] = "a call does not return while the stream is held: it waits for the GPU itself"
        return take, count, "blocking kernel", None
    return _graph_sampler(graph, backend.stream_handle, count), count, "graph", graph.nodes / count


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
        samples = [
            before.seconds_until(after) / count for before, after in zip(events, events[1:], strict=False)
        ]
        while len(events) <= min(100, ROUND_S / (samples[-1] * count)):
            events.append(driver.Event())
        return samples

    return take


def _blocked_sampler(stream: int, calls: Calls, call_s: float) -> tuple[Take | None, int]:
    """Samples of calls queued behind a kernel that holds the stream; None where the host cannot run ahead."""
    blocker = driver.Blocker(stream)
    count = min(MAX_QUEUED, max(1, math.ceil(SAMPLE_S / call_s)))
    while count >= 1:
        take = _blocked(blocker, stream, calls, count)
        take()
        if not blocker.timed_out:
            return take, count
        count //= 4  # the queue was full: a call makes more launches than one
    return None, 0


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
