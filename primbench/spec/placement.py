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


class Placement(msgspec.Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """Where to run, as asked."""

    cpus: tuple[Whole, ...] | None = None
    """CPUs for threads, by number; memory is where ``numa_node`` or ``mem_nodes`` says."""
    numa_node: Whole | Literal["auto"] | None = None
    """Node for threads and memory both, or for the one of the two that nothing else is said of; "auto" is the device's
    own node, and nothing where that is not known.
    """
    cpu_node: Whole | None = None
    """Node whose CPUs are for threads."""
    cpu_kind: str | None = None
    """Kind of CPUs for threads, of these or of all CPUs; a name that cores.cpu_kinds() gives, such as "performance"."""
    mem_nodes: tuple[Whole, ...] | None = None
    """Nodes for memory."""
    mem_policy: Literal["bind", "preferred", "interleave", "local"] | None = None
    """How memory is taken from ``mem_nodes`` (or ``numa_node``): "bind" unless said otherwise; "local", on the node of
    the CPU that touches it, names no nodes.
    """
    threads: Whole | None = None
    """How many threads each library's pool has; None leaves it to the library."""

    def __post_init__(self) -> None:
        _check_numbers("cpus", self.cpus, "CPU number, such as 0-3")
        _check_numbers("mem_nodes", self.mem_nodes, "node, such as 0 or 0,1")
        if self.cpu_kind is not None and re.fullmatch(r"[a-z][a-z0-9-]{0,40}", self.cpu_kind) is None:
            words = "a name that primbench topo shows, such as performance"
            raise PlacementError(words, {"cpu_kind": repr(self.cpu_kind)})
        if self.threads is not None and self.threads < 1:
            raise PlacementError("a whole number of at least 1", {"threads": self.threads})
        self._refuse_two_for_one()
        self._check_policy()

    def _refuse_two_for_one(self) -> None:
        """Threads and memory have one place each."""
        cpus = self._asked("cpus") or self._asked("cpu_node")
        if self.cpus is not None and (other := self._asked("cpu_node") or self._asked("cpu_kind")):
            raise PlacementError("both say where threads run; leave one out", cpus | other, are_together=True)
        node, memory = self._asked("numa_node"), self._asked("mem_nodes")
        if node and cpus and memory:
            words = "it has nothing left to say; leave it out"
            raise PlacementError(words, node | cpus | memory, are_together=True)

    def _check_policy(self) -> None:
        memory, policy = self._asked("mem_nodes"), self._asked("mem_policy")
        if self.mem_policy == "local" and memory:
            words = "local memory is that of the CPU that touches it; leave one out"
            raise PlacementError(words, policy | memory, are_together=True)
        if self.mem_policy not in (None, "local") and self.numa_node is None and not memory:
            raise PlacementError("it needs nodes; name those of memory, or one for all", policy)

    def _asked(self, name: str) -> dict[str, object]:
        """A field as it is asked for; {} where it is not."""
        value = getattr(self, name)
        if value is None:
            return {}
        return {name: format_cpu_list(value) if isinstance(value, tuple) else value}


def _check_numbers(name: str, numbers: tuple[int, ...] | None, expected: str) -> None:
    if numbers is not None and (not numbers or min(numbers) < 0):
        raise PlacementError(f"at least one {expected}", {name: repr(format_cpu_list(numbers))})
