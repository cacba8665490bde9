"""How single threads are scheduled: those of a process, and of what it forked, that are placed apart from its first."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from primbench.system.files import format_cpu_list
from primbench.system.processes import folder_of, quick_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

POLICIES = {
    os.SCHED_OTHER: "other",
    os.SCHED_BATCH: "batch",
    os.SCHED_IDLE: "idle",
    os.SCHED_FIFO: "fifo",
    os.SCHED_RR: "rr",
}

COME_LAST = ("batch", "idle")
"""Policies by which others that want the same CPU go first."""


def policy_of(number: int) -> str:
    """The scheduling policy of a thread, 0 this one: a word of POLICIES, or the number of one that has none there."""
    policy = os.sched_getscheduler(number)
    return POLICIES.get(policy, str(policy))


def thread_cpus(root: Path, pid: int = 0) -> dict[str, int]:
    """The CPUs of threads that may run on others than the first one, such as "0-1" -> how many threads these are."""
    return _apart(root, pid, lambda thread: format_cpu_list(os.sched_getaffinity(thread)))


def thread_niceness(root: Path, pid: int = 0) -> dict[str, int]:
    """Another niceness than that of the first thread, such as "19" -> how many threads have it."""
    return _apart(root, pid, lambda thread: str(os.getpriority(os.PRIO_PROCESS, thread)))


def thread_scheduling(root: Path, pid: int = 0) -> dict[str, int]:
    """Another policy than that of the first thread, such as "idle" -> how many threads have it."""
    return _apart(root, pid, policy_of)


def _apart(root: Path, pid: int, read: Callable[[int], str]) -> dict[str, int]:
    """What is read of each thread, where it is not as of the first one. Threads that end meanwhile are left out."""
    first, *others = _threads(root, pid)
    found: Counter[str] = Counter()
    usual = read(first)
    for thread in others:
        try:
            found[read(thread)] += 1
        except ProcessLookupError:
            continue
    del found[usual]
    return dict(sorted(found.items()))


def _threads(root: Path, pid: int) -> Iterator[int]:
    """Those of the process, the first one first, then those of each that it forked and that runs the same program."""
    root = root if pid else Path("/")  # what is asked of this process's own threads is theirs wherever files are
    folder = folder_of(root, pid)
    first = pid or os.getpid()  # not the least: the kernel's numbers begin again at the lowest
    own = sorted(map(int, os.listdir(folder / "task")), key=lambda thread: (thread != first, thread))
    yield from own
    command = quick_text(folder / "cmdline")
    for thread in own:
        for child in _children(folder / "task" / str(thread)):
            forked = folder_of(root, child)
            try:
                if quick_text(forked / "cmdline") == command:
                    yield from sorted(map(int, os.listdir(forked / "task")))
            except (FileNotFoundError, ProcessLookupError):
                continue


def _children(thread: Path) -> list[int]:
    """Of a thread, where the kernel tells (CONFIG_PROC_CHILDREN); those of one that has ended are its process's."""
    try:
        return list(map(int, quick_text(thread / "children").split()))
    except (FileNotFoundError, ProcessLookupError):
        return []
