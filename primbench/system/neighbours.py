"""Who else has the CPUs: other processes by the CPU time that they took since an earlier look."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from primbench.measurement.readings import NeighbourProcess
from primbench.system.cpu_time import TICKS_PER_S
from primbench.system.processes import fields_of_stat, folder_of, named, processes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

MOST = 3
LEAST_SHARE = 0.05  # of a CPU
_IN_USER, _IN_KERNEL, _STARTED = 11, 12, 19  # of /proc/PID/stat, indices after the name

Process = tuple[int, str]  # its number, and when it was started


def cpu_times(root: Path) -> dict[Process, float]:
    """Of all processes that are seen from here, since each was started."""
    found = {}
    for pid in processes(root):
        with contextlib.suppress(OSError):
            stat = fields_of_stat(folder_of(root, pid) / "stat")
            found[pid, stat[_STARTED]] = (int(stat[_IN_USER]) + int(stat[_IN_KERNEL])) / TICKS_PER_S
    return found


def neighbours(
    root: Path,
    before: Mapping[Process, float],
    now: Mapping[Process, float],
    members: Collection[int],
    duration_s: float,
) -> list[NeighbourProcess]:
    """Those that used most. before: ``cpu_times``, so long before ``now``. members: who is none."""
    used = {each: time_s - before.get(each, 0.0) for each, time_s in now.items()}
    others = [
        (time_s, pid)
        for (pid, _), time_s in used.items()
        if pid not in members and pid != os.getpid() and time_s >= LEAST_SHARE * duration_s
    ]
    return [
        NeighbourProcess(pid=pid, name=named(root, pid), cpu_time_s=time_s)
        for time_s, pid in sorted(others)[: -MOST - 1 : -1]
    ]
