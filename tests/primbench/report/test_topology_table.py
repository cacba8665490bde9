from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from primbench.doctor.place import Place
from primbench.numa import scan
from primbench.numa.topology import GpuPlace, Link, Node, Topology
from primbench.report.topology import document, pcie, sockets, unknowns, use
from primbench.system.cores import Cache, Package

from .exports import text_of

text = text_of(document)

TREES = sorted(path.stem for path in (Path(__file__).parents[2] / "trees").glob("*.json"))


def node(number: int, cpus: list[int], **fields: Any) -> Node:
    return Node(id=number, cpus=cpus, has_memory=fields.pop("has_memory", True), allowed=fields.pop("allowed", True))


def gpu(number: int, **fields: Any) -> GpuPlace:
    return GpuPlace(device=f"cuda:{number}", pci_address=f"0000:0{number}:00.0", **fields)


def rows(found: Topology, heading: str) -> list[list[str]]:
    """The cells of one of the tables, told by its first heading; two blanks part them."""
    block = next(part for part in text(found).split("\n\n") if part.startswith(heading))
    return [re.split(r"\s{2,}", line) for line in block.splitlines()]


def test_nodes_with_their_distances_and_what_may_be_used(tree: Callable[[str], Path]) -> None:
    found = scan.collect(tree("container-cpuset-v2"), gpus=False)
    expected = [
        ["node", "CPUs", "memory", "to 0", "to 1", "allowed here"],
        ["0", "0-15,32-47", "256 GiB", "10", "20", "no"],
        ["1", "16-31,48-63", "256 GiB", "20", "10", "memory, CPUs 16-19"],
    ]
    assert expected == rows(found, "node")
    head = ["2 sockets, 32 cores, 64 threads (2 a core)"]
    head += ["allowed here: CPUs 16-19, memory of node 1 (cgroup v2 cpuset.cpus.effective)"]
    assert head == text(found).splitlines()[:2]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "intel-hybrid",
            [
                "performance: CPUs 0-7 (up to 4.9 GHz, by cpu_core)",
                "efficiency: CPUs 8-15 (up to 3.6 GHz, by cpu_atom)",
                "last-level cache: 1 L3 of 25 MiB: CPUs 0-15",
            ],
        ),
        ("epyc-ccx", ["last-level cache: 8 L3 of 16 MiB: CPUs 0-1; 2-3; 4-5; 6-7; 8-9; 10-11; 12-13; 14-15"]),
    ],
)
def test_kinds_of_cpus_and_groups_that_share_a_cache(name: str, lines: list[str], tree: Callable[[str], Path]) -> None:
    assert lines == text(scan.collect(tree(name), gpus=False)).splitlines()[1 : 1 + len(lines)]


def test_many_caches_are_not_all_named() -> None:
    caches = [Cache(level=3, size_bytes=2**20, cpus=[cpu]) for cpu in range(9)]
    assert "last-level cache: 9 L3 of 1 MiB: CPUs 0; 1; 2; 3; 4; 5; 6; 7; ...\n" == text(
        Topology(last_level_caches=caches)
    )


def test_memory_without_cpus_names_the_node_near_it(tree: Callable[[str], Path]) -> None:
    shown = rows(scan.collect(tree("hbm-and-cxl"), gpus=False), "node")
    assert [["2", "none, near node 0"], ["3", "none, near node 1"], ["4", "none"]] == [row[:2] for row in shown[3:]]


def test_nodes_name_the_gpus_near_them_and_those_whose_memory_they_are(tree: Callable[[str], Path]) -> None:
    found = scan.collect(tree("grace-hopper"), gpus=False)
    own = replace(gpu(0, node_by_sysfs=0, memory_node=1), pci_address="0009:01:00.0")
    shown = rows(replace(found, gpus=[own], missing={}), "node")
    assert [["0", "0-71", "480 GiB", "10", "80", "cuda:0", "yes"]] == shown[1:2]
    assert ["1", "none", "96 GiB", "80", "10", "own memory of cuda:0", "yes"] == shown[2]
    assert [["without CPUs and memory: nodes 2-8"]] == shown[3:]


def test_offline_cpus_are_told(tree: Callable[[str], Path]) -> None:
    assert "offline: CPUs 0-7,14-15\n" in text(scan.collect(tree("offline"), gpus=False))


