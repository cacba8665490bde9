"""Which processes are a job's: those that it began with, what these start, who joins it, and who else had the CPUs."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, NamedTuple

from primbench.doctor.job import NeighbourProcess
from primbench.system.cgroups import paths_of
from primbench.system.processes import fields_of_stat, folder_of, named, parent, processes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path, PurePosixPath

MOST = 3
LEAST_SHARE = 0.05  # of a CPU
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_IN_USER, _IN_KERNEL, _STARTED = 11, 12, 19  # of /proc/PID/stat, indices after the name

Process = tuple[int, str]  # its number, and when it was started


class Others(NamedTuple):
    """Who belongs to a job though none of its processes started it."""

    join: Callable[[int], bool]
    """Whether the process of this number does."""
    may_come: Callable[[], bool]
    """Whether any may still, where none is left."""


class JobMembers:
    """started_by: each member, and who started it, where that was seen.

    Of others it is asked at the first two looks at each process, as who starts one in a container moves it into that a
    moment later.
    """

    def __init__(self, root: Path, pids: Sequence[int], others: Others | None) -> None:
        self.started_by: dict[int, int | None] = dict.fromkeys(pids)
        self._root, self._others = root, others
        self._seen: set[int] = set()
        self._seen_before: set[int] = set()

    def find(self, first: int) -> None:
        """Those that came since, without those that are gone, but for the first one."""
        there = processes(self._root)
        fresh = there - (self._seen & self._seen_before)
        self._seen_before, self._seen = self._seen, there
        parents = {pid: self._parent(pid) for pid in fresh}
        self.started_by = {pid: by for pid, by in self.started_by.items() if pid in there or pid == first}
        found = {*self.started_by} | self._joined(fresh)
        while found:
            found = {pid for pid in parents.keys() - self.started_by.keys() if parents[pid] in found}
            self.started_by |= {pid: parents[pid] for pid in sorted(found)}

    def _joined(self, fresh: set[int]) -> set[int]:
        others = self._others
        found = {pid for pid in sorted(fresh - self.started_by.keys()) if others is not None and others.join(pid)}
        self.started_by |= dict.fromkeys(sorted(found))
        return found

    def _parent(self, pid: int) -> int | None:
        with contextlib.suppress(OSError):
            return parent(self._root, pid)
        return None


def in_groups_of(root: Path, pid: int) -> Others:
    """Who is in the control groups of this process, or below, as far as they are apart from those of who asks.

    As one is that is started in a container later on, and that ends with the first one. Nobody where none is apart.
    """
    own = _paths(root, 0)
    apart = {name: path for name, path in _paths(root, pid).items() if not own.get(name, path).is_relative_to(path)}

    def join(other: int) -> bool:
        theirs = _paths(root, other)
        return bool(apart) and all(name in theirs and theirs[name].is_relative_to(path) for name, path in apart.items())

    return Others(join, lambda: False)


def _paths(root: Path, pid: int) -> dict[str, PurePosixPath]:
    """Controllers -> group; {} of who has ended."""
    with contextlib.suppress(OSError):
        return paths_of(root, pid)
    return {}


def cpu_times(root: Path) -> dict[Process, float]:
    """Of all processes that are seen from here, since each was started."""
    found = {}
    for pid in processes(root):
        with contextlib.suppress(OSError):
            stat = fields_of_stat(folder_of(root, pid) / "stat")
            found[pid, stat[_STARTED]] = (int(stat[_IN_USER]) + int(stat[_IN_KERNEL])) / _TICKS_PER_S
    return found


def neighbours(
    root: Path, before: Mapping[Process, float], members: Collection[int], duration_s: float
) -> list[NeighbourProcess]:
    """Those that used most, of what is there at the end. before: ``cpu_times``, so long ago. members: of the job."""
    used = {each: time_s - before.get(each, 0.0) for each, time_s in cpu_times(root).items()}
    others = [
        (time_s, pid)
        for (pid, _), time_s in used.items()
        if pid not in members and pid != os.getpid() and time_s >= LEAST_SHARE * duration_s
    ]
    return [
        NeighbourProcess(pid=pid, name=named(root, pid), cpu_time_s=time_s)
        for time_s, pid in sorted(others)[: -MOST - 1 : -1]
    ]
