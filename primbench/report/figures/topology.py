"""The place: nodes, their CPUs and memory, and the GPUs at them, as far as a results file tells."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement

from primbench.devices import nth_gpu
from primbench.numa.topology import GpuPlace, Topology
from primbench.report.document import Column, Figure, Table
from primbench.report.svg import LINE
from primbench.report.topology_svg import CAPTION, MARGIN, TITLE, drawn

if TYPE_CHECKING:
    from primbench.environment.fingerprint import Environment


def topology(found: Environment) -> Figure:
    """Without sockets, and without what links GPUs, of which a results file says nothing."""
    svg = drawn(_topology(found))
    svg.set("role", "img")
    svg.set("class", "fixed")
    del svg.attrib["xmlns"]  # it stands in a page
    words = "Boxes are memory nodes with their CPUs; GPUs hang below the node they are at, if that is known."
    said = SubElement(svg, "desc")
    said.text = words
    svg.remove(said)
    svg.insert(1, said)
    _without_caption(svg)
    rows = [text.text or "" for text in svg.iter("text")]
    return Figure(CAPTION, words, svg, Table("", [Column("what is in it, from left to right", rows)]))


def _without_caption(svg: Element) -> None:
    """It stands above the picture; what it left empty is cut off."""
    for text in [each for each in svg.iter("text") if each.text == CAPTION]:
        svg.remove(text)
    top, width, height = MARGIN + TITLE - LINE, svg.attrib["width"], int(svg.attrib["height"])
    svg.set("viewBox", f"0 {top} {width} {height - top}")
    svg.set("height", str(height - top))


def _topology(found: Environment) -> Topology:
    gpus = [
        GpuPlace(
            device=str(nth_gpu(number)),
            name=gpu.name,
            pci_address=gpu.pci_address,
            pcie_generation_max=gpu.pcie_generation_max,
            pcie_width=gpu.pcie_width,
        )
        for number, gpu in enumerate(found.devices.gpus or [])
    ]
    return Topology(
        nodes=found.nodes,
        packages=[],
        cpu_kinds=found.machine.cpu_kinds,
        last_level_caches=found.machine.last_level_caches,
        cpus_allowed=found.limits.cpus_allowed,
        memory_nodes_allowed=found.limits.memory_nodes_allowed,
        cpuset="by affinity and cpuset",
        gpus=gpus,
        missing=found.missing,
    )
