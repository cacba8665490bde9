"""The affinity experiment for a terminal: what contradicts first, then a matrix of nodes a device."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from primbench.experiments.numa import (
    CONFIDENCE,
    CPU,
    LOOKS_CONFIDENCE,
    Affinity,
    Cell,
    Matrix,
    Nearness,
)
from primbench.report.document import Column, Document, Note, Section, Table
from primbench.suites.numa import CHASE, LAUNCH
from primbench.system.files import format_cpu_list
from primbench.units import format_bytes, format_percent, format_time, rate_column

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.numa.topology import Topology
    from primbench.results.file import Results


def document(affinity: Affinity, topology: Topology, results: Results | None = None) -> Document:
    """topology: for the names of GPUs. results: what that was found by, of which there is a page."""
    devices = dict.fromkeys(matrix.device for matrix in affinity.matrices)
    names = {gpu.device: gpu.name for gpu in topology.gpus or [] if gpu.name}
    tables = itertools.chain.from_iterable(_tables(affinity, device, names.get(device)) for device in devices)
    missing = [Note(f"{kind} was not measured: {reason}") for kind, reason in affinity.missing.items()]
    sections = [Section("", [*map(Note, headlines(affinity))]), Section("", [*tables])]
    sections += [Section("", [each]) for each in missing]
    page = partial(_page, affinity, results) if results else None
    return Document("nodes", None, lambda: sections, value=affinity, page=page)


def _page(affinity: Affinity, results: Results) -> Document:
    from primbench.report.measured import page as page_of  # which a table need not wait for

    return replace(page_of(results), answer=Note(" ".join(f"{line}." for line in headlines(affinity))))


def headlines(affinity: Affinity) -> list[str]:
    """A line a GPU or CPU node, those first where measurement and system contradict each other."""
    axes = affinity.axes
    nodes = sorted({*axes.cpu_nodes, *axes.memory_nodes})
    lines = [_headline(each) for each in sorted(affinity.nearness, key=lambda each: each.disagreement is None)]
    if len(nodes) == 1:
        contradictions = [_headline(each) for each in affinity.nearness if each.disagreement]
        lines = [*contradictions, f"This process may use one NUMA node, {nodes[0]}: there is none to set it against"]
    return lines


def _headline(found: Nearness) -> str:
    if found.disagreement:
        return f"{found.subject}: {found.disagreement}{_looks(found)}"
    if found.node is None:
        return f"{found.subject}: {found.reason}{_looks(found)}{_said(found)}"
    listed = format_cpu_list(found.initiators)
    cpus = f", memory near the CPUs of node{'' if listed.isdecimal() else 's'} {listed}," if listed else ""
    return f"{found.subject} is nearest to node {found.node}{cpus} by measurement{_said(found)}{_looks(found)}"


def _said(found: Nearness) -> str:
    """What the system says: who agrees with what was measured, then who says otherwise."""
    said = {who: node for who, node in found.said.items() if node is not None}
    agree = [who for who, node in said.items() if node in (found.node, *found.initiators)]
    words = f", as {' and '.join(agree)} say{'s' * (len(agree) == 1)}" if agree else ""
    return words + "".join(f"; {who} says node {node}" for who, node in said.items() if who not in agree)


def _looks(found: Nearness) -> str:
    """How much longer the other nodes take."""
    words = [
        f"{look.by} from node {contrast.node} take {_ratio(contrast.ratio, contrast.low, contrast.high)} times as long"
        for look in found.looks
        for contrast in look.contrasts
    ]
    return f" ({', '.join(words)}; intervals of {format_percent(LOOKS_CONFIDENCE)})" if words else ""


def _tables(affinity: Affinity, device: str, name: str | None) -> Iterator[Table]:
    matrices = [matrix for matrix in affinity.matrices if matrix.device == device]
    placed = [matrix for matrix in matrices if matrix.kind != LAUNCH]
    if placed:
        shared = [*filter(None, [name]), format_bytes(affinity.size_bytes)]
        table = _accesses(affinity, placed, "host" if device == CPU else device)
        yield replace(table, shared=shared, how=_how(affinity, matrices))
    yield from (_launches(matrix) for matrix in matrices if matrix.kind == LAUNCH)


def _accesses(affinity: Affinity, matrices: Sequence[Matrix], title: str) -> Table:
    """The table of one device's accesses from nodes of CPUs to nodes of memory."""
    columns = ["", "CPU node", *(f"memory node {node}" for node in affinity.axes.memory_nodes)]
    rows = [row for matrix in matrices for row in _rows(matrix, affinity.axes.memory_nodes)]
    return Table.of_rows(title, columns, rows, [*_notes(matrices), *map(Note, _caches(affinity, matrices))])


