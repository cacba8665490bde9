"""How often a job calls the entry points of the CUDA driver that launch, counted for 1 % of the time.

One function of one thread at a time: each call that is counted costs the job 1 to 10 us, and taking a breakpoint out
takes the kernel as long as all others of its function are still there. So that the most that it can cost is that share
of the job's time, and where much is called the rate is rather too low. What is counted is exact; a rate is as good as
the time counted is long for how the job's steps go, so that every other count is of what was called before.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from primbench.cuda.libraries import loaded_path
from primbench.doctor.job import ENTRY_POINTS, IN_TURN, FunctionCalls
from primbench.system.elf import exported
from primbench.system.files import attempt
from primbench.system.processes import folder_of, root_of
from primbench.system.uprobes import check_counting, counted
from primbench.watching.moment import is_forked

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from primbench.watching.moment import Moment, ProcessAt, ThreadAt

COUNTED_S = 2e-3
MOST_SHARE = 0.01  # of the time, also where this process has to wait for a CPU with a breakpoint in place
MOST_THREADS = 8  # those that ran longest: of each GPU what launches forward, and torch's that launches backward
LEAST_RAN = 0.01  # of what the thread ran that ran longest: a launch takes its thread some microseconds
WITHOUT_CPU = 0.25  # of a count: what one is worth in which the thread did not run, which tells little: four tries
LOOK_AGAIN_S = 5.0  # at the files that a process has mapped, where the driver was not among them
NO_DRIVER = "none of its processes has the CUDA driver loaded, libcuda.so"


class _Point(NamedTuple):
    thread: int
    function: str
    path: Path
    offset: int


class _Looked(NamedTuple):
    """What a process had of the driver when it was looked at."""

    time_s: float
    """When that was, by time.monotonic()."""
    libraries_bytes: int | None
    """Code that the process had mapped then."""
    found: dict[str, tuple[Path, int]]
    """Function -> file and offset."""

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
        self._busiest: set[int] = set()
        self._turn = 0
        self._counts: defaultdict[_Point, float] = defaultdict(float)
        self._called: set[_Point] = set()
        self._due_s = 0.0
        self._drivers: dict[int, _Looked] = {}
        self._first: dict[str, float] = {}  # what threads had run when they were first seen

    def find(self, now: Moment) -> None:
        """What is counted from here on: in the threads that ran longest since they were first seen.

        Last those of forked processes: they have the driver from who loads data by them, and launch nothing.
        """
        driven = {pid: found for pid, process in now.processes.items() if (found := self._driver(pid, process))}
        threads = self._threads(driven.keys(), now)
        self._busiest = {number for number, _ in threads[:IN_TURN]}
        self._points = [
            _Point(number, function, *driven[pid][function])
            for function in ENTRY_POINTS
            for number, pid in threads
            if function in driven[pid]
        ]
        if not self._is_refused:
            self.why_not = None if self._points else self._unseen or NO_DRIVER

    def next(self) -> list[FunctionCalls]:
        """Of the next function and thread; [] before it is due, where there is none, or where it may not be counted."""
        if not self._points or self._is_refused or time.monotonic() < self._due_s:
            return []
        point, missing = self._chosen(), dict[str, str]()
        found = attempt(missing, "calls", lambda: _count(point))
        if found is None and folder_of(self._root, point.thread).exists():  # else it ended meanwhile
            self._is_refused, self.why_not = True, missing["calls"]
        if found is None:
            return []
        self._due_s = time.monotonic() + found.counted_s / MOST_SHARE
        self._counts[point] += WITHOUT_CPU if not found.ran_s and point.thread in self._busiest else 1
        if found.count:
            self._called.add(point)
        return [found]

    def _chosen(self) -> _Point:
        """What was counted least often, function by function; every other time of what was called.

        Threads that take turns, as those that launch forward and backward do, each have no CPU for half of the time.
        """
        called = [point for point in self._points if point in self._called]
        self._turn += 1
        return min(called if called and self._turn % 2 == 0 else self._points, key=self._rank)

    def _rank(self, point: _Point) -> tuple[int, int, float]:
        counts = self._counts[point]
        return int(counts), ENTRY_POINTS.index(point.function), counts

    def _threads(self, driven: Collection[int], now: Moment) -> list[tuple[int, int]]:
        """Number and process."""
        ran = [
            (not _is_forked_of(pid, driven, now), self._ran_s(number, each), each.ran_s, int(number), pid)
            for pid in driven
            for number, each in now.processes[pid].threads.items()
        ]
        least_s = LEAST_RAN * max((since_s for _, since_s, *_ in ran), default=0.0)
        chosen = sorted((each for each in ran if each[1] >= least_s), reverse=True)[:MOST_THREADS]
        return [(number, pid) for *_, number, pid in chosen]

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


def _is_forked_of(pid: int, driven: Collection[int], now: Moment) -> bool:
    parent = now.processes[pid].parent
    return parent in driven and is_forked(now.processes[pid], now.processes[parent])


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


def _count(point: _Point) -> FunctionCalls:
    check_counting()
    with counted(point.path, point.offset, point.thread) as count:
        begun_s, before = time.monotonic(), count()
        time.sleep(COUNTED_S)
        counted_s, after = time.monotonic() - begun_s, count()
    return FunctionCalls(
        function=point.function,
        thread=point.thread,
        count=after.calls - before.calls,
        counted_s=counted_s,
        ran_s=after.ran_s - before.ran_s,
    )


def summed(counts: Iterable[FunctionCalls]) -> list[FunctionCalls]:
    """Each function and thread once."""
    found: dict[tuple[str, int], FunctionCalls] = {}
    for each in counts:
        key = each.function, each.thread
        if (so_far := found.get(key)) is not None:
            each = msgspec.structs.replace(
                each,
                count=so_far.count + each.count,
                counted_s=so_far.counted_s + each.counted_s,
                ran_s=so_far.ran_s + each.ran_s,
            )
        found[key] = each
    return list(found.values())
