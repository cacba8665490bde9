"""What happened around a case while it was timed: on its GPU, its host and in its memory. In seconds and bytes."""

from __future__ import annotations

from typing import Literal

import msgspec

from primbench.quantities import Amount, Seconds, Time, Whole

MOVED = "this process was moved to another control group"
"""Why it is not known how long a quota held it back."""


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True):
    """Another process that holds this GPU. memory_bytes: None where the driver hides it, as it does in containers."""

    pid: Whole
    memory_bytes: Whole | None = None


class GpuReading(msgspec.Struct, frozen=True, kw_only=True, gc=False):
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


class HostReading(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Counter differences of this process and machine while a case was timed; None with a reason in ``missing``.

    duration_s: without the turns of other arms.
    cpu_pressure_some_s: time in which some task of the machine (or cgroup) waited for a CPU. waited_s: the same of this
    process's own threads, of the one that waited longest, in its turns.
    throttled_s: time this cgroup was held back by its CPU quota, added up over CPUs, so that it can exceed the
    duration; quota_periods, throttled_periods: those that there were, and those in which it was held back.
    slow_cpus: those on which its busy threads were seen, before or after, that are of a slower kind than others that it
    may run on.
    others_s: CPU time that other programs took of the CPUs that it may run on, and of others of the same cores, which
    are ``cpus`` in number; stolen_s: that the hypervisor took of them while they had work. Both added up over these.
    read_bytes: that had to come from disks for this process and those that it waited for, and were not in the page
    cache. reread_bytes: of files, for any process of the machine, that had been taken out of the cache for want of
    memory.
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
    others_s: Seconds | None = None
    stolen_s: Seconds | None = None
    cpus: Whole | None = None
    read_bytes: Whole | None = None
    reread_bytes: Whole | None = None
    missing: dict[str, str] = {}

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


class NeighbourReading(msgspec.Struct, frozen=True, kw_only=True):
    """What ran beside a case, and how often, from before it was set up until after it was timed.

    words: as the command line has it. backend, device: where it ran. calls: that ended in those seconds.
    """

    words: str
    backend: str
    device: str
    calls: Whole
    duration_s: Time


class DataReading(msgspec.Struct, frozen=True, kw_only=True):
    """examples: that steps took in turn. read_bytes: of files, for a step's batch, on the average.

    cached_fraction: of the files, that the kernel had in memory at the end; None, where that cannot be seen.
    bad_examples: that could not be read or decoded, and others stood in for; bad: the first of them, and why.
    """

    examples: Whole
    read_bytes: Amount
    cached_fraction: Amount | None
    bad_examples: Whole
    bad: list[str]
