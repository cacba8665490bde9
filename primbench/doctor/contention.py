"""Whether others use the same CPUs or memory at this moment: a few numbers that no fingerprint holds, for they pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from primbench.system.files import attempt
from primbench.system.pressure import cpu_pressure, memory_pressure

if TYPE_CHECKING:
    from pathlib import Path


class Contention(msgspec.Struct, frozen=True, kw_only=True):
    """None is unknown, with the reason in ``missing`` under the field's name.

    waiting_fraction: of the last 10 s, in which some task of the machine (or of this control group, where that is
    hidden) waited for a CPU. memory_waiting_fraction: likewise for memory, of this control group where it tells.
    stolen_fraction: of all CPU time since boot, which the hypervisor gave to others.
    """

    waiting_fraction: float | None = None
    memory_waiting_fraction: float | None = None
    stolen_fraction: float | None = None
    missing: dict[str, str] = {}


def collect(root: Path) -> Contention:
    missing: dict[str, str] = {}
    return Contention(
        waiting_fraction=attempt(missing, "waiting_fraction", lambda: cpu_pressure("avg10", root) / 100),
        memory_waiting_fraction=attempt(
            missing, "memory_waiting_fraction", lambda: memory_pressure("avg10", root) / 100
        ),
        stolen_fraction=attempt(missing, "stolen_fraction", lambda: _stolen_fraction(root)),
        missing=missing,
    )


def _stolen_fraction(root: Path) -> float:
    """proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal; guests' time is in the first two already."""
    path = root / "proc/stat"
    with path.open() as lines:
        name, *fields = lines.readline().split() or [""]
    ticks = [int(field) for field in fields[:8]]
    if name != "cpu" or len(ticks) < 8 or not sum(ticks):
        raise ValueError(f"{path} counts no CPU time")
    return ticks[7] / sum(ticks)
