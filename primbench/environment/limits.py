"""What a process may use of the machine: CPUs, memory, files; and how often it was held back so far."""

from __future__ import annotations

import functools
import math
import os
import resource
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from primbench.environment import threads
from primbench.environment.reading import UNREAD, note_unread
from primbench.quantities import Amount, Seconds, Whole
from primbench.system.cgroups import (
    USUAL_SHARES,
    USUAL_WEIGHT,
    V1_NO_LIMIT_BYTES,
    cgroup_folders,
    cgroup_version,
    counters,
    folders_of,
    limit_in,
    lines_of,
    paths_of,
)
from primbench.system.cores import siblings
from primbench.system.files import labelled_value, parse_cpu_list, read_number, whole_number
from primbench.system.meaning import Fact
from primbench.system.memory import MEMORY_LIMITS, refaulted
from primbench.system.namespaces import FIRST_NAMESPACES
from primbench.system.prctl import GET_TIMERSLACK, prctl
from primbench.system.processes import folder_of, root_of
from primbench.system.soft_limits import soft_limit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# blkio-controller.rst, by the names of cgroup-v2.rst, "io.max".
_V1_IO = {
    "blkio.throttle.read_bps_device": "rbps",
    "blkio.throttle.write_bps_device": "wbps",
    "blkio.throttle.read_iops_device": "riops",
    "blkio.throttle.write_iops_device": "wiops",
}
_RLIMIT_LOCKS = 10  # linux/resource.h; Python has no name for it

_limit = functools.partial(Fact, layer="limits", is_no_limit=True, noted_from=0.0)
_apart = functools.partial(Fact, layer="limits", more_is_slower=True, noted_from=0.0)
_counter = functools.partial(Fact, is_no_limit=True, noted_from=math.inf)


