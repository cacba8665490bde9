"""How the GPU's own time of calls is sampled: in graphs, or behind a kernel that holds the stream."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from primbench.errors import UnsupportedCase
from primbench.gpu import vendor_of
from primbench.timing.sampling import MIN_SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from primbench.backends import GpuBackend, Graph
    from primbench.gpu import StreamBlocker
    from primbench.timing.calls import CallLoop
    from primbench.timing.sampling import Pace, Take

SAMPLE_S = 1e-3  # what lies between two graphs, an event and a start, is 2 us: 0.2 % of this
# Of calls whose graph branches. One behind the other in a graph, or by several instances in turn, they may take longer
# than as a job replays them: a training step around cuDNN's recurrent kernel (63 of 66 nodes on the longest path) took
# 273 us where four were in a graph and 250 us where one was, on an H200.
BRANCHING_SAMPLE_S = 0.2e-3
# Ahead of a sample on other memory than the one before, for the cache; behind 0.1 ms recurrent calls took 0.5 % longer.
LEAD_S = 0.25e-3
ROUND_S = 10e-3  # work queued at once between two looks at the clock
LONG_ROUND_S = 0.2  # of calls that take long: at the beginning of each round goes one that is not timed
MAX_GRAPH_CALLS = 4096
MAX_COPIED_CALLS = 4096  # in graphs on other memory: to make these takes 25 us a call
MIN_QUEUED = 4  # a first call begins some us after the event: another engine may have to be told
MAX_QUEUED = 400  # launches; the queue of a stream holds about a thousand
MAX_ROUND_SAMPLES = 100
HELD_TRIES = 3
NOTHING = "a call launches nothing"
TRIED_S, TRIED_CALLS = 0.05, 20  # in which a call returns that waits for no GPU, in seconds and in times of a call


@dataclass(frozen=True)
class DeviceSampler:
    """The means by which device_s is sampled."""

    take: Take
    """Takes samples of what is on the stream."""
    enqueue: Callable[[], None]
    """Puts the calls of one sample on the stream and returns."""
    calls_per_sample: int
    """How many calls that are."""
    taken_by: str
    """The name of the means, as ``Samples`` has it."""
    nodes_per_call: float | None
    """Graph nodes of one call; None where it was not captured."""
    leads_in: bool
    """Whether calls that do not count go ahead of those that do."""
    places: int = 1
    """How many places in memory it goes round."""
    longest_path_per_call: float | None = None
    """How many nodes of a call are on the longest path; None where that is not known."""


def device_sampler(
    backend: GpuBackend, copies: Sequence[CallLoop], call_s: float, pace: Pace, missing: dict[str, str]
) -> DeviceSampler | None:
    """A graph, or a blocking kernel where one is not wanted or refused; None where neither will do.

    copies: the calls, and the same on other memory, which graphs take one after the other.
    """
    calls = copies[0]
    if calls.launches_nothing:
        missing["device_s"] = NOTHING
        return None
    if calls.waits:
        missing |= dict.fromkeys(("nodes_per_call", "device_s"), calls.waits)
        return None
    if calls.stream_only:
        return _without_graph(backend, calls, call_s, pace, missing, why="its time is taken on a stream")
    try:
        graph, count = _graph(backend, calls, call_s, pace)
        if calls.launches_nothing:  # as its graph is empty
            missing["device_s"] = NOTHING
            return None
        copied = _captured_all(backend, copies[1 : MAX_COPIED_CALLS // count], count, pace)
        graphs = [graph, *copied]
        ahead = _graph_calls(LEAD_S, call_s, 1)
        leads = graphs if ahead >= count or not copied else _captured_all(backend, copies[: len(graphs)], ahead, pace)
    except Exception as refusal:  # each framework has its own error for "not while capturing"
        vendor_of(backend.device).synchronize(backend.stream_handle)
        return _without_graph(backend, calls, call_s, pace, missing, why=f"{type(refusal).__name__}: {refusal}"[:300])
    if copied:
        take = _rotated([*zip(leads, graphs, strict=True)], backend, count, pace)
    else:
        take = chained(graph.launch, backend, count, ROUND_S, pace, sample_s=count * call_s)
    nodes, longest_path = _nodes_per_call(graph, count, pace)
    return DeviceSampler(
        take,
        graph.launch,
        count,
        "graph",
        nodes,
        leads_in=True,
        places=1 + len(copied),
        longest_path_per_call=longest_path,
    )


def _nodes_per_call(graph: Graph, count: int, pace: Pace) -> tuple[float, float | None]:
    """Of the rank that has the most: how many, and how many are on the longest path, None where that is not known."""
    nodes, longest_path, unknown = pace.slowest(
        [graph.nodes / count, (graph.longest_path or 0) / count, float(graph.longest_path is None)]
    )
    return nodes, None if unknown else longest_path


def _without_graph(
    backend: GpuBackend, calls: CallLoop, call_s: float, pace: Pace, missing: dict[str, str], *, why: str
) -> DeviceSampler | None:
    missing["nodes_per_call"] = f"not captured in a graph: {why}"
    blocked = _blocked_sampler(backend, calls, call_s, pace)
    if blocked is None:
        missing["device_s"] = "a call does not return while the stream is held: it waits for the GPU itself"
    return blocked


def _graph(backend: GpuBackend, calls: CallLoop, stream_s: float, pace: Pace) -> tuple[Graph, int]:
    """A graph of as many calls as fill a sample: another where launches had hidden how many, or where it branches."""
    count = _graph_calls(SAMPLE_S, stream_s, calls.sets)
    graph = _captured(backend, calls, count, pace)
    calls.launches_nothing = not any(pace.slowest([graph.nodes]))
    take = chained(graph.launch, backend, count, 0.0, pace, sample_s=count * stream_s)
    (least_s,) = take()
    if least_s * count < ROUND_S:  # else what a first launch costs is lost in it
        (least_s,) = take()
    (branches,) = pace.slowest([float(graph.longest_path is not None and graph.longest_path < graph.nodes)])
    needed = _graph_calls(BRANCHING_SAMPLE_S if branches else SAMPLE_S, least_s, calls.sets)
    return (graph, count) if count == needed else (_captured(backend, calls, needed, pace), needed)


def _captured_all(backend: GpuBackend, copies: Sequence[CallLoop], count: int, pace: Pace) -> list[Graph]:
    return [_captured(backend, each, count, pace) for each in copies]


def _captured(backend: GpuBackend, calls: CallLoop, count: int, pace: Pace) -> Graph:
    """Raises where the framework refuses, in every process where it does so in one."""
    try:
        graph = backend.capture(lambda: calls.apart(count))
    except Exception:
        pace.slowest([1.0])
        raise
    if any(pace.slowest([0.0])):
        raise UnsupportedCase("another rank could not capture")
    return graph


def _graph_calls(sample_s: float, call_s: float, sets: int) -> int:
    """Calls that fill a sample, in whole rounds of the input sets: one, two, four, ..., or as many as a graph may have.

    So few numbers that the next run takes the same: with two calls in a graph, whose results lie elsewhere in memory
    than those of three, an inference of a convolutional network took 464 us on an H200, and with three 474.
    """
    rounds = math.ceil(max(1, math.ceil(sample_s / max(call_s, 1e-8))) / sets)
    return sets * max(1, min(MAX_GRAPH_CALLS // sets, 1 << (rounds - 1).bit_length()))


def _blocked_sampler(backend: GpuBackend, calls: CallLoop, call_s: float, pace: Pace) -> DeviceSampler | None:
    """Samples of calls queued behind a kernel that holds the stream; None where the host cannot run ahead."""
    gpu, stream = vendor_of(backend.device), backend.stream_handle
    trial = gpu.Blocker(stream, limit_s=min(gpu.HELD_S, max(TRIED_S, TRIED_CALLS * call_s)))
    if _blocked_sample(trial, backend, calls, 1, pace) is None:
        return None
    blocker = gpu.Blocker(stream)
    count = min(MAX_QUEUED, max(MIN_QUEUED, math.ceil(SAMPLE_S / call_s)))
    while _blocked_sample(blocker, backend, calls, count, pace) is None:
        if count == 1:
            return None
        count = max(1, count // 4)  # the queue was full: a call makes more launches than one

    def take() -> list[float]:
        for _ in range(HELD_TRIES):
            sample = _blocked_sample(blocker, backend, calls, count, pace)
            if sample is not None:
                return [sample]
        raise UnsupportedCase(f"the host could not queue {count} calls within the second that the stream was held")

    return DeviceSampler(take, lambda: calls(count), count, "blocking kernel", None, leads_in=False)


def _blocked_sample(
    blocker: StreamBlocker, backend: GpuBackend, calls: CallLoop, count: int, pace: Pace
) -> float | None:
    """Seconds a call; None where the stream was let go too early, and the time would hold launches."""
    gpu, stream = vendor_of(backend.device), backend.stream_handle
    before, after = gpu.Event(), gpu.Event()
    blocker.hold()
    before.record(stream)
    calls(count)
    after.record(stream)
    blocker.release()
    gpu.synchronize(stream)
    early, sample_s = pace.slowest([float(blocker.timed_out), before.seconds_until(after) / count])
    return None if early else sample_s


def chained(
    enqueue: Callable[[], None], backend: GpuBackend, count: int, round_s: float, pace: Pace, *, sample_s: float
) -> Take:
    """Samples of ``enqueue``, which makes ``count`` calls, one behind the other with an event between each two.

    One more is queued ahead of the first event, so that no sample waits for the host to begin, and rounds last
    ``round_s``, long enough that clocks do not recover in between. round_s: 0 is one sample. sample_s: about what the
    first will take, as later ones are known by those before.
    """
    gpu, stream = vendor_of(backend.device), backend.stream_handle
    events = [gpu.Event() for _ in range(1 + max(1, int(_round_samples(sample_s, round_s, pace))))]

    def take() -> list[float]:
        enqueue()
        for event in events:
            event.record(stream)
            if event is not events[-1]:
                enqueue()
        gpu.synchronize(stream)
        samples = pace.slowest([before.seconds_until(after) / count for before, after in itertools.pairwise(events)])
        while len(events) <= _round_samples(samples[-1] * count, round_s, pace):
            events.append(gpu.Event())
        return samples

    return take


def _round_samples(sample_s: float, round_s: float, pace: Pace) -> float:
    """How many fill a round; alone, as many as a median takes, in a round that is not too long for that."""
    fitting = round_s / sample_s
    if round_s and not pace.has_others:
        fitting = max(fitting, min(MIN_SAMPLES, LONG_ROUND_S / sample_s))
    return min(MAX_ROUND_SAMPLES, fitting)


def _rotated(graphs: Sequence[tuple[Graph, Graph]], backend: GpuBackend, count: int, pace: Pace) -> Take:
    """A sample of each: of its second, which makes ``count`` calls, behind its first, which goes for the cache."""
    gpu, stream = vendor_of(backend.device), backend.stream_handle
    events = [(gpu.Event(), gpu.Event()) for _ in graphs]

    def take() -> list[float]:
        graphs[-1][1].launch()  # while which the host gets ahead
        for (lead, graph), (before, after) in zip(graphs, events, strict=True):
            lead.launch()
            before.record(stream)
            graph.launch()
            after.record(stream)
        gpu.synchronize(stream)
        return pace.slowest([before.seconds_until(after) / count for before, after in events])

    return take


def event_pair(calls: CallLoop, backend: GpuBackend, count: int, *, ahead: int = 1) -> float:
    """Seconds a call by two events around ``count`` calls, with ``ahead`` calls queued ahead of the first event.

    These keep the stream from waiting for the host after the first event has been reached.
    """
    gpu, stream = vendor_of(backend.device), backend.stream_handle
    before, after = gpu.Event(), gpu.Event()
    calls(ahead)
    before.record(stream)
    calls(count)
    after.record(stream)
    gpu.synchronize(stream)
    return before.seconds_until(after) / count
