"""Whether others use the same CPUs, memory or GPUs at this moment: numbers that no fingerprint holds, for they pass."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import msgspec

from primbench.gpu.nvidia.processes import devices_of, processes_on
from primbench.measurement.readings import GpuProcess
from primbench.system.cgroups import folders_of
from primbench.system.cpu_time import spent
from primbench.system.files import attempt
from primbench.system.memory import reread_bytes
from primbench.system.pressure import cpu_pressure, group_pressure
from primbench.system.processes import ancestors

if TYPE_CHECKING:
    from pathlib import Path


LOOKED_FOR_S = 0.2


class Contention(msgspec.Struct, frozen=True, kw_only=True):
    """Others that use the same CPUs, memory or GPUs. None is unknown, with the reason in ``missing`` under the field's
    name.
    """

    waiting_fraction: float | None = None
    """Share of the last 10 s in which some task of the machine (or of this control group, where that is hidden) waited
    for a CPU.
    """
    memory_waiting_fraction: float | None = None
    """Share of the last 10 s in which some task waited for memory, of this control group where it tells."""
    reread_bytes_per_s: float | None = None
    """Bytes of files a second, on the whole machine, that had been taken out of the page cache for want of memory."""
    stolen_fraction: float | None = None
    """Share of all CPU time since boot that the hypervisor gave to others."""
    gpu_processes: list[list[GpuProcess]] | None = None
    """On each GPU of the place, in its order, those that hold it beside the process that is looked at and what that
    started.
    """
    missing: dict[str, str] = {}


def collect(root: Path, pid: int = 0) -> Contention:
    missing: dict[str, str] = {}
    return Contention(
        waiting_fraction=attempt(missing, "waiting_fraction", lambda: cpu_pressure("avg10", root, pid) / 100),
        memory_waiting_fraction=attempt(
            missing,
            "memory_waiting_fraction",
            lambda: group_pressure("memory", "avg10", root, folders_of(root, pid)) / 100,
        ),
        reread_bytes_per_s=attempt(missing, "reread_bytes_per_s", lambda: _reread_bytes_per_s(root)),
        stolen_fraction=attempt(missing, "stolen_fraction", lambda: _stolen_fraction(root)),
        gpu_processes=attempt(missing, "gpu_processes", lambda: _others_on_gpus(root, pid)),
        missing=missing,
    )


def _reread_bytes_per_s(root: Path) -> float:
    before, begun = reread_bytes(root), time.monotonic()
    time.sleep(LOOKED_FOR_S)
    return (reread_bytes(root) - before) / (time.monotonic() - begun)


def _others_on_gpus(root: Path, pid: int) -> list[list[GpuProcess]]:
    found = [processes_on(gpu).items() for gpu in devices_of(root, pid)]
    return [[each for number, each in there if not _is_of(root, number, pid or os.getpid())] for there in found]


def _is_of(root: Path, number: int, pid: int) -> bool:
    """Whether it is the process or was started by it; one that cannot be seen, as from a container, is not."""
    return number == pid or pid in (attempt({}, "", lambda: list(ancestors(root, number))) or [])


def _stolen_fraction(root: Path) -> float:
    together = spent(root)["cpu"]
    return together.stolen_s / together.all_s
