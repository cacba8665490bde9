"""Through pynvml's own ctypes layer into a stub of the library. Each test asks in a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from primbench.numa.topology import GpuPlace, Topology

SOURCE = Path(__file__).parents[1] / "fixtures" / "nvml_links_stub.c"
CHILD = """
import ctypes, sys
from pathlib import Path
import msgspec
from primbench.numa import scan
ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)  # found by its soname when pynvml asks for it
print(msgspec.json.encode(scan.collect(Path(sys.argv[2]))).decode())
"""
ADDRESSES = ["0000:a0:00.0", "0000:a1:00.0", "0000:a2:00.0", "0000:a3:00.0"]
FOUR = {"STUB_NAMES": "V100,V100,V100,V100"}
PLACED = {"STUB_NODE": "0x2", "STUB_CPUS": "0xf0"}


@pytest.fixture(scope="session")
def stub(built_stub: Callable[[Path], str]) -> str:
    return built_stub(SOURCE)


def gpus_of(library: str, root: Path, **variables: str) -> list[GpuPlace]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
    command = [sys.executable, "-W", "error", "-P", "-c", CHILD, library, str(root)]
    done = subprocess.run(command, env=kept | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = msgspec.convert(json.loads(done.stdout), Topology)
    assert "gpus" not in found.missing
    assert found.gpus is not None
    return found.gpus


def sysfs(root: Path, **files: str) -> Path:
    folder = root / "sys/bus/pci/devices" / ADDRESSES[0]
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return root


def linked(gpu: GpuPlace) -> list[tuple[str, str, int | None, bool | None]]:
    return [(link.peer, link.kind, link.lanes, link.peer_access) for link in gpu.links or []]


def test_both_witnesses_of_a_place_are_kept(stub: str, tmp_path: Path) -> None:
    root = sysfs(tmp_path, numa_node="1\n", local_cpulist="4-7\n")
    (gpu,) = gpus_of(stub, root, STUB_OWN="9", STUB_FABRIC="2", **PLACED)
    expected: dict[str, Any] = {
        "device": "cuda:0",
        "name": "NVIDIA H200",
        "uuid": "GPU-0aaa0000",
        "pci_address": ADDRESSES[0],
        "node_by_sysfs": 1,
        "node_by_nvml": 1,
        "local_cpus": [4, 5, 6, 7],
        "cpus_by_nvml": [4, 5, 6, 7, 8191],
        "memory_node": 9,
        "pcie_generation": 1,
        "pcie_generation_max": 5,
        "pcie_width": 8,
        "pcie_width_max": 16,
        "links": [],
        "fabric": "in progress",
        "missing": {},
    }
    assert expected == msgspec.to_builtins(gpu)
    assert None is gpu.disagreement


def test_witnesses_that_contradict_each_other_are_told(stub: str, tmp_path: Path) -> None:
    (gpu,) = gpus_of(stub, sysfs(tmp_path, numa_node="0\n"), **PLACED)
    assert "sysfs says node 0, NVML node 1" == gpu.disagreement


@pytest.mark.parametrize(("mask", "named"), [("0", "no node"), ("0x11", "0,4")])
def test_affinity_that_is_not_one_node_is_unknown(stub: str, tmp_path: Path, mask: str, named: str) -> None:
    (gpu,) = gpus_of(stub, tmp_path, STUB_NODE=mask)
    assert None is gpu.node_by_nvml
    assert f"nvmlDeviceGetMemoryAffinity: names {named}, not one node" == gpu.missing["node_by_nvml"]


def test_sysfs_tells_the_pcie_link_where_nvml_does_not(stub: str, tmp_path: Path) -> None:
    root = sysfs(tmp_path, current_link_speed="16.0 GT/s PCIe\n", current_link_width="4\n")
    refused = "nvmlDeviceGetCurrPcieLinkGeneration=3,nvmlDeviceGetCurrPcieLinkWidth=3,nvmlDeviceGetMaxPcieLinkWidth=3"
    (gpu,) = gpus_of(stub, root, STUB_FAIL=refused)
    assert (4, 4, None) == (gpu.pcie_generation, gpu.pcie_width, gpu.pcie_width_max)
    assert not {"pcie_generation", "pcie_width"} & set(gpu.missing)
    both = f"nvmlDeviceGetMaxPcieLinkWidth: NVMLError_NotSupported (3); {root}/sys/bus/pci/devices/{ADDRESSES[0]}/"
    assert f"{both}max_link_width: ENOENT" == gpu.missing["pcie_width_max"]


def test_links_through_a_switch_reach_every_gpu(stub: str, tmp_path: Path) -> None:
    gpus = gpus_of(stub, tmp_path, STUB_NVLINK="switch", **FOUR)
    for gpu, own in zip(gpus, ADDRESSES, strict=True):
        assert [(peer, "NV", 18, True) for peer in ADDRESSES if peer != own] == linked(gpu)


def test_links_that_end_at_a_gpu_reach_that_one_alone(stub: str, tmp_path: Path) -> None:
    """As on POWER9, where half of the links go to the CPU."""
    first, *_, last = gpus_of(stub, tmp_path, STUB_NVLINK="pairs", STUB_LEVEL="40", **FOUR)
    far = [(peer, "NODE", None, True) for peer in ADDRESSES]
    assert [(ADDRESSES[1], "NV", 3, True), *far[2:]] == linked(first)
    assert [*far[:2], (ADDRESSES[2], "NV", 3, True)] == linked(last)


LEVELS = {"0": "PIX", "10": "PIX", "20": "PXB", "30": "PHB", "40": "NODE", "50": "SYS"}


@pytest.mark.parametrize("level", LEVELS)
def test_links_over_pcie_are_named_by_the_common_ancestor(stub: str, tmp_path: Path, level: str) -> None:
    gpu, _ = gpus_of(stub, tmp_path, STUB_NAMES="A,A", STUB_LEVEL=level, STUB_P2P="1")
    assert [(ADDRESSES[1], LEVELS[level], None, False)] == linked(gpu)
    assert not [name for name in gpu.missing if name.startswith("links")]


def test_what_is_unknown_of_a_link_has_a_reason(stub: str, tmp_path: Path) -> None:
    gpu, _ = gpus_of(stub, tmp_path, STUB_NAMES="A,A", STUB_LEVEL="35", STUB_P2P="6")
    assert [(ADDRESSES[1], "unknown", None, None)] == linked(gpu)
    expected = {
        f"links.{ADDRESSES[1]}.kind": "nvmlDeviceGetTopologyCommonAncestor: 35",
        f"links.{ADDRESSES[1]}.peer_access": "nvmlDeviceGetP2PStatus: the driver does not know",
    }
    assert expected == {name: reason for name, reason in gpu.missing.items() if name.startswith("links")}


def test_state_of_links_that_nvml_does_not_tell_is_no_absence_of_links(stub: str, tmp_path: Path) -> None:
    gpu, _ = gpus_of(stub, tmp_path, STUB_NAMES="A,A", STUB_NVLINK="switch", STUB_FAIL="nvmlDeviceGetNvLinkState=999")
    assert None is gpu.links
    assert "nvmlDeviceGetNvLinkState: NVMLError_Unknown (999)" == gpu.missing["links"]


def test_instance_of_a_board_is_where_the_board_is(stub: str, tmp_path: Path) -> None:
    (gpu,) = gpus_of(stub, tmp_path, STUB_MIG="1", CUDA_VISIBLE_DEVICES="MIG-0")
    assert ("cuda:0", ADDRESSES[0], []) == (gpu.device, gpu.pci_address, gpu.links)
    assert "NVIDIA H200 MIG 1g.18gb" == gpu.name


# Field -> the function whose failure takes it away, and nothing else.
SOURCES = {
    "name": "nvmlDeviceGetName",
    "uuid": "nvmlDeviceGetUUID",
    "node_by_nvml": "nvmlDeviceGetMemoryAffinity",
    "cpus_by_nvml": "nvmlDeviceGetCpuAffinityWithinScope",
    "memory_node": "nvmlDeviceGetNumaNodeId",
    "pcie_generation_max": "nvmlDeviceGetMaxPcieLinkGeneration",
}


@pytest.mark.parametrize("field", SOURCES)
def test_each_field_fails_alone_and_names_the_error(stub: str, tmp_path: Path, field: str) -> None:
    def unknown(**failing: str) -> dict[str, str]:
        (gpu,) = gpus_of(stub, tmp_path, STUB_OWN="9", **PLACED, **failing)
        assert {name for name in gpu.__struct_fields__ if getattr(gpu, name) is None} == set(gpu.missing)
        return gpu.missing

    before, after = unknown(), unknown(STUB_FAIL=f"{SOURCES[field]}=999")
    (lost,) = set(after) - set(before)
    assert (field, True) == (lost, after[lost].startswith(f"{SOURCES[field]}: NVMLError_Unknown (999)"))


def test_gpu_without_an_address_is_listed_with_the_reason(stub: str, tmp_path: Path) -> None:
    (gpu,) = gpus_of(stub, tmp_path, STUB_FAIL="nvmlDeviceGetPciInfo_v3=999", **PLACED)
    assert (None, None, 1) == (gpu.pci_address, gpu.links, gpu.node_by_nvml)
    assert "its own PCI address is not known" == gpu.missing["links"]
    assert "its PCI address is not known" == gpu.missing["node_by_sysfs"]
