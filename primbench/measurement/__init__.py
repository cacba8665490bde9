"""What came out of a case (Measurement). Seconds and bytes throughout."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from primbench import stats
from primbench.measurement import notebook
from primbench.measurement.implementation import Implementation
from primbench.measurement.learnt import Learnt
from primbench.measurement.outputs import Output
from primbench.measurement.over_time import OverTime
from primbench.measurement.readings import DataReading, GpuReading, HostReading, NeighbourReading, Pages, Turns
from primbench.quantities import Amount, Seconds, Time, Whole
from primbench.units import format_percent, format_time, rate_column

# Of kernels and copies in graphs, on an H200, each a little more than was seen.
LONGEST_GAP_S = 0.6e-6  # between two kernels
LONGEST_START_S = 1.8e-6  # before the first of a call: a copy engine took 1.7 us, a graph of one empty kernel 0.8
MOST_SHARED_S = 0.25e-6  # of a kernel with the next: 0.21 of empty ones, 512 in a row, which CUPTI logs with their ends
MOST_OVERLAP = 0.02  # of the kernels' time, of a stream whose next kernel begins as the last one ends


class Samples(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One metric's raw samples, none deleted, and how they were taken.

    samples_s: seconds a call; each sample is the mean of ``calls_per_sample`` consecutive calls.
    taken_by: the means, in words: "graph", "blocking kernel", "event pair", "host clock", "cupti", ...
    stopped: what ended the sampling: "noise" (quiet enough), "max time", or "count" (a fixed number was asked).
    loops_s: what the same loop of Python took, which tells how fast the CPU was, each with the index of the sample that
    came next; none where the host has no part in the time, or several processes have.
    queued_s: for each of loops_s, how long threads of this process waited for a CPU from then until the next loop, or
    the end: in every turn the one that waited longest. None at all where the kernel does not count it.
    """

    samples_s: Annotated[list[Time], msgspec.Meta(min_length=1)]
    calls_per_sample: Whole
    taken_by: str
    stopped: Literal["noise", "max time", "count"]
    loops_s: list[tuple[Whole, Time]] = []
    queued_s: list[Time] = []

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

    def __repr__(self) -> str:
        """The median, without the samples."""
        calls = f" of {self.calls_per_sample} calls" * (self.calls_per_sample > 1)
        samples = f"{len(self.samples_s)} sample{'s' * (len(self.samples_s) > 1)}{calls}"
        return f"Samples({format_time(self.median_s, noise=self.noise)}, {samples}, {self.taken_by})"


class Trace(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the GPU itself logged, from a separate pass in a process of its own.

    busy_s: sum of the kernels' own durations a call. kernels_per_call: launches of one call; kernels: their
    names in order of first appearance. overlapped_s: of the sum, what went by while another kernel ran, the mean of a
    call; None in files from before it was kept.
    launch_to_start_s: from the CUDA call that launches to the start of the first kernel, the GPU idle before, with
    what logging adds to the call (1 us); None where the log does not say which call launched what.
    """

    busy_s: Samples
    kernels_per_call: Amount
    kernels: list[str]
    launch_to_start_s: Samples | None = None
    overlapped_s: Amount | None = None


class Measurement(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The times of one case. A metric that was not measured is None, with the reason in ``missing``.

    On a GPU: enqueue_s, enqueue_single_s, wall_s, stream_s, device_s and, from a traced run, trace.busy_s; on a CPU:
    wall_s (one call a sample), batch_s (back-to-back calls in batches of at least 50 us). others: times that only this
    primitive has, by name; counts: numbers of a call that only it has, as of bytes; data: what it read from disk.
    learnt: what its trainings came to, of one that trains.
    refused_calls: of calls under a seal (launch --seal), system calls that were refused, by name, and how often.
    error: largest ``|output - expected| / scale`` against the float64 reference; tolerance: its limit. An output that
    is to the last bit that of an earlier process of the same arm has the error of that one.
    output: what calls gave, by digests; None, with the reason in ``missing``, where nothing was checked or several
    ranks share it, and in files from before it was kept.
    input_sets: 1 when hot; when cold, how many sets are rotated, and the bytes they hold together.
    nodes_per_call: graph nodes (kernels, copies, fills) of one call, where it was captured. longest_path_per_call: how
    many of those are on the longest path, where each waits for the one before, the others being concurrent with them;
    None where nodes_per_call is, before CUDA 12.3, before torch 2.8, and in files from before it was kept.
    implementations: what torch's calls on a CPU took of the libraries that say so, oneDNN and MKL, each once; [] where
    it called neither, None where nobody was asked, and in files from before it was kept.
    phases_s: what the case spent its time on, one after the other, from inputs to the last look at its place, without
    the turns of others and calls that do not count; on a GPU a check includes the warm-up. A metric's includes what is
    made for it; "timing" is what belongs to none, and in files from before metrics had their own, all of them.
    warm_up_drift: how far the medians of the two last halves of the warm-up lay apart, as a share of the larger: it
    came to rest at 0.01 or less. None, with the reason in ``missing``, where there was none, or too short a one.
    places: in memory, of inputs and outputs, on which device_s was sampled.
    turns: with the processes of other arms; None, with the reason in ``missing``, where it was timed alone.
    neighbour: what another process did beside it, of an arm that has one; None of others.
    over_time: what it used while it ran; None, with the reason in ``missing``, where that was not sampled.
    pages: of host buffers; None, with the reason in ``missing``, where the case times none or they cannot be seen.
    """

    enqueue_s: Samples | None = None
    enqueue_single_s: Samples | None = None
    wall_s: Samples | None = None
    stream_s: Samples | None = None
    device_s: Samples | None = None
    batch_s: Samples | None = None
    others: dict[str, Samples] = {}
    counts: dict[str, Whole] = {}
    refused_calls: dict[str, Whole] | None = None
    learnt: Learnt | None = None
    trace: Trace | None = None
    missing: dict[str, str] = {}
    verified: bool | None = None
    error: Amount | None = None
    tolerance: Amount | None = None
    output: Output | None = None
    warm_up_drift: Amount | None = None
    input_sets: Whole = 1
    input_sets_bytes: Whole = 0
    nodes_per_call: Amount | None = None
    longest_path_per_call: Amount | None = None
    algorithm: str | None = None
    implementations: list[Implementation] | None = None
    flop: Whole | None = None
    bytes_moved: Whole | None = None
    phases_s: dict[str, Seconds] = {}
    gpu: GpuReading | None = None
    host: HostReading | None = None
    pages: Pages | None = None
    turns: Turns | None = None
    places: Whole = 1
    neighbour: NeighbourReading | None = None
    over_time: OverTime | None = None
    data: DataReading | None = None

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


def _rate(count: int | None, samples: Samples | None) -> float | None:
    """``count`` a second; None where either is unknown, or the rate is."""
    return samples.per_second(count) if count is not None and samples else None


def _shown_rate(rate: float | None, what: Literal["FLOP/s", "B/s"]) -> list[str]:
    if rate is None:
        return []
    unit, (cell,) = rate_column([rate], what)
    return [f"{cell} {unit}"]
