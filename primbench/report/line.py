"""What a sweep over sizes in bytes says as a whole: latency, bandwidth, and the size that reaches half of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from primbench.units import format_bytes, format_percent, format_time, rate_column

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from primbench.results.record import Record


FEWEST_SIZES = 4
LARGEST_MISFIT = 0.25  # beyond, two numbers would hide what the sizes show: caches, or a change of algorithm


@dataclass(frozen=True)
class Line:
    """What fits the times of a sweep: t = latency_s + size_bytes / size_bytes_per_s."""

    latency_s: float
    """Seconds that a call of no bytes would take."""
    size_bytes_per_s: float
    """Bytes of its size that a call goes through a second."""
    misfit: float
    """The largest |t - time| / time of a point."""

    @property
    def half_size_bytes(self) -> float:
        """Where half of the bandwidth is reached: n_1/2 of Hockney & Jesshope, Parallel Computers 2 (1988), 1.3."""
        return self.latency_s * self.size_bytes_per_s


@dataclass(frozen=True)
class Sweep:
    """Records that differ in their size alone."""

    name: str
    """What else they are, in words."""
    points: Sequence[tuple[int, float]]
    """Of each its size in bytes and the seconds of a call."""
    line: Line | None
    """What fits them; None where none does within the largest misfit that is allowed."""
    moved: float
    """Bytes that a call moves, for each byte of its size."""


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


def fit(points: Sequence[tuple[int, float]]) -> Line | None:
    """The line whose relative errors have the least squares: else the largest size alone would decide.

    points: (bytes, seconds), no time 0. None where latency or bandwidth would not be above 0: no line fits.
    """
    # Normal equations of (latency + size * slope) / time = 1, solved by Cramer's rule.
    ones, sizes = [1 / time for _, time in points], [size / time for size, time in points]
    aa, ab, bb = _dot(ones, ones), _dot(ones, sizes), _dot(sizes, sizes)
    a, b = math.fsum(ones), math.fsum(sizes)
    determinant = aa * bb - ab * ab
    latency, slope = a * bb - b * ab, aa * b - ab * a
    if min(determinant, latency, slope) <= 0:
        return None
    latency_s, s_per_byte = latency / determinant, slope / determinant
    misfit = max(abs(latency_s + size * s_per_byte - time) / time for size, time in points)
    return Line(latency_s, 1 / s_per_byte, misfit)


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return math.fsum(one * other for one, other in zip(left, right, strict=True))
