"""The place as a picture: sockets hold nodes, nodes hold CPUs and memory, GPUs hang on their node. Plain SVG."""

from __future__ import annotations

import itertools
import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from primbench.devices import nth_gpu
from primbench.numa.topology import GpuPlace, Topology
from primbench.report.document import Figure, Table
from primbench.report.figures.nvlinks import DEPTH, Bar, bars_of, draw
from primbench.report.svg import LINE, PAPER, QUIET, add_box, add_line, add_lines, add_text, canvas
from primbench.report.topology import (
    disagreements,
    empty_nodes,
    near,
    pcie,
    summary,
    uses,
)
from primbench.system.files import format_cpu_list
from primbench.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.environment.fingerprint import Environment
    from primbench.numa.topology import Node
    from primbench.system.cores import Package

# Lengths are in pixels.
COLUMN, GAP, MARGIN = 190, 14, 24
TITLE = 22
LETTERS = 27  # that fit the width of a column in the small size
NODE_TOP, GPU_HEIGHT = 40, 4 * LINE + 12
DROP = 34  # from a node to its GPUs
FILLS = {"socket": "#eef2f6", "node": "#d8e6f3", "memory": "#e7def2", "forbidden": "#ececec", "gpu": "#dcefd2"}
CAPTION = "Where CPUs, memory and GPUs are"


@dataclass
class NodeColumn:
    """A node, or what stands in for the node of GPUs whose node is not known, with the GPUs below it."""

    node: Node | None
    lines: list[str] = field(default_factory=list)
    gpus: list[GpuPlace] = field(default_factory=list)
    x: int = 0

    @property
    def width(self) -> int:
        return max(1, len(self.gpus)) * (COLUMN + GAP) - GAP


@dataclass(frozen=True)
class TopologyRows:
    """How far down the parts of the picture begin; ``bottom`` is where the last of them ends."""

    top: int
    node_height: int
    gpus: int
    bars: int
    bottom: int

    @classmethod
    def of(cls, header_lines: int, columns: Sequence[NodeColumn], bars: Sequence[Bar]) -> TopologyRows:
        top = MARGIN + TITLE + header_lines * LINE + GAP
        node_height = 28 + LINE * max((len(column.lines) for column in columns), default=0)
        below_nodes = top + NODE_TOP + node_height + GAP
        below_gpus = below_nodes + DROP + GPU_HEIGHT if any(column.gpus for column in columns) else below_nodes
        bottom = below_gpus + DEPTH * max((bar.depth + 1 for bar in bars), default=0)
        return cls(top, node_height, below_nodes + DROP, below_gpus, bottom)


def picture(found: Topology) -> str:
    """The topology as an SVG document."""
    svg = _drawn(found)
    indent(svg)
    return tostring(svg, encoding="unicode") + "\n"


def topology(found: Environment) -> Figure:
    """Of a page; without sockets, and without what links GPUs, of which a results file says nothing."""
    there = _topology(found)
    words = "Boxes are memory nodes with their CPUs; GPUs hang below the node they are at, if that is known."
    return Figure(CAPTION, words, _drawn(there, words), Table.listed("", _numbers(there), ("what", "it is")))


def _numbers(found: Topology) -> Iterator[tuple[str, str]]:
    yield from (("place", words) for words in summary(found))
    yield from ((f"node {each.node.id}", "; ".join(each.lines)) for each in _node_columns(found) if each.node)
    yield from ((gpu.device, "; ".join(_gpu_lines(gpu, found))) for gpu in found.gpus or [])
    yield from (("place", words) for words in _notes(found))


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


def _drawn(found: Topology, words: str = "") -> Element:
    """words: of a picture in a page, where its title stands above it."""
    groups = [(label, columns) for label, columns in _groups(found) if columns]
    right = _place(groups)
    columns = [column for _, members in groups for column in members]
    gpus = [(gpu, x) for column in columns for gpu, x in _gpu_columns(column)]
    header, notes, bars = summary(found), _notes(found), bars_of(gpus, COLUMN)
    at = TopologyRows.of(len(header), columns, bars)
    svg = _titled(max(right, 4 * COLUMN) + MARGIN, at.bottom + (len(notes) + 1) * LINE + MARGIN, words)
    add_lines(svg, MARGIN, MARGIN + TITLE, header)
    for label, members in groups:
        _draw_group(svg, label, members, found, top=at.top, node_height=at.node_height)
    for gpu, x in gpus:
        _draw_gpu(svg, gpu, x, at.gpus, found)
    draw(svg, bars, at.bars)
    add_lines(svg, MARGIN, at.bottom + LINE, notes)
    return svg


def _titled(width: int, height: int, words: str) -> Element:
    if words:
        return canvas(width, height, CAPTION, words, MARGIN + TITLE - LINE)
    svg = canvas(width, height, CAPTION)
    add_text(svg, MARGIN, MARGIN + 14, CAPTION, size=16, weight="bold")
    return svg


def _groups(found: Topology) -> list[tuple[str, list[NodeColumn]]]:
    """The outer boxes with their label: sockets, or without one what belongs to none."""
    columns = _node_columns(found)
    at = {column.node.id: column for column in columns if column.node}
    elsewhere = NodeColumn(None)
    for gpu in found.gpus or []:
        node = near(gpu)
        (elsewhere if node is None else at.get(node, elsewhere)).gpus.append(gpu)
    boxed = itertools.groupby(columns, key=lambda column: _socket(column, found.packages or []))
    return [*((label, list(members)) for label, members in boxed), ("", [elsewhere] if elsewhere.gpus else [])]


