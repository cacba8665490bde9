"""Where Linux tells of a process: this one, which is number 0 as in system calls, or another one by its number.

Every reader takes the ``root`` under which /proc is found. What needs rights that are lacking raises PermissionError.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

from primbench.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

T = TypeVar("T")

_MOST_BYTES = 2**14  # of a thread's file or a line of one, which the kernel gives in one piece
_STATE, _PARENT, _STARTED = 0, 1, 19  # indices after the name: fields 3, 4 and 22 of /proc/PID/stat


def folder_of(root: Path, pid: int = 0) -> Path:
    """Its folder in /proc."""
    return root / "proc" / (str(pid) if pid else "self")


def root_of(root: Path, pid: int = 0) -> Path:
    """The root that it sees files from, which another one may see from a container."""
    return folder_of(root, pid) / "root" if pid else root


def environ_of(root: Path, pid: int = 0) -> Mapping[str, str]:
    """Its variables; of another process, as it was started with them."""
    if not pid:
        return os.environ
    entries = os.fsdecode((folder_of(root, pid) / "environ").read_bytes()).split("\0")
    return dict(entry.partition("=")[::2] for entry in entries if "=" in entry)


def fields_of_stat(path: Path) -> list[str]:
    """The fields of a ``stat`` file after the name, which may hold spaces and brackets: proc_pid_stat(5), from 3 on."""
    return quick_text(path).rpartition(")")[2].split()


def quick_text(path: Path) -> str:
    """A file of /proc, in a fifth of the time of Path.read_text(): some are read of every thread. Raises OSError."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, _MOST_BYTES).decode(errors="backslashreplace")
    finally:
        os.close(file)


def processes(root: Path) -> set[int]:
    """Numbers of all that are seen from here."""
    return {int(name) for name in os.listdir(root / "proc") if name.isdecimal()}


def started(root: Path, pid: int) -> int:
    """When it was started, in ticks since boot: which tells it from others of its number. Raises InvalidRequest."""
    try:
        return int(fields_of_stat(folder_of(root, pid) / "stat")[_STARTED])
    except (FileNotFoundError, ProcessLookupError):
        if not (root / "proc/self").exists():
            raise InvalidRequest(
                f"process {pid}: nothing is mounted on {root / 'proc'}: mount -t proc proc /proc"
            ) from None
        raise InvalidRequest(f"process {pid}: there is none of this number here (or /proc hides it: hidepid)") from None


def has_ended(root: Path, pid: int) -> bool:
    """Whether nothing of it runs any more; until its parent has waited for it, it is still there. Raises OSError."""
    folder = folder_of(root, pid)
    return fields_of_stat(folder / "stat")[_STATE] in ("X", "Z") and len(os.listdir(folder / "task")) < 2


def check_runs(root: Path, pid: int) -> None:
    """Raises InvalidRequest where there is no process of this number, or where it has ended."""
    started(root, pid)
    if has_ended(root, pid):
        raise InvalidRequest(
            f"process {named(root, pid)} has ended: process {parent(root, pid)} has not waited for it yet"
        )


def parent(root: Path, pid: int) -> int:
    return int(fields_of_stat(folder_of(root, pid) / "stat")[_PARENT])


def ancestors(root: Path, pid: int) -> Iterator[int]:
    """Who started it, and who these, up to process 1. Raises OSError where it has ended."""
    while pid > 1:
        pid = parent(root, pid)
        yield pid


def children(folder: Path) -> Iterator[int]:
    """Those of a process, all its threads together. Raises FileNotFoundError where the kernel does not list them.

    folder: its own in /proc, by its number.
    """
    for thread in os.listdir(folder / "task"):
        try:
            yield from map(int, (folder / "task" / thread / "children").read_text().split())
        except FileNotFoundError:
            if thread == folder.name:  # the first one is there as long as the process is
                raise


def words_for(pid: int) -> str:
    return f"process {pid}" if pid else "this process"


def named(root: Path, pid: int) -> str:
    """Its number and name, such as "4242 (python3)"; the number alone where it has ended."""
    try:
        return f"{pid} ({quick_text(folder_of(root, pid) / 'comm').strip()})"
    except OSError:
        return str(pid)


def read_family(pid: int, root: Path, read: Callable[[Path], T]) -> list[T]:
    """What is read of a process and all that come from it, but for this one, which only watches them."""
    found, waiting = [], [(pid, "")]
    while waiting:
        each, of_parent = waiting.pop()
        folder = root / f"proc/{each}"
        try:
            memory = (folder / "statm").read_text()
            if memory == of_parent:  # vfork(2): until it starts its program it has no memory but its parent's
                continue
            found.append(read(folder))
            waiting += [(child, memory) for child in children(folder) if child != os.getpid()]
        except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            if each == pid:
                raise
    return found
