"""Who else had the CPUs while cases were timed, looked up only where the kernel counts that somebody had them."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from primbench.system.files import attempt
from primbench.system.neighbours import cpu_times, neighbours
from primbench.system.processes import read_family

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from primbench.measurement.readings import NeighbourProcess
    from primbench.system.neighbours import Process


class _Look(NamedTuple):
    at_s: float
    cpu_times: Mapping[Process, float]


_last: dict[Path, _Look] = {}


def look(root: Path) -> None:
    """Once in a process, by which later looks count: it takes milliseconds."""
    if root not in _last:
        _last[root] = _look(root)


def others(root: Path, cpus: Collection[int]) -> list[NeighbourProcess]:
    """Those that took most CPU time since the last look, of all that may run on some of these CPUs.

    [] where /proc shows none, as in a namespace of processes.
    """
    before, now = _last[root], _look(root)
    _last[root] = now
    own = attempt({}, "", lambda: read_family(os.getpid(), root, lambda folder: int(folder.name))) or []
    elsewhere = {pid for pid, _ in now.cpu_times if _cpus_of(pid).isdisjoint(cpus)}
    return neighbours(root, before.cpu_times, now.cpu_times, elsewhere.union(own), now.at_s - before.at_s)


def _cpus_of(pid: int) -> set[int]:
    """{} of one that has ended, or of another root's."""
    return attempt({}, "", lambda: os.sched_getaffinity(pid)) or set()


def _look(root: Path) -> _Look:
    return _Look(time.monotonic(), attempt({}, "", lambda: cpu_times(root)) or {})
