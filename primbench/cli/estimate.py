"""About how long a run will take: from the bounds of sampling, which hold whatever is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.cli.echo import say
from primbench.units import minutes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from primbench.results.record import Record
    from primbench.spec.case import Case

WARM_UP = 0.5  # of the longest time of sampling, before the first sample: the most that primbench.timing warms up
LONG_S = 120.0


def sampling_s(cases: Iterable[Case]) -> tuple[float, float]:
    """The least and the most that the cases are sampled, without what it takes to set them up."""
    methods = [case.method for case in cases]
    most_s = sum(each.max_time_s for each in methods)
    return sum(each.min_time_s for each in methods), most_s * (1 + WARM_UP)


def say_how_long(cases: Sequence[Case], times: int = 1) -> None:
    """On stderr before a long run. times: that each case is run."""
    least_s, most_s = sampling_s(cases) if cases and not cases[0].method.dry_run else (0.0, 0.0)
    if times * most_s > LONG_S:
        between = f"{minutes(times * least_s)} to {minutes(times * most_s)}"
        say(f"{len(cases) * times} cases: {between} of sampling, and what it takes to set them up", err=True)


def say_how_long_it_would_take(records: Sequence[Record]) -> None:
    """On stderr after --dry-run, where timing the same cases would be long."""
    ok = [record for record in records if record.status == "ok" and record.case.method.dry_run]
    least_s, most_s = sampling_s(record.case for record in ok) if ok else (0.0, 0.0)
    set_up_s = sum(record.duration_s for record in ok)
    if set_up_s + most_s > LONG_S:
        between = f"{minutes(set_up_s + least_s)} to {minutes(set_up_s + most_s)}"
        say(f"timing these {len(ok)} cases would take {between}", err=True)
