"""A history as a document: the sentence, a row a change, notes; and a page with trends."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from primbench.compare.shown import shown_interval, shown_ratio
from primbench.history.headline import heading, headline, how_much, labelled, name_of_series, tied, when
from primbench.history.trend import small, trend
from primbench.report.document import Check, Document, Note, Section, Table
from primbench.report.plain import named
from primbench.report.verdicts import signed
from primbench.units import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.history.changes import Coincidence, SeriesHistory, TimeChange
    from primbench.history.files import FilesRead
    from primbench.report.document import State, Tone, VerdictCell

MOST_ROWS = 20
MOST_TRENDS = 30


def document(histories: Sequence[SeriesHistory], read: FilesRead, since: datetime | None = None) -> Document:
    """A row a point in CSV, times in seconds. A check a series, open where it is too short."""
    answer = Note(headline(histories, since), tone=_tone(histories))
    title = f"{len(histories)} series of {read.files} runs"

    def sections() -> list[Section]:
        return [Section("", [*_tables(histories)]), Section("", [*_notes(histories, read)])]

    def page() -> Document:
        parts = [*sections(), *_trends(histories)]
        return Document(title, answer, lambda: parts)

    return Document(
        title=title,
        answer=answer,
        sections=sections,
        rows=lambda: [row for each in histories for row in _rows(each)],
        checks=lambda: [_check(each) for each in histories],
        value={"headline": answer.words, "series": [_value(each) for each in histories], "unreadable": read.unreadable},
        page=page,
    )


def _tone(histories: Sequence[SeriesHistory]) -> Tone:
    if any(change.ratio > 1 for each in histories for change in each.changes):
        return "worse"
    return "fine" if any(each.is_told for each in histories) else "open"


def _tables(histories: Sequence[SeriesHistory]) -> Iterator[Table]:
    found = sorted(
        ((each, change) for each in histories for change in each.changes),
        key=lambda each: (each[1].since, abs(each[1].ratio - 1)), reverse=True,
    )  # fmt: skip
    if not found:
        return
    with_machine = len({each.series.machine for each in histories}) > 1
    more = [Note(f"and {len(found) - MOST_ROWS} earlier changes: --json has all")] if len(found) > MOST_ROWS else []
    headings = [
        "series",
        *(["machine"] if with_machine else []),
        "before",
        "after",
        "ratio",
        "since",
        "changed with it",
    ]
    yield Table.of_rows(
        "Changes",
        headings,
        [[*_cells(each, change, with_machine=with_machine)] for each, change in found[:MOST_ROWS]],
        more,
        how="newest first; ratio of times with its 95 % interval",
        formats={"before": format_time, "after": format_time},
    )


def _cells(found: SeriesHistory, change: TimeChange, *, with_machine: bool) -> Iterator[object]:
    after_s = _median_s(found, change.at.after)
    yield name_of_series(found.series)
    if with_machine:
        yield found.series.machine
    yield from (after_s / change.ratio, after_s)
    yield _verdict(change)
    yield f"{when(change)}{labelled(change)}"
    yield tied(change)


def _median_s(found: SeriesHistory, ends: tuple[int, int]) -> float:
    from statistics import median

    return median(each.estimate_s for each in found.series.points[ends[0] : ends[1] + 1])


def _verdict(change: TimeChange) -> VerdictCell:
    words = f"{shown_ratio(change.ratio)} {shown_interval(change.at.interval)}"
    return signed("slower" if change.ratio > 1 else "faster", words)


def _notes(histories: Sequence[SeriesHistory], read: FilesRead) -> Iterator[Note]:
    yield from (Note(f"{file}: {reason}", "marked") for file, reason in read.unreadable.items())
    untold = [name_of_series(each.series) for each in histories if not each.is_told]
    if untold:
        yield Note(
            f"{len(untold)} series are too short: it takes four points and two sessions or commits on each side of a "
            f"change, and eight in all for their scatter: {named(untold, 2)}"
        )
    yield from map(Note, _comings(histories))
    yield Note("a series is one case, metric and kind of machine; slow drift and single outliers are no change")


def _comings(histories: Sequence[SeriesHistory]) -> Iterator[str]:
    """Series that end before the last run of their machine, or begin after its first one: a case may be renamed."""
    first, last = dict[str, datetime](), dict[str, datetime]()
    for each in histories:
        points, machine = each.series.points, each.series.machine
        first[machine] = min(first.get(machine, points[0].time), points[0].time)
        last[machine] = max(last.get(machine, points[-1].time), points[-1].time)
    ended = sum(each.series.points[-1].time < last[each.series.machine] for each in histories)
    begun = sum(each.series.points[0].time > first[each.series.machine] for each in histories)
    if ended:
        yield f"{ended} series have no point in the last run of their machine: a renamed case is another series"
    if begun:
        yield f"{begun} series begin after the first run of their machine"


def _trends(histories: Sequence[SeriesHistory]) -> Iterator[Section]:
    changed = [each for each in histories if each.changes]
    newest = sorted(changed, key=lambda each: each.changes[-1].since, reverse=True)
    if newest:
        left = [Note(f"and {len(newest) - MOST_TRENDS} more, which are small below")] * (len(newest) > MOST_TRENDS)
        yield Section("What changed", [*map(trend, newest[:MOST_TRENDS]), *left])
    yield Section("All series", [small(histories)])


def _check(found: SeriesHistory) -> Check:
    words = "; ".join(f"{how_much(each.ratio)} since {when(each)}: {tied(each)}" for each in found.changes)
    state: State = "failed" if found.changes else "passed" if found.is_told else "open"
    return Check(found.series.machine or "history", name_of_series(found.series), state, words or _no_change(found))


def _no_change(found: SeriesHistory) -> str:
    return "no change" if found.is_told else "too short to tell"


def _rows(found: SeriesHistory) -> Iterator[dict[str, object]]:
    series = found.series
    ratios = {change.at.first: change.ratio for change in found.changes}
    for number, each in enumerate(series.points):
        yield {
            "series": series.name, "metric": series.metric, "machine": series.machine,
            "time": each.time.isoformat(), "session": each.session, "estimate_s": each.estimate_s,
            "change_ratio": ratios.get(number), "file": each.file,
        } | {f"label_{name}": value for name, value in each.labels.items()}  # fmt: skip


def _value(found: SeriesHistory) -> dict[str, Any]:
    series = found.series
    points = [
        {
            "time": each.time, "session": each.session, "estimate_s": each.estimate_s, "file": each.file,
            "labels": dict(each.labels), "changed": [asdict(change) for change in each.changed],
            "readings": {str(name): value for name, value in each.readings.items()},
        }
        for each in series.points
    ]  # fmt: skip
    return {
        "name": series.name, "metric": series.metric, "heading": heading(series.metric), "machine": series.machine,
        "is_told": found.is_told, "changes": [_change(each) for each in found.changes], "points": points,
    }  # fmt: skip


def _change(change: TimeChange) -> dict[str, Any]:
    at = change.at
    return {
        "since": change.since, "last_before": change.last_before, "earliest": change.earliest, "latest": change.latest,
        "point": at.first, "ratio": at.ratio, "interval": at.interval, "file": change.file, "labels": change.labels,
        "tie": change.tie, "coincidences": [_coincidence(each) for each in change.coincidences],
    }  # fmt: skip


def _coincidence(found: Coincidence) -> dict[str, Any]:
    return {
        "cause": found.cause, "fields": found.fields, "before": found.before, "after": found.after,
        "elsewhere": found.elsewhere,
    }  # fmt: skip
