"""GPUs on the PCI bus, by sysfs and by what the NVIDIA driver has under /proc: known without NVML.

Every reader takes the ``root`` under which /proc and /sys are found and an address as sysfs writes it.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from primbench.system.files import (
    attempt,
    labelled_value,
    read_cpu_list,
    read_number,
    sysfs_address,
    trimmed,
    whole_number,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_NVIDIA, _DISPLAY_CONTROLLER = "0x10de", "0x03"  # the vendor, and the first byte of the class
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_EXTENDED_BYTES, _ACS, _REQUEST_REDIRECT = 0x100, 0x000D, 0x04
# PCI Express Base Specification: GT/s of a lane. Linux writes "8.0 GT/s PCIe", and "8 GT/s" before 5.7.
_GENERATIONS = {"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5, "64": 6, "128": 7}

_LANE_BYTES_PER_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}  # with its encoding


def link_bytes_per_s(generation: int, width: int) -> float:
    """What a link of so many lanes carries one way, headers of packets included. Raises LookupError for a new one."""
    return _LANE_BYTES_PER_S[generation] * width


def gpu_addresses(root: Path) -> list[str]:
    """NVIDIA's display controllers; the audio and the bridges beside them are devices of their own."""
    folder = root / "sys/bus/pci/devices"
    return [path.name for path in sorted(folder.iterdir()) if attempt({}, "", partial(_is_gpu, path))]


def _is_gpu(path: Path) -> bool:
    vendor, kind = (path / "vendor").read_text(), (path / "class").read_text()
    return (trimmed(vendor), path.name) == (_NVIDIA, sysfs_address(path.name)) and kind.startswith(_DISPLAY_CONTROLLER)


def memory_nodes_of_gpus(root: Path) -> dict[int, str]:
    """Node -> address of the GPU whose own memory it is; {} without the driver, or where no GPU's memory is a node."""
    folder = root / "proc/driver/nvidia/gpus"
    addresses = attempt({}, "", lambda: [sysfs_address(path.name) for path in folder.iterdir()]) or []
    nodes = {address: attempt({}, "", partial(_memory_node, root, address)) for address in addresses}
    return {node: address for address, node in nodes.items() if node is not None}


def _memory_node(root: Path, address: str) -> int:
    path = root / "proc/driver/nvidia/gpus" / address / "numa_status"
    node = whole_number(labelled_value(path, "Node"), path)
    if node < 0:
        raise ValueError(f"{path}: {node}")
    return node


def acs_redirecting(root: Path) -> list[str]:
    """Bridges above GPUs whose Access Control Services send what passes between devices to the root complex.

    Raises LookupError where there is no GPU, ValueError where the extended part of a bridge is hidden, as to all but
    root.
    """
    gpus = gpu_addresses(root)
    if not gpus:
        raise LookupError("there is no NVIDIA GPU on the PCI bus here")
    bridges = {bridge for gpu in gpus for bridge in _bridges_above(root / "sys/bus/pci/devices" / gpu)}
    return sorted(bridge.name for bridge in bridges if _redirects(bridge / "config"))


def _bridges_above(device: Path) -> list[Path]:
    """sysfs has a folder for each bridge within that of the one above it."""
    return [folder for folder in device.resolve().parents if _ADDRESS.fullmatch(folder.name)]


def _redirects(path: Path) -> bool:
    """PCI Express Base Specification, "ACS Extended Capability": P2P Request Redirect, of its control register."""
    content, at = path.read_bytes(), _EXTENDED_BYTES
    if len(content) < at + 8:
        raise ValueError(f"{path}: its extended part is hidden from all but root")
    while at:
        head = int.from_bytes(content[at : at + 4], "little")
        if head & 0xFFFF == _ACS:
            return bool(content[at + 6] & _REQUEST_REDIRECT)
        following = head >> 20
        at = following if at < following < len(content) - 7 else 0
    return False


def _by_driver(label: str) -> Callable[[Path, str], str]:
    return lambda root, address: labelled_value(root / "proc/driver/nvidia/gpus" / address / "information", label)


def _local_cpus(root: Path, address: str) -> list[int]:
    path = root / "sys/bus/pci/devices" / address / "local_cpulist"
    cpus = read_cpu_list(path)
    if not cpus:
        raise ValueError(f"{path} is empty")
    return list(cpus)


def _generation(name: str) -> Callable[[Path, str], int]:
    def read(root: Path, address: str) -> int:
        path = root / "sys/bus/pci/devices" / address / name
        speed, _, unit = trimmed(path.read_text()).partition(" ")
        if speed.removesuffix(".0") not in _GENERATIONS or not unit.startswith("GT/s"):
            raise ValueError(f"{path}: expected a speed such as 16.0 GT/s PCIe, found {speed[:40]!r}")
        return _GENERATIONS[speed.removesuffix(".0")]

    return read


def _width(name: str) -> Callable[[Path, str], int]:
    def read(root: Path, address: str) -> int:
        path = root / "sys/bus/pci/devices" / address / name
        lanes = read_number(path)
        if not 1 <= lanes <= 32:  # sysfs has 0, or 63 or 255, where there is no link to ask
            raise ValueError(f"{path}: {lanes}")
        return lanes

    return read


# Field of a GPU's place -> where it is found.
READERS: dict[str, Callable[[Path, str], Any]] = {
    "name": _by_driver("Model"),
    "uuid": _by_driver("GPU UUID"),
    "local_cpus": _local_cpus,
    "memory_node": _memory_node,
    "pcie_generation": _generation("current_link_speed"),
    "pcie_generation_max": _generation("max_link_speed"),
    "pcie_width": _width("current_link_width"),
    "pcie_width_max": _width("max_link_width"),
}
