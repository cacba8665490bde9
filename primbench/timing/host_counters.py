"""What the machine did to this process while a case was timed: counters before and after, and their differences."""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import threading
import time
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from primbench.measurement.readings import MOVED, HostReading, Turns
from primbench.system.cgroups import Folders, folders_of
from primbench.system.cores import CpuKind, cpu_kinds, siblings, slower_cpus
from primbench.system.cpu_time import spent, spent_by
from primbench.system.files import attempt, labelled_value, whole_number
from primbench.system.memory import reread_bytes
from primbench.system.pressure import cpu_pressure
from primbench.system.processes import fields_of_stat, folder_of, quick_text
from primbench.timing import beside

_Number = TypeVar("_Number", int, float)

_THROTTLED_UNIT_S = {"throttled_usec": 1e-6, "throttled_time": 1e-9}  # cpu.stat of control groups v2, v1
_PERIODS = ("nr_periods", "nr_throttled")
_PROCESSOR = 36  # index after the name: field 39 of /proc/PID/stat
BUSY_FRACTION = 0.1  # of the time; a thread that sleeps stays on the CPU where it last woke, whichever


class Load(NamedTuple):
    """CPU time since boot, of which only differences mean anything, added up over ``cpus``."""

    cpus: frozenset[int]
    """CPUs that this process may run on, and others of the same cores."""
    busy_s: float
    stolen_s: float
    own_s: float
    """CPU time of this process and what it started."""

    def since(self, before: Load) -> Load:
        """Raises ValueError where this process was bound to other CPUs meanwhile."""
        if self.cpus != before.cpus:
            raise ValueError("this process was bound to other CPUs meanwhile")
        busy_s, stolen_s, own_s = (now - then for now, then in zip(self[1:], before[1:], strict=True))
        return Load(self.cpus, busy_s, max(0.0, stolen_s), own_s)

    @property
    def others_s(self) -> float:
        """Of differences. Ticks can make less of it than nothing."""
        return max(0.0, self.busy_s - self.own_s)


def read_load(root: Path) -> Load:
    """Raises OSError, ValueError."""
    cpus = frozenset().union(*(_of_core(root, cpu) for cpu in os.sched_getaffinity(0)))
    every = spent(root)
    watched = [every[f"cpu{cpu}"] for cpu in cpus if f"cpu{cpu}" in every]
    if not watched:
        raise ValueError(f"{root / 'proc/stat'} has none of the CPUs of this process")
    return Load(cpus, sum(each.busy_s for each in watched), sum(each.stolen_s for each in watched), spent_by(root))


@functools.cache
def _of_core(root: Path, cpu: int) -> frozenset[int]:
    """All CPUs of its core; it alone where the kernel does not tell. Read once: a large machine has hundreds."""
    return frozenset({cpu, *(attempt({}, "", lambda: siblings(root, cpu)) or ())})


class Throttling(NamedTuple):
    """How long the quota held a control group back, by its cpu.stat; None for a number that is not there."""

    held_back_s: float
    periods: int | None = None
    throttled_periods: int | None = None

    def since(self, before: Throttling) -> Throttling:
        return Throttling(
            self.held_back_s - before.held_back_s,
            _difference(self.periods, before.periods),
            _difference(self.throttled_periods, before.throttled_periods),
        )


def _difference(now: _Number | None, before: _Number | None) -> _Number | None:
    return None if now is None or before is None else now - before


class Thread(NamedTuple):
    """A thread of this process."""

    ran_s: float
    """Time on a CPU."""
    waited_s: float
    """Time in which it could have run and had none."""
    cpu: int | None
    """The last CPU that it ran on; None where all are alike."""

    def since(self, before: Thread | None) -> Thread:
        return self if before is None else Thread(self.ran_s - before.ran_s, self.waited_s - before.waited_s, self.cpu)


class HostCounters(msgspec.Struct, frozen=True, kw_only=True):
    """Counters at one moment; only the differences that ``since`` makes of them mean anything."""

    root: Path
    time_s: float
    cpu_time_s: float
    voluntary_switches: int
    involuntary_switches: int
    cpu_pressure_some_s: float | None
    threads: dict[str, Thread] | None
    """Threads by number."""
    throttling: dict[str, Throttling] | None
    """Throttling by cpu.stat file, of this process's own control group and those above it."""
    load: Load | None
    """Load of the CPUs that it may run on."""
    read_bytes: int | None
    reread_bytes: int | None
    missing: dict[str, str]


