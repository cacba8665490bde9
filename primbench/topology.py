"""Where CPUs, memory and devices are: NUMA nodes, and a PCI device's node. Reads, never changes.

Every reader takes the ``root`` under which /proc and /sys are found.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from primbench.sysfiles import labelled_value, parse_cpu_list, read_cpu_list, read_number, sysfs_address


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One NUMA node. Ids need not be contiguous; some nodes have no CPUs, some no memory.

    cpus: those online. allowed: this process may take memory there (its cpuset has the node).
    memory_bytes: None where the kernel does not say. distances: to every node, by id, 10 being the own one.
    gpu: PCI address of the GPU whose own memory this node is, as on Grace-Hopper and POWER9.
    """

    id: int
    cpus: list[int]
    has_memory: bool
    allowed: bool
    memory_bytes: int | None = None
    distances: dict[int, int] = {}
    gpu: str | None = None


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """A processor socket. cores: the CPUs online of each core together: SMT siblings share one."""

    id: int
    cores: list[list[int]]


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """What connects two GPUs. peer: the other's PCI address. kind: "NV" with ``lanes`` NVLinks or, over PCIe, NVML's
    common ancestor: "PIX", "PXB", "PHB", "NODE", "SYS", as `nvidia-smi topo` has them. peer_access: by the driver.
    """

    peer: str
    kind: str
    lanes: int | None = None
    peer_access: bool | None = None


class GpuPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a GPU is, by each witness. None is unknown, with the reason in ``missing`` under the field's name.

    device: as CUDA names it. node_by_sysfs: None where the kernel says -1. node_by_nvml, cpus_by_nvml: NVML's affinity.
    local_cpus: by sysfs. memory_node: of the GPU's own memory, where the kernel has one for it.
    pcie_*: of the link now and at most; an idle link may report less than it reaches under load.
    """

    device: str
    name: str | None = None
    uuid: str | None = None
    pci_address: str | None = None
    node_by_sysfs: int | None = None
    node_by_nvml: int | None = None
    local_cpus: list[int] | None = None
    cpus_by_nvml: list[int] | None = None
    memory_node: int | None = None
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    links: list[Link] | None = None
    missing: dict[str, str] = {}

    @property
    def disagreement(self) -> str | None:
        """What the witnesses contradict each other about, in words; None where they agree or there is one only."""
        if self.node_by_sysfs is None or self.node_by_nvml is None or self.node_by_sysfs == self.node_by_nvml:
            return None
        return f"sysfs says node {self.node_by_sysfs}, NVML node {self.node_by_nvml}"


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """What there is, and what of it this process may use. None is unknown, with the reason in ``missing``.

    offline_cpus: present but not running. gpus: None where they were not asked for or cannot be seen.
    cpuset: which file said what is allowed ("cgroup v2 cpuset.cpus.effective", "sched_getaffinity", ...).
    """

    nodes: list[Node] | None = None
    packages: list[Package] | None = None
    offline_cpus: list[int] | None = None
    cpus_allowed: list[int] | None = None
    memory_nodes_allowed: list[int] | None = None
    cpuset: str | None = None
    gpus: list[GpuPlace] | None = None
    missing: dict[str, str] = {}


def memory_nodes(root: Path = Path("/")) -> list[Node]:
    """The NUMA nodes online, by id."""
    folder = root / "sys/devices/system/node"
    with_memory = read_cpu_list(folder / "has_memory")
    allowed = parse_cpu_list(labelled_value(root / "proc/self/status", "Mems_allowed_list"))
    return [
        Node(
            id=node,
            cpus=list(read_cpu_list(folder / f"node{node}/cpulist")),
            has_memory=node in with_memory,
            allowed=node in allowed,
        )
        for node in read_cpu_list(folder / "online")
    ]


def node_of_pci(address: str, root: Path = Path("/")) -> int | None:
    """The NUMA node of a PCI device; None where the kernel says -1, which is "not known" and not node 0."""
    node = read_number(root / "sys/bus/pci/devices" / sysfs_address(address) / "numa_node")
    return node if node >= 0 else None
