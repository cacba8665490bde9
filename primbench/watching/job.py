"""A job: the process that it began with, and what that is held to."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import msgspec

from primbench.environment.disks import of_open_files
from primbench.environment.limits import Limits
from primbench.environment.reading import group_of
from primbench.quantities import Whole
from primbench.system.files import attempt, read_cpu_list
from primbench.system.processes import check_runs, named, started


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """name: number and name of the process. cpus_total: of the machine, online; None is unknown.

    read_ahead_bytes: disk -> how far ahead it is read, of those with files that the process had open when it was first
    looked at; None is unknown.
    """

    pid: Whole
    name: str
    limits: Limits
    cpus_total: Whole | None
    read_ahead_bytes: dict[str, Whole] | None = None


def look(pid: int, root: Path = Path("/")) -> Job:
    """Raises InvalidRequest where there is no process of this number, or where it has ended."""
    check_runs(root, pid)
    online = attempt({}, "", partial(read_cpu_list, root / "sys/devices/system/cpu/online"))
    name, held_to = named(root, pid), group_of(Limits, root, pid)
    ahead_bytes = attempt({}, "", partial(of_open_files, root, pid))
    started(root, pid)
    return Job(
        pid=pid,
        name=name,
        limits=held_to,
        cpus_total=None if online is None else len(online),
        read_ahead_bytes=ahead_bytes,
    )
