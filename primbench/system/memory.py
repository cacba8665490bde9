"""Memory that this process may still take, what counts its group's, what a limit has read again, and the cache that a
cold run must flush.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from primbench.system.cgroups import V1_NO_LIMIT_BYTES, Folders, cgroup_folders, counters, limit_in
from primbench.system.cores import last_level_caches
from primbench.system.files import attempt, labelled_bytes, read_number

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

# Control groups v2, then v1: limit and usage.
_LIMITS = (
    ("memory.max", "memory.current"),
    ("memory.high", "memory.current"),  # beyond which the kernel holds up whoever takes more
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
)
MEMORY_LIMITS = tuple(limit for limit, _ in _LIMITS)
_UNKNOWN_CACHE_BYTES = 32 * 1024 * 1024


def last_level_cache_bytes(root: Path = Path("/")) -> int:
    """All last-level caches of the CPUs this process may use, together; 32 MiB where sysfs names none."""
    caches = attempt({}, "", lambda: last_level_caches(root, os.sched_getaffinity(0))) or []
    return sum(cache.size_bytes or 0 for cache in caches) or _UNKNOWN_CACHE_BYTES


def available_memory_bytes(root: Path = Path("/")) -> int:
    """What can be allocated without swapping and without meeting the limit of a control group."""
    return min([labelled_bytes(root / "proc/meminfo", "MemAvailable"), *_left_in_groups(root)])


def _left_in_groups(root: Path) -> list[int]:
    """Limit less usage of every group from this process's own up to the top that has a limit and can be read."""
    try:
        folders = cgroup_folders("memory", root)
    except (OSError, ValueError):
        return []
    left = []
    for folder in folders:
        for limit, usage in _LIMITS:
            try:
                most = read_number(folder / limit)
                if most < V1_NO_LIMIT_BYTES:  # what is taken of no limit is long to read, and of no matter
                    left.append(max(0, most - read_number(folder / usage) + _reclaimable_bytes(folder)))
            except (OSError, ValueError):
                continue  # no such file in this version, or the word "max"
    return left


def group_usage(root: Path = Path("/")) -> Path:
    """The file with the bytes that this process's own control group holds, page cache included.

    Raises OSError and ValueError where there is none, as in the root group.
    """
    folder = cgroup_folders("memory", root)[0]
    for _, usage in _LIMITS:
        if (folder / usage).exists():
            return folder / usage
    raise ValueError(f"{folder} counts no memory: this control group is the root, or has no such controller")


def _reclaimable_bytes(folder: Path) -> int:
    """Page cache that nobody has used of late: it counts as usage, and gives way. 0 where the group does not tell.

    v1 counts the groups below apart from it, as total_*, though its usage is theirs, too.
    """
    found = counters(folder / "memory.stat")
    return found.get("total_inactive_file", found.get("inactive_file", 0))


class Refaulted(NamedTuple):
    """Read again: of files, after they were taken out of the cache, and of memory that had been swapped out.

    None where no group has a limit, or counts them. Linux before 5.9 counts files and other memory as one.
    """

    files_bytes: int | None
    swapped_bytes: int | None


def refaulted(folders: Folders) -> Refaulted:
    """By the control groups of a process. memory.stat counts pages."""
    counted = [counters(folder / "memory.stat") for folder in folders("memory") if _is_limited(folder)]
    return Refaulted(
        _most_bytes(counted, ("total_workingset_refault_file", "workingset_refault_file", "workingset_refault")),
        _most_bytes(counted, ("total_workingset_refault_anon", "workingset_refault_anon")),
    )


def reread_bytes(root: Path) -> int:
    """Of files, on the whole machine since it started, that had been taken out of the page cache for want of memory.

    Linux before 5.9 counts other memory that was swapped out with it. Raises OSError, and ValueError where it counts
    none.
    """
    path = root / "proc/vmstat"
    counted = counters(path)
    names = [name for name in ("workingset_refault_file", "workingset_refault") if name in counted]
    if not names:
        raise ValueError(f"{path} has no workingset_refault_file")
    return counted[names[0]] * os.sysconf("SC_PAGE_SIZE")


def _most_bytes(counted: Collection[Mapping[str, int]], names: Collection[str]) -> int | None:
    """Of the groups with a limit the one that counted most."""
    pages = [next(group[name] for name in names if name in group) for group in counted if set(names) & set(group)]
    return max(pages) * os.sysconf("SC_PAGE_SIZE") if pages else None


def _is_limited(folder: Path) -> bool:
    limits = [limit_in(folder / limit) for limit, _ in _LIMITS]
    return any(limit is not None and limit < V1_NO_LIMIT_BYTES for limit in limits)
