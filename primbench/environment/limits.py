"""What this process may use of the machine: CPUs, memory, files; and how often it was held back so far."""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING, Annotated

import msgspec

from primbench.environment.reading import Reader, read_all
from primbench.quantities import Amount, Seconds, Whole
from primbench.system.cgroups import cgroup_folders, cgroup_version
from primbench.system.files import labelled_value, parse_cpu_list, read_number, whole_number
from primbench.system.meaning import NOTHING, Meaning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_V1_NO_LIMIT_BYTES = 2**62  # v1 writes "no limit" as the largest multiple of a page
# blkio-controller.rst, by the names of cgroup-v2.rst, "io.max".
_V1_IO = {
    "blkio.throttle.read_bps_device": "rbps",
    "blkio.throttle.write_bps_device": "wbps",
    "blkio.throttle.read_iops_device": "riops",
    "blkio.throttle.write_iops_device": "wiops",
}
_USUAL_WEIGHT, _USUAL_SHARES = 100, 1024  # of a control group, in v2 and in v1
_POLICIES = {
    os.SCHED_OTHER: "other",
    os.SCHED_BATCH: "batch",
    os.SCHED_IDLE: "idle",
    os.SCHED_FIFO: "fifo",
    os.SCHED_RR: "rr",
}


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """None is unknown where ``missing`` gives a reason under the field's name, and "no limit" where it does not.

    cpus_allowed, memory_nodes_allowed: by affinity and cpuset together. cpu_quota: CPUs' worth of time that the control
    groups grant, the smallest of those above this process; cpu_period_s: its period. memory_limit_bytes: likewise.
    cpu_weight: against other control groups that want a CPU, the smallest of those above if it is below the usual 100,
    which 1024 shares of v1 are. scheduling: the policy; niceness: within it, from -20 to 19, the last to come;
    session_niceness: likewise beside programs of other sessions, among which a kernel with autogroups shares CPUs out
    first (sched(7)); 0 where it has none.
    cgroup_version: "v1", "v2" or "hybrid", as mounted here.
    throttled_periods, throttled_s: since the control group was made, of the one that was held back most; periods: in
    which it ran. out_of_memory_kills: likewise.
    memlock_bytes, open_files: the soft limits, which can be raised to the hard ones.
    shm_bytes, shm_free_bytes: of /dev/shm.
    processes_max: of the control groups, the smallest, threads counted; processes_free: how many more may start now;
    processes_refused: how often one was. processes_own_max: of the user, to which root is not held.
    io_limits: of the control groups, such as "8:0 rbps=1048576". reread_bytes: of files, read again because a memory
    limit had them taken out of the cache, since the control group was made.
    """

    cpus_allowed: Annotated[list[Whole], Meaning("limits", "cpus", counts=True, set_by="cpuset")]
    memory_nodes_allowed: Annotated[list[Whole] | None, Meaning("limits", "memory", set_by="mems")] = None
    cpu_quota: Annotated[Amount | None, Meaning("limits", "cpus", by_doctor=True, set_by="cpus")] = None
    cpu_period_s: Annotated[Seconds | None, Meaning("limits", "cpus", by_doctor=True, set_by="cpus")] = None
    memory_limit_bytes: Annotated[
        Whole | None, Meaning("limits", "memory", less_is_slower=True, set_by="memory_bytes")
    ] = None
    cpu_weight: Annotated[Whole | None, Meaning("limits", "priority", less_is_slower=True, set_by="cpu_weight")] = None
    niceness: Annotated[int | None, Meaning("limits", "priority", more_is_slower=True, set_by="niceness")] = None
    session_niceness: Annotated[int | None, Meaning("limits", "priority", more_is_slower=True, set_by="niceness")] = (
        None
    )
    scheduling: Annotated[str | None, Meaning("limits", "priority")] = None
    cgroup_version: Annotated[str | None, Meaning("limits")] = None
    periods: Annotated[Whole | None, NOTHING] = None
    throttled_periods: Annotated[Whole | None, NOTHING] = None
    throttled_s: Annotated[Seconds | None, NOTHING] = None
    out_of_memory_kills: Annotated[Whole | None, NOTHING] = None
    memlock_bytes: Annotated[Whole | None, Meaning("limits", "shared-memory")] = None
    open_files: Annotated[Whole | None, Meaning("limits", "open-files", by_doctor=True, set_by="open_files")] = None
    processes_max: Annotated[Whole | None, Meaning("limits", "processes", by_doctor=True, set_by="processes_max")] = (
        None
    )
    processes_free: Annotated[Whole | None, NOTHING] = None
    processes_refused: Annotated[Whole | None, NOTHING] = None
    processes_own_max: Annotated[Whole | None, Meaning("limits", "processes", by_doctor=True)] = None
    io_limits: Annotated[list[str] | None, Meaning("limits", "io-limits", set_by="read_bytes_per_s")] = None
    reread_bytes: Annotated[Whole | None, NOTHING] = None
    shm_bytes: Annotated[Whole | None, Meaning("limits", "shared-memory", set_by="shm_bytes")] = None
    shm_free_bytes: Annotated[Whole | None, NOTHING] = None
    missing: dict[str, str] = {}


