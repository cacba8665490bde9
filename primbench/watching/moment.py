"""The counters of a job at one moment; only their differences mean anything, but for what is held now."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import time
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from primbench.system.cgroups import folders_of
from primbench.system.files import attempt, whole_number
from primbench.system.memory import refaulted, reread_bytes
from primbench.system.pressure import group_pressure
from primbench.system.processes import fields_of_stat, folder_of, has_ended, quick_text
from primbench.timing.host_counters import Thread, Throttling, threads_of, throttling_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from primbench.system.cgroups import Folders

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Of /proc/PID/stat, indices after the name: proc_pid_stat(5), fields 3, 4, 10, 12, 14 to 17.
_STATE, _PARENT = 0, 1
_MINOR, _MAJOR, _IN_USER, _IN_KERNEL, _ENDED_IN_USER, _ENDED_IN_KERNEL = 7, 9, 11, 12, 13, 14
_SCHEDULED = re.compile(r"^(\S+)\s*:\s*([0-9]+)$", re.MULTILINE)

On = Literal["cpu", "memory", "io"]


class ThreadAt(NamedTuple):
    """A thread, counted since it was started. None is what the kernel does not tell."""

    ran_s: float
    """Time on a CPU."""
    waited_s: float
    """Time for which it waited for a CPU."""
    name: str | None
    migrations: int | None
    switches: int | None


class ProcessAt(NamedTuple):
    """A process, counted since it was started; ended_* are the same of those that it started and that have ended, and
    of what these had started.
    """

    parent: int
    """Number of the process that started it."""
    command: str | None
    """Its words, of which a process that was forked has its parent's."""
    cpu_time_s: float
    kernel_time_s: float
    """What of ``cpu_time_s`` went into system calls and page faults."""
    ended_cpu_time_s: float
    ended_kernel_time_s: float
    minor_faults: int
    major_faults: int
    memory_bytes: int | None
    swapped_bytes: int | None
    """Bytes of it that are swapped out now."""
    libraries_bytes: int | None
    """Code that it has mapped, but for its program's."""
    read_bytes: int | None
    """Bytes read from disks."""
    written_bytes: int | None
    """Bytes written to disks."""
    threads: dict[str, ThreadAt]


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """The counters of a job at one moment. None is unknown, with the reason in ``missing``."""

    time_s: float
    """When it is, by time.monotonic()."""
    processes: dict[int, ProcessAt]
    throttling: dict[str, Throttling] | None
    """Throttling of its control groups, by cpu.stat file; the numbers of bytes below are of these groups, too."""
    waiting_s: dict[On, float | None]
    """Time in which tasks of the job's control group or machine waited, by what for."""
    reread_bytes: int | None
    swapped_in_bytes: int | None
    missing: dict[str, str]


def read(root: Path, pids: Sequence[int], before: Moment | None = None) -> Moment:
    """pids: of the job's processes, the first one first. Never raises; processes that have ended are left out.

    before: of the same job, from which is taken what cannot have changed since.
    """
    missing: dict[str, str] = {}
    earlier = before.processes if before else {}
    found = {pid: _process(root, pid, earlier.get(pid), missing) for pid in pids}
    folders = folders_of(root, pids[0])
    waiting_s = {
        on: attempt(missing, f"{on}_waiting_s", functools.partial(_waiting_s, on, root, folders)) for on in _WAITED_FOR
    }
    read_again = functools.cache(lambda: refaulted(folders))
    return Moment(
        time_s=time.monotonic(),
        processes={pid: process for pid, process in found.items() if process is not None},
        throttling=attempt(missing, "throttled_s", lambda: throttling_of(folders)),
        waiting_s=waiting_s,
        reread_bytes=attempt(missing, "reread_bytes", lambda: _reread_bytes(root, read_again().files_bytes)),
        swapped_in_bytes=attempt(missing, "swapped_in_bytes", lambda: read_again().swapped_bytes),
        missing=missing,
    )


def _reread_bytes(root: Path, of_groups: int | None) -> int:
    """Of the control groups that have a limit, of the machine where none has."""
    return reread_bytes(root) if of_groups is None else of_groups


