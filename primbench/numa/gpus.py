"""Where the GPUs are and what connects them, as the NVIDIA driver says through NVML: one witness, sysfs is another.

The GPUs are those that CUDA will see, in its order.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from primbench.devices import nth_gpu
from primbench.gpu.nvidia.nvml import address_of, ask, library
from primbench.numa.topology import GpuPlace, Link
from primbench.system.files import attempt, format_cpu_list, sysfs_address

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from primbench.gpu.nvidia.nvml import NvmlDevice

# Read here by number: pynvml's NVML_P2P_CAPS_INDEX_READ is a tuple.
_P2P_READ, _P2P_NVLINK = 0, 2
_P2P_OK, _P2P_UNKNOWN = 0, 6
_FABRIC_STATES = ("none", "not started", "in progress", "completed")  # nvmlGpuFabricState_t
_NODE_SCOPE = 0
_MOST_NVLINKS = 36
_WORD_BITS = 64
_MOST_NODES, _MOST_CPUS = 1024, 8192  # of any kernel: CONFIG_NODES_SHIFT, CONFIG_NR_CPUS
# nvmlGpuTopologyLevel_t in the words of `nvidia-smi topo`, from the nearest on. Two GPUs of one board are 0.
_ANCESTORS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}


def gpu_places(devices: Sequence[NvmlDevice]) -> list[GpuPlace]:
    """Each GPU's place by NVML alone."""
    boards = {address: each.board for each in devices if (address := attempt({}, "", partial(address_of, each.board)))}
    return [_place(index, device, boards) for index, device in enumerate(devices)]


def _place(index: int, device: Any, boards: dict[str, Any]) -> GpuPlace:
    missing: dict[str, str] = {}
    read = {field: attempt(missing, field, partial(reader, device)) for field, reader in _READERS.items()}
    links = attempt(missing, "links", lambda: _links(read["pci_address"], device.board, boards, missing))
    return GpuPlace(device=str(nth_gpu(index)), **read, links=links, missing=missing)


def _members(words: Any) -> list[int]:
    """The numbers whose bits are set."""
    mask = sum(int(word) << _WORD_BITS * place for place, word in enumerate(words))
    return [number for number in range(mask.bit_length()) if mask >> number & 1]


def _node(board: Any) -> int:
    nodes = _members(ask("nvmlDeviceGetMemoryAffinity", board, _MOST_NODES // _WORD_BITS, _NODE_SCOPE))
    if len(nodes) != 1:
        raise LookupError(f"nvmlDeviceGetMemoryAffinity: names {format_cpu_list(nodes) or 'no node'}, not one node")
    return nodes[0]


def _cpus(board: Any) -> list[int]:
    cpus = _members(ask("nvmlDeviceGetCpuAffinityWithinScope", board, _MOST_CPUS // _WORD_BITS, _NODE_SCOPE))
    if not cpus:
        raise LookupError("nvmlDeviceGetCpuAffinityWithinScope: names no CPU")
    return cpus


def _memory_node(board: Any) -> int:
    node = int(ask("nvmlDeviceGetNumaNodeId", board))
    if node < 0:
        raise LookupError(f"nvmlDeviceGetNumaNodeId: {node}")
    return node


def _links(own: str | None, board: Any, boards: dict[str, Any], missing: dict[str, str]) -> list[Link]:
    """Links to every other GPU, by its PCI address; ``missing`` has reasons under ``links.PEER.FIELD``."""
    if own is None:
        raise LookupError("its own PCI address is not known")
    lanes = _lanes(board)
    elsewhere = sum(count for end, count in lanes.items() if end not in boards)
    return [
        _link(peer, board, other, direct=lanes[peer], elsewhere=elsewhere, missing=missing)
        for peer, other in boards.items()
        if peer != own
    ]


def _link(peer: str, board: Any, other: Any, *, direct: int, elsewhere: int, missing: dict[str, str]) -> Link:
    """direct: NVLinks that end at the peer. elsewhere: at no GPU; where there is a switch, all of these reach it."""
    lanes = direct
    if elsewhere and not direct:
        switched = attempt(missing, f"links.{peer}.lanes", lambda: _p2p(board, other, _P2P_NVLINK))
        lanes = elsewhere if switched else 0
    kind = "NV" if lanes else attempt(missing, f"links.{peer}.kind", lambda: _ancestor(board, other))
    peer_access = attempt(missing, f"links.{peer}.peer_access", lambda: _p2p(board, other, _P2P_READ))
    return Link(peer=peer, kind=kind or "unknown", lanes=lanes or None, peer_access=peer_access)


def _p2p(board: Any, other: Any, capability: int) -> bool:
    status = ask("nvmlDeviceGetP2PStatus", board, other, capability)
    if status == _P2P_UNKNOWN:
        raise LookupError("nvmlDeviceGetP2PStatus: the driver does not know")
    return bool(status == _P2P_OK)


def _ancestor(board: Any, other: Any) -> str:
    level = ask("nvmlDeviceGetTopologyCommonAncestor", board, other)
    if level not in _ANCESTORS:
        raise LookupError(f"nvmlDeviceGetTopologyCommonAncestor: {level}")
    return _ANCESTORS[level]


def _lanes(board: Any) -> Counter[str]:
    """How many NVLinks are up, by what is at their other end: a PCI address, or "" where that is not told."""
    up = [link for link in range(_MOST_NVLINKS) if _is_up(board, link)]
    return Counter(attempt({}, "", partial(_end, board, link)) or "" for link in up)


def _is_up(board: Any, link: int) -> bool:
    try:
        return bool(ask("nvmlDeviceGetNvLinkState", board, link))
    except LookupError as error:
        # So answers a GPU that has no NVLink, or not that many.
        if "NotSupported" in str(error) or "InvalidArgument" in str(error):
            return False
        raise


def _end(board: Any, link: int) -> str:
    return sysfs_address(ask("nvmlDeviceGetNvLinkRemotePciInfo", board, link).busId)


def _fabric(board: Any) -> str:
    information: Any = getattr(library(), "c_nvmlGpuFabricInfoV_t", ctypes.c_uint)()  # as new as the function is
    try:
        ask("nvmlDeviceGetGpuFabricInfoV", board, ctypes.byref(information))
    except LookupError as error:
        if "NotSupported" in str(error):  # a GPU that has no NVLink
            return _FABRIC_STATES[0]
        raise
    state: int = information.state
    return _FABRIC_STATES[state] if state < len(_FABRIC_STATES) else f"state {state}"


_READERS: dict[str, Callable[[Any], Any]] = {
    "name": lambda device: ask("nvmlDeviceGetName", device.handle),
    "uuid": lambda device: ask("nvmlDeviceGetUUID", device.handle),
    "pci_address": lambda device: address_of(device.board),
    "node_by_nvml": lambda device: _node(device.board),
    "cpus_by_nvml": lambda device: _cpus(device.board),
    "fabric": lambda device: _fabric(device.board),
    "memory_node": lambda device: _memory_node(device.board),
    "pcie_generation": lambda device: ask("nvmlDeviceGetCurrPcieLinkGeneration", device.board),
    "pcie_generation_max": lambda device: ask("nvmlDeviceGetMaxPcieLinkGeneration", device.board),
    "pcie_width": lambda device: ask("nvmlDeviceGetCurrPcieLinkWidth", device.board),
    "pcie_width_max": lambda device: ask("nvmlDeviceGetMaxPcieLinkWidth", device.board),
}
