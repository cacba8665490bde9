"""Memory that this process may still take, and the cache that a cold run must flush."""

from __future__ import annotations

import os
from pathlib import Path

from primbench.system.cgroups import cgroup_folders
from primbench.system.cores import last_level_caches
from primbench.system.files import attempt, read_number

# Control groups v2, then v1: limit and usage.
_LIMITS = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
_UNKNOWN_CACHE_BYTES = 32 * 1024 * 1024


def last_level_cache_bytes(root: Path = Path("/")) -> int:
    """All last-level caches of the CPUs this process may use, together; 32 MiB where sysfs names none."""
    caches = attempt({}, "", lambda: last_level_caches(root, os.sched_getaffinity(0))) or []
    return sum(cache.size_bytes or 0 for cache in caches) or _UNKNOWN_CACHE_BYTES


def available_memory_bytes(root: Path = Path("/")) -> int:
    """What can be allocated without swapping and without meeting the limit of a control group."""
    import psutil

    return min([int(psutil.virtual_memory().available), *_left_in_groups(root)])


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
                taken = read_number(folder / usage) - _reclaimable_bytes(folder)
                left.append(max(0, read_number(folder / limit) - taken))
            except (OSError, ValueError):
                continue  # no such file in this version, or the word "max"
    return left


def _reclaimable_bytes(folder: Path) -> int:
    """Page cache that nobody has used of late: it counts as usage, and gives way."""
    words = (folder / "memory.stat").read_text().split()
    return int(words[words.index("inactive_file") + 1])
