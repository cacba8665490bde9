"""What a sweep over sizes in bytes says as a whole: latency, bandwidth, and the size that reaches half of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from primbench.stats import FEWEST_SIZES, LARGEST_MISFIT, Line, fit
from primbench.units import format_bytes, format_percent, format_time, rate_column

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from primbench.results.record import Record


@dataclass(frozen=True)
class Sweep:
    """Records that differ in their size alone. points: (bytes, seconds of a call).

    line: what fits them; None where none does within the largest misfit that is allowed.
    moved: bytes that a call moves, for each byte of its size.
    """

    name: str
    points: Sequence[tuple[int, float]]
    line: Line | None
    moved: float


def line_notes(records: Sequence[Record]) -> list[str]:
    """A line below the table for each of sweeps(records)."""
    return [f"{sweep.name}: {_said(sweep)}" for sweep in sweeps(records)]


def sweeps(records: Sequence[Record]) -> list[Sweep]:
    """Each group of records of one primitive that differ in their size alone.

    None for a primitive whose size is not one number of bytes, or for fewer than four sizes.
    """
    sizes = [field for field in records[0].case.fields() if field.metadata.get("size")]
    if [field.metadata["unit"] for field in sizes] != ["B"]:
        return []
    size = sizes[0].name
    places = {(record.case.implementation, record.case.device) for record in records}
    return [
        _sweep(group, size, _named(group[0], size, place=len(places) > 1))
        for group in _groups(records, size)
        if len({record.case.parameters[size] for record in group}) >= FEWEST_SIZES
    ]


def _sweep(group: Sequence[Record], size: str, name: str) -> Sweep:
    sizes = [int(record.case.parameters[size]) for record in group]
    measured = [record.measurement for record in group if record.measurement]
    times = [each.main.median_s for each in measured if each.main]
    points = list(zip(sizes, times, strict=True))
    line = fit(points)
    moved = (measured[0].bytes_moved or sizes[0]) / sizes[0]
    return Sweep(name, points, line if line and line.misfit <= LARGEST_MISFIT else None, moved)


def _groups(records: Sequence[Record], size: str) -> list[list[Record]]:
    """Groups of records with a time that differ in their size alone."""
    found: dict[Hashable, list[Record]] = {}
    for record in records:
        if record.measurement and record.measurement.main and record.measurement.main.median_s:
            found.setdefault(_but_for_size(record, size), []).append(record)
    return list(found.values())


def _but_for_size(record: Record, size: str) -> Hashable:
    case = record.case
    others = tuple((name, value) for name, value in case.parameters.items() if name != size)
    return others, case.implementation, case.device, case.placement, record.cache


def _named(record: Record, size: str, *, place: bool) -> str:
    """What is not as by default: words as they are, numbers with the name of their field."""
    case = record.case
    defaults = {field.name: field.default for field in case.fields()}
    unusual = {name: value for name, value in case.parameters.items() if name != size and value != defaults.get(name)}
    words = [value if isinstance(value, str) else f"{name} {value}" for name, value in unusual.items()]
    return " ".join([*words, *([case.implementation, case.device] if place else [])]) or case.primitive


def _said(sweep: Sweep) -> str:
    line = sweep.line
    if line is None:
        return "no line fits these times: they have no one latency and bandwidth"
    unit, (bandwidth,) = rate_column([line.size_bytes_per_s * sweep.moved], "B/s")
    return (
        f"latency {format_time(line.latency_s)}, bandwidth {bandwidth} {unit}, half of it at "
        f"{format_bytes(round(line.half_size_bytes))}; fitted to {len(sweep.points)} times, which it misses by up to "
        f"{format_percent(line.misfit)}"
    )
