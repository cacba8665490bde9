"""Read nodes, CPUs, memory and GPUs of this machine from /sys, /proc and NVML."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from primbench.gpu.nvidia.processes import devices_of
from primbench.numa import gpus
from primbench.numa.topology import GpuPlace, Node, Topology
from primbench.system import cores, cpusets, pci
from primbench.system.files import attempt, labelled_bytes, read_cpu_list, read_number, sysfs_address, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable


_BY_NVML_ALONE = ("node_by_nvml", "cpus_by_nvml", "links", "fabric")


def memory_nodes(root: Path = Path("/"), pid: int = 0) -> list[Node]:
    """The NUMA nodes online, by id. Raises OSError or ValueError where the kernel does not tell them."""
    folder = root / "sys/devices/system/node"
    if not folder.exists():
        raise ValueError(f"{folder} is absent: a kernel without NUMA, or hidden")
    with_memory = _with_memory(folder)
    allowed = attempt({}, "", lambda: cpusets.memory_nodes_allowed(root, pid))
    cpus = _running_cpus(root, folder)
    return [
        Node(
            id=node,
            cpus=own,
            has_memory=node in with_memory,
            allowed=None if allowed is None else node in allowed,
            initiators=[] if own else [each for each in _initiators(folder / f"node{node}") if cpus.get(each)],
        )
        for node, own in cpus.items()
    ]


def _running_cpus(root: Path, folder: Path) -> dict[int, list[int]]:
    """Node -> its CPUs online: some kernels list a CPU at its node after it was taken offline."""
    running = attempt({}, "", lambda: read_cpu_list(root / "sys/devices/system/cpu/online"))
    listed = {node: read_cpu_list(folder / f"node{node}/cpulist") for node in read_cpu_list(folder / "online")}
    return {node: [cpu for cpu in cpus if running is None or cpu in running] for node, cpus in listed.items()}


def _with_memory(folder: Path) -> tuple[int, ...]:
    """Linux before 4.14 has the second name alone, unless it was built for memory that can be taken out."""
    newer = folder / "has_memory"
    return read_cpu_list(newer if newer.exists() else folder / "has_normal_memory")


def _initiators(node: Path) -> list[int]:
    """Linux, admin-guide/mm/numaperf.rst. Class 1, since 5.10, is of CPUs alone; class 0 of whatever reaches memory."""
    for access in ("access1", "access0"):
        names = attempt({}, "", partial(os.listdir, node / access / "initiators")) or []
        found = [int(name.removeprefix("node")) for name in names if re.fullmatch(r"node[0-9]{1,7}", name, re.ASCII)]
        if found:
            return sorted(found)
    return []


def node_of_pci(address: str, root: Path = Path("/")) -> int | None:
    """The NUMA node of a PCI device; None where the kernel says -1, which is "not known" and not node 0."""
    node = read_number(root / "sys/bus/pci/devices" / sysfs_address(address) / "numa_node")
    return node if node >= 0 else None


def collect(root: Path = Path("/"), pid: int = 0, *, gpus: bool = True) -> Topology:
    """What there is and what of it a process, 0 this one, may use. Never raises and starts no CUDA.

    root: of /proc and /sys; NVML always speaks of this machine. Where NVML cannot be used ``missing["gpus"]`` says
    why, and the GPUs are those that sysfs lists, as "pci:ADDRESS". What a node lacks is under ``nodes.ID.FIELD``.
    """
    missing: dict[str, str] = {}
    allowed = attempt(missing, "cpus_allowed", lambda: cpusets.cpus_allowed(root, pid))
    if allowed is None:
        missing["cpuset"] = missing["cpus_allowed"]
    if not gpus:
        missing["gpus"] = "not asked for"
    return Topology(
        nodes=described_nodes(root, missing, pid),
        packages=attempt(missing, "packages", lambda: cores.packages(root)),
        cpu_kinds=attempt(missing, "cpu_kinds", lambda: cores.cpu_kinds(root)),
        last_level_caches=attempt(missing, "last_level_caches", lambda: cores.last_level_caches(root)),
        offline_cpus=attempt(missing, "offline_cpus", lambda: cores.offline_cpus(root)),
        cpus_allowed=allowed and allowed[0],
        memory_nodes_allowed=attempt(missing, "memory_nodes_allowed", lambda: cpusets.memory_nodes_allowed(root, pid)),
        cpuset=allowed and allowed[1],
        gpus=_gpus(root, pid, missing) if gpus else None,
        missing=missing,
    )


def described_nodes(root: Path, missing: dict[str, str], pid: int = 0) -> list[Node] | None:
    """The nodes online with all that is known of each. What is not goes into ``missing`` under ``nodes.ID.FIELD``."""
    nodes = attempt(missing, "nodes", lambda: memory_nodes(root, pid))
    if nodes is None:
        return None
    gpus = pci.memory_nodes_of_gpus(root)
    for node in nodes:
        if node.allowed is None:
            attempt(missing, f"nodes.{node.id}.allowed", lambda: cpusets.memory_nodes_allowed(root, pid))
    return [
        replace(
            node,
            memory_bytes=attempt(missing, f"nodes.{node.id}.memory_bytes", partial(_memory_bytes, root, node.id)),
            distances=attempt(missing, f"nodes.{node.id}.distances", partial(_distances, root, node.id)) or {},
            gpu=gpus.get(node.id),
        )
        for node in nodes
    ]


def _memory_bytes(root: Path, node: int) -> int:
    return labelled_bytes(root / f"sys/devices/system/node/node{node}/meminfo", f"Node {node} MemTotal")


def _distances(root: Path, node: int) -> dict[int, int]:
    folder = root / "sys/devices/system/node"
    path = folder / f"node{node}/distance"
    numbers = [whole_number(word, path) for word in path.read_text().split()]
    return dict(zip(read_cpu_list(folder / "online"), numbers, strict=True))


def _gpus(root: Path, pid: int, missing: dict[str, str]) -> list[GpuPlace] | None:
    found = attempt(missing, "gpus", lambda: gpus.gpu_places(devices_of(root, pid)))
    if found is None:
        if pid:
            return None
        unseen = dict.fromkeys(_BY_NVML_ALONE, missing["gpus"])
        addresses = attempt({}, "", lambda: pci.gpu_addresses(root)) or []
        found = [GpuPlace(device=f"pci:{each}", pci_address=each, missing=unseen) for each in addresses]
        if not found:
            return None
    return [_with_sysfs(gpu, root) for gpu in found]


def _with_sysfs(gpu: GpuPlace, root: Path) -> GpuPlace:
    """The GPU's place with its node by sysfs, beside NVML's, and whatever else NVML does not tell."""
    missing = dict(gpu.missing)
    readers = {"node_by_sysfs": _known_node, **pci.READERS}
    unknown = [field for field in readers if getattr(gpu, field) is None]
    return replace(
        gpu, **{field: _by_sysfs(gpu, field, readers[field], root, missing) for field in unknown}, missing=missing
    )


def _by_sysfs(
    gpu: GpuPlace, field: str, read: Callable[[Path, str], Any], root: Path, missing: dict[str, str]
) -> object:
    """What sysfs says of a field that NVML does not tell, or None and both reasons."""
    reason = missing.pop(field, None)
    if gpu.pci_address is None:
        missing[field] = reason or "its PCI address is not known"
        return None
    value = attempt(missing, field, partial(read, root, gpu.pci_address))
    if reason is not None and field in missing:
        missing[field] = f"{reason}; {missing[field]}"
    return value


def _known_node(root: Path, address: str) -> int:
    node = node_of_pci(address, root)
    if node is None:
        raise ValueError(f"/sys/bus/pci/devices/{address}/numa_node: -1: the kernel does not know")
    return node