def start(root: Path = Path("/")) -> HostCounters:
    """Read the counters; ``root`` is where /proc and /sys are found."""
    missing: dict[str, str] = {}
    beside.look(root)
    pressure_s = attempt(missing, "cpu_pressure_some_s", lambda: cpu_pressure("total", root) * 1e-6)
    threads = attempt(missing, "waited_s", lambda: threads_of(root))
    throttling = attempt(missing, "throttled_s", lambda: throttling_of(folders_of(root)))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return HostCounters(
        root=root,
        time_s=time.perf_counter(),
        cpu_time_s=usage.ru_utime + usage.ru_stime,
        voluntary_switches=usage.ru_nvcsw,
        involuntary_switches=usage.ru_nivcsw,
        cpu_pressure_some_s=pressure_s,
        threads=threads,
        throttling=throttling,
        load=attempt(missing, "others_s", lambda: read_load(root)),
        read_bytes=attempt(missing, "read_bytes", lambda: _read_bytes(root)),
        reread_bytes=attempt(missing, "reread_bytes", lambda: reread_bytes(root)),
        missing=missing,
    )


def since(before: HostCounters, turns: Turns | None = None, *, is_alone: bool = True) -> HostReading:
    """The differences from ``before`` until now. turns: those meanwhile. is_alone: no other ranks took part.

    Of control groups the one counts that was held back most. waited_s counts the threads that are there now.
    """
    now = start(before.root)
    missing = now.missing | before.missing
    duration_s = now.time_s - before.time_s - (turns.waited_s if turns else 0.0)
    pressure_s = waited_s = slow = None
    if turns:
        missing["cpu_pressure_some_s"] = "others had their turns, in which the kernel counted it as well"
    else:
        pressure_s = _difference(now.cpu_pressure_some_s, before.cpu_pressure_some_s)
    if before.threads is not None and now.threads is not None:
        waited_s = _longest_wait_s(before.threads, now.threads, turns)
        slow = attempt(missing, "slow_cpus", lambda: _slow_cpus(before, now, duration_s))
    else:
        missing["slow_cpus"] = missing["waited_s"]
    throttled = _held_back_most(before, now, missing)
    others_s, stolen_s, cpus = _others(before, now, missing, is_alone=is_alone and turns is None)
    found = HostReading(
        duration_s=duration_s,
        cpu_time_s=now.cpu_time_s - before.cpu_time_s,
        voluntary_switches=now.voluntary_switches - before.voluntary_switches,
        involuntary_switches=now.involuntary_switches - before.involuntary_switches,
        cpu_pressure_some_s=pressure_s,
        waited_s=waited_s,
        throttled_s=throttled and throttled.held_back_s,
        quota_periods=throttled and throttled.periods,
        throttled_periods=throttled and throttled.throttled_periods,
        slow_cpus=slow,
        others_s=others_s,
        stolen_s=stolen_s,
        cpus=cpus,
        read_bytes=_difference(now.read_bytes, before.read_bytes),
        reread_bytes=_difference(now.reread_bytes, before.reread_bytes),
        missing=missing,
    )
    return _with_others(found, now)


def _with_others(found: HostReading, now: HostCounters) -> HostReading:
    """Who they are, where they took more than on a quiet machine."""
    if not found.is_beside_others or now.load is None:
        return found
    return msgspec.structs.replace(found, others=beside.others(now.root, now.load.cpus))


def _read_bytes(root: Path) -> int:
    """From disks, since this process began: proc_pid_io(5)."""
    path = root / "proc/self/io"
    return whole_number(labelled_value(path, "read_bytes"), path)


def _others(
    before: HostCounters, now: HostCounters, missing: dict[str, str], *, is_alone: bool
) -> tuple[float | None, float | None, int | None]:
    """CPU time of other programs and of the hypervisor, and of how many CPUs; all with a reason where not known."""
    then, here, load = before.load, now.load, None
    if not is_alone:
        missing["others_s"] = "other processes of this measurement were at work, too, and the kernel counts all"
    elif then and here:
        load = attempt(missing, "others_s", lambda: here.since(then))
    if load is None:
        missing |= dict.fromkeys(("stolen_s", "cpus"), missing["others_s"])
        return None, None, None
    return load.others_s, load.stolen_s, len(load.cpus)