def collect(root: Path) -> Limits:
    return Limits(**read_all(READERS, root))


def _cpus_allowed(root: Path) -> list[int]:
    return sorted(os.sched_getaffinity(0))


def _memory_nodes_allowed(root: Path) -> list[int]:
    return list(parse_cpu_list(labelled_value(root / "proc/self/status", "Mems_allowed_list")))


def _cpu_quota(root: Path) -> float | None:
    quota = _smallest_quota(root)
    return None if quota is None else quota[0]


def _cpu_period_s(root: Path) -> float | None:
    quota = _smallest_quota(root)
    return None if quota is None else quota[1]


def _smallest_quota(root: Path) -> tuple[float, float] | None:
    """CPUs granted and the period in seconds, of the control group above this process that grants least."""
    return min((quota for folder in cgroup_folders("cpu", root) if (quota := _quota_of(folder))), default=None)


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


def _cpu_weight(root: Path) -> int | None:
    shares = (round(_USUAL_WEIGHT * each / _USUAL_SHARES) for each in _limits(root, "cpu", "cpu.shares"))
    weights = [*_limits(root, "cpu", "cpu.weight"), *shares]
    return min((each for each in weights if each < _USUAL_WEIGHT), default=None)


def _niceness(root: Path) -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)


def _session_niceness(root: Path) -> int:
    """The file reads "/autogroup-25 nice 0"."""
    group, switch = root / "proc/self/autogroup", root / "proc/sys/kernel/sched_autogroup_enabled"
    if not switch.exists() or not read_number(switch) or not group.exists():
        return 0
    return int(group.read_text().rpartition(" nice ")[2])


def _scheduling(root: Path) -> str:
    policy = os.sched_getscheduler(0)
    return _POLICIES.get(policy, str(policy))


def _memory_limit_bytes(root: Path) -> int | None:
    limits = [*_limits(root, "memory", "memory.max"), *_limits(root, "memory", "memory.limit_in_bytes")]
    return min((limit for limit in limits if limit < _V1_NO_LIMIT_BYTES), default=None)


def _processes_max(root: Path) -> int | None:
    return min(_limits(root, "pids", "pids.max"), default=None)


def _processes_free(root: Path) -> int | None:
    free = [_free_in(folder) for folder in cgroup_folders("pids", root)]
    return min((each for each in free if each is not None), default=None)


def _free_in(folder: Path) -> int | None:
    limit = _limit_in(folder / "pids.max")
    return None if limit is None else max(0, limit - read_number(folder / "pids.current"))


def _processes_refused(root: Path) -> int | None:
    counted = [_counters(folder / "pids.events").get("max", 0) for folder in cgroup_folders("pids", root)]
    return max(counted, default=None)


def _io_limits(root: Path) -> list[str]:
    return sorted({line for folder in cgroup_folders("blkio", root) for line in (*_v1_io(folder), *_v2_io(folder))})


def _v1_io(folder: Path) -> Iterator[str]:
    for name, kind in _V1_IO.items():
        for line in _lines(folder / name):
            device, _, limit = line.partition(" ")
            yield f"{device} {kind}={limit}"


def _v2_io(folder: Path) -> Iterator[str]:
    for line in _lines(folder / "io.max"):
        device, _, limits = line.partition(" ")
        yield from (f"{device} {limit}" for limit in limits.split() if not limit.endswith("=max"))


def _reread_bytes(root: Path) -> int | None:
    """memory.stat counts pages, of files and others alike before Linux 5.9."""
    counted = [_counters(folder / "memory.stat") for folder in cgroup_folders("memory", root) if _is_limited(folder)]
    names = ("total_workingset_refault_file", "workingset_refault_file", "workingset_refault")
    pages = [next(group[name] for name in names if name in group) for group in counted if set(names) & set(group)]
    return max(pages) * os.sysconf("SC_PAGE_SIZE") if pages else None


def _is_limited(folder: Path) -> bool:
    found = [_limit_in(folder / name) for name in ("memory.max", "memory.limit_in_bytes")]
    return any(limit is not None and limit < _V1_NO_LIMIT_BYTES for limit in found)