def _soft(words: str, name: str, label: str, rule: str | None = None, **more: Any) -> Fact:
    """A limit of getrlimit(2), by its name there and in /proc/PID/limits."""
    kind = _RLIMIT_LOCKS if name == "LOCKS" else getattr(resource, f"RLIMIT_{name}")
    return _limit(words, f"getrlimit(RLIMIT_{name})", soft_limit(kind, label), rule, **more)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """None is unknown where ``missing`` gives a reason under the field's name, and "no limit" where it does not."""

    # fmt: off
    cpus_allowed: Annotated[list[Whole], _limit("CPUs that it may run on, by affinity and cpuset together.",
        "sched_getaffinity()", lambda root, pid: sorted(os.sched_getaffinity(pid)), "cpus", counts=True)]
    cores_allowed: Annotated[Whole | None, Fact("How many cores the CPUs are of that it may run on.",
        "/sys/devices/system/cpu/cpuN/topology",
        lambda root, pid: len({siblings(root, cpu) for cpu in os.sched_getaffinity(pid)}))] = None
    memory_nodes_allowed: Annotated[list[Whole] | None, _limit(
        "NUMA nodes that it may take memory from, by its cpuset.",
        "/proc/self/status Mems_allowed_list", _memory_nodes_allowed, "memory")] = UNREAD
    cpu_quota: Annotated[Amount | None, _limit(
        "CPUs' worth of time that the control groups grant, the smallest of those above this process.",
        "control group: cpu.max or cpu.cfs_quota_us", lambda root, pid: _quota(root, pid)[0], "cpus",
        by_doctor=True)] = UNREAD
    cpu_period_s: Annotated[Seconds | None, _limit("The period in which that quota may be used up.",
        "control group: cpu.max or cpu.cfs_period_us", lambda root, pid: _quota(root, pid)[1], "cpus",
        by_doctor=True)] = UNREAD
    memory_limit_bytes: Annotated[Whole | None, _limit(
        "Memory beyond which a control group refuses more or slows down who takes it, the smallest of those above.",
        "control group: memory.max, memory.high or memory.limit_in_bytes", _memory_limit_bytes, "memory",
        less_is_slower=True)] = UNREAD
    cpu_weight: Annotated[Whole | None, _limit(
        "The weight of the control groups above, the smallest, where it is below the usual 100: 1024 shares of v1.",
        "control group: cpu.weight or cpu.shares", _cpu_weight, "priority", less_is_slower=True)] = UNREAD
    niceness: Annotated[int | None, _limit("From -20, the first to come, to 19, the last, within its policy.",
        "getpriority()", lambda root, pid: os.getpriority(os.PRIO_PROCESS, pid), "priority", more_is_slower=True,
        since="io_limits")] = UNREAD
    session_niceness: Annotated[int | None, _limit(
        "The niceness beside programs of other sessions, among which a kernel with autogroups shares CPUs out first "
        "(sched(7)); 0 where it has none.",
        "/proc/self/autogroup", _session_niceness, "priority", more_is_slower=True, since="io_limits")] = UNREAD
    scheduling: Annotated[str | None, _limit("The scheduling policy, such as other, batch, idle or fifo.",
        "sched_getscheduler()", lambda root, pid: threads.policy_of(pid), "priority", since="io_limits")] = UNREAD
    cpu_group_depth: Annotated[Whole | None, _limit(
        "How many control groups that share out CPU time it lies in, one within the other.",
        "/proc/self/cgroup", _cpu_group_depth, "cpu-groups", layer="confinement", is_no_limit=False,
        more_is_slower=True)] = None
    cgroup_version: Annotated[str | None, _limit("The control groups that are mounted here: v1, v2 or hybrid.",
        "/proc/self/mountinfo", lambda root, pid: cgroup_version(root))] = UNREAD
    periods: Annotated[Whole | None, _counter(
        "In how many periods of its quota the control group that was held back most has run, since it was made.",
        "control group: cpu.stat nr_periods", lambda root, pid: _throttling(root, pid).get("nr_periods"))] = UNREAD
    throttled_periods: Annotated[Whole | None, _counter("In how many of these it was held back.",
        "control group: cpu.stat nr_throttled", lambda root, pid: _throttling(root, pid).get("nr_throttled"))] = UNREAD
    throttled_s: Annotated[Seconds | None, _counter("For how long it was held back.",
        "control group: cpu.stat throttled_usec or throttled_time", _throttled_s)] = UNREAD
    out_of_memory_kills: Annotated[Whole | None, _counter(
        "How many processes of the control groups were killed since memory ran out.",
        "control group: memory.events or memory.oom_control", _out_of_memory_kills)] = UNREAD
    memlock_bytes: Annotated[Whole | None, _soft("Memory that may be locked, by the soft limit.",
        "MEMLOCK", "Max locked memory", "shared-memory")] = UNREAD
    open_files: Annotated[Whole | None, _soft("How many files may be open at once, by the soft limit.",
        "NOFILE", "Max open files", "open-files", by_doctor=True)] = UNREAD
    stack_bytes: Annotated[Whole | None, _soft("What each thread is given room for, by the soft limit.",
        "STACK", "Max stack size", "stacks", since="io_limits")] = UNREAD
    address_space_bytes: Annotated[Whole | None, _soft("Addresses that may be in use, by the soft limit.",
        "AS", "Max address space", "address-space", less_is_slower=True, since="io_limits")] = UNREAD
    file_size_bytes: Annotated[Whole | None, _soft("How large a file may be made, by the soft limit.",
        "FSIZE", "Max file size", "file-size", less_is_slower=True, since="io_limits")] = UNREAD
    cpu_time_limit_s: Annotated[Seconds | None, _soft(
        "CPU time on all CPUs together after which a process is killed, by the soft limit.",
        "CPU", "Max cpu time", "cpu-time", less_is_slower=True, since="io_limits")] = UNREAD
    data_bytes: Annotated[Whole | None, _soft("Memory that it may write to, beside files, by the soft limit.",
        "DATA", "Max data size", "address-space", less_is_slower=True)] = UNREAD
    core_bytes: Annotated[Whole | None, _soft("The size of a core dump, by the soft limit.",
        "CORE", "Max core file size")] = UNREAD
    message_queue_bytes: Annotated[Whole | None, _soft("Memory of POSIX message queues, by the soft limit.",
        "MSGQUEUE", "Max msgqueue size")] = UNREAD
    signals_pending_max: Annotated[Whole | None, _soft("Signals that may wait, by the soft limit.",
        "SIGPENDING", "Max pending signals")] = UNREAD
    nice_limit: Annotated[Whole | None, _soft("By how much its niceness may be below 20, by the soft limit.",
        "NICE", "Max nice priority")] = UNREAD
    realtime_priority_max: Annotated[Whole | None, _soft("Its priority under fifo and rr, by the soft limit.",
        "RTPRIO", "Max realtime priority")] = UNREAD
    timer_slack_ns: Annotated[Whole | None, _limit("By how much the kernel may be late to wake it.",
        "prctl(PR_GET_TIMERSLACK)",
        lambda root, pid: read_number(folder_of(root, pid) / "timerslack_ns") if pid else prctl(GET_TIMERSLACK),
        is_no_limit=False)] = None
    resident_bytes: Annotated[Whole | None, _soft("Memory that may be resident, which Linux holds nobody to.",
        "RSS", "Max resident set")] = UNREAD
    file_locks_max: Annotated[Whole | None, _soft("Locks of files, which Linux holds nobody to.",
        "LOCKS", "Max file locks")] = UNREAD
    realtime_limit_s: Annotated[Seconds | None, _limit(
        "CPU time that a thread under fifo or rr may use without sleeping, after which its process is killed.",
        "getrlimit(RLIMIT_RTTIME)", _realtime_limit_s, "realtime-time", less_is_slower=True)] = UNREAD
    thread_cpus: Annotated[dict[str, Whole] | None, _apart(
        "CPUs of threads that may run on others than the first one, such as 0-1, and how many these threads are.",
        "/proc/self/task, sched_getaffinity()", threads.thread_cpus, "thread-cpus")] = None
    thread_niceness: Annotated[dict[str, Whole] | None, _apart(
        "Niceness of threads that have another than the first one, and how many these threads are.",
        "/proc/self/task, getpriority()", threads.thread_niceness, "thread-order")] = None
    thread_scheduling: Annotated[dict[str, Whole] | None, _apart(
        "Policies of threads that have another than the first one, such as idle, and how many these threads are.",
        "/proc/self/task, sched_getscheduler()", threads.thread_scheduling, "thread-order")] = None
    descriptors: Annotated[Whole | None, _counter("Files that were open when this was read, inherited ones among them.",
        "/proc/self/fd",
        lambda root, pid: len(os.listdir(folder_of(root, pid) / "fd" if pid else "/proc/self/fd")))] = UNREAD
    processes_max: Annotated[Whole | None, _limit(
        "Processes and threads that there may be in the control groups, the smallest of those above.",
        "control group: pids.max", lambda root, pid: min(_limits(root, pid, "pids", "pids.max"), default=None),
        "processes", by_doctor=True)] = UNREAD
    processes_free: Annotated[Whole | None, _counter("How many more of them may start now.",
        "control group: pids.max and pids.current", _processes_free)] = UNREAD
    processes_refused: Annotated[Whole | None, _counter("How often one of them was refused.",
        "control group: pids.events max", _processes_refused)] = UNREAD
    processes_own_max: Annotated[Whole | None, _soft(
        "Processes and threads that its user may have, to which root is not held.",
        "NPROC", "Max processes", "processes", by_doctor=True, since="io_limits")] = UNREAD
    io_limits: Annotated[list[str] | None, _limit(
        "Bytes and operations a second that the control groups grant of each disk, such as 8:0 rbps=1048576.",
        "control group: io.max or blkio.throttle.*_device", _io_limits, "io-limits", is_no_limit=False,
        since="io_limits")] = UNREAD
    reread_bytes: Annotated[Whole | None, _counter(
        "Files that were read again since a memory limit had taken them out of the cache, since the group was made.",
        "control group: memory.stat workingset_refault_file",
        lambda root, pid: refaulted(folders_of(root, pid)).files_bytes)] = UNREAD
    shm_bytes: Annotated[Whole | None, _limit("The size of /dev/shm.",
        "statvfs(/dev/shm)", lambda root, pid: (found := _shm(root, pid)).f_blocks * found.f_frsize,
        "shared-memory")] = UNREAD
    shm_free_bytes: Annotated[Whole | None, _counter("What is free of that.",
        "statvfs(/dev/shm)", lambda root, pid: (found := _shm(root, pid)).f_bavail * found.f_frsize)] = UNREAD
    # fmt: on
    missing: dict[str, str] = {}

    def __post_init__(self) -> None:
        note_unread(self)


