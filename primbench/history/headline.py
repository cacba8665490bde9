"""The words of a history: one sentence to act on, and what is said of each change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.compare.shown import shown_ratio
from primbench.report.environment import shown
from primbench.report.plain import named
from primbench.results.metrics import METRICS
from primbench.units import format_percent

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from primbench.history.changes import Coincidence, SeriesHistory, TimeChange
    from primbench.history.series import TimeSeries

LONGEST = 40  # letters of a value
MOST_CAUSES = 3


def headline(histories: Sequence[SeriesHistory], since: datetime | None) -> str:
    """Of the newest slowdown that stands, else of the newest change."""
    changes = [change for each in histories for change in each.changes]
    if not changes:
        return _none(histories, since)
    led = newest(histories)
    lead = max(led, key=lambda each: abs(each.ratio - 1))
    more = f", and {len(led) - 1} more series," if len(led) > 1 else ""
    others = len(changes) - len(led)
    end = f"; {others} more change{'s' * (others > 1)}" if others else ""
    name = name_of_series(histories[lead.series].series)
    verb = "are" if len(led) > 1 else "is"
    return f"{name}{more} {verb} {how_much(lead.ratio)} since {when(lead)}{labelled(lead)}: {tied(lead)}{end}"


def newest(histories: Sequence[SeriesHistory]) -> list[TimeChange]:
    """The last changes of their series, of one moment: slower ones, where there are any."""
    last = [each.changes[-1] for each in histories if each.changes]
    among = [each for each in last if each.ratio > 1] or last
    first = max(among, key=lambda each: each.since)
    return [each for each in among if each.since == first.since]


def _none(histories: Sequence[SeriesHistory], since: datetime | None) -> str:
    points = sum(len(each.series.points) for each in histories)
    untold = sum(not each.is_told for each in histories)
    day = f" since {since:%Y-%m-%d}" if since else ""
    if untold == len(histories):
        return (
            f"nothing can be told yet of {_counted(untold, 'series')} of {_counted(points, 'point')}: all are too short"
        )
    short = f"; {untold} of them are too short to tell" if untold else ""
    return f"no change{day} in {_counted(len(histories), 'series')} of {_counted(points, 'point')}{short}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1 and what != 'series')}"


def name_of_series(series: TimeSeries) -> str:
    return f"{series.name}, {heading(series.metric)}"


def heading(metric: str) -> str:
    """Of a metric, as tables have it; another program's own word else."""
    return METRICS[metric].heading if metric in METRICS else metric.replace("_", " ")


def how_much(ratio: float) -> str:
    """A ratio of times in words."""
    if not 0.5 < ratio < 2:
        return f"{shown_ratio(max(ratio, 1 / ratio))} times as {'slow' if ratio > 1 else 'fast'}"
    return f"{format_percent(abs(ratio - 1))} {'slower' if ratio > 1 else 'faster'}"


def when(change: TimeChange) -> str:
    """The day of the first run after it, its minute where the last run before was on that day, too."""
    is_same_day = change.since.date() == change.last_before.date()
    day = f"{change.since:%Y-%m-%d %H:%M}" if is_same_day else f"{change.since:%Y-%m-%d}"
    return day if change.earliest == change.latest else f"about {day}"


def labelled(change: TimeChange) -> str:
    """The labels of the first run after it."""
    words = [f"{name} {value}" for name, value in change.labels.items()]
    return f" ({named(words)})" if words else ""


def tied(change: TimeChange) -> str:
    """What the record says of why."""
    found = change.coincidences
    clear = [each for each in found if not each.elsewhere]
    if change.tie == "nothing":
        return "nothing in the record changed with it"
    if change.tie == "alone":
        return f"{altered(found[0])} alone changed with it"
    if change.tie == "likely":
        rest = [each for each in found if each.elsewhere]
        return f"{altered(clear[0])} changed with it; so did {_acquitted(rest)}"
    if change.tie == "together":
        return f"{named([*map(altered, clear)], MOST_CAUSES)} changed together: cannot tell which"
    return f"with it changed only {_acquitted(found)}"


def _acquitted(found: Sequence[Coincidence]) -> str:
    words = [f"{label(each)}, which changed {each.elsewhere} other times without effect" for each in found]
    return named(words, MOST_CAUSES)


def altered(found: Coincidence) -> str:
    """What it is, and its two values."""
    before, after = (_cut(shown(found.fields[0], value, "none")) for value in (found.before, found.after))
    return f"{label(found)} {before} -> {after}"


def label(found: Coincidence) -> str:
    """Its cause, with its fact where that is more; what a user or another program called it by that word alone."""
    field = found.fields[0]
    if found.cause != str(field):
        return f"{found.cause} ({field.within})"
    return str(field[-1]) if len(field) == 2 else field.within


def _cut(words: str) -> str:
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 3]}..."