def is_forked(process: ProcessAt, parent: ProcessAt | None) -> bool:
    """Whether it runs on from where its parent forked it, by its command, which a program started anew has changed."""
    return parent is not None and process.command is not None and process.command == parent.command


_WAITED_FOR: tuple[On, ...] = ("cpu", "memory", "io")


def _waiting_s(on: On, root: Path, folders: Folders) -> float:
    return group_pressure(on, "total", root, folders) * 1e-6


def _process(root: Path, pid: int, before: ProcessAt | None, missing: dict[str, str]) -> ProcessAt | None:
    folder = folder_of(root, pid)
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        stat = fields_of_stat(folder / "stat")
        is_over = stat[_STATE] == "Z" and has_ended(root, pid)  # holds nothing any more, but is to be waited for
        status, io = (functools.cache(functools.partial(_Labelled, folder / name)) for name in ("status", "io"))
        readers: dict[str, Callable[[], Any]] = {
            "memory_bytes": lambda: 0 if is_over else status().bytes_of("VmRSS"),
            "swapped_bytes": lambda: 0 if is_over else status().bytes_of("VmSwap"),
            "read_bytes": lambda: io().number("read_bytes"),  # proc_pid_io(5): its own user and root may read it
            "written_bytes": lambda: io().number("write_bytes"),
            "threads": lambda: _threads(root, pid, before.threads if before else {}),
            "command": lambda: quick_text(folder / "cmdline"),
        }
        found = {name: attempt(missing, name, read) for name, read in readers.items()}
        return ProcessAt(
            parent=int(stat[_PARENT]),
            cpu_time_s=(int(stat[_IN_USER]) + int(stat[_IN_KERNEL])) / _TICKS_PER_S,
            kernel_time_s=int(stat[_IN_KERNEL]) / _TICKS_PER_S,
            ended_cpu_time_s=(int(stat[_ENDED_IN_USER]) + int(stat[_ENDED_IN_KERNEL])) / _TICKS_PER_S,
            ended_kernel_time_s=int(stat[_ENDED_IN_KERNEL]) / _TICKS_PER_S,
            minor_faults=int(stat[_MINOR]),
            major_faults=int(stat[_MAJOR]),
            libraries_bytes=attempt({}, "", lambda: status().bytes_of("VmLib")),
            **found | {"threads": found["threads"] or {}},
        )
    return None


class _Labelled:
    """A file of lines ``label: N`` or ``label: N kB``, read once."""

    def __init__(self, path: Path) -> None:
        lines = (line.partition(":") for line in quick_text(path).splitlines())
        self._path, self._values = path, {label: value.strip() for label, _, value in lines}

    def number(self, label: str) -> int:
        if label not in self._values:
            raise ValueError(f"{self._path} has no {label}")
        return whole_number(self._values[label].removesuffix(" kB"), self._path)

    def bytes_of(self, label: str) -> int:
        """The kernel means 1024 by kB."""
        return 1024 * self.number(label)


def _threads(root: Path, pid: int, before: Mapping[str, ThreadAt]) -> dict[str, ThreadAt]:
    folder = folder_of(root, pid) / "task"
    return {
        number: _thread(folder / number, each, before.get(number)) for number, each in threads_of(root, pid).items()
    }


def _thread(folder: Path, now: Thread, before: ThreadAt | None) -> ThreadAt:
    """One that has not run since has switched to nothing and moved nowhere: of the most only one file is read."""
    if before is not None and (now.ran_s, now.waited_s) == (before.ran_s, before.waited_s):
        return before
    return ThreadAt(now.ran_s, now.waited_s, *_scheduled(folder))


def _scheduled(thread: Path) -> tuple[str | None, int | None, int | None]:
    """Name, migrations and context switches: Linux, scheduler/sched-debug.rst; a kernel may have none of it."""
    try:
        text = quick_text(thread / "sched")
    except OSError:
        return None, None, None
    counts = {name: int(count) for name, count in _SCHEDULED.findall(text)}
    return text.partition(" (")[0], counts.get("se.nr_migrations"), counts.get("nr_switches")