def _limits(root: Path, controller: str, name: str) -> Iterator[int]:
    """The numbers in files such as memory.max of this process's control group and all above; none for max."""
    for folder in cgroup_folders(controller, root):
        if (limit := _limit_in(folder / name)) is not None:
            yield limit


def _limit_in(path: Path) -> int | None:
    """None for max, and where there is no such file, as in the root group."""
    text = path.read_text().strip() if path.exists() else "max"
    return None if text == "max" else whole_number(text, path)


def _periods(root: Path) -> int | None:
    return _throttling(root).get("nr_periods")


def _throttled_periods(root: Path) -> int | None:
    return _throttling(root).get("nr_throttled")


def _throttled_s(root: Path) -> float | None:
    held_back = _throttling(root)
    return _seconds(held_back) if held_back else None


def _throttling(root: Path) -> dict[str, int]:
    """The counters of the control group that was held back most, none where none can have a quota."""
    groups = [_counters(folder / "cpu.stat") for folder in cgroup_folders("cpu", root)]
    return max((group for group in groups if "nr_throttled" in group), key=_seconds, default={})


def _seconds(counters: dict[str, int]) -> float:
    return counters.get("throttled_usec", 0) / 1e6 + counters.get("throttled_time", 0) / 1e9  # v2, v1


def _out_of_memory_kills(root: Path) -> int | None:
    files = [
        folder / name for folder in cgroup_folders("memory", root) for name in ("memory.events", "memory.oom_control")
    ]
    counted = [counters["oom_kill"] for path in files if "oom_kill" in (counters := _counters(path))]
    return max(counted, default=None)


def _counters(path: Path) -> dict[str, int]:
    """Lines of a name and a number; none where there is no such file."""
    return {name: whole_number(value, path) for name, _, value in (line.partition(" ") for line in _lines(path))}


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _soft_limit(kind: int) -> Callable[[Path], int | None]:
    def read(root: Path) -> int | None:
        limit, _ = resource.getrlimit(kind)
        return None if limit == resource.RLIM_INFINITY else limit

    return read


def _shm_bytes(root: Path) -> int:
    found = os.statvfs(root / "dev/shm")
    return found.f_blocks * found.f_frsize


def _shm_free_bytes(root: Path) -> int:
    found = os.statvfs(root / "dev/shm")
    return found.f_bavail * found.f_frsize


READERS = {
    "cpus_allowed": Reader("sched_getaffinity()", _cpus_allowed),
    "memory_nodes_allowed": Reader("/proc/self/status Mems_allowed_list", _memory_nodes_allowed),
    "cpu_quota": Reader("control group: cpu.max or cpu.cfs_quota_us", _cpu_quota),
    "cpu_period_s": Reader("control group: cpu.max or cpu.cfs_period_us", _cpu_period_s),
    "memory_limit_bytes": Reader("control group: memory.max or memory.limit_in_bytes", _memory_limit_bytes),
    "cpu_weight": Reader("control group: cpu.weight or cpu.shares", _cpu_weight),
    "niceness": Reader("getpriority()", _niceness),
    "session_niceness": Reader("/proc/self/autogroup", _session_niceness),
    "scheduling": Reader("sched_getscheduler()", _scheduling),
    "cgroup_version": Reader("/proc/self/mountinfo", cgroup_version),
    "periods": Reader("control group: cpu.stat nr_periods", _periods),
    "throttled_periods": Reader("control group: cpu.stat nr_throttled", _throttled_periods),
    "throttled_s": Reader("control group: cpu.stat throttled_usec or throttled_time", _throttled_s),
    "out_of_memory_kills": Reader("control group: memory.events or memory.oom_control", _out_of_memory_kills),
    "memlock_bytes": Reader("getrlimit(RLIMIT_MEMLOCK)", _soft_limit(resource.RLIMIT_MEMLOCK)),
    "open_files": Reader("getrlimit(RLIMIT_NOFILE)", _soft_limit(resource.RLIMIT_NOFILE)),
    "processes_max": Reader("control group: pids.max", _processes_max),
    "processes_free": Reader("control group: pids.max and pids.current", _processes_free),
    "processes_refused": Reader("control group: pids.events max", _processes_refused),
    "processes_own_max": Reader("getrlimit(RLIMIT_NPROC)", _soft_limit(resource.RLIMIT_NPROC)),
    "io_limits": Reader("control group: io.max or blkio.throttle.*_device", _io_limits),
    "reread_bytes": Reader("control group: memory.stat workingset_refault_file", _reread_bytes),
    "shm_bytes": Reader("statvfs(/dev/shm)", _shm_bytes),
    "shm_free_bytes": Reader("statvfs(/dev/shm)", _shm_free_bytes),
}
