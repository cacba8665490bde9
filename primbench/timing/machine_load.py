"""What other programs and the hypervisor took of the CPUs of this process, from a moment on until now."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, NamedTuple

from primbench.system.cores import siblings
from primbench.system.cpu_time import spent, spent_by
from primbench.system.files import attempt

if TYPE_CHECKING:
    from pathlib import Path


class Load(NamedTuple):
    """CPU time since boot, of which only differences mean anything, added up over ``cpus``.

    cpus: those that this process may run on, and others of the same cores. own_s: of this process and what it started.
    """

    cpus: frozenset[int]
    busy_s: float
    stolen_s: float
    own_s: float

    def since(self, before: Load) -> Load:
        """Raises ValueError where this process was bound to other CPUs meanwhile."""
        if self.cpus != before.cpus:
            raise ValueError("this process was bound to other CPUs meanwhile")
        busy_s, stolen_s, own_s = (now - then for now, then in zip(self[1:], before[1:], strict=True))
        return Load(self.cpus, busy_s, max(0.0, stolen_s), own_s)

    @property
    def others_s(self) -> float:
        """Of differences. Ticks can make less of it than nothing."""
        return max(0.0, self.busy_s - self.own_s)


def read(root: Path) -> Load:
    """Raises OSError, ValueError."""
    cpus = frozenset().union(*(_of_core(root, cpu) for cpu in os.sched_getaffinity(0)))
    every = spent(root)
    watched = [every[f"cpu{cpu}"] for cpu in cpus if f"cpu{cpu}" in every]
    if not watched:
        raise ValueError(f"{root / 'proc/stat'} has none of the CPUs of this process")
    return Load(cpus, sum(each.busy_s for each in watched), sum(each.stolen_s for each in watched), spent_by(root))


@functools.cache
def _of_core(root: Path, cpu: int) -> frozenset[int]:
    """All CPUs of its core; it alone where the kernel does not tell. Read once: a large machine has hundreds."""
    return frozenset({cpu, *(attempt({}, "", lambda: siblings(root, cpu)) or ())})