def _node_columns(found: Topology) -> list[NodeColumn]:
    """A column for each node that is drawn, without GPUs yet: not GPUs' own memory, and no empty node."""
    every = found.nodes or []
    nodes = [node for node in every if node.gpu is None and node.id not in empty_nodes(every)]
    ids = [node.id for node in nodes]
    return [NodeColumn(node, _node_lines(node, ids, found)) for node in nodes]


def _socket(column: NodeColumn, packages: Sequence[Package]) -> str:
    """Which sockets a node's CPUs are on; "" for memory alone, and where that is not known."""
    cpus = set(column.node.cpus) if column.node else set()
    there = [package for package in packages if cpus & {cpu for core in package.cores for cpu in core}]
    ids = [package.id for package in there if package.id is not None]
    return f"socket{'s' * (len(ids) > 1)} {format_cpu_list(ids)}" if ids else ""


def _place(groups: Sequence[tuple[str, list[NodeColumn]]]) -> int:
    """Give each column its x; returns the right edge of all."""
    x = MARGIN
    for _, columns in groups:
        x += GAP
        for column in columns:
            column.x = x
            x += column.width + GAP
        x += GAP
    return x - GAP


def _gpu_columns(column: NodeColumn) -> list[tuple[GpuPlace, int]]:
    return [(gpu, column.x + number * (COLUMN + GAP)) for number, gpu in enumerate(column.gpus)]


def _draw_group(
    svg: Element, label: str, columns: list[NodeColumn], found: Topology, *, top: int, node_height: int
) -> None:
    left, right = columns[0].x - GAP, columns[-1].x + columns[-1].width + GAP
    if label:
        add_box(svg, left, top, right - left, NODE_TOP + node_height + GAP, fill=FILLS["socket"])
        add_text(svg, left + GAP, top + 24, label, size=14, weight="bold")
    foot = top + NODE_TOP + node_height
    for column in columns:
        _draw_node(svg, column, top + NODE_TOP, node_height, found)
        for _, x in _gpu_columns(column):
            add_line(svg, f"M{x + COLUMN // 2} {foot} V{foot + GAP + DROP}", QUIET, dashed=column.node is None)


def _draw_node(svg: Element, column: NodeColumn, top: int, height: int, found: Topology) -> None:
    node = column.node
    if node is None:
        add_box(svg, column.x, top, column.width, height, fill=PAPER, dashed=True)
        add_text(svg, column.x + 10, top + 20, "node unknown", size=13, weight="bold")
        return
    forbidden = {share for share, _ in uses(node, found)} == {0.0}
    fill = FILLS["forbidden" if forbidden else "node" if node.cpus else "memory"]
    box = add_box(svg, column.x, top, column.width, height, fill=fill, dashed=forbidden)
    SubElement(box, "title").text = f"node {node.id}: CPUs {format_cpu_list(node.cpus) or 'none'}"
    add_text(svg, column.x + 10, top + 20, f"node {node.id}", size=13, weight="bold")
    add_lines(svg, column.x + 10, top + 20, column.lines)


def _node_lines(node: Node, ids: Sequence[int], found: Topology) -> list[str]:
    """The text in a node's box. ids: of all nodes drawn; distances are listed in this order."""
    lines = [format_bytes(node.memory_bytes) + " memory" if node.has_memory else "no memory"]
    lines += _wrapped(f"CPUs {format_cpu_list(node.cpus)}" if node.cpus else "no CPUs", 2)
    may = uses(node, found)
    shares = {share for share, _ in may}
    if not shares <= {1.0}:
        here = ", ".join(words for _, words in may)
        lines += _wrapped("not allowed here" if shares == {0.0} else f"here: {here}", 2)
    distances = " ".join(str(node.distances.get(each, "-")) for each in ids)
    return lines + (_wrapped(f"distances {distances}", 2) if len(ids) > 1 else [])


def _wrapped(words: str, most: int) -> list[str]:
    """Lines that fit a column, cut with "..." after ``most`` of them; a list of numbers breaks at its commas."""
    lines = textwrap.wrap(words.replace(",", ", "), LETTERS, break_long_words=False)
    kept = [line.replace(", ", ",") for line in lines[:most]]
    return [*kept[:-1], kept[-1] + " ..."] if len(lines) > most else kept


def _draw_gpu(svg: Element, gpu: GpuPlace, x: int, top: int, found: Topology) -> None:
    add_box(svg, x, top, COLUMN, GPU_HEIGHT, fill=FILLS["gpu"])
    add_text(svg, x + 10, top + 18, gpu.device, size=13, weight="bold")
    add_lines(svg, x + 10, top + 18, _gpu_lines(gpu, found))


def _gpu_lines(gpu: GpuPlace, found: Topology) -> list[str]:
    link = "" if gpu.pcie_width is None else f"  PCIe {pcie(gpu.pcie_generation_max, gpu.pcie_width)}"
    own = next((node.memory_bytes for node in found.nodes or [] if node.id == gpu.memory_node), None)
    return [
        textwrap.shorten(gpu.name or "name unknown", LETTERS, placeholder="..."),
        (gpu.pci_address or "PCI address unknown") + link,
        *([] if gpu.memory_node is None else [f"own memory: node {gpu.memory_node}, {format_bytes(own)}"]),
    ]


def _notes(found: Topology) -> list[str]:
    """Below the picture: what is contradicted, and what could not be drawn at all."""
    absent = {"nodes": found.nodes, "packages": found.packages, "gpus": found.gpus}
    named = {"nodes": "nodes", "packages": "sockets", "gpus": "GPUs"}
    unseen = [
        f"{named[name]} unknown: {found.missing.get(name, 'not recorded')}"
        for name, value in absent.items()
        if value is None
    ]
    return disagreements(found) + unseen
