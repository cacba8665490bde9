"""Which processes are a job's: those that it began with, what these start, and who joins it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from primbench.system.cgroups import paths_of
from primbench.system.processes import parent, processes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path, PurePosixPath


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
