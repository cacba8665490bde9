"""What came out of a case (Measurement). Seconds and bytes throughout."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec.structs import replace

from primbench import stats
from primbench.measurement import notebook
from primbench.measurement.implementation import Implementation
from primbench.measurement.learnt import Learnt
from primbench.measurement.outputs import Output
from primbench.measurement.over_time import OverTime
from primbench.measurement.readings import DataReading, GpuReading, HostReading, NeighbourReading, Pages, Turns
from primbench.quantities import Amount, Seconds, Time, Whole
from primbench.units import format_percent, format_rate, format_time

# Of kernels and copies in graphs, on an H200, each a little more than was seen.
LONGEST_GAP_S = 0.6e-6  # between two kernels
LONGEST_START_S = 1.8e-6  # before the first of a call: a copy engine took 1.7 us, a graph of one empty kernel 0.8
MOST_SHARED_S = 0.25e-6  # of a kernel with the next: 0.21 of empty ones, 512 in a row, which CUPTI logs with their ends
MOST_OVERLAP = 0.02  # of the kernels' time, of a stream whose next kernel begins as the last one ends


class Samples(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One metric's raw samples, none deleted, and how they were taken."""

    samples_s: Annotated[list[Time], msgspec.Meta(min_length=1)]
    """Seconds a call; each sample is the mean of ``calls_per_sample`` consecutive calls."""
    calls_per_sample: Whole
    """How many calls a sample is of."""
    taken_by: str
    """How they were taken: "graph", "blocking kernel", "event pair", "host clock", "cupti", ..."""
    stopped: Literal["noise", "max time", "count"]
    """What ended the sampling: "noise" (quiet enough), "max time", or "count" (a fixed number was asked)."""
    loops_s: list[tuple[Whole, Time]] = []
    """What the same loop of Python took, which tells how fast the CPU was, each with the index of the sample that came
    next; none where the host has no part in the time, or several processes have.
    """
    queued_s: list[Time] = []
    """For each of loops_s, how long threads of this process waited for a CPU from then until the next loop, or the end:
    in every turn the one that waited longest. None at all where the kernel does not count it.
    """

    def __post_init__(self) -> None:
        """Raises ValueError, which makes a line of a file that is not so be refused."""
        if self.queued_s and len(self.queued_s) != len(self.loops_s):
            raise ValueError(f"{len(self.queued_s)} queued_s for {len(self.loops_s)} loops_s")

    @property
    def median_s(self) -> float:
        return stats.quantile(self.samples_s, 0.5)

    @property
    def noise(self) -> float | None:
        """Half-width of the 95 % interval of the median over the median; None below 6 samples."""
        return stats.relative_noise(self.samples_s)

    def quantile_s(self, q: float) -> float:
        return stats.quantile(self.samples_s, q)

    def tail_s(self, q: float) -> float | None:
        """The same of the slow ones; None of fewer than 1 / (1 - q) samples, of which it would be the slowest."""
        return self.quantile_s(q) if len(self.samples_s) >= round(1 / (1 - q)) else None

    def per_second(self, count: float) -> float | None:
        """So many a call, a second, by the median; None where the clock saw no time pass."""
        return count / self.median_s if self.median_s else None

    def alone(self) -> Samples:
        """Without the loops beside them."""
        return replace(self, loops_s=[], queued_s=[]) if self.loops_s else self

    def __repr__(self) -> str:
        """The median, without the samples."""
        calls = f" of {self.calls_per_sample} calls" * (self.calls_per_sample > 1)
        samples = f"{len(self.samples_s)} sample{'s' * (len(self.samples_s) > 1)}{calls}"
        return f"Samples({format_time(self.median_s, noise=self.noise)}, {samples}, {self.taken_by})"


