"""Series: the time of one case by one metric on one kind of machine, a point a run, in the order of time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from primbench.environment.difference import Change, difference, is_of_start
from primbench.errors import PrimbenchError
from primbench.history.changepoints import units_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
    from datetime import datetime

    from primbench.environment.fingerprint import Environment
    from primbench.history.changepoints import Unit
    from primbench.system.meaning import FactId


DISTURBANCES = "disturbances"
"""The group of readings that say what disturbed a case."""


@dataclass(frozen=True)
class RunSurroundings:
    """What a file records of what was around a time."""

    environment: Environment | None = None
    """Of the worker; None in files of other programs."""
    facts: Mapping[FactId, Any] = field(default_factory=dict)
    """All else that may explain a change: labels, files of kernels, what another program wrote."""


@dataclass(frozen=True, kw_only=True)
class RunValue:
    """What one run says of one series."""

    key: Hashable
    """Equal for what is the same series."""
    name: str
    """What was timed, in words."""
    metric: str
    """Its id, as ``results.metrics`` or the other program has it."""
    machine: str
    """The kind of machine: models of what computes."""
    estimate_s: float
    """The median; of several processes the median of these."""
    surroundings: RunSurroundings
    readings: Mapping[FactId, float] = field(default_factory=dict)
    """Clocks and the like, which are measured anew each time; of DISTURBANCES 1 for each kind that there was."""


@dataclass(frozen=True, kw_only=True)
class Observed:
    """One run in one file, whose observations are read when they are asked for."""

    file: str
    time: datetime
    """When it began; of a commit that was timed later the commit's, in which order the points stand."""
    boot: str | None
    """What is another one after each start of a machine; None where the file does not say."""
    started: datetime
    """When it was measured, by which runs are one session."""
    labels: Mapping[str, str]
    """What the user gave it by --label, or the commit that another program names."""
    read: Callable[[], Sequence[RunValue]]


@dataclass(frozen=True, kw_only=True)
class RunPoint:
    """One estimate of a series."""

    time: datetime
    file: str
    session: int
    labels: Mapping[str, str]
    estimate_s: float
    changed: Sequence[Change]
    """What is otherwise in the record than at the point before."""
    readings: Mapping[FactId, float]


@dataclass
class TimeSeries:
    """A case by a metric on a kind of machine. points: in the order of time."""

    name: str
    metric: str
    machine: str
    points: list[RunPoint] = field(default_factory=list)

    def units(self) -> list[Unit]:
        points = self.points
        return units_of(
            [each.estimate_s for each in points],
            [each.session for each in points],
            [tuple(sorted(each.labels.items())) for each in points],
        )


def series_of(runs: Sequence[tuple[Observed, int]], told: Callable[[str, Exception], None]) -> list[TimeSeries]:
    """runs: in the order of time, each with the number of its session. told: of a file that cannot be read after all.

    Of the records no more is kept than the points, and of surroundings the last ones of each series.
    """
    found: dict[Hashable, TimeSeries] = {}
    last: dict[Hashable, RunSurroundings] = {}
    for run, session in runs:
        seen: dict[tuple[int, int], Sequence[Change]] = {}
        for each in _readable(run, told):
            series = found.setdefault(each.key, TimeSeries(each.name, each.metric, each.machine))
            changed = _changed(last.get(each.key), each.surroundings, seen)
            last[each.key] = each.surroundings
            series.points.append(
                RunPoint(
                    time=run.time, file=run.file, session=session, labels=run.labels, estimate_s=each.estimate_s,
                    changed=changed, readings=each.readings,
                )
            )  # fmt: skip
    return list(found.values())


def _readable(run: Observed, told: Callable[[str, Exception], None]) -> Sequence[RunValue]:
    try:
        return run.read()
    except PrimbenchError as error:
        told(run.file, error)
        return ()


def _changed(
    before: RunSurroundings | None, now: RunSurroundings, seen: dict[tuple[int, int], Sequence[Change]]
) -> Sequence[Change]:
    """seen: of pairs of surroundings of one run, which most series of it share."""
    if before is None:
        return ()
    key = id(before), id(now)
    if key not in seen:
        seen[key] = [*_in_environment(before.environment, now.environment), *_in_facts(before.facts, now.facts)]
    return seen[key]


def _in_environment(before: Environment | None, now: Environment | None) -> Iterator[Change]:
    if before is None or now is None:
        return
    found = difference(before, now)
    for layer in (found.stack, found.limits, found.confinement, found.machine):
        yield from (each for each in layer.changes if each.kind == "differs" and not is_of_start(each))


def _in_facts(before: Mapping[FactId, Any], now: Mapping[FactId, Any]) -> Iterator[Change]:
    for name in sorted({*before, *now}, key=str):
        if before.get(name) != now.get(name):
            yield Change(field=name, kind="differs", a=before.get(name), b=now.get(name))
