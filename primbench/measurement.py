"""How a case is measured (Method) and what came out (Measurement). Seconds and bytes throughout."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from primbench import stats
from primbench.quantities import Amount, Seconds, Time, Whole
from primbench.units import format_time, rate_column

LONGEST_GAP_S = 0.6e-6  # between two kernels of a graph, and before the first


class Samples(msgspec.Struct, frozen=True, kw_only=True):
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

    def __repr__(self) -> str:
        """The median, without the samples."""
        calls = f" of {self.calls_per_sample} calls" * (self.calls_per_sample > 1)
        samples = f"{len(self.samples_s)} sample{'s' * (len(self.samples_s) > 1)}{calls}"
        return f"Samples({format_time(self.median_s, noise=self.noise)}, {samples}, {self.taken_by})"


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """What the GPU itself logged, from a separate pass in a process of its own.

    busy_s: sum of the kernels' own durations a call. kernels_per_call: launches of one call; kernels: their
    names in order of first appearance.
    launch_to_start_s: from the CUDA call that launches to the start of the first kernel, the GPU idle before, with
    what logging adds to the call (1 us); None where the log does not say which call launched what.
    """

    busy_s: Samples
    kernels_per_call: Amount
    kernels: list[str]
    launch_to_start_s: Samples | None = None


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True):
    """Another process that holds this GPU. memory_bytes: None where the driver hides it, as it does in containers."""

    pid: Whole
    memory_bytes: Whole | None = None


class GpuReading(msgspec.Struct, frozen=True, kw_only=True):
    """The GPU around a case. Clocks, power and reasons are read while the case's own work runs on it.

    energy_j: by the board's counter, over ``energy_time_s``, the time in which the main metric was sampled; of a second
    and more, since the counter moves on every 0.1 s. power_w, too, is up to 0.1 s old.
    clocks_event_reasons: NVML's names of what holds the clocks back; [] is nothing.
    foreign_processes: those that held the GPU before or after the case was timed, but for the case's own.
    held_back_s: policy of the driver ("power", "thermal", "sync boost") -> time in which it held the clocks down while
    the case was timed; pcie_replays, ecc_errors_uncorrected: how many there were in that time.
    missing: field -> why it could not be read.
    """

    sm_clock_hz: Amount | None = None
    memory_clock_hz: Amount | None = None
    power_w: Amount | None = None
    temperature_c: Amount | None = None
    clocks_event_reasons: list[str] | None = None
    energy_j: Amount | None = None
    energy_time_s: Seconds | None = None
    foreign_processes: list[GpuProcess] | None = None
    held_back_s: dict[str, Seconds] | None = None
    pcie_replays: Whole | None = None
    ecc_errors_uncorrected: Whole | None = None
    missing: dict[str, str] = {}


class Pages(msgspec.Struct, frozen=True, kw_only=True):
    """Where the pages of the host buffers that a case timed really are, read back before and after it was timed.

    by_node: memory node -> pages, of all buffers together, after. asked: the nodes they were to be on; [] is none.
    misplaced: less than 99 % of them are on the nodes asked for, before or after. read_by: the means; numa_maps counts
    the mappings that the buffers are in, with what else is in them.
    sampled_of: how many pages the buffers have, where ``by_node`` counts a sample; None where it counts all.
    """

    by_node: dict[Whole, Whole]
    asked: list[Whole]
    misplaced: bool
    read_by: Literal["numa_maps", "move_pages"]
    sampled_of: Whole | None = None


class HostReading(msgspec.Struct, frozen=True, kw_only=True):
    """Counter differences of this process and machine while a case was timed; None with a reason in ``missing``.

    duration_s: without the turns of other arms.
    cpu_pressure_some_s: time in which some task of the machine (or cgroup) waited for a CPU. waited_s: the same of this
    process's own threads, of the one that waited longest, in its turns.
    throttled_s: time this cgroup was held back by its CPU quota, added up over CPUs, so that it can exceed the
    duration; quota_periods, throttled_periods: those that there were, and those in which it was held back.
    slow_cpus: those on which its busy threads were seen, before or after, that are of a slower kind than others that it
    may run on.
    """

    duration_s: Time
    cpu_time_s: Time
    voluntary_switches: Whole
    involuntary_switches: Whole
    cpu_pressure_some_s: Seconds | None = None
    waited_s: Seconds | None = None
    throttled_s: Seconds | None = None
    quota_periods: Whole | None = None
    throttled_periods: Whole | None = None
    slow_cpus: list[Whole] | None = None
    missing: dict[str, str] = {}

    def share(self, waited_s: float | None) -> float | None:
        """Share of the duration, at most 1: pressure can exceed it, as the kernel adds that up every 2 s.

        None where it is unknown, or the clock saw no time pass.
        """
        return min(1.0, waited_s / self.duration_s) if waited_s is not None and self.duration_s else None


class Turns(msgspec.Struct, frozen=True, kw_only=True):
    """How a process took turns with those of other arms, which timed the same case.

    count: its turns. cpu: the one on which all of them called; None where each was where the kernel put it. waited_s:
    while others had theirs; queued_s: of that, for the CPU with its next turn already there, None where the kernel does
    not count it; uncounted_s: what calls took at the beginning of turns, that are in no sample. shares_s: metric -> how
    long it was worth sampling by what the first pairs told, and was sampled where its rule allows it.
    """

    count: Whole
    cpu: Whole | None
    waited_s: Seconds
    queued_s: Seconds | None
    uncounted_s: Seconds
    shares_s: dict[str, Seconds] = {}


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """The times of one case. A metric that was not measured is None, with the reason in ``missing``.

    On a GPU: enqueue_s, enqueue_single_s, wall_s, stream_s, device_s and, from a traced run, trace.busy_s.
    On a CPU: wall_s (one call a sample) and batch_s (back-to-back calls in batches of at least 50 us).
    others: times that only this primitive has, by name.
    refused_calls: of calls under a seal (launch --seal), system calls that were refused, by name, and how often.

    error: largest ``|output - expected| / scale`` against the float64 reference; tolerance: its limit.
    input_sets: 1 when hot; when cold, how many sets are rotated, and the bytes they hold together.
    nodes_per_call: graph nodes (kernels, copies, fills) of one call, where it was captured.
    phases_s: what the case spent its time on, from inputs to the last sample; on a GPU a check includes the warm-up.
    places: in memory, of inputs and outputs, on which device_s was sampled.
    turns: with the processes of other arms; None, with the reason in ``missing``, where it was timed alone.
    pages: of host buffers; None, with the reason in ``missing``, where the case times none or they cannot be seen.
    """

    enqueue_s: Samples | None = None
    enqueue_single_s: Samples | None = None
    wall_s: Samples | None = None
    stream_s: Samples | None = None
    device_s: Samples | None = None
    batch_s: Samples | None = None
    others: dict[str, Samples] = {}
    refused_calls: dict[str, Whole] | None = None
    trace: Trace | None = None
    missing: dict[str, str] = {}
    verified: bool | None = None
    error: Amount | None = None
    tolerance: Amount | None = None
    input_sets: Whole = 1
    input_sets_bytes: Whole = 0
    nodes_per_call: Amount | None = None
    algorithm: str | None = None
    flop: Whole | None = None
    bytes_moved: Whole | None = None
    phases_s: dict[str, Seconds] = {}
    gpu: GpuReading | None = None
    host: HostReading | None = None
    pages: Pages | None = None
    turns: Turns | None = None
    places: Whole = 1

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
    def gap_per_kernel_s(self) -> float | None:
        """(device_s - busy_s) / kernels: idle time the GPU leaves beside each kernel, launches out of the way."""
        if self.device_s is None or self.trace is None or not self.trace.kernels_per_call:
            return None
        return (self.device_s.median_s - self.trace.busy_s.median_s) / self.trace.kernels_per_call

    @property
    def is_traced_otherwise(self) -> bool | None:
        """Whether the traced process ran other kernels than the timed one, by times that gaps do not explain.

        A library that tries algorithms and takes the fastest may choose differently in each process. Gaps last at most
        0.6 us a kernel, and clocks at the power limit move times by some percent.
        """
        if self.device_s is None or self.trace is None:
            return None
        device_s, busy_s = self.device_s.median_s, self.trace.busy_s.median_s
        gaps_s = LONGEST_GAP_S * self.trace.kernels_per_call
        return device_s - busy_s > gaps_s + 0.05 * device_s or busy_s > 1.1 * device_s

    def __repr__(self) -> str:
        """The median of every metric that was taken, the rates, and whether the output was checked."""
        taken = {name: getattr(self, name) for name in (*self.__struct_fields__, "busy_s")} | self.others
        words = [
            f"{name.removesuffix('_s')}={format_time(found.median_s, noise=found.noise)}"
            for name, found in taken.items()
            if isinstance(found, Samples)
        ]
        words += [*_shown_rate(self.flop_per_s, "FLOP/s"), *_shown_rate(self.bytes_per_s, "B/s")]
        return f"Measurement({', '.join(words + ['verified'] * bool(self.verified))})"


def _rate(count: int | None, samples: Samples | None) -> float | None:
    """``count`` a second, by the median; None where either is unknown or the clock saw no time pass."""
    return count / samples.median_s if count is not None and samples and samples.median_s else None


def _shown_rate(rate: float | None, what: Literal["FLOP/s", "B/s"]) -> list[str]:
    if rate is None:
        return []
    unit, (cell,) = rate_column([rate], what)
    return [f"{cell} {unit}"]
