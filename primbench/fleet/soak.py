"""One case again and again for as long as asked: how its time drifts."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from primbench import stats
from primbench.compare.criteria import margins_of
from primbench.errors import FileError
from primbench.results.file import read_in_part
from primbench.results.metrics import main_of
from primbench.spec.fleet import Member
from primbench.units import format_percent, format_time

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from primbench.measurement import Measurement

FEWEST_ROUNDS = 4


class Soaked(msgspec.Struct, frozen=True, kw_only=True):
    """How a member kept its speed."""

    member: str
    rounds: int
    lasted_s: float
    """From the first round to the last."""
    median_s: float | None
    """Of the rounds; None where none was timed."""
    slope: float | None
    """How much longer it takes at the end than at the beginning, as a share, by a straight line through the logarithms
    of times; None of fewer than FEWEST_ROUNDS.
    """
    interval: tuple[float, float] | None
    """95 % interval of the slope, by Student's t: Draper and Smith, Applied Regression Analysis, 3rd ed., 1.4."""
    margin: float
    """A drift below this does not matter."""

    @property
    def wrong(self) -> list[str]:
        """What of it is."""
        if not self.rounds:
            return ["nothing of its soak was timed"]
        if self.interval is None or self.slope is None or self.interval[0] <= self.margin:
            return []
        low, high = (format_percent(each) for each in self.interval)
        lasted = format_time(self.lasted_s)
        return [f"it became slower by {format_percent(self.slope)} [{low}, {high}] in {lasted} of the same work"]


def soaked(path: Path) -> Soaked:
    """Of a file whose processes are rounds. Raises FileError."""
    results, _ = read_in_part(path)
    timed = [(each, time_s) for each in results.records if (time_s := _time_s(each.measurement)) is not None]
    try:
        rounds = [(datetime.fromisoformat(each.started_utc).timestamp(), time_s) for each, time_s in timed]
    except ValueError as error:
        raise FileError(f"{path}: {error}") from None
    margin = next(iter(margins_of(timed[0][0].case).values())) if timed else 0.0
    return drift((results.header.member or Member(node=path.stem, rank=0, of=1)).name, rounds, margin)


def _time_s(measured: Measurement | None) -> float | None:
    """By the main metric."""
    metric = main_of(measured)
    found = metric.distinct_samples(measured) if measured is not None and metric is not None else None
    return None if metric is None or found is None else metric.of([found])


def drift(member: str, rounds: Sequence[tuple[float, float]], margin: float) -> Soaked:
    """rounds: when each began, and its time, in seconds."""
    begun = [each for each, _ in rounds]
    lasted_s = max(begun) - min(begun) if begun else 0.0
    slope, interval = _line([each - begun[0] for each in begun], [math.log(time_s) for _, time_s in rounds], lasted_s)
    return Soaked(
        member=member,
        rounds=len(rounds),
        lasted_s=lasted_s,
        median_s=stats.quantile([time_s for _, time_s in rounds], 0.5) if rounds else None,
        slope=slope,
        interval=interval,
        margin=margin,
    )


def _line(
    at_s: Sequence[float], logs: Sequence[float], lasted_s: float
) -> tuple[float | None, tuple[float, float] | None]:
    """By how much the line rises in that time, as a share, and its interval."""
    count = len(logs)
    if count < FEWEST_ROUNDS or not lasted_s:
        return None, None
    from scipy.stats import linregress

    found = linregress(at_s, logs)
    line = stats.LogRatio(float(found.slope) * lasted_s, float(found.stderr) * lasted_s, count - 2)
    interval = line.interval()
    return line.ratio - 1, None if interval is None else (interval[0] - 1, interval[1] - 1)
