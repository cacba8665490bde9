"""What happened around a case while it was timed: on its GPU, its host and in its memory. In seconds and bytes."""

from __future__ import annotations

from typing import Literal

import msgspec

from primbench.quantities import Amount, Seconds, Time, Whole

MOVED = "this process was moved to another control group"
"""Why it is not known how long a quota held it back."""
OTHERS_FRACTION = 0.05
"""Of the time of its CPUs: a quiet machine of 16 shows 0.1 %, one of 2 up to 4, busy ones half."""
LEAST_OTHERS_S = 0.1
"""Ten ticks of the clock that the kernel counts by, each of which may be on the wrong side."""


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True):
    """Another process that holds this GPU."""

    pid: Whole
    memory_bytes: Whole | None = None
    """GPU memory that it holds; None where the driver hides that, as it does in containers."""


class GpuReading(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The GPU around a case. Clocks, power and reasons are read while the case's own work runs on it."""

    sm_clock_hz: Amount | None = None
    memory_clock_hz: Amount | None = None
    power_w: Amount | None = None
    temperature_c: Amount | None = None
    clocks_event_reasons: list[str] | None = None
    """NVML's names of what holds the clocks back; [] is nothing."""
    energy_j: Amount | None = None
    """Energy by the board's counter, over ``energy_time_s``, the time in which the main metric was sampled; of a second
    and more, since the counter moves on every 0.1 s. power_w, too, is up to 0.1 s old.
    """
    energy_time_s: Seconds | None = None
    foreign_processes: list[GpuProcess] | None = None
    """Processes that held the GPU before or after the case was timed, but for the case's own."""
    held_back_s: dict[str, Seconds] | None = None
    """Policy of the driver ("power", "thermal", "sync boost") -> time in which it held the clocks down while the case
    was timed.
    """
    pcie_replays: Whole | None = None
    """Packets sent anew over PCIe while the case was timed."""
    ecc_errors_uncorrected: Whole | None = None
    """Memory errors that could not be corrected while the case was timed."""
    missing: dict[str, str] = {}
    """Field -> why it could not be read."""


class Pages(msgspec.Struct, frozen=True, kw_only=True):
    """Where the pages of the host buffers that a case timed really are, read back before and after it was timed."""

    by_node: dict[Whole, Whole]
    """Memory node -> pages, of all buffers together, after."""
    asked: list[Whole]
    """The nodes they were to be on; [] is none."""
    misplaced: bool
    """Whether less than 99 % of them are on the nodes asked for, before or after."""
    read_by: Literal["numa_maps", "move_pages"]
    """How they were counted; numa_maps counts the mappings that the buffers are in, with what else is in them."""
    sampled_of: Whole | None = None
    """How many pages the buffers have, where ``by_node`` counts a sample; None where it counts all."""


class NeighbourProcess(msgspec.Struct, frozen=True, kw_only=True):
    """Another process that had the CPUs."""

    pid: Whole
    name: str
    """Its number and name."""
    cpu_time_s: Seconds
    """While a job was watched; of a case since such processes were looked for last, which can be before it."""


class HostReading(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Counter differences of this process and machine while a case was timed; None with a reason in ``missing``."""

    duration_s: Time
    """How long the case was timed, without the turns of other arms."""
    cpu_time_s: Time
    voluntary_switches: Whole
    involuntary_switches: Whole
    cpu_pressure_some_s: Seconds | None = None
    """Time in which some task of the machine (or cgroup) waited for a CPU."""
    waited_s: Seconds | None = None
    """Time in which this process's own threads waited for a CPU, of the one that waited longest, in its turns."""
    throttled_s: Seconds | None = None
    """Time this cgroup was held back by its CPU quota, added up over CPUs, so that it can exceed the duration."""
    quota_periods: Whole | None = None
    """Periods of its CPU quota."""
    throttled_periods: Whole | None = None
    """Those of ``quota_periods`` in which it was held back."""
    slow_cpus: list[Whole] | None = None
    """CPUs on which its busy threads were seen, before or after, that are of a slower kind than others that it may run
    on.
    """
    others_s: Seconds | None = None
    """CPU time that other programs took of the CPUs that it may run on, and of others of the same cores, which are
    ``cpus`` in number.
    """
    stolen_s: Seconds | None = None
    """CPU time that the hypervisor took of these CPUs while they had work, added up over them."""
    cpus: Whole | None = None
    others: list[NeighbourProcess] = []
    """Other programs, the busiest first, looked up where ``others_s`` is more than a quiet machine has."""
    read_bytes: Whole | None = None
    """Bytes that had to come from disks for this process and those that it waited for, and were not in the page cache.
    """
    reread_bytes: Whole | None = None
    """Bytes of files, read again for any process of the machine, that had been taken out of the cache for want of
    memory.
    """
    missing: dict[str, str] = {}

    @property
    def is_beside_others(self) -> bool:
        """Whether other programs took more of its CPUs than they do on a quiet machine."""
        share = self.others_share
        return share is not None and share > OTHERS_FRACTION and (self.others_s or 0.0) > LEAST_OTHERS_S

    @property
    def others_share(self) -> float | None:
        """Share of the time of its CPUs that other programs took; None is unknown."""
        there_s = (self.cpus or 0) * self.duration_s
        return self.others_s / there_s if self.others_s is not None and there_s else None

    @property
    def was_moved(self) -> bool:
        """Whether the process was moved to another control group meanwhile."""
        return self.missing.get("throttled_s") == MOVED

    def share(self, waited_s: float | None) -> float | None:
        """Share of the duration, at most 1: pressure can exceed it, as the kernel adds that up every 2 s.

        None where it is unknown, or the clock saw no time pass.
        """
        return min(1.0, waited_s / self.duration_s) if waited_s is not None and self.duration_s else None


class Turns(msgspec.Struct, frozen=True, kw_only=True):
    """How a process took turns with those of other arms, which timed the same case."""

    count: Whole
    """How many turns it had."""
    cpu: Whole | None
    """The CPU on which all of them called; None where each was where the kernel put it."""
    waited_s: Seconds
    """Time in which others had their turns."""
    queued_s: Seconds | None
    """What of ``waited_s`` it waited for the CPU with its next turn already there, None where the kernel does not count
    it.
    """
    uncounted_s: Seconds
    """What calls took at the beginning of turns, that are in no sample."""
    shares_s: dict[str, Seconds] = {}
    """Metric -> how long it was worth sampling by what the first pairs told, and was sampled where its rule allows it.
    """


class NeighbourReading(msgspec.Struct, frozen=True, kw_only=True):
    """What ran beside a case, and how often, from before it was set up until after it was timed."""

    words: str
    """The neighbour as the command line has it."""
    backend: str
    """With which backend it ran."""
    device: str
    """On which device it ran."""
    calls: Whole
    """Its calls that ended in those seconds."""
    duration_s: Time


class DataReading(msgspec.Struct, frozen=True, kw_only=True):
    """What steps read from a data set on disk."""

    examples: Whole
    """Examples that steps took in turn."""
    read_bytes: Amount
    """Bytes of files for a step's batch, on the average."""
    cached_fraction: Amount | None
    """Share of the files that the kernel had in memory at the end; None, where that cannot be seen."""
    bad_examples: Whole
    """Examples that could not be read or decoded, and others stood in for."""
    bad: list[str]
    """The first of ``bad_examples``, and why."""
