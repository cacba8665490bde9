"""Layers that stand on each other: what a call of each takes, the first one too, and what it adds to the one below."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from primbench import stats
from primbench.compare.criteria import problem_of
from primbench.report.document import Note, Table
from primbench.report.step_totals import places
from primbench.results.metrics import METRICS
from primbench.units import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.measurement import Samples
    from primbench.results.record import Record

HEADINGS = ("layer", "call", "+/-", "first call", "adds", "+/- of that", "to", "why not")
OF_ONE = "medians, give or take the 95 % interval of this process; another may differ by more: --processes"
OF_SEVERAL = "means of the medians of {} processes, give or take their 95 % interval"


@dataclass(frozen=True)
class Rung:
    """An entry of a suite whose label others name, or that names one by its label ``above``."""

    name: str
    """Its label."""
    below: str
    """The label of the layer that it stands on; "" where it stands on none."""
    call_s: float | None
    """Median of a call, of several processes the mean of theirs; None where it was not measured."""
    around_s: float | None
    """Half of the 95 % interval of that; None of too few samples."""
    first_s: float | None
    """What the first call of a process took, in the median; None where that was not taken."""
    reason: str
    """Why it was not measured; "" where it was."""
    processes: int
    """By how many it was measured."""


def ladders(records: Sequence[Record]) -> list[Note | Table]:
    """Of each place an answer and a table, where entries stand on each other; none where they do not."""
    found: list[Note | Table] = []
    for place, several in places(records).items():
        layers = _layers(several)
        if any(layer.call_s is not None for layer in layers.values()):
            found += [Note(_answer(place, layers)), _table(place, layers)]
    return found


def _layers(records: Sequence[Record]) -> dict[str, Rung]:
    """By their labels, each behind the one that it stands on."""
    labelled: dict[str, list[Record]] = {}
    for record in records:
        labelled.setdefault(record.case.labels.get("label", ""), []).append(record)
    below = {label: several[0].case.labels.get("above", "") for label, several in labelled.items()}
    named = {*below.values(), *(label for label, under in below.items() if under)} - {""}
    return {name: _layer(labelled[name]) for name in _in_order("", below, set()) if name in named}


def _in_order(under: str, below: dict[str, str], seen: set[str]) -> Iterator[str]:
    """Those that stand on a layer, each followed by what stands on it; those on one that is not there as if on none."""
    for name, stands_on in below.items():
        if name and name not in seen and (stands_on == under or (not under and stands_on not in below)):
            seen.add(name)
            yield name
            yield from _in_order(name, below, seen)


def _layer(records: Sequence[Record]) -> Rung:
    """records: of one case, each of a process of its own."""
    labels, samples = records[0].case.labels, [*filter(None, map(_samples, records))]
    firsts_s = [each.median_s for each in filter(None, map(_first, records))]
    return Rung(
        name=labels["label"],
        below=labels.get("above", ""),
        call_s=math.fsum(each.median_s for each in samples) / len(samples) if samples else None,
        around_s=_around_s(samples) if samples else None,
        first_s=stats.quantile(firsts_s, 0.5) if firsts_s else None,
        reason="" if samples else records[0].reason or "not timed",
        processes=len(samples),
    )


def _first(record: Record) -> Samples | None:
    return record.measurement.others.get("first_s") if record.measurement else None


def _samples(record: Record) -> Samples | None:
    """Of the time that its primitive prefers, of those that were taken."""
    preferred = (METRICS[name].samples(record.measurement) for name in problem_of(record.case.primitive).preferred)
    return next(filter(None, preferred), record.measurement.main if record.measurement else None)


def _around_s(samples: Sequence[Samples]) -> float | None:
    """Half of the interval: of one process over its samples, of several over their medians."""
    if len(samples) == 1:
        interval = stats.median_interval(samples[0].samples_s)
    else:
        interval = stats.mean_interval([each.median_s for each in samples])
    return (interval[1] - interval[0]) / 2 if interval else None


def _added(layer: Rung, layers: dict[str, Rung]) -> tuple[float | None, float | None]:
    """What it takes more than the layer that it stands on, and give or take how much; None where that is unknown.

    Errors of the two are independent: their squares add up.
    """
    base = layers.get(layer.below)
    if base is None or base.call_s is None or layer.call_s is None:
        return None, None
    known = base.around_s is not None and layer.around_s is not None
    around_s = math.hypot(base.around_s or 0.0, layer.around_s or 0.0) if known else None
    return layer.call_s - base.call_s, around_s


def _answer(place: str, layers: dict[str, Rung]) -> str:
    """Which layer adds most for certain, with those that may add as much."""
    added = {name: _added(layer, layers) for name, layer in layers.items()}
    certain = {name: more for name, (more, around) in added.items() if more and around is not None and more > around}
    where = f"{place}: " if place else ""
    if certain:
        most = layers[max(certain, key=lambda name: certain[name])]
        rivals = _rivals(most.name, added)
        return f"{where}{_adds_most(most, certain[most.name], layers[most.below], rivals)}"
    if any(more is not None for more, _ in added.values()):
        return f"{where}No layer is known to add to the one below it: measure again on a quieter machine."
    return f"{where}No two layers were measured of which one stands on the other: the last column says why."


def _rivals(most: str, added: dict[str, tuple[float | None, float | None]]) -> list[str]:
    """Layers of which it is not certain that they add less."""
    more_s, around_s = added[most]
    least_s = (more_s or 0.0) - (around_s or 0.0)
    known = [(name, *times_s) for name, times_s in added.items() if name != most]
    return [name for name, more, around in known if more is not None and (around is None or more + around >= least_s)]


def _adds_most(layer: Rung, more_s: float, below: Rung, rivals: Sequence[str]) -> str:
    unless = f", unless {' or '.join(rivals)} adds more" if rivals else ""
    first = f"; its first call takes {format_time(layer.first_s)}" if layer.first_s is not None else ""
    return (
        f"{layer.name} adds most to the layer below it{unless}: {format_time(more_s)} a call, to the "
        f"{format_time(below.call_s)} of {below.name}{first}."
    )


def _table(place: str, layers: dict[str, Rung]) -> Table:
    rows = [_row(layer, layers) for layer in layers.values()]
    formats = dict.fromkeys(HEADINGS[1:6], format_time)
    shown = [number for number, _ in enumerate(HEADINGS) if any(row[number] is not None for row in rows)]
    processes = max(layer.processes for layer in layers.values())
    return Table.of_rows(
        f"layers {place}".strip(),
        [HEADINGS[number] for number in shown],
        [[row[number] for number in shown] for row in rows],
        how=OF_ONE if processes == 1 else OF_SEVERAL.format(processes),
        formats=formats,
    )


def _row(layer: Rung, layers: dict[str, Rung]) -> list[object]:
    times = (layer.call_s, layer.around_s, layer.first_s, *_added(layer, layers))
    return [layer.name, *times, layer.below or None, layer.reason or None]
