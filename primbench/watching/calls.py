"""How often a job calls the entry points of the CUDA driver that launch, counted for 1 % of the time.

One function of one thread at a time, in turn: each call that is counted costs the job 1 to 10 us, and taking a
breakpoint out takes the kernel as long as all others of its function are still there. So that the most that it can cost
is that share of the job's time, and where much is called the rate is rather too low.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from primbench.cuda.libraries import loaded_path
from primbench.environment.elf import exported
from primbench.quantities import Seconds, Whole
from primbench.system.files import attempt
from primbench.system.processes import folder_of, root_of
from primbench.system.uprobes import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from primbench.watching.moment import Moment, ProcessAt, ThreadAt

# CUDA Driver API, "Execution Control" and "Graph Management". Those of per-thread default streams have other names.
ENTRY_POINTS = ("cuLaunchKernel", "cuLaunchKernelEx", "cuGraphLaunch")
COUNTED_S = 2e-3
MOST_SHARE = 0.01  # of the time, also where this process has to wait for a CPU with a breakpoint in place
MOST_THREADS = 3  # those that ran longest: what launches forward, and torch's thread that launches backward
LOOK_AGAIN_S = 5.0  # at the files that a process has mapped, where the driver was not among them
NO_DRIVER = "none of its processes has the CUDA driver loaded, libcuda.so"


class Calls(msgspec.Struct, frozen=True, kw_only=True):
    """Of one function by one thread. counted_s: of how much time."""

    function: str
    thread: Whole
    count: Whole
    counted_s: Seconds


class _Point(NamedTuple):
    thread: int
    function: str
    path: Path
    offset: int


class _Looked(NamedTuple):
    """time_s: when. libraries_bytes: that the process had then. found: name -> file and offset."""

    time_s: float
    libraries_bytes: int | None
    found: dict[str, tuple[Path, int]]

    def has_all(self, libraries_bytes: int | None) -> bool:
        """Whether it has loaded none since: the driver has megabytes of code."""
        return libraries_bytes is not None and libraries_bytes == self.libraries_bytes


class Counters:
    """why_not: why there is nothing to count; None where there is."""

    def __init__(self, root: Path) -> None:
        self.why_not: str | None = NO_DRIVER
        self._root = root
        self._unseen: str | None = None  # why the files that a process has mapped are not known
        self._is_refused = False
        self._points: list[_Point] = []
        self._turn = 0
        self._due_s = 0.0
        self._drivers: dict[int, _Looked] = {}
        self._first: dict[str, float] = {}  # what threads had run when they were first seen

    def find(self, now: Moment) -> None:
        """What is counted from here on: in the threads that ran longest since they were first seen."""
        driven = {pid: found for pid, process in now.processes.items() if (found := self._driver(pid, process))}
        threads = [(number, pid, each) for pid in driven for number, each in now.processes[pid].threads.items()]
        threads.sort(key=lambda one: (self._ran_s(one[0], one[2]), one[2].ran_s), reverse=True)
        self._points = [
            _Point(int(number), function, *where)
            for number, pid, _ in threads[:MOST_THREADS]
            for function, where in driven[pid].items()
        ]
        if not self._is_refused:
            self.why_not = None if self._points else self._unseen or NO_DRIVER

    def next(self) -> list[Calls]:
        """Of the next function and thread; [] before it is due, where there is none, or where it may not be counted."""
        if not self._points or self._is_refused or time.monotonic() < self._due_s:
            return []
        point = self._points[self._turn % len(self._points)]
        self._turn += 1
        missing: dict[str, str] = {}
        found = attempt(missing, "calls", lambda: _count(point))
        if found is None and folder_of(self._root, point.thread).exists():  # else it ended meanwhile
            self._is_refused, self.why_not = True, missing["calls"]
        if found is None:
            return []
        self._due_s = time.monotonic() + found.counted_s / MOST_SHARE
        return [found]

    def _ran_s(self, number: str, thread: ThreadAt) -> float:
        return thread.ran_s - self._first.setdefault(number, thread.ran_s)

    def _driver(self, pid: int, process: ProcessAt) -> dict[str, tuple[Path, int]]:
        """Who lists what a process has mapped holds up whatever it maps and unmaps meanwhile."""
        last, size = self._drivers.get(pid), process.libraries_bytes
        if last and (last.found or time.monotonic() - last.time_s < LOOK_AGAIN_S or last.has_all(size)):
            return last.found
        missing: dict[str, str] = {}
        found = attempt(missing, "calls", lambda: _entry_points(self._root, pid)) or {}
        self._unseen = missing.get("calls", self._unseen)
        self._drivers[pid] = _Looked(time.monotonic(), None if missing else size, found)
        return found


def _entry_points(root: Path, pid: int) -> dict[str, tuple[Path, int]]:
    """Name -> file and offset; two names of one place are told by the first. {} without the driver."""
    mapped = None
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
        mapped = loaded_path("cuda", (folder_of(root, pid) / "maps").read_text())
    if mapped is None:
        return {}
    path = root_of(root, pid) / mapped.lstrip("/")
    by_offset: dict[int, str] = {}
    for name, offset in exported(path, ENTRY_POINTS).items():
        by_offset.setdefault(offset, name)
    return {name: (path, offset) for offset, name in by_offset.items()}


def _count(point: _Point) -> Calls:
    with counted(point.path, point.offset, point.thread) as count:
        begun_s, before = time.monotonic(), count()
        time.sleep(COUNTED_S)
        counted_s, calls = time.monotonic() - begun_s, count() - before
    return Calls(function=point.function, thread=point.thread, count=calls, counted_s=counted_s)


def summed(counts: Iterable[Calls]) -> list[Calls]:
    """Each function and thread once."""
    found: dict[tuple[str, int], Calls] = {}
    for each in counts:
        key = each.function, each.thread
        so_far = found.get(key, Calls(function=each.function, thread=each.thread, count=0, counted_s=0.0))
        count, counted_s = so_far.count + each.count, so_far.counted_s + each.counted_s
        found[key] = msgspec.structs.replace(so_far, count=count, counted_s=counted_s)
    return list(found.values())


def a_second(calls: Sequence[Calls]) -> dict[str, float]:
    """Function -> rate, of all threads in which it was counted."""
    rates: dict[str, float] = {}
    for each in calls:
        rates[each.function] = rates.get(each.function, 0.0) + each.count / each.counted_s
    return rates
