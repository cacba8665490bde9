"""Heat maps: the thread's node down, the memory's node across, in each cell a time and how far it is from the least."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench import stats
from primbench.compare.shown import shown_ratio
from primbench.report.document import Column, Figure, Table
from primbench.report.svg_plot import add_heat, add_words, picture
from primbench.spec.naming import name_of
from primbench.system.files import format_cpu_list
from primbench.units import format_time

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence
    from xml.etree.ElementTree import Element

    from primbench.results.record import Record

    Cells = Mapping[tuple[str, str], float]

CELL, LINE = 46, 18  # pixels down
LEFT = 12.0  # percent of the width, where cells begin
HOTTEST = 2.0  # a ratio from which on all cells look alike
ANY = "any"


def heat_maps(records: Sequence[Record]) -> Iterator[Figure]:
    """One for each case that was measured from several nodes."""
    groups: dict[Hashable, list[Record]] = {}
    for record in records:
        if _main_s(record) is not None:
            groups.setdefault(_but_for_nodes(record), []).append(record)
    for group in groups.values():
        cells = _cells(group)
        if len(cells) > 1:
            yield _figure(name_of(group[0].case), cells)


def _main_s(record: Record) -> float | None:
    found = record.measurement and record.measurement.main
    return found.median_s if found else None


def _but_for_nodes(record: Record) -> Hashable:
    case = record.case
    return case.primitive, tuple(case.parameters.items()), case.implementation, case.device, case.arm


def _cells(records: Sequence[Record]) -> dict[tuple[str, str], float]:
    """(node of the thread, nodes of the memory) -> the median over processes, in seconds."""
    found: dict[tuple[str, str], list[float]] = {}
    for record in records:
        placement, time_s = record.case.placement, _main_s(record)
        thread = placement.cpu_node if placement.cpu_node is not None else placement.numa_node
        memory = format_cpu_list(placement.mem_nodes) if placement.mem_nodes else None
        if thread is not None and time_s:
            found.setdefault((str(thread), memory or ANY), []).append(time_s)
    return {place: stats.quantile(times, 0.5) for place, times in found.items()}


def _figure(name: str, cells: Cells) -> Figure:
    title = f"{name}: by node"
    words = (
        "Down: the node of the thread; across: the node of its memory. In a cell the time of a call and how many times "
        "as long that is as in the fastest one; the stronger its colour, the longer."
    )
    return Figure(title, words, _picture(cells, title, words), _numbers(cells))


def _picture(cells: Cells, title: str, words: str) -> Element:
    threads, memories = _axes(cells)
    svg = picture(LINE + CELL * len(threads), title, words)
    width = (100 - LEFT) / len(memories)
    best = min(cells.values())
    for column, memory in enumerate(memories):
        add_words(svg, LEFT + (column + 0.5) * width, 12, f"memory {memory}", "quiet", anchor="middle")
    for row, thread in enumerate(threads):
        top = LINE + row * CELL
        add_words(svg, 0, top + CELL / 2 + 4, f"node {thread}", "quiet")
        for column, memory in enumerate(memories):
            time_s = cells.get((thread, memory))
            if time_s is not None:
                x = LEFT + column * width
                ratio = time_s / best
                strength = min(1.0, (ratio - 1) / (HOTTEST - 1))
                add_heat(svg, (x, x + width - 0.4), (top, top + CELL - 3), strength)
                add_words(svg, x + width / 2, top + 19, format_time(time_s), "strong", anchor="middle")
                add_words(svg, x + width / 2, top + 34, f"{shown_ratio(ratio)}", anchor="middle")
    return svg


def _axes(cells: Cells) -> tuple[list[str], list[str]]:
    """Both sorted by number, "any" last."""
    threads, memories = ({place[axis] for place in cells} for axis in (0, 1))
    return sorted(threads, key=_order), sorted(memories, key=_order)


def _order(nodes: str) -> tuple[int, str]:
    return (int(nodes) if nodes.isdecimal() else 10**9), nodes


def _numbers(cells: Cells) -> Table:
    best, places = min(cells.values()), sorted(cells, key=lambda place: tuple(map(_order, place)))
    columns = [
        Column("node", [thread for thread, _ in places]),
        Column("memory", [memory for _, memory in places]),
        Column("time", [cells[place] for place in places], format_time),
        Column("to the fastest", [cells[place] / best for place in places], shown_ratio),
    ]
    return Table("", columns)
