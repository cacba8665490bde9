from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from xml.etree.ElementTree import Element, fromstring

import pytest
from msgspec.structs import replace

from primbench.doctor.place import Place
from primbench.numa import scan
from primbench.numa.topology import GpuPlace, Link, Topology
from primbench.report.figures.topology import picture

TREES = sorted(path.stem for path in (Path(__file__).parents[2] / "trees").glob("*.json"))
SVG = "{http://www.w3.org/2000/svg}"


def elements(found: Topology, name: str) -> list[Element]:
    return list(fromstring(picture(found)).iter(SVG + name))


def words(found: Topology) -> list[str]:
    return [element.text or "" for element in elements(found, "text")]


def box(found: Topology, label: str) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of the smallest rectangle around a text."""
    (text,) = [each for each in elements(found, "text") if each.text == label]
    x, y = float(text.attrib["x"]), float(text.attrib["y"])
    around = []
    for each in elements(found, "rect"):
        if "x" in each.attrib:
            left, top, width, height = (float(each.attrib[name]) for name in ("x", "y", "width", "height"))
            if left <= x <= left + width and top <= y <= top + height:
                around.append((left, top, left + width, top + height))
    return min(around, key=lambda each: (each[2] - each[0]) * (each[3] - each[1]))


def within(inner: tuple[float, ...], outer: tuple[float, ...]) -> bool:
    return outer[0] <= inner[0] and outer[1] <= inner[1] and inner[2] <= outer[2] and inner[3] <= outer[3]


def with_gpus(found: Topology, nodes: list[int | None], lanes: Callable[[int, int], int]) -> Topology:
    """As on a machine with such GPUs, whose pairs (by index) have so many NVLinks."""
    addresses = [f"0000:{index:02x}:00.0" for index in range(len(nodes))]
    gpus = []
    for i, node in enumerate(nodes):
        peers = [(addresses[j], lanes(min(i, j), max(i, j))) for j in range(len(nodes)) if j != i]
        links = [Link(peer=peer, kind="NV" if n else "SYS", lanes=n or None) for peer, n in peers]
        gpus.append(GpuPlace(device=f"cuda:{i}", pci_address=addresses[i], node_by_sysfs=node, links=links))
    return replace(found, gpus=gpus)


@pytest.fixture
def xeon(tree: Callable[[str], Path]) -> Topology:
    return scan.collect(tree("xeon-2-nodes"), gpus=False)


def test_sockets_hold_nodes_and_gpus_hang_below_theirs(xeon: Topology) -> None:
    found = with_gpus(xeon, [1, 0], lambda i, j: 0)
    for number in (0, 1):
        assert within(box(found, f"node {number}"), box(found, f"socket {number}"))
    below, node = box(found, "cuda:0"), box(found, "node 1")
    assert (below[0], below[2]) == (node[0], node[2])
    assert below[1] > node[3]
    assert {"256 GiB memory", "CPUs 0-15,32-47", "distances 10 20"} <= set(words(found))


def test_gpu_whose_node_is_not_known_is_at_none(xeon: Topology) -> None:
    found = with_gpus(xeon, [None], lambda i, j: 0)
    assert "node unknown" in words(found)
    assert box(found, "cuda:0")[0] == box(found, "node unknown")[0]


def test_four_nodes_share_a_socket(tree: Callable[[str], Path]) -> None:
    found = scan.collect(tree("epyc-nps4"), gpus=False)
    assert [[0, 1, 2, 3], [4, 5, 6, 7]] == [
        [node for node in range(8) if within(box(found, f"node {node}"), box(found, f"socket {socket}"))]
        for socket in (0, 1)
    ]


def test_no_two_boxes_of_a_kind_overlap(tree: Callable[[str], Path]) -> None:
    found = with_gpus(scan.collect(tree("epyc-nps4"), gpus=False), [3, 3, 1, 1, 7, 7, 5, 5], lambda i, j: 12)
    for labels in ([f"node {number}" for number in range(8)], [f"cuda:{number}" for number in range(8)]):
        for one, other in combinations([box(found, label) for label in labels], 2):
            assert one[2] < other[0] or other[2] < one[0]


def test_memory_of_a_gpu_is_drawn_in_the_gpu(tree: Callable[[str], Path]) -> None:
    found = scan.collect(tree("grace-hopper"), gpus=False)
    own = GpuPlace(device="cuda:0", pci_address="0009:01:00.0", node_by_sysfs=0, memory_node=1)
    shown = words(replace(found, gpus=[own]))
    assert "own memory: node 1, 96 GiB" in shown
    assert ["node 0"] == [word for word in shown if word.startswith("node ")]


def test_memory_without_cpus_is_in_no_socket(tree: Callable[[str], Path]) -> None:
    found = scan.collect(tree("cxl-memory-node"), gpus=False)
    assert not any(within(box(found, "node 2"), box(found, f"socket {number}")) for number in (0, 1))


def test_equal_links_between_all_are_one_bar(xeon: Topology) -> None:
    shown = words(with_gpus(xeon, [0, 0, 1, 1], lambda i, j: 12))
    assert ["12 NVLinks between any two"] == [word for word in shown if "NVLink" in word]


def test_other_links_are_a_line_each_and_none_hides_another(xeon: Topology) -> None:
    lanes = {(0, 1): 2, (2, 3): 2, (0, 2): 1, (1, 3): 1}
    found = with_gpus(xeon, [0, 0, 1, 1], lambda i, j: lanes.get((i, j), 0))
    assert ["1 NVLink", "1 NVLink", "2 NVLinks", "2 NVLinks"] == sorted(w for w in words(found) if "NVLink" in w)
    paths = [each.attrib["d"] for each in elements(found, "path") if each.attrib["stroke-width"] == "2"]
    assert len(lanes) == len({path.split(" V")[0] for path in paths})


def test_what_is_not_allowed_here_looks_so(tree: Callable[[str], Path]) -> None:
    found = scan.collect(tree("container-cpuset-v2"), gpus=False)
    assert {"not allowed here", "here: memory, CPUs 16-19"} <= set(words(found))


def test_contradictions_and_gaps_are_below(xeon: Topology) -> None:
    gpu = GpuPlace(device="cuda:0", node_by_sysfs=0, node_by_nvml=1)
    assert "cuda:0: sysfs says node 0, NVML node 1" == words(replace(xeon, gpus=[gpu]))[-1]
    assert "GPUs unknown: not asked for" == words(xeon)[-1]


def test_names_are_escaped_and_what_xml_cannot_hold_is_replaced(xeon: Topology) -> None:
    name = '<script>&"\x00\x1b\ud800'
    found = replace(xeon, gpus=[GpuPlace(device="cuda:0", name=name, node_by_sysfs=0)])
    assert '<script>&"???' in words(found)
    assert [] == elements(found, "script")


def test_damaged_trees_are_drawn(damaged: list[tuple[str, Place]]) -> None:
    for damage, place in damaged:
        svg, text = fromstring(picture(place.topology)), words(place.topology)
        width, height = float(svg.attrib["width"]), float(svg.attrib["height"])
        for each in svg.iter(SVG + "text"):
            assert 0 < float(each.attrib["x"]) < width, damage
            assert 0 < float(each.attrib["y"]) < height, damage
        for node in place.topology.nodes or []:
            drawn = node.gpu is None and (node.cpus or node.has_memory)
            assert bool(drawn) == (f"node {node.id}" in text), damage