def _memory_nodes_allowed(root: Path, pid: int) -> list[int]:
    return list(parse_cpu_list(labelled_value(folder_of(root, pid) / "status", "Mems_allowed_list")))


def _quota(root: Path, pid: int) -> tuple[float, float] | tuple[None, None]:
    """CPUs granted and the period in seconds, of the control group above this process that grants least."""
    quotas = filter(None, map(_quota_of, cgroup_folders("cpu", root, pid)))
    return min(quotas, default=(None, None))


def _quota_of(folder: Path) -> tuple[float, float] | None:
    v1 = folder / "cpu.cfs_quota_us"
    if v1.exists():
        quota, period = v1.read_text(), (folder / "cpu.cfs_period_us").read_text()
    else:
        path = folder / "cpu.max"
        if not path.exists():  # the root group has none
            return None
        quota, _, period = path.read_text().partition(" ")
    if quota.strip() in ("max", "-1"):
        return None
    return whole_number(quota, folder) / whole_number(period, folder), whole_number(period, folder) / 1e6


def _cpu_weight(root: Path, pid: int) -> int | None:
    """At least 1: a group of the policy idle, whose weight is 3 where others have 1024, reads 0 (cgroup-v2.rst)."""
    shares = (round(USUAL_WEIGHT * each / USUAL_SHARES) for each in _limits(root, pid, "cpu", "cpu.shares"))
    weights = [*_limits(root, pid, "cpu", "cpu.weight"), *shares]
    return min((max(1, each) for each in weights if each < USUAL_WEIGHT), default=None)


