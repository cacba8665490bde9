"""Where a process is to run: its CPUs, its memory, its GPU, its threads."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from primbench.errors import PlacementError
from primbench.quantities import Whole
from primbench.system.files import format_cpu_list

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


class Placement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to run, as asked.

    numa_node: for threads and memory both; "auto" is the device's own node, and nothing where that is not known.
    cpus or cpu_node, mem_nodes: for threads and for memory alone, and then ``numa_node`` gives the other of the two.
    cpu_kind: for threads, of these or of all CPUs; a name that cores.cpu_kinds() gives, such as "performance".
    mem_policy: how memory is taken from ``mem_nodes`` (or ``numa_node``): "bind" unless said otherwise; "local", on
    the node of the CPU that touches it, names no nodes.
    threads: of each library's thread pool; None leaves it to the library.
    """

    cpus: tuple[Whole, ...] | None = None
    numa_node: Whole | Literal["auto"] | None = None
    cpu_node: Whole | None = None
    cpu_kind: str | None = None
    mem_nodes: tuple[Whole, ...] | None = None
    mem_policy: Literal["bind", "preferred", "interleave", "local"] | None = None
    threads: Whole | None = None

    def __post_init__(self) -> None:
        if self.cpus is not None and (not self.cpus or min(self.cpus) < 0):
            raise PlacementError(f"cpus={format_cpu_list(self.cpus)!r}: at least one CPU number, such as 0-3")
        if self.mem_nodes is not None and (not self.mem_nodes or min(self.mem_nodes) < 0):
            raise PlacementError(f"mem_nodes={format_cpu_list(self.mem_nodes)!r}: at least one node, such as 0 or 0,1")
        if self.cpu_kind is not None and re.fullmatch(r"[a-z][a-z0-9-]{0,40}", self.cpu_kind) is None:
            raise PlacementError(f"cpu_kind={self.cpu_kind!r}: a name that primbench topo shows, such as performance")
        if self.threads is not None and self.threads < 1:
            raise PlacementError(f"threads={self.threads}: a whole number of at least 1")
        self._refuse_contradictions()

    def _refuse_contradictions(self) -> None:
        cpus = None if self.cpus is None else f"cpus={format_cpu_list(self.cpus)}"
        node = None if self.cpu_node is None else f"cpu_node={self.cpu_node}"
        memory = None if self.mem_nodes is None else f"mem_nodes={format_cpu_list(self.mem_nodes)}"
        if cpus and (node or self.cpu_kind):
            other = node or f"cpu_kind={self.cpu_kind}"
            raise PlacementError(f"{cpus} with {other}: both say where threads run; leave one out")
        if self.numa_node is not None and (cpus or node) and memory:
            asked = f"numa_node={self.numa_node} with {cpus or node} and {memory}"
            raise PlacementError(f"{asked}: it has nothing left to say; leave it out")
        if self.mem_policy == "local" and memory:
            raise PlacementError(
                f"mem_policy=local with {memory}: local memory is that of the CPU that touches it; leave one out"
            )
        if self.mem_policy not in (None, "local") and self.numa_node is None and memory is None:
            raise PlacementError(f"mem_policy={self.mem_policy}: it needs nodes; name those of memory, or one for all")
