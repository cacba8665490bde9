"""What this process may use of the machine: CPUs, memory, files; and how often it was held back so far."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from primbench.cgroups import cgroup_folders
from primbench.sysfiles import attempt, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable

_V1_NO_LIMIT_BYTES = 2**62  # v1 writes "no limit" as the largest multiple of a page


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """None is unknown where ``missing`` gives a reason under the field's name, and "no limit" where it does not.

    cpus_allowed, memory_nodes_allowed: by affinity and cpuset together. cpu_quota: CPUs' worth of time that the control
    groups grant, the smallest of those above this process; cpu_period_s: its period. memory_limit_bytes: likewise.
    cgroup_version: "v1", "v2" or "hybrid", as mounted here.
    throttled_periods, throttled_s: since the control group was made, of the one that was held back most; periods: in
    which it ran. out_of_memory_kills: likewise.
    shm_bytes, shm_free_bytes: of /dev/shm. processes_max: of the control group.
    """

    cpus_allowed: list[int]
    memory_nodes_allowed: list[int] | None = None
    cpu_quota: float | None = None
    cpu_period_s: float | None = None
    memory_limit_bytes: int | None = None
    cgroup_version: str | None = None
    periods: int | None = None
    throttled_periods: int | None = None
    throttled_s: float | None = None
    out_of_memory_kills: int | None = None
    memlock_bytes: int | None = None
    open_files: int | None = None
    processes_max: int | None = None
    shm_bytes: int | None = None
    shm_free_bytes: int | None = None
    missing: dict[str, str] = {}


def collect(root: Path) -> Limits:
    missing: dict[str, str] = {}
    read: dict[str, Any] = {
        field: attempt(missing, field, functools.partial(reader, root)) for field, reader in _READERS.items()
    }
    return Limits(cpus_allowed=sorted(os.sched_getaffinity(0)), missing=missing, **read)


def _cpu_quota(root: Path) -> float | None:
    """The smallest quota / period of the control groups above this process."""
    quotas = [quota for folder in cgroup_folders("cpu", root) if (quota := _quota_of(folder)) is not None]
    return min(quotas, default=None)


def _quota_of(folder: Path) -> float | None:
    v1 = folder / "cpu.cfs_quota_us"
    if v1.exists():
        quota, period = v1.read_text(), (folder / "cpu.cfs_period_us").read_text()
    else:
        path = folder / "cpu.max"
        if not path.exists():  # the root group has none
            return None
        quota, _, period = path.read_text().partition(" ")
    if quota.strip() in ("max", "-1"):
        return None
    return whole_number(quota, folder) / whole_number(period, folder)


def _memory_limit_bytes(root: Path) -> int | None:
    """The smallest limit of the control groups above this process."""
    paths = [
        folder / name
        for folder in cgroup_folders("memory", root)
        for name in ("memory.max", "memory.limit_in_bytes")
        if (folder / name).exists()
    ]
    limits = [whole_number(text, path) for path in paths if (text := path.read_text().strip()) != "max"]
    return min((limit for limit in limits if limit < _V1_NO_LIMIT_BYTES), default=None)


_READERS: dict[str, Callable[[Path], Any]] = {
    "cpu_quota": _cpu_quota,
    "memory_limit_bytes": _memory_limit_bytes,
}