@pytest.mark.parametrize(
    ("shown", "fields", "allowed"),
    [
        ("yes", {}, [0, 1, 2]),
        ("no", {"allowed": False}, [7]),
        ("memory, CPUs 1", {}, [1, 7]),
        ("memory, no CPUs", {}, [7]),
        ("no memory, CPUs", {"allowed": False}, [0, 1]),
        ("no memory, CPUs 0", {"allowed": False}, [0]),
        ("yes", {"has_memory": False, "allowed": False}, [0, 1]),
        ("no", {"has_memory": False}, [7]),
        ("CPUs 1", {"has_memory": False}, [1]),
        ("yes", {}, None),
        ("-", {"has_memory": False}, None),
    ],
)
def test_use_of_a_node(shown: str, fields: dict[str, Any], allowed: list[int] | None) -> None:
    assert shown == use(node(0, [0, 1], **fields), Topology(cpus_allowed=allowed))


def test_gpus_by_both_witnesses_and_their_pcie_link() -> None:
    placed = gpu(
        0, name="NVIDIA H200", node_by_nvml=1, memory_node=4,
        pcie_generation=1, pcie_generation_max=5, pcie_width=16, pcie_width_max=16,
    )  # fmt: skip
    expected = [
        ["GPU", "name", "PCI", "node by sysfs", "by NVML", "own memory", "link now", "at most"],
        ["cuda:0", "NVIDIA H200", "0000:00:00.0", "-", "1", "node 4", "gen 1 x16", "gen 5 x16"],
    ]
    assert expected == rows(Topology(gpus=[placed]), "GPU")
    assert "gen - x-" == pcie(None, None)


def test_links_are_a_matrix() -> None:
    first = gpu(0, links=[Link(peer="0000:01:00.0", kind="NV", lanes=18, peer_access=True)])
    second = gpu(1, links=[Link(peer="0000:00:00.0", kind="SYS", peer_access=False)])
    shown = rows(Topology(gpus=[first, second, gpu(2)]), "links")
    assert ["links", "cuda:0", "cuda:1", "cuda:2"] == shown[0]
    assert ["cuda:0", "X", "NV18", "-"] == shown[1]
    assert ["cuda:1", "SYS no P2P", "X", "-"] == shown[2]


def test_one_gpu_has_no_matrix() -> None:
    assert "links" not in text(Topology(gpus=[gpu(0, links=[])]))


def test_contradiction_is_spelled_out() -> None:
    found = Topology(gpus=[gpu(0, node_by_sysfs=0, node_by_nvml=1)])
    assert text(found).endswith("\n\ncuda:0: sysfs says node 0, NVML node 1\n")


def test_unknowns_with_one_reason_are_told_together() -> None:
    both = {"node_by_nvml": "refused", "links.0000:01:00.0.peer_access": "asleep", "memory_node": "none has"}
    found = Topology(
        gpus=[gpu(0, missing=both), gpu(1, missing={"node_by_nvml": "refused"})],
        missing={"nodes.0.memory_bytes": "asleep", "cpus_allowed": "refused"},
    )
    expected = [
        "unknown: memory of node 0, peer access of the link to 0000:01:00.0 of cuda:0: asleep",
        "unknown: CPUs allowed, node by NVML of cuda:0, cuda:1: refused",
    ]
    assert expected == unknowns(found)


def test_absence_of_nvml_is_told_once() -> None:
    unseen = dict.fromkeys(("node_by_nvml", "cpus_by_nvml", "links"), "no driver")
    assert ["unknown: what NVML says of the GPUs: no driver"] == unknowns(
        Topology(gpus=[gpu(0, missing=unseen)], missing={"gpus": "no driver"})
    )
    assert ["unknown: GPUs: no driver"] == unknowns(Topology(missing={"gpus": "no driver"}))


def test_sockets_are_counted() -> None:
    assert "1 socket, 1 core, 1 thread" == sockets([Package(id=0, cores=[[0]])])
    assert "sockets unknown, 1 core, 1 thread" == sockets([Package(id=None, cores=[[0]])])
    assert "2 sockets, 2 cores, 8 threads (4 a core)" == sockets(
        [Package(id=0, cores=[[0, 1, 2, 3]]), Package(id=8, cores=[[4, 5, 6, 7]])]
    )


def test_nothing_known_is_nothing_but_reasons() -> None:
    assert "unknown: nodes, packages: EIO\n" == text(Topology(missing={"nodes": "EIO", "packages": "EIO"}))


def test_damaged_trees_are_shown(damaged: list[tuple[str, Place]]) -> None:
    for damage, place in damaged:
        shown = text(place.topology)
        assert all(reason in shown for reason in place.topology.missing.values()), damage
