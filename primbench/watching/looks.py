"""What the states of threads say, look by look: which were blocked, stopped or asleep, and where in the kernel."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

from primbench.doctor.job import ANSWERED, SYNCING
from primbench.environment.confinement import tracer_of
from primbench.system.files import attempt, read_mounts
from primbench.system.processes import fields_of_stat, quick_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path

MOST_ASKED = 4  # threads, of which each answer for where it sleeps takes 30 us
GONE = ("X", "Z")  # these and the other states as ps(1) has them
_STATE = 0  # of /proc/PID/stat, index after the name
_BLOCKED, _ASLEEP = "D", "S"
_AT_REST = {_ASLEEP, "I", *GONE}  # I: threads of the kernel's own
_STOPPED = ("T", "t")  # by a signal, by a debugger


class Looks:
    """Counted in one stretch, as that has them. pid: the job's first process. has_fuse: whether it may wait for one."""

    def __init__(self, root: Path, pid: int, *, has_fuse: bool) -> None:
        self._root, self._pid, self._has_fuse = root, pid, has_fuse
        self._count = self._asleep = 0
        self._blocked, self._stopped, self._blocked_in = Counter[int](), Counter[int](), Counter[str]()
        self._asleep_in: dict[int, Counter[str]] = {}

    def add(
        self,
        files: Mapping[int, Path],
        states: Mapping[int, str],
        members: Collection[int],
        started_by: Mapping[int, int],
    ) -> None:
        """files: ``stat`` of each thread. states: of these. started_by: whom those count for that came since."""
        blocked = {number: files[number] for number, state in states.items() if self._is_blocked(files[number], state)}
        self._count += 1
        self._blocked.update({started_by.get(number, number) for number in blocked})
        self._blocked_in.update(_functions(blocked.values()))
        self._stopped.update(number for number in states.keys() & members if states[number] in _STOPPED)
        if not blocked and are_at_rest(states):
            self._asleep += 1
            self._add_waits(files)

    def _add_waits(self, files: Mapping[int, Path]) -> None:
        for number, file in itertools.islice(files.items(), MOST_ASKED):
            function = _text(file.with_name("wchan"))
            self._asleep_in.setdefault(number, Counter()).update([function] if function.strip("0") else [])

    def counted(self) -> dict[str, Any]:
        """What a Stretch has of them."""
        most_stopped = max(self._stopped, key=self._stopped.__getitem__, default=self._pid)
        return {
            "looks": self._count,
            "blocked": dict(self._blocked),
            "blocked_in": dict(self._blocked_in),
            "asleep": self._asleep,
            "asleep_in": {number: dict(functions) for number, functions in self._asleep_in.items()},
            "stopped": dict(self._stopped),
            "tracer": attempt({}, "", lambda: tracer_of(self._root, most_stopped)),
        }

    def _is_blocked(self, file: Path, state: str) -> bool:
        """By a disk or a driver, or by a process that answers for a file system, who is waited for as an event is."""
        return state == _BLOCKED or (self._has_fuse and state == _ASLEEP and _text(file.with_name("wchan")) == ANSWERED)


def _functions(files: Iterable[Path]) -> Iterator[str]:
    for file in files:
        if (function := _function(file.with_name("stack"))) is not None:
            yield function


def _function(stack: Path) -> str | None:
    """The function of the kernel that a thread is in, such as "kernel_clone"; None for who may not ask, or too late.

    One of SYNCING where it is called by that: below it a file system and a disk's driver wait each in their own way.
    """
    called = [line.partition("] ")[2].partition("+")[0] for line in _text(stack).splitlines()]
    return next((each for each in called if each in SYNCING), called[0] if called else None)


def _text(file: Path) -> str:
    """ "" where it may not be read, or too late."""
    try:
        return quick_text(file)
    except OSError:
        return ""


def has_fuse(root: Path, pid: int) -> bool:
    """Whether there is a file system that a process answers for, such as fuse-overlayfs, or a machine's host."""
    try:
        kinds = {mount.kind for mount in read_mounts(root, pid)}
    except OSError:
        return True
    return any(kind.partition(".")[0] in ("fuse", "fuseblk", "virtiofs") for kind in kinds)


def states_of(files: Mapping[int, Path]) -> dict[int, str]:
    """Of threads, by ``stat`` of each, as ps(1) has them; "X" of one that is not there any more."""
    return {number: _state(file) for number, file in files.items()}


def are_at_rest(states: Mapping[int, str]) -> bool:
    """Whether none of these runs, wants to, or is blocked."""
    return _AT_REST.issuperset(states.values())


def children_of(files: Mapping[int, Path]) -> set[int]:
    """Processes that the first of these threads started; those of a kernel that does not list them are left out."""
    few = itertools.islice(files.values(), MOST_ASKED)
    return {int(child) for file in few for child in _text(file.with_name("children")).split()}


def _state(file: Path) -> str:
    try:
        return fields_of_stat(file)[_STATE]
    except OSError:
        return "X"
