"""The place as a table for people: nodes, sockets, GPUs, what links these, and what is contradicted or unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.report.document import Document, Note, Section, Table
from primbench.system.files import format_cpu_list
from primbench.units import format_bytes, format_frequency

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.numa.topology import GpuPlace, Link, Node, Topology
    from primbench.system.cores import Cache, CpuKind, Package

# Most GPUs have no node for their own memory, and NVML says so in the way it says "unknown".
USUALLY_ABSENT = ("memory_node",)
MOST_GROUPS = 8


def document(found: Topology) -> Document:
    tables = [_nodes(found), _gpus(found.gpus or []), _links(found.gpus or [])]
    sections = [
        Section("", [*map(Note, summary(found))]),
        Section("", [each for each in tables if each.columns]),
        Section("", [*map(Note, [*disagreements(found), *unknowns(found)])]),
    ]
    return Document(title="topology", answer=None, sections=lambda: sections, value=found)


def summary(found: Topology) -> list[str]:
    """Sockets, cores and threads, and what of these is not to be used."""
    lines = [sockets(found.packages)] if found.packages else []
    lines += [_kind(kind) for kind in found.cpu_kinds or []]
    lines += [f"last-level cache: {words}" for words in caches(found.last_level_caches or [])]
    if found.offline_cpus:
        lines.append(f"offline: CPUs {format_cpu_list(found.offline_cpus)}")
    if found.cpus_allowed is not None:
        memory = found.memory_nodes_allowed
        nodes = "" if memory is None else f", memory of {_numbered('node', memory)}"
        lines.append(f"allowed here: CPUs {format_cpu_list(found.cpus_allowed)}{nodes} ({found.cpuset})")
    return lines


def sockets(packages: Sequence[Package]) -> str:
    cores = [core for package in packages for core in package.cores]
    threads = sum(map(len, cores))
    known = [package for package in packages if package.id is not None]
    boxes = _counted(len(known), "socket") if len(known) == len(packages) else "sockets unknown"
    parts = [boxes, _counted(len(cores), "core"), _counted(threads, "thread")]
    smt = max(map(len, cores), default=1)
    return ", ".join(parts) + (f" ({smt} a core)" if smt > 1 else "")


def _kind(kind: CpuKind) -> str:
    speed = [] if kind.max_frequency_hz is None else [f"up to {format_frequency(kind.max_frequency_hz)}"]
    speed += [] if kind.capacity is None else [f"capacity {kind.capacity}"]
    return f"{kind.name}: CPUs {format_cpu_list(kind.cpus)} ({', '.join([*speed, f'by {kind.told_by}'])})"


def caches(found: Sequence[Cache]) -> list[str]:
    """A line for each size of cache, with the CPUs that share one, group after group; of many the first."""
    alike: dict[tuple[int, int | None], list[str]] = {}
    for cache in found:
        alike.setdefault((cache.level, cache.size_bytes), []).append(format_cpu_list(cache.cpus))
    return [
        f"{len(groups)} L{level} of {format_bytes(size)}: CPUs {'; '.join(groups[:MOST_GROUPS])}"
        + "; ..." * (len(groups) > MOST_GROUPS)
        for (level, size), groups in alike.items()
    ]


def near(gpu: GpuPlace) -> int | None:
    """The node that a GPU is drawn at: sysfs is asked first, as binding to a device's node does."""
    return gpu.node_by_nvml if gpu.node_by_sysfs is None else gpu.node_by_sysfs


def uses(node: Node, found: Topology) -> list[tuple[float, str]]:
    """Of its memory and its CPUs, as far as that is known, which share this process may use, and that in words."""
    parts: list[tuple[float, str]] = []
    if node.has_memory:
        parts.append((1.0, "memory") if node.is_usable else (0.0, "no memory"))
    if node.cpus and found.cpus_allowed is not None:
        parts.append(_cpus_to_use(node.cpus, found.cpus_allowed))
    return parts


def use(node: Node, found: Topology) -> str:
    """What of a node this process may use: "yes", "no", or what in particular."""
    parts = uses(node, found)
    shares = {share for share, _ in parts}
    if shares <= {1.0}:
        return "yes" if parts else "-"
    return "no" if shares == {0.0} else ", ".join(words for _, words in parts)


def _cpus_to_use(cpus: Sequence[int], allowed: Sequence[int]) -> tuple[float, str]:
    """Which share of them, and in words."""
    usable = sorted(set(cpus) & set(allowed))
    share = len(usable) / len(cpus)
    return share, "CPUs" if share == 1 else f"CPUs {format_cpu_list(usable)}" if usable else "no CPUs"


def empty_nodes(nodes: Sequence[Node]) -> list[int]:
    """Nodes with neither CPUs nor memory: kept back for memory to come, as for the instances of a Grace-Hopper."""
    return [node.id for node in nodes if not node.cpus and not node.has_memory]


def disagreements(found: Topology) -> list[str]:
    """What two witnesses contradict each other about, in words."""
    return [f"{gpu.device}: {said}" for gpu in found.gpus or [] if (said := gpu.disagreement)]


