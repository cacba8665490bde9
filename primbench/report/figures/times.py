"""The times of a case as bars: where the stream takes longer than the device, launches are what it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.report.document import Column, Figure, Table
from primbench.report.svg_plot import add_bar, add_words, picture, wrapped
from primbench.results.metrics import COLUMNS
from primbench.spec.naming import names_of
from primbench.units import format_percent, format_time

if TYPE_CHECKING:
    from collections.abc import Sequence
    from xml.etree.ElementTree import Element

    from primbench.results.metrics import Metric
    from primbench.results.record import Record

MOST_CASES = 16
LINE, BAR = 16, 15  # pixels down
LABEL_END, BAR_END = 17.0, 84.0  # percent of the width


def times(records: Sequence[Record]) -> Figure | None:
    """Of cases on a GPU; None where none has both a stream and a device time."""
    found = [record for record in records if _bound_by_launches(record) is not None]
    if not found:
        return None
    drawn = _thinned(sorted(found, key=lambda record: -(_bound_by_launches(record) or 0.0)))
    title = f"What a call of {records[0].case.primitive} spends its time on"
    words = (
        "Bars of a case share one scale; the GPU's own time has another colour. Where stream, the period of a "
        "loop in Python, is much longer than device, the GPU waits for launches; wall is one call and the wait for it."
    )
    if len(drawn) < len(found):
        words += f" Drawn are {len(drawn)} of {len(found)} cases, evenly from the most to the least launch-bound."
    return Figure(title, words, _picture(drawn, title, words), _numbers(drawn))


def _bound_by_launches(record: Record) -> float | None:
    return record.measurement.launch_bound_fraction if record.measurement else None


def _thinned(records: Sequence[Record]) -> Sequence[Record]:
    if len(records) <= MOST_CASES:
        return records
    return [records[round(n * (len(records) - 1) / (MOST_CASES - 1))] for n in range(MOST_CASES)]


def _times_of(record: Record) -> dict[Metric, float]:
    """Seconds of those that were taken, in the order of a table's columns."""
    return {each: found.median_s for each in COLUMNS if (found := each.samples(record.measurement))}


def _names(records: Sequence[Record]) -> list[str]:
    return names_of([record.case for record in records])


def _picture(records: Sequence[Record], title: str, words: str) -> Element:
    named = [*zip(map(wrapped, _names(records)), records, strict=True)]
    svg = picture(sum(LINE * len(name) + BAR * len(_times_of(record)) + 10 for name, record in named), title, words)
    top = 0.0
    for name, record in named:
        for number, line in enumerate(name, 1):
            add_words(svg, 0, top + number * LINE - 4, line, "strong")
        share = format_percent(_bound_by_launches(record))
        add_words(svg, 100, top + LINE - 4, f"launch-bound {share}", "quiet wide", anchor="end")
        top += LINE * len(name)
        top = _draw(svg, _times_of(record), top) + 10
    return svg


def _draw(svg: Element, found: dict[Metric, float], top: float) -> float:
    most = max(found.values())
    for number, (metric, value) in enumerate(found.items()):
        y = top + number * BAR
        end = LABEL_END + (BAR_END - LABEL_END) * value / most
        add_words(svg, LABEL_END - 1, y + 11, metric.heading, "quiet", anchor="end")
        add_bar(
            svg, (LABEL_END, end), (y + 2, y + BAR - 1), "s0" if metric.whose == "GPU" else "s1", format_time(value)
        )
        add_words(svg, end + 1, y + 11, format_time(value))
    return top + BAR * len(found)


def _numbers(records: Sequence[Record]) -> Table:
    found = list(map(_times_of, records))
    metrics = dict.fromkeys(metric for each in found for metric in each)
    return Table(
        "",
        [
            Column("case", _names(records)),
            *(Column(metric.heading, [each.get(metric) for each in found], format_time) for metric in metrics),
            Column("launch-bound", list(map(_bound_by_launches, records)), format_percent),
        ],
    )
