"""Who else had the CPUs while a job was watched."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import msgspec

from primbench.quantities import Seconds, Whole
from primbench.system.processes import fields_of_stat, folder_of, named, processes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

MOST = 3
LEAST_SHARE = 0.05  # of a CPU
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_IN_USER, _IN_KERNEL, _STARTED = 11, 12, 19  # of /proc/PID/stat, indices after the name

Process = tuple[int, str]  # its number, and when it was started


class NeighbourProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that is none of the job's. name: its number and name. cpu_time_s: while the job was watched."""

    pid: Whole
    name: str
    cpu_time_s: Seconds


def cpu_times(root: Path) -> dict[Process, float]:
    """Of all processes that are seen from here, since each was started."""
    found = {}
    for pid in processes(root):
        with contextlib.suppress(OSError):
            stat = fields_of_stat(folder_of(root, pid) / "stat")
            found[pid, stat[_STARTED]] = (int(stat[_IN_USER]) + int(stat[_IN_KERNEL])) / _TICKS_PER_S
    return found


def neighbours(
    root: Path, before: Mapping[Process, float], members: Collection[int], duration_s: float
) -> list[NeighbourProcess]:
    """Those that used most, of what is there at the end. before: ``cpu_times``, so long ago. members: of the job."""
    used = {each: time_s - before.get(each, 0.0) for each, time_s in cpu_times(root).items()}
    others = [
        (time_s, pid)
        for (pid, _), time_s in used.items()
        if pid not in members and pid != os.getpid() and time_s >= LEAST_SHARE * duration_s
    ]
    return [
        NeighbourProcess(pid=pid, name=named(root, pid), cpu_time_s=time_s)
        for time_s, pid in sorted(others)[: -MOST - 1 : -1]
    ]
