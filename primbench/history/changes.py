"""At each change of a series: what else changed in the record there, and whether that changed elsewhere without one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from primbench.environment.comparable import meaning_of
from primbench.history.changepoints import FEWEST_POINTS, ChangePoint, can_be_told, changepoints, stand_apart
from primbench.history.series import DISTURBANCES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from primbench.environment.difference import Change
    from primbench.history.series import RunPoint, TimeSeries
    from primbench.system.meaning import FactId

Tie = Literal["alone", "likely", "together", "doubtful", "nothing"]
"""What the record says of a change: one thing alone changed there; one, and others that changed elsewhere without
effect; several, of which it cannot tell; only such as changed elsewhere without effect; or nothing.
"""
SAME_READING = 0.02
"""Two readings of a clock that differ by less are alike."""
_OF_DRIVER = re.compile(r"libcuda|libnvidia-.+|libnvcuvid")
_OWN_GROUPS = frozenset(("machine", "limits", "confinement", "software", "devices", "nodes", "primbench_version"))


@dataclass(frozen=True, kw_only=True)
class Coincidence:
    """Something in the record that changed where a series did."""

    cause: str
    """Id of what it is: the rule of its facts, or the fact itself."""
    fields: list[FactId]
    """The facts that changed."""
    before: Any
    """Of the first of these; None is absent, no limit, or not known."""
    after: Any
    """The same after it."""
    elsewhere: int
    """How often it changed in this series where the times did not."""

    @property
    def is_code(self) -> bool:
        """Whether it is another code each time, so that one without effect says nothing of the next."""
        return self.fields[0][0] in ("labels", "kernels") or self.fields[0] == ("asv", "benchmark_version")


@dataclass(frozen=True, kw_only=True)
class TimeChange:
    """A series is faster or slower from a point on."""

    series: int
    """Number of the series."""
    at: ChangePoint
    since: datetime
    """When the first run after it began."""
    last_before: datetime
    """When the last run before it began."""
    earliest: datetime
    """The first run that could be the first one after it."""
    latest: datetime
    """The last run that could be."""
    file: str
    """Of the first run after it."""
    labels: dict[str, str]
    """Of that run."""
    tie: Tie
    coincidences: list[Coincidence]
    """Those that changed elsewhere without effect stand last."""

    @property
    def ratio(self) -> float:
        return self.at.ratio


@dataclass(frozen=True, kw_only=True)
class SeriesHistory:
    """A series and where it changed. is_told: whether it has enough points, of enough sessions, to tell of a change."""

    series: TimeSeries
    changes: list[TimeChange]
    is_told: bool


def histories(series: Sequence[TimeSeries], since: datetime | None = None) -> list[SeriesHistory]:
    """since: of changes from then on; earlier points are what those after them are set beside."""
    return [_history(number, each, since) for number, each in enumerate(series)]


def _history(number: int, series: TimeSeries, since: datetime | None) -> SeriesHistory:
    units = series.units()
    places = changepoints(units)
    there = {at for place in places for at in range(place.earliest, place.latest + 1)}
    quiet = _counts(series, there)
    found = [_change(number, series, place, quiet) for place in places]
    kept = [each for each in found if since is None or each.since >= since]
    return SeriesHistory(series=series, changes=kept, is_told=can_be_told(units))


def _counts(series: TimeSeries, there: set[int]) -> dict[str, int]:
    """Cause -> how often it changed at points that are in no change, and not at an end, where none could be told."""
    found: dict[str, int] = {}
    for number in range(FEWEST_POINTS, len(series.points) - FEWEST_POINTS + 1):
        if number not in there:
            for cause in {cause_of(each) for each in series.points[number].changed}:
                found[cause] = found.get(cause, 0) + 1
    return found


def _change(number: int, series: TimeSeries, place: ChangePoint, quiet: dict[str, int]) -> TimeChange:
    points = series.points
    first = points[place.first]
    coincidences = sorted(_coincidences(points, place, quiet), key=lambda each: (each.elsewhere, each.cause))
    return TimeChange(
        series=number, at=place, since=first.time, last_before=points[place.first - 1].time,
        earliest=points[place.earliest].time, latest=points[place.latest].time, file=first.file,
        labels=dict(first.labels), tie=_tie(coincidences), coincidences=coincidences,
    )  # fmt: skip


def _tie(found: Sequence[Coincidence]) -> Tie:
    clear = [each for each in found if not each.elsewhere]
    if not found:
        return "nothing"
    if len(found) == 1 and (clear or found[0].is_code):
        return "alone"
    if len(clear) == 1:
        return "likely"
    return "together" if clear else "doubtful"


def _coincidences(points: Sequence[RunPoint], place: ChangePoint, quiet: dict[str, int]) -> Iterator[Coincidence]:
    by_cause: dict[str, list[Change]] = {}
    for point in points[place.earliest : place.latest + 1]:
        for each in point.changed:
            by_cause.setdefault(cause_of(each), []).append(each)
    for cause, changes in by_cause.items():
        fields = [*dict.fromkeys(each.field for each in changes)]
        of_first = [each for each in changes if each.field == fields[0]]
        if of_first[0].a != of_first[-1].b:
            yield Coincidence(cause=cause, fields=fields, before=of_first[0].a, after=of_first[-1].b,
                              elsewhere=quiet.get(cause, 0))  # fmt: skip
    yield from _measured(points, place)


def cause_of(change: Change) -> str:
    """What a difference in a fact is known as: a package and a variable by itself, all of a driver as one."""
    field = change.field
    if field[0] not in _OWN_GROUPS:
        return str(field)
    if field[:2] == ("software", "libraries") and _OF_DRIVER.fullmatch(str(field[2])):
        return "driver"
    fact = meaning_of(field)
    return str(field) if fact.by_itself or fact.rule is None else fact.rule


def _measured(points: Sequence[RunPoint], place: ChangePoint) -> Iterator[Coincidence]:
    """Clocks and disturbances: what most points before it have otherwise than most after it."""
    sides = [points[first : last + 1] for first, last in (place.before, place.after)]
    for name in sorted({name for side in sides for each in side for name in each.readings}, key=str):
        before, after = (_values(side, name) for side in sides)
        yield from _apart(name, before, after) if before and after else ()


def _values(points: Sequence[RunPoint], name: FactId) -> list[float]:
    """A disturbance of which a point says nothing was not there; a clock was not read."""
    if name[0] == DISTURBANCES:
        return [each.readings.get(name, 0.0) for each in points]
    return [each.readings[name] for each in points if name in each.readings]


def _apart(name: FactId, before: Sequence[float], after: Sequence[float]) -> Iterator[Coincidence]:
    one, other = median(before), median(after)
    if abs(other - one) > SAME_READING * one and stand_apart(before, after, (one + other) / 2):
        yield Coincidence(cause=str(name), fields=[name], before=one, after=other, elsewhere=0)
