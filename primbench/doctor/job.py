"""A job that is watched, and what it did in a stretch of time, as causes see it: numbers, whoever read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from primbench.environment.limits import Limits
from primbench.measurement.readings import GpuProcess, NeighbourProcess
from primbench.quantities import Amount, Lasting, Seconds, Whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# CUDA Driver API, "Execution Control" and "Graph Management", and its cuda.h for those that are called where default
# streams are per thread. cuGetProcAddress, by which CUDA's runtime finds them, returns these functions, too.
_LAUNCHING = ("cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel", "cuGraphLaunch")
ENTRY_POINTS = (*_LAUNCHING, *(f"{name}_ptsz" for name in _LAUNCHING))
"""Functions of the CUDA driver that launch."""
IN_TURN = 2
"""Threads that launch, at most: torch launches forward from one, and backward from another."""
SYNCING = {"do_fsync", "vfs_fsync_range", "generic_write_sync", "ksys_sync", "ksys_sync_file_range"}
"""Functions of the kernel in which a thread waits for its files to be on the disk. Linux: fs/sync.c"""
ANSWERED = "request_wait_answer"
"""Where a thread sleeps until a process has answered for a file. Linux: fs/fuse/dev.c"""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """The process that a job began with, and what it is held to."""

    pid: Whole
    name: str
    """Number and name of the process, as "4242 (python)"."""
    limits: Limits
    cpus_total: Whole | None
    """CPUs of the machine that are online; None is unknown."""
    read_ahead_bytes: dict[str, Whole] | None = None
    """Disk -> how far ahead it is read, of those with files that the process had open when it was first looked at;
    None is unknown.
    """


class ThreadUse(msgspec.Struct, frozen=True, kw_only=True):
    """What one thread had of CPUs."""

    number: Whole
    process: Whole
    """Whose thread it is."""
    parent: Whole
    """Who started that process."""
    name: str | None
    ran_s: Seconds
    """On a CPU."""
    waited_s: Seconds
    """For a CPU."""
    cpus: list[Whole] | None
    """On which it may run; None where it ended before it was asked."""
    is_forked: bool = False
    """Whether its process runs its parent's own program, as workers of Python do."""
    niceness: int | None = None
    """From -20, the first to come, to 19, the last, within its policy; None where it ended before it was asked."""
    scheduling: str | None = None
    """Its policy, such as "other" or "idle"; None as of ``niceness``."""

    @property
    def wanted_s(self) -> float:
        return self.ran_s + self.waited_s


class Unlisted(msgspec.Struct, frozen=True, kw_only=True):
    """Threads that may run on the same CPUs, together."""

    cpus: list[Whole] | None
    """On which they may run; None where they ended before that was asked."""
    threads: Whole
    """How many they are."""
    wanted_s: Seconds
    """On a CPU or waiting for one, by all together."""


class FunctionCalls(msgspec.Struct, frozen=True, kw_only=True):
    """How often one thread called one function."""

    function: str
    thread: Whole
    count: Whole
    counted_s: Seconds
    """For how long calls were counted."""
    ran_s: Seconds
    """How much of that the thread was on a CPU."""