class Trace(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the GPU itself logged, from a separate pass in a process of its own."""

    busy_s: Samples
    """Sum of the kernels' own durations a call."""
    kernels_per_call: Amount
    """Kernels that one call launches."""
    kernels: list[str]
    """Names of the kernels, in order of first appearance."""
    launch_to_start_s: Samples | None = None
    """From the CUDA call that launches to the start of the first kernel, the GPU idle before, with what logging adds to
    the call (1 us); None where the log does not say which call launched what.
    """
    overlapped_s: Amount | None = None
    """What of ``busy_s`` went by while another kernel ran, the mean of a call; None in files from before it was kept.
    """


class Measurement(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The times of one case. A metric that was not measured is None, with the reason in ``missing``.

    On a GPU these are enqueue_s, enqueue_single_s, wall_s, stream_s, device_s and, from a traced run, trace.busy_s; on
    a CPU wall_s and batch_s.
    """

    enqueue_s: Samples | None = None
    """Host time of a call that only enqueues, among many, the queue not full."""
    enqueue_single_s: Samples | None = None
    """Host time of a single call that only enqueues, the queue empty."""
    wall_s: Samples | None = None
    """Time of a single call that is waited for."""
    stream_s: Samples | None = None
    """Time of one of many calls in a row, as a loop in Python makes them."""
    device_s: Samples | None = None
    """Time of one of many calls in a row on the GPU, with launches out of the way."""
    batch_s: Samples | None = None
    """Time of one of many calls in a row on a CPU, in batches of at least 50 us."""
    others: dict[str, Samples] = {}
    """Times that only this primitive has, by name."""
    counts: dict[str, Whole] = {}
    """Numbers of a call that only it has, as of bytes."""
    refused_calls: dict[str, Whole] | None = None
    """Of calls under a seal (launch --seal), system calls that were refused, by name, and how often."""
    learnt: Learnt | None = None
    """What its trainings came to; None of a case that trains nothing."""
    trace: Trace | None = None
    """What the GPU logged; None without --trace."""
    missing: dict[str, str] = {}
    """Metric or field -> why it was not measured."""
    verified: bool | None = None
    """Whether the output agrees with the reference; None where it was not checked."""
    error: Amount | None = None
    """Largest ``|output - expected| / scale`` against the float64 reference; of an output that is to the last bit that
    of an earlier process of the same arm, the error of that one.
    """
    tolerance: Amount | None = None
    """The largest ``error`` with which the output counts as right."""
    output: Output | None = None
    """What calls gave, by digests; None, with the reason in ``missing``, where nothing was checked or several ranks
    share it, and in files from before it was kept.
    """
    warm_up_drift: Amount | None = None
    """How far the medians of the two last halves of the warm-up lay apart, as a share of the larger: it came to rest at
    0.01 or less. None, with the reason in ``missing``, where there was none, or too short a one.
    """
    input_sets: Whole = 1
    """How many sets of inputs are rotated with a cold cache, or as a step leaves it; 1 with a hot one."""
    input_sets_bytes: Whole = 0
    """What these sets hold together; of a part of a step at most, since several sets share what is near there."""
    nodes_per_call: Amount | None = None
    """Graph nodes (kernels, copies, fills) of one call, where it was captured."""
    longest_path_per_call: Amount | None = None
    """How many of these nodes are on the longest path, where each waits for the one before, the others being concurrent
    with them; None where nodes_per_call is, before CUDA 12.3, before torch 2.8, and in files from before it was kept.
    """
    algorithm: str | None = None
    """Which one a library chose; None where it does not say."""
    implementations: list[Implementation] | None = None
    """What torch's calls on a CPU took of the libraries that say so, oneDNN and MKL, each once; [] where it called
    neither, None where nobody was asked, and in files from before it was kept.
    """
    flop: Whole | None = None
    """Floating-point operations of one call; None where the primitive counts none."""
    bytes_moved: Whole | None = None
    """Bytes that one call has to move at least; None where the primitive counts none."""
    phases_s: dict[str, Seconds] = {}
    """What the case spent its time on, one after the other, from inputs to the last look at its place, without the
    turns of others and calls that do not count; on a GPU a check includes the warm-up. A metric's includes what is made
    for it; "timing" is what belongs to none, and in files from before metrics had their own, all of them.
    """
    gpu: GpuReading | None = None
    """The GPU around the case; None of a case on a CPU."""
    host: HostReading | None = None
    """What the host did to this process meanwhile."""
    pages: Pages | None = None
    """Where host buffers are; None, with the reason in ``missing``, where the case times none or they cannot be seen.
    """
    turns: Turns | None = None
    """Turns taken with processes of other arms; None, with the reason in ``missing``, where it was timed alone."""
    places: Whole = 1
    """How many places in memory inputs and outputs had, on which device_s was sampled."""
    neighbour: NeighbourReading | None = None
    """What another process did beside it, of an arm that has one; None of others."""
    over_time: OverTime | None = None
    """What it used while it ran; None, with the reason in ``missing``, where that was not sampled."""
    data: DataReading | None = None
    """What it read from disk; None of a case that reads no data set."""

    def times_alone(self) -> Measurement:
        """Without what was read of the place meanwhile, and what else took time."""
        times = {name: found.alone() for name in _TIMES if (found := getattr(self, name))}
        others = {name: found.alone() for name, found in self.others.items()}
        return replace(self, **times, others=others, phases_s={}, gpu=None, host=None)

    @property
    def main(self) -> Samples | None:
        """The metric that rates are computed from: device_s on a GPU, batch_s on a CPU.

        stream_s where calls wait for the GPU themselves, so that no device_s can be taken.
        """
        return self.device_s or self.batch_s or self.stream_s

    @property
    def busy_s(self) -> Samples | None:
        """Sum of the kernels' own durations a call, in seconds, by the trace; None without one."""
        return self.trace.busy_s if self.trace else None

    @property
    def flop_per_s(self) -> float | None:
        return _rate(self.flop, self.main)

    @property
    def bytes_per_s(self) -> float | None:
        return _rate(self.bytes_moved, self.main)

    @property
    def launch_bound_fraction(self) -> float | None:
        """1 - device_s / stream_s: the share of a Python loop's period that launching costs; 0 when negative."""
        if self.device_s is None or self.stream_s is None or not self.stream_s.median_s:
            return None
        return max(0.0, 1 - self.device_s.median_s / self.stream_s.median_s)

    @property
    def has_concurrent_kernels(self) -> bool:
        """Whether kernels of a call overlap others, by the trace, or may, by the graph; False also where none is known.

        A traced process launches kernels one by one, often too late for them to overlap, where a graph has them ready.
        """
        overlapped_s = (self.trace.overlapped_s if self.trace else None) or 0.0
        if self.trace and overlapped_s > MOST_OVERLAP * self.trace.busy_s.median_s:
            return True
        nodes, path = self.nodes_per_call, self.longest_path_per_call
        return nodes is not None and path is not None and path < nodes

    @property
    def gap_per_kernel_s(self) -> float | None:
        """(device_s - busy_s) / kernels: idle time the GPU leaves beside each kernel, launches out of the way.

        None where kernels are concurrent.
        """
        if self.device_s is None or self.trace is None or not self.trace.kernels_per_call:
            return None
        if self.has_concurrent_kernels:
            return None
        return (self.device_s.median_s - self.trace.busy_s.median_s) / self.trace.kernels_per_call

    @property
    def is_traced_otherwise(self) -> bool | None:
        """Whether the traced process ran other kernels than the timed one, by times that gaps do not explain.

        A library that tries algorithms and takes the fastest may choose differently in each process. Gaps and what two
        kernels share in a graph are short, and clocks at the power limit move times by some percent. None also where
        busy_s is more than device_s and kernels are concurrent: how far is another matter in each process, and in a
        graph.
        """
        if self.device_s is None or self.trace is None:
            return None
        device_s, busy_s = self.device_s.median_s, self.trace.busy_s.median_s
        kernels = self.trace.kernels_per_call
        if device_s - busy_s > LONGEST_START_S + LONGEST_GAP_S * kernels + 0.05 * device_s:
            return True
        if self.has_concurrent_kernels and busy_s > device_s:
            return None
        return busy_s - device_s > MOST_SHARED_S * kernels + 0.1 * device_s

    def __repr__(self) -> str:
        """The median of every metric that was taken, the rates, and whether the output was checked."""
        words = [
            f"{name.removesuffix('_s')}={format_time(found.median_s, noise=found.noise)}"
            for name, found in self._taken().items()
        ]
        words += [*_shown_rate(self.flop_per_s, "FLOP/s"), *_shown_rate(self.bytes_per_s, "B/s")]
        return f"Measurement({', '.join(words + ['verified'] * bool(self.verified))})"

    def _repr_html_(self) -> str:
        """For notebooks: a row a metric that was taken."""
        rows = [
            (name, format_time(each.median_s, noise=each.noise), format_percent(each.noise), f"{len(each.samples_s)}")
            for name, each in self._taken().items()
        ]
        rates = [*_shown_rate(self.flop_per_s, "FLOP/s"), *_shown_rate(self.bytes_per_s, "B/s")]
        title = "; ".join(["times of a call", *rates, *["verified"] * bool(self.verified)])
        return notebook.table(title, ["metric", "median", "noise", "samples"], rows)

    def _taken(self) -> dict[str, Samples]:
        """Metric -> its samples, of those that were taken."""
        every = {name: getattr(self, name) for name in (*self.__struct_fields__, "busy_s")} | self.others
        return {name: found for name, found in every.items() if isinstance(found, Samples)}


_TIMES = [name for name in Measurement.__struct_fields__ if Measurement.__annotations__[name] == "Samples | None"]


def _rate(count: int | None, samples: Samples | None) -> float | None:
    """``count`` a second; None where either is unknown, or the rate is."""
    return samples.per_second(count) if count is not None and samples else None


def _shown_rate(rate: float | None, what: Literal["FLOP/s", "B/s"]) -> list[str]:
    return [] if rate is None else [format_rate(rate, what)]