def _how(affinity: Affinity, matrices: Sequence[Matrix]) -> str:
    how = f"median of {_processes(affinity, matrices)}"
    if any(len(matrix.cells) > 1 for matrix in matrices):
        how += f"; ratio of the time to the nearest's, with the {format_percent(CONFIDENCE)} interval over rounds"
    return how


def _launches(matrix: Matrix) -> Table:
    columns = [Column("CPU node", [cell.cpu_node for cell in matrix.cells]), Column("round trip", _shown(matrix)[1])]
    return Table(matrix.device, columns, list(_notes([matrix])), ["launch and wait, an empty kernel"])


def _processes(affinity: Affinity, matrices: Sequence[Matrix]) -> str:
    """How many processes the times are from: fewer than asked for after an interruption or a failure."""
    counts = {len(cell.times_s) for matrix in matrices for cell in matrix.cells if cell.times_s} or {0}
    least, most = min(counts), max(counts)
    there = f"{least}" if least == most else f"{least} to {most}"
    of = "" if least == most == affinity.rounds else f" of {affinity.rounds}"
    return f"{there}{of} process{'es' if affinity.rounds > 1 else ''}"


def _caches(affinity: Affinity, matrices: Sequence[Matrix]) -> Iterator[str]:
    timed = any(cell.times_s for matrix in matrices for cell in matrix.cells if matrix.device == CPU)
    if timed and affinity.size_bytes <= affinity.caches_bytes:
        yield (
            f"the last-level caches hold {format_bytes(affinity.caches_bytes)} together: they may have served "
            "what memory was to serve; a larger --bytes takes longer, and goes past them"
        )


def _rows(matrix: Matrix, memory_nodes: Sequence[int]) -> Iterator[list[object]]:
    """One row for each CPU node: what was measured, the node, a cell for each memory node."""
    what, shown = _shown(matrix)
    by_node: dict[int, dict[int | None, str]] = {}
    for cell, words in zip(matrix.cells, shown, strict=True):
        by_node.setdefault(cell.cpu_node, {})[cell.memory_node] = words
    for node, cells in by_node.items():
        yield [what, node, *map(cells.get, memory_nodes)]


def _shown(matrix: Matrix) -> tuple[str, list[str]]:
    """What is shown, and every cell: rates of copies, times of all else."""
    if matrix.kind in (CHASE, LAUNCH):
        values = [format_time(cell.median_s) for cell in matrix.cells]
        what = "a load" if matrix.kind == CHASE else matrix.kind
    else:
        unit, values = rate_column([cell.bytes_per_s for cell in matrix.cells], "B/s")
        what = f"{matrix.kind} {unit}"
    alone = len(matrix.cells) == 1
    return what, [value if alone else _beside(value, cell) for value, cell in zip(values, matrix.cells, strict=True)]


def _beside(value: str, cell: Cell) -> str:
    if cell.is_nearest:
        return f"{value} nearest"
    return value if cell.ratio is None else f"{value} {_ratio(cell.ratio, cell.ratio_low, cell.ratio_high)}"


def _ratio(ratio: float, low: float | None, high: float | None) -> str:
    """A ratio with its interval: one round has none, and that of two may be too wide to show."""
    if low is None or high is None:
        return f"{ratio:.3f}"
    return f"{ratio:.3f} [{low:.3f}, {high:.3f}]" if high < 10 * ratio else f"{ratio:.3f} [wider than tenfold]"


def _notes(matrices: Sequence[Matrix]) -> Iterator[Note]:
    """What disturbed the times that there are, and why some are missing."""
    yield from _disturbances(matrices)
    yield from map(Note, _reasons(matrices))


def _disturbances(matrices: Sequence[Matrix]) -> Iterator[Note]:
    cells = [(matrix.kind, cell) for matrix in matrices for cell in matrix.cells]
    disturbed = [(kind, words) for kind, cell in cells for words in cell.disturbed.values()]
    if disturbed:
        first, words = disturbed[0]
        times = sum(len(cell.times_s) for _, cell in cells)
        told = f"{len(disturbed)} of {times} measurements were disturbed, the first one ({first}): {'; '.join(words)}"
        yield Note(told, "marked")


def _reasons(matrices: Sequence[Matrix]) -> Iterator[str]:
    """Why cells have no times, or none of some rounds: a line a reason."""
    places: dict[str, dict[str, None]] = {}
    for cell in itertools.chain.from_iterable(matrix.cells for matrix in matrices):
        if cell.reason:
            memory = "" if cell.memory_node is None else f", memory node {cell.memory_node}"
            places.setdefault(cell.reason, {})[f"CPU node {cell.cpu_node}{memory}"] = None
    for reason, named in places.items():
        yield f"{'; '.join(named)}: {reason}"