def _longest_wait_s(before: dict[str, Thread], now: dict[str, Thread], turns: Turns | None) -> float:
    """Of the thread that waited longest for a CPU; of this one, in its turns."""
    waits = {number: each.since(before.get(number)).waited_s for number, each in now.items()}
    own = str(threading.get_native_id())
    if turns and turns.queued_s is not None and own in waits:
        waits[own] -= turns.queued_s
    return max(waits.values())


def _held_back_most(before: HostCounters, now: HostCounters, missing: dict[str, str]) -> Throttling | None:
    """Throttling meanwhile of the control group held back longest; None where no quota is counted.

    Nor where the process was moved: the groups above both, such as the root, tell nothing of the one that it came to.
    """
    if before.throttling is None or now.throttling is None:
        return None
    if before.throttling.keys() != now.throttling.keys():
        missing["throttled_s"] = MOVED
        return None
    held_back = [now.throttling[group].since(before.throttling[group]) for group in now.throttling]
    return max(held_back, key=lambda each: each.held_back_s)


def threads_of(root: Path, pid: int = 0) -> dict[str, Thread]:
    """Time that each thread of a process, 0 this one, ran and waited for a CPU.

    Source: Linux, scheduler/sched-stats.rst, schedstat. Raises OSError, and ValueError where the kernel counts none: it
    has no such files then, or writes zeros (kernel/sched/stats.h, sched_info_on).
    """
    found = {}
    folder = folder_of(root, pid) / "task"
    kinds = attempt({}, "", lambda: _kinds(root))
    for thread in os.listdir(folder):
        path = folder / thread / "schedstat"
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            ran_ns, waited_ns, _ = quick_text(path).split()
            cpu = _cpu_of(folder / thread) if kinds else None
            found[thread] = Thread(whole_number(ran_ns, path) * 1e-9, whole_number(waited_ns, path) * 1e-9, cpu)
    if not any(thread.ran_s for thread in found.values()):
        raise ValueError(
            f"{folder}/*/schedstat: no thread has run by it: this kernel does not count how long they wait"
        )
    return found


def _cpu_of(thread: Path) -> int:
    """The CPU that it runs on, or ran on last: proc_pid_stat(5), processor."""
    return int(fields_of_stat(thread / "stat")[_PROCESSOR])


@functools.cache
def _kinds(root: Path) -> list[CpuKind]:
    """Read once: on a large machine that takes milliseconds."""
    return cpu_kinds(root)


def _slow_cpus(before: HostCounters, now: HostCounters, duration_s: float) -> list[int]:
    slower = set(slower_cpus(_kinds(now.root), os.sched_getaffinity(0)))
    seen: set[int | None] = set()
    for number, thread in (now.threads or {}).items():
        earlier = (before.threads or {}).get(number)
        if thread.since(earlier).ran_s > BUSY_FRACTION * duration_s:
            seen |= {thread.cpu, earlier.cpu if earlier else thread.cpu}
    return sorted(slower & seen)


def has_quota(root: Path = Path("/")) -> bool:
    """Whether a CPU quota is at work over this process, which may stop it in one period and in the next one not."""
    throttling = attempt({}, "", lambda: throttling_of(folders_of(root))) or {}
    return any(each.periods for each in throttling.values())


def throttling_of(folders: Folders) -> dict[str, Throttling]:
    """cpu.stat file -> what the quota of its group has done, of those that a process is in.

    Raises OSError, and ValueError where none can have a quota.
    """
    found = {}
    paths = [folder / "cpu.stat" for folder in folders("cpu")]
    for path in paths:
        counters = dict(line.split(" ", 1) for line in path.read_text().splitlines() if " " in line)
        for name in _THROTTLED_UNIT_S.keys() & counters.keys():
            held_back_s = whole_number(counters[name], path) * _THROTTLED_UNIT_S[name]
            periods = [whole_number(counters[each], path) if each in counters else None for each in _PERIODS]
            found[str(path)] = Throttling(held_back_s, *periods)
    if not found:
        # The root group of v2 has the file without the counter.
        raise ValueError(f"{paths[0]} counts no throttling: this control group can have no quota")
    return found