def unknowns(found: Topology) -> list[str]:
    """What is not known, with the reason; a reason that several things share is given once."""
    fields: dict[str, dict[str, list[str]]] = {}
    for reason, what, devices in _missing(found):
        fields.setdefault(reason, {}).setdefault(what, []).extend(devices)
    return [f"unknown: {', '.join(_of(each) for each in whats.items())}: {reason}" for reason, whats in fields.items()]


def _missing(found: Topology) -> Iterator[tuple[str, str, list[str]]]:
    """A reason, what is not known for it, and of which device if it is of one."""
    without_nvml = found.missing.get("gpus") if found.gpus else None
    for name, reason in found.missing.items():
        yield reason, "what NVML says of the GPUs" if reason == without_nvml else _spoken(name), []
    for gpu in found.gpus or []:
        for name, reason in gpu.missing.items():
            if name not in USUALLY_ABSENT and reason != without_nvml:
                yield reason, _spoken(name), [gpu.device]


def _of(what: tuple[str, list[str]]) -> str:
    field, devices = what
    return f"{field} of {', '.join(devices)}" if devices else field


def _spoken(field: str) -> str:
    """``nodes.0.memory_bytes`` as "memory of node 0"."""
    kind, _, rest = field.partition(".")
    owner, dot, part = rest.rpartition(".")
    if not dot:
        return _words(field)
    return f"{_words(part)} of {'node' if kind == 'nodes' else 'the link to'} {owner}"


def _words(field: str) -> str:
    names = {"cpu": "CPU", "nvml": "NVML", "pcie": "PCIe", "pci": "PCI", "gpus": "GPUs", "cpus": "CPUs"}
    return " ".join(names.get(word, word) for word in field.removesuffix("_bytes").split("_"))


def _nodes(found: Topology) -> Table:
    nodes = found.nodes or []
    empty = empty_nodes(nodes)
    shown = [node for node in nodes if node.id not in empty]
    ids = [node.id for node in shown]
    headings = ["node", "CPUs", "memory", *(f"to {each}" for each in ids if len(ids) > 1), "GPUs", "allowed here"]
    rows = [[str(node.id), *_row(node, ids, found), use(node, found)] for node in shown]
    notes = [Note(f"without CPUs and memory: {_numbered('node', empty)}")] if empty else []
    return Table.listed("", rows, headings, notes)


def _row(node: Node, ids: list[int], found: Topology) -> Iterator[str]:
    near_by = f", near {_numbered('node', node.initiators)}" if node.initiators else ""
    yield format_cpu_list(node.cpus) or f"none{near_by}"
    yield format_bytes(node.memory_bytes) if node.has_memory else "none"
    if len(ids) > 1:
        yield from (str(node.distances.get(each, "-")) for each in ids)
    gpus = [gpu.device for gpu in found.gpus or [] if near(gpu) == node.id]
    owner = [f"own memory of {named(node.gpu, found)}"] if node.gpu else []
    yield ", ".join(gpus + owner)


def named(address: str, found: Topology) -> str:
    """The device at a PCI address."""
    return next((gpu.device for gpu in found.gpus or [] if gpu.pci_address == address), address)


def _gpus(gpus: Sequence[GpuPlace]) -> Table:
    headings = ["GPU", "name", "PCI", "node by sysfs", "by NVML", "own memory", "link now", "at most"]
    return Table.listed("", [list(_gpu(gpu)) for gpu in gpus], headings)


def _gpu(gpu: GpuPlace) -> Iterator[str]:
    yield gpu.device
    yield gpu.name or "-"
    yield gpu.pci_address or "-"
    for node in (gpu.node_by_sysfs, gpu.node_by_nvml):
        yield "-" if node is None else str(node)
    yield "" if gpu.memory_node is None else f"node {gpu.memory_node}"
    yield pcie(gpu.pcie_generation, gpu.pcie_width)
    yield pcie(gpu.pcie_generation_max, gpu.pcie_width_max)


def pcie(generation: int | None, width: int | None) -> str:
    return f"gen {'-' if generation is None else generation} x{'-' if width is None else width}"


def _links(gpus: Sequence[GpuPlace]) -> Table:
    """A matrix as `nvidia-smi topo -m` has it; without rows where fewer than two GPUs are seen."""
    if len(gpus) < 2 or all(gpu.links is None for gpu in gpus):
        gpus = []
    rows = [[gpu.device, *("X" if peer is gpu else spoken_link(gpu, peer) for peer in gpus)] for gpu in gpus]
    return Table.listed("", rows, ["links", *(gpu.device for gpu in gpus)])


def link_between(gpu: GpuPlace, peer: GpuPlace) -> Link | None:
    return next((link for link in gpu.links or [] if link.peer == peer.pci_address), None)


def spoken_link(gpu: GpuPlace, peer: GpuPlace) -> str:
    """``NV18``, ``PHB``; with "no P2P" where the driver lets neither read the other's memory."""
    link = link_between(gpu, peer)
    if link is None:
        return "X" if gpu.pci_address is not None and gpu.pci_address == peer.pci_address else "-"
    return f"{link.kind}{link.lanes or ''}" + (" no P2P" if link.peer_access is False else "")


def _numbered(word: str, numbers: Sequence[int]) -> str:
    listed = format_cpu_list(numbers)
    return f"{word}{'' if listed.isdecimal() else 's'} {listed or 'none'}"


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
