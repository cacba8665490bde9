"""A step explained: three numbers of its parts beside the whole, and where its time goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import asdict

from primbench.decompose.sums import LAUNCHES, totals
from primbench.report import table
from primbench.report.columns import UNKNOWN
from primbench.report.document import Document
from primbench.report.table import Table
from primbench.units import format_percent, format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from primbench.decompose.sums import Explained
    from primbench.report.document import Page
    from primbench.results.record import Record

WHAT = {
    "device": "kernels: counts x device times, beside the step's",
    "host": "launches: counts x enqueue times, beside the host's time for the step",
    "step": "the larger of the two sums, beside the step as a loop makes it",
}
ON_CPU = "counts x times of a call, beside the step's time"
BAR = 40
MOST_OTHERS = 6


def text(steps: Sequence[tuple[str, Explained]]) -> str:
    """steps: each with its title."""
    return "\n".join(table.text(part) for part in _parts(steps))


def document(steps: Sequence[tuple[str, Explained]], page: Callable[[], Page] | None = None) -> Document:
    """A row for each part of the time of each step, in seconds."""
    return Document(
        rows=lambda: [{"step": title} | asdict(row) for title, each in steps for row in each.rows],
        parts=lambda: _parts(steps),
        checks=list,
        value=[{"step": title} | asdict(each) for title, each in steps],
        page=page,
    )


def _parts(steps: Sequence[tuple[str, Explained]]) -> list[Table]:
    return [part for title, each in steps for part in (numbers(title, each), _waterfall(each))]


def answer(steps: Sequence[tuple[str, Explained]]) -> str:
    """Of each step what takes most of it, and how much is left unexplained."""
    return "; ".join(f"{title}: {_most(each)}" for title, each in steps) + "."


def _most(explained: Explained) -> str:
    if not explained.rows or not explained.step_s:
        return "its time is not known"
    largest = max(explained.rows, key=lambda row: row.seconds)
    share, rest = largest.seconds / explained.step_s, explained.unexplained_fraction
    whole = format_time(explained.step_s)
    return f"{largest.name} takes {format_percent(share)} of {whole}, {format_percent(rest)} is unexplained"


def numbers(title: str, explained: Explained) -> Table:
    rows = [
        [
            each.name,
            signed_time(each.parts_s),
            signed_time(each.step_s),
            UNKNOWN if each.ratio is None else f"{each.ratio:.3f}",
            ON_CPU if explained.device == "cpu" else WHAT[each.name],
        ]
        for each in explained.numbers
    ]
    notes = [f"the step's {each.name} is not known: {each.missing}" for each in explained.numbers if each.missing]
    notes += [f"{count} calls not measured: {reason}" for reason, count in explained.unmeasured.items()]
    return Table(f"{title}  {explained.device}", ["", "parts", "step", "ratio", "what is added up"], rows, notes)


def _waterfall(explained: Explained) -> Table:
    """Each row's bar begins where the one before it ends."""
    whole_s = explained.step_s or sum(row.seconds for row in explained.rows) or 1.0
    rows, begun = [], 0.0
    for row in explained.rows:
        share = row.seconds / whole_s
        bar = _bar(begun, share)
        begun += share
        rows.append([row.name, str(row.calls or ""), signed_time(row.seconds), format_percent(share), bar])
    largest = [
        f"{name} {signed_time(seconds)}" for name, seconds in list(explained.others.items())[:MOST_OTHERS] if seconds
    ]
    notes = [f"other operators: {', '.join(largest)}"] if largest else []
    return Table("where its time goes", ["", "calls", "time", "share", f"{'':<{BAR}}"], rows, notes)


def _bar(begun: float, share: float) -> str:
    first, last = (round(BAR * min(max(each, 0.0), 1.0)) for each in sorted((begun, begun + share)))
    return "." * first + "#" * max(last - first, 1 if share > 0 else 0) + "." * (BAR - max(last, first + 1))


def signed_time(seconds: float | None) -> str:
    """A time that may be below 0, as what is unexplained."""
    if seconds is None:
        return UNKNOWN
    return format_time(seconds) if seconds >= 0 else f"-{format_time(-seconds)}"


def step_totals(records: Sequence[Record]) -> list[Table]:
    """What a step takes, by its set, where cases say how often it makes their calls; none where they do not."""
    rows, notes = [], list[str]()
    for place, several in _places(records).items():
        for name, found in totals(several).items():
            where = " ".join(filter(None, [name, place]))
            rows.append([where, str(found.calls), *_sums(found), _shares(found)])
            notes += [f"{where}: {count} calls not measured: {reason}" for reason, count in found.unmeasured.items()]
    columns = ["set", "calls", "time", "enqueue", "by primitive"]
    return [Table("a step  (counts x times of a call)", columns, rows, notes)] if rows else []


def _places(records: Sequence[Record]) -> dict[str, list[Record]]:
    """By what tells records of one case apart: arm, device, and the backend where a case ran on several."""
    cases = [record.case for record in records]
    on = {(case.primitive, str((case.parameters, case.labels)), case.arm, case.device, case.backend) for case in cases}
    has_several = len({each[:-1] for each in on}) < len(on)
    several = len({(case.arm, case.device) for case in cases}) > 1
    found: dict[str, list[Record]] = {}
    for record in records:
        case = record.case
        words = [*([case.arm, case.device] if several else []), *([case.backend] if has_several else [])]
        found.setdefault(" ".join(filter(None, words)), []).append(record)
    return found


def _sums(found: Explained) -> list[str]:
    """Of what computes, and of launches, of which a CPU has none of its own."""
    computing, *launches = [signed_time(each.parts_s) for each in found.numbers]
    return [computing, launches[0] if launches else UNKNOWN]


def _shares(found: Explained) -> str:
    computing = [row for row in found.rows if row.calls and row.name != LAUNCHES]
    whole_s = sum(row.seconds for row in computing) or 1.0
    return ", ".join(f"{row.name} {format_percent(row.seconds / whole_s)}" for row in computing)
