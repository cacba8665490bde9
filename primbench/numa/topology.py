"""What is known of where CPUs, memory and GPUs are: NUMA nodes, their distances, and each GPU's node."""

from __future__ import annotations

import functools
from typing import Annotated

import msgspec

from primbench.quantities import Whole
from primbench.system.cores import Cache, CpuKind, Package
from primbench.system.meaning import Fact

_of_node = functools.partial(Fact, layer="machine", rule="machine")


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One NUMA node. Ids need not be contiguous; some nodes have no CPUs, some no memory."""

    # fmt: off
    id: Annotated[Whole, _of_node("Its number.")]
    cpus: Annotated[list[Whole], _of_node("Its CPUs that are online.")]
    has_memory: Annotated[bool, _of_node("Whether it has memory.")]
    allowed: Annotated[bool | None, Fact(
        "Whether this process may take memory there, by its cpuset, as far as the kernel says.")]
    initiators: Annotated[list[Whole], Fact(
        "Of a node without CPUs, such as HBM or CXL memory, the nodes whose CPUs reach it best.")] = []
    memory_bytes: Annotated[Whole | None, Fact("Its memory, as far as the kernel says.")] = None
    distances: Annotated[dict[Whole, Whole], Fact("To every node, by id, 10 being the own one.")] = {}
    gpu: Annotated[str | None, Fact(
        "PCI address of the GPU whose own memory this node is, as on Grace-Hopper and POWER9.")] = None
    # fmt: on

    @property
    def is_usable(self) -> bool:
        """Whether this process may take memory there, as far as that is told."""
        return self.has_memory and self.allowed is not False


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """What connects two GPUs."""

    peer: str
    """The other's PCI address."""
    kind: str
    """"NV" with ``lanes`` NVLinks or, over PCIe, NVML's common ancestor: "PIX", "PXB", "PHB", "NODE", "SYS", as
    `nvidia-smi topo` has them.
    """
    lanes: Whole | None = None
    peer_access: bool | None = None
    """Whether they reach each other's memory, by the driver."""


class GpuPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a GPU is, by each witness. None is unknown, with the reason in ``missing`` under the field's name.

    pcie_* is of the link now and at most; an idle link may report less than it reaches under load.
    """

    device: str
    """The GPU as CUDA names it, or "pci:ADDRESS" where only sysfs shows it."""
    name: str | None = None
    uuid: str | None = None
    pci_address: str | None = None
    node_by_sysfs: Whole | None = None
    """Its node by sysfs; None where the kernel says -1."""
    node_by_nvml: Whole | None = None
    """Its node by NVML's affinity."""
    local_cpus: list[Whole] | None = None
    """CPUs next to it, by sysfs."""
    cpus_by_nvml: list[Whole] | None = None
    """CPUs next to it, by NVML's affinity."""
    memory_node: Whole | None = None
    """Node of the GPU's own memory, where the kernel has one for it."""
    pcie_generation: Whole | None = None
    pcie_generation_max: Whole | None = None
    pcie_width: Whole | None = None
    pcie_width_max: Whole | None = None
    links: list[Link] | None = None
    fabric: str | None = None
    """How far it has come in joining its NVSwitches: "none" without, "not started", "in progress", "completed"."""
    missing: dict[str, str] = {}

    @property
    def disagreement(self) -> str | None:
        """What the witnesses contradict each other about, in words; None where they agree or there is one only."""
        if self.node_by_sysfs is None or self.node_by_nvml is None or self.node_by_sysfs == self.node_by_nvml:
            return None
        return f"sysfs says node {self.node_by_sysfs}, NVML node {self.node_by_nvml}"


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """What there is, and what of it this process may use. None is unknown, with the reason in ``missing``."""

    nodes: list[Node] | None = None
    packages: list[Package] | None = None
    cpu_kinds: list[CpuKind] | None = None
    """Kinds of CPUs; [] where all CPUs are alike."""
    last_level_caches: list[Cache] | None = None
    """Last-level caches: several on one node where groups of cores have their own."""
    offline_cpus: list[Whole] | None = None
    """CPUs that are present but not running."""
    cpus_allowed: list[Whole] | None = None
    memory_nodes_allowed: list[Whole] | None = None
    cpuset: str | None = None
    """Which file said what is allowed ("cgroup v2 cpuset.cpus.effective", "/proc/self/status Cpus_allowed_list", ...).
    """
    gpus: list[GpuPlace] | None = None
    """GPUs; None where they were not asked for or cannot be seen."""
    missing: dict[str, str] = {}
