from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from primbench.system import pci

ADDRESS = "0000:17:00.0"
FOLDER = f"sys/bus/pci/devices/{ADDRESS}"


def test_gpus_are_found_among_bridges_and_audio(tree: Callable[[str], Path]) -> None:
    root = tree("xeon-2-nodes")
    assert 4 == len(list((root / "sys/bus/pci/devices").iterdir()))
    assert [ADDRESS, "0000:b1:00.0"] == pci.gpu_addresses(root)


def test_gpus_that_drive_a_display_are_found_too(tree: Callable[[str], Path]) -> None:
    root = tree("xeon-2-nodes")
    (root / FOLDER / "class").write_text("0x030000\n")
    assert ADDRESS in pci.gpu_addresses(root)


def test_gpus_of_others_are_none_of_ours(tree: Callable[[str], Path]) -> None:
    root = tree("xeon-2-nodes")
    (root / FOLDER / "vendor").write_text("0x1002\n")
    assert ["0000:b1:00.0"] == pci.gpu_addresses(root)


def test_nodes_that_are_the_memory_of_gpus(tree: Callable[[str], Path]) -> None:
    expected = {255: "0004:04:00.0", 254: "0004:05:00.0", 253: "0035:03:00.0", 252: "0035:04:00.0"}
    assert expected == pci.memory_nodes_of_gpus(tree("power9"))
    assert {} == pci.memory_nodes_of_gpus(tree("xeon-2-nodes")) == pci.memory_nodes_of_gpus(tree("offline"))


def test_memory_that_is_not_online_has_no_node(tree: Callable[[str], Path]) -> None:
    root = tree("grace-hopper")
    (root / "proc/driver/nvidia/gpus/0009:01:00.0/numa_status").write_text("Node: -1\nStatus: offline\n")
    assert {} == pci.memory_nodes_of_gpus(root)


READINGS: list[tuple[str, str, str, Any]] = [
    ("pcie_generation", "current_link_speed", "2.5 GT/s PCIe\n", 1),
    ("pcie_generation", "current_link_speed", "8 GT/s\n", 3),
    ("pcie_generation_max", "max_link_speed", "32.0 GT/s PCIe\n", 5),
    ("pcie_generation_max", "max_link_speed", "64.0 GT/s PCIe\n", 6),
    ("pcie_width", "current_link_width", "8\n", 8),
    ("pcie_width_max", "max_link_width", "16\n", 16),
    ("local_cpus", "local_cpulist", "0-1,8\n", [0, 1, 8]),
]


@pytest.mark.parametrize(("field", "name", "text", "value"), READINGS)
def test_file_of_sysfs(field: str, name: str, text: str, value: object, tree: Callable[[str], Path]) -> None:
    root = tree("xeon-2-nodes")
    (root / FOLDER / name).write_text(text)
    assert value == pci.READERS[field](root, ADDRESS)


@pytest.mark.parametrize(
    ("field", "name", "text"),
    [
        ("pcie_generation", "current_link_speed", "Unknown\n"),
        ("pcie_generation", "current_link_speed", "16.0\n"),
        ("pcie_width", "current_link_width", "0\n"),
        ("pcie_width", "current_link_width", "255\n"),
        ("local_cpus", "local_cpulist", "\n"),
    ],
)
def test_what_a_device_without_a_link_says_is_no_value(
    field: str, name: str, text: str, tree: Callable[[str], Path]
) -> None:
    root = tree("xeon-2-nodes")
    (root / FOLDER / name).write_text(text)
    with pytest.raises(ValueError, match=name):
        pci.READERS[field](root, ADDRESS)


@pytest.mark.parametrize(("control", "redirecting"), [(0x1D, ["0000:64:01.0"]), (0x11, [])])
def test_bridges_that_redirect_are_told_by_their_config_space(
    tmp_path: Path, control: int, redirecting: list[str]
) -> None:
    """A GPU below a switch: extended capabilities of Advanced Error Reporting, and of ACS at 0x148."""
    gpu = tmp_path / "sys/devices/pci0000:64/0000:64:01.0/0000:65:00.0"
    gpu.mkdir(parents=True)
    (gpu / "vendor").write_text("0x10de\n")
    (gpu / "class").write_text("0x030200\n")
    content = bytearray(4096)
    content[0x100:0x104] = (0x148 << 20 | 2 << 16 | 0x0001).to_bytes(4, "little")
    content[0x148:0x150] = (1 << 16 | 0x000D).to_bytes(4, "little") + bytes([0x5F, 0, control, 0])
    (gpu.parent / "config").write_bytes(content)
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    (tmp_path / "sys/bus/pci/devices/0000:65:00.0").symlink_to(gpu)
    assert redirecting == pci.acs_redirecting(tmp_path)
    (gpu.parent / "config").write_bytes(content[:64])
    with pytest.raises(ValueError, match=r"0000:64:01\.0/config: its extended part is hidden from all but root"):
        pci.acs_redirecting(tmp_path)