class GpuUse(msgspec.Struct, frozen=True, kw_only=True):
    """What one GPU did. None is unknown, with the reason in ``missing``."""

    uuid: str
    """By which it is told from others."""
    name: str | None = None
    busy_fraction: Amount | None = None
    """Of the time, in which some kernel ran."""
    memory_fraction: Amount | None = None
    """Of the time, in which its memory was read or written."""
    memory_used_bytes: Whole | None = None
    memory_bytes: Whole | None = None
    sm_clock_hz: Amount | None = None
    sm_clock_max_hz: Amount | None = None
    power_w: Amount | None = None
    temperature_c: Amount | None = None
    held_by: dict[str, Amount] | None = None
    """What held its clocks down, as NVML names it -> in which share of the looks."""
    sm_active_fraction: Amount | None = None
    """Of its SMs' time, in which they had work."""
    tensor_active_fraction: Amount | None = None
    """Of its SMs' time, in which their tensor pipes had work."""
    dram_bandwidth_fraction: Amount | None = None
    """Of the most that its memory can do."""
    pcie_sent_bytes_per_s: Amount | None = None
    pcie_received_bytes_per_s: Amount | None = None
    pcie_link_bytes_per_s: Amount | None = None
    """What its link can carry one way."""
    nvlink_sent_bytes_per_s: Amount | None = None
    nvlink_received_bytes_per_s: Amount | None = None
    own: list[Whole] = []
    """The job's processes that hold it."""
    others: list[GpuProcess] = []
    """Processes that hold it and are not the job's."""
    looks: Whole = 1
    """Over how many it is averaged."""
    missing: dict[str, str] = {}


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """What a job did between two looks at it.

    None is unknown, with the reason in ``missing``; of processes that ended meanwhile nothing but CPU time is in it.
    """

    time_s: Seconds
    """When it ends, since watching began."""
    duration_s: Lasting
    process_count: Whole
    thread_count: Whole
    """Of all threads."""
    cpu_time_s: Seconds
    minor_faults: Whole
    major_faults: Whole
    threads: list[ThreadUse]
    """The 16 that wanted a CPU most, if for 1 % of the time, and of each process that started one of theirs the one
    that did.
    """
    unlisted: list[Unlisted] = []
    """Others that wanted a CPU for 1 % of the time, by the CPUs that they may run on."""
    looks: Whole = 0
    """How often states of threads were looked at."""
    blocked: dict[Whole, Whole] = {}
    """Thread -> in how many looks it, or a process that it started meanwhile, was blocked in the kernel as on a disk
    (state D) or until files are answered for (FUSE).
    """
    blocked_in: dict[str, Whole] = {}
    """Function of the kernel -> in how many looks a thread was blocked there, where that may be asked."""
    asleep: Whole = 0
    """In how many looks no thread ran or was blocked."""
    asleep_in: dict[Whole, dict[str, Whole]] = {}
    """Thread -> function that it slept in -> in how many of these looks, for four threads at most in each."""
    stopped: dict[Whole, Whole] = {}
    """Process -> in how many looks it was stopped, by a signal or a debugger."""
    tracer: str | None = None
    """Who traces the process that was stopped most often, or the first one, at the end: "4242 (strace)", "none"."""
    kernel_time_s: Seconds | None = None
    """Of ``cpu_time_s``, in the kernel."""
    memory_grown_bytes: Whole | None = None
    """By which those processes grew that were there all the time."""
    calls: list[FunctionCalls] | None = None
    """Of the driver's entry points, as far as they were counted."""
    migrations: Whole | None = None
    switches: Whole | None = None
    memory_bytes: Whole | None = None
    swapped_bytes: Whole | None = None
    read_bytes: Whole | None = None
    """From disks."""
    written_bytes: Whole | None = None
    """To disks."""
    reread_bytes: Whole | None = None
    """Of files, read again after a limit of the control groups had them taken out of memory."""
    swapped_in_bytes: Whole | None = None
    """Read back after such a limit had them swapped out."""
    periods: Whole | None = None
    """Of the CPU quota of the group that its quota held back longest."""
    throttled_periods: Whole | None = None
    """In how many of ``periods`` it held back."""
    throttled_s: Seconds | None = None
    """For how long it held back, summed over CPUs."""
    cpu_waiting_s: Seconds | None = None
    """In which some task of the control group, or of the machine, waited for a CPU."""
    memory_waiting_s: Seconds | None = None
    """The same for memory."""
    io_waiting_s: Seconds | None = None
    """The same for a disk."""
    gpus: list[GpuUse] | None = None
    neighbours: list[NeighbourProcess] = []
    """Who else used CPUs since watching began, in what is told of all of it."""
    missing: dict[str, str] = {}

    @property
    def busiest(self) -> ThreadUse | None:
        """The thread that wanted a CPU most."""
        return self.threads[0] if self.threads else None

    @property
    def wanting(self) -> list[ThreadUse | Unlisted]:
        """All threads that wanted a CPU for 1 % of the time."""
        return [*self.threads, *self.unlisted]

    @property
    def launches_per_s(self) -> float | None:
        """None also where no count was due, the threads that were counted have ended, or none had a CPU meanwhile.

        And where none was seen to launch, but not each of the entry points was counted.
        """
        rates = self.calls_per_s
        return sum(rates.values()) or (0.0 if rates.keys() >= set(ENTRY_POINTS) else None)

    @property
    def calls_per_s(self) -> dict[str, float]:
        """Function -> rate, of those of which it is known."""
        ran = {each.number: each.ran_s / self.duration_s for each in self.threads}
        return a_second(self.calls or [], ran)

    @property
    def blocked_fraction(self) -> float:
        """Of the time, in which the thread that was blocked most was blocked."""
        return max(self.blocked.values(), default=0) / self.looks if self.looks else 0.0


def a_second(calls: Iterable[FunctionCalls], ran: Mapping[int, float]) -> dict[str, float]:
    """Function -> rate, of all threads in which it was counted: calls while they ran, by how much they run.

    ran: thread -> share of the time that it ran, of those that ran notably. Of these it is not known how often one
    calls that had no CPU while it was counted.
    """
    rates: dict[str, float] = {}
    for each in calls:
        if each.thread not in ran or each.ran_s:
            rate = each.count / each.ran_s * ran[each.thread] if each.thread in ran else each.count / each.counted_s
            rates[each.function] = rates.get(each.function, 0.0) + rate
    return rates