def _session_niceness(root: Path, pid: int) -> int:
    """The file reads "/autogroup-25 nice 0"."""
    group, switch = folder_of(root, pid) / "autogroup", root / "proc/sys/kernel/sched_autogroup_enabled"
    if not switch.exists() or not read_number(switch) or not group.exists():
        return 0
    return int(group.read_text().rpartition(" nice ")[2])


def _realtime_limit_s(root: Path, pid: int) -> float | None:
    limit_us = soft_limit(resource.RLIMIT_RTTIME, "Max realtime timeout")(root, pid)
    return None if limit_us is None else limit_us * 1e-6


def _cpu_group_depth(root: Path, pid: int) -> int:
    """Without the root group. Raises ValueError where a namespace hides those above."""
    namespace = os.readlink(folder_of(root, pid) / "ns/cgroup")
    if namespace != FIRST_NAMESPACES["cgroup"]:
        raise ValueError(f"{namespace} is not the first namespace, and hides the control groups above it")
    v1 = paths_of(root, pid).get("cpu")
    if v1 is not None:
        return len(v1.parts) - 1
    return sum((folder / "cpu.weight").exists() for folder in cgroup_folders("cpu", root, pid))


def _memory_limit_bytes(root: Path, pid: int) -> int | None:
    found = (limit for name in MEMORY_LIMITS for limit in _limits(root, pid, "memory", name))
    return min((limit for limit in found if limit < V1_NO_LIMIT_BYTES), default=None)


def _processes_free(root: Path, pid: int) -> int | None:
    free = [_free_in(folder) for folder in cgroup_folders("pids", root, pid)]
    return min((each for each in free if each is not None), default=None)


def _free_in(folder: Path) -> int | None:
    limit = limit_in(folder / "pids.max")
    return None if limit is None else max(0, limit - read_number(folder / "pids.current"))


def _processes_refused(root: Path, pid: int) -> int | None:
    counted = [counters(folder / "pids.events").get("max", 0) for folder in cgroup_folders("pids", root, pid)]
    return max(counted, default=None)


def _io_limits(root: Path, pid: int) -> list[str]:
    return sorted(
        {line for folder in cgroup_folders("blkio", root, pid) for line in (*_v1_io(folder), *_v2_io(folder))}
    )


def _v1_io(folder: Path) -> Iterator[str]:
    for name, kind in _V1_IO.items():
        for line in lines_of(folder / name):
            device, _, limit = line.partition(" ")
            yield f"{device} {kind}={limit}"


def _v2_io(folder: Path) -> Iterator[str]:
    for line in lines_of(folder / "io.max"):
        device, _, limits = line.partition(" ")
        yield from (f"{device} {limit}" for limit in limits.split() if not limit.endswith("=max"))


def _limits(root: Path, pid: int, controller: str, name: str) -> Iterator[int]:
    """The numbers in files such as memory.max of this process's control group and all above; none for max."""
    found = (limit_in(folder / name) for folder in cgroup_folders(controller, root, pid))
    return (limit for limit in found if limit is not None)


def _throttled_s(root: Path, pid: int) -> float | None:
    held_back = _throttling(root, pid)
    return _seconds(held_back) if held_back else None


def _throttling(root: Path, pid: int) -> dict[str, int]:
    """The counters of the control group that was held back most, none where none can have a quota."""
    groups = [counters(folder / "cpu.stat") for folder in cgroup_folders("cpu", root, pid)]
    return max((group for group in groups if "nr_throttled" in group), key=_seconds, default={})


def _seconds(counters: dict[str, int]) -> float:
    return counters.get("throttled_usec", 0) / 1e6 + counters.get("throttled_time", 0) / 1e9  # v2, v1


def _out_of_memory_kills(root: Path, pid: int) -> int | None:
    folders, names = cgroup_folders("memory", root, pid), ("memory.events", "memory.oom_control")
    counted = (counters(folder / name).get("oom_kill") for folder in folders for name in names)
    return max((each for each in counted if each is not None), default=None)


def _shm(root: Path, pid: int) -> os.statvfs_result:
    return os.statvfs(root_of(root, pid) / "dev/shm")
