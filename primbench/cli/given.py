"""What requests say together, as a method and a placement."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from primbench.errors import InvalidRequest
from primbench.spec.defaults import DEFAULT_MAX_NOISE, DEFAULT_MAX_TIME_S, DEFAULT_MIN_TIME_S

if TYPE_CHECKING:
    from primbench.cli.options import How, HowHere, Where
    from primbench.spec.method import Method
    from primbench.spec.placement import Placement

USUAL_S = (DEFAULT_MIN_TIME_S, DEFAULT_MAX_TIME_S)
"""Least and most that the main metric is sampled."""


def method_of(how: How, lasting_s: tuple[float, float] = USUAL_S) -> Method:
    """lasting_s: as USUAL_S, where nothing else is asked for; one that is asked for takes the other one with it.

    Raises InvalidRequest where the options contradict.
    """
    from primbench.spec.method import Method  # which takes longer to import than --help has

    least_s, most_s = lasting_s
    if how.max_time_s == 0:
        raise InvalidRequest("--max-time 0s: more than 0")
    max_time_s = max(most_s, how.min_time_s or 0) if how.max_time_s is None else how.max_time_s
    min_time_s = min(least_s, max_time_s) if how.min_time_s is None else how.min_time_s
    if min_time_s > max_time_s:
        raise InvalidRequest(f"--min-time {min_time_s:g}s, --max-time {max_time_s:g}s: the least is above the most")
    return Method(
        cache=how.cache or "hot",
        max_noise=DEFAULT_MAX_NOISE if how.max_noise is None else how.max_noise,
        min_time_s=min_time_s,
        max_time_s=max_time_s,
        seed=how.seed or 0,
        check=how.check,
    )


def method_here(how: HowHere) -> Method:
    """The same of measuring in one place."""
    from msgspec.structs import replace

    return replace(method_of(how), dry_run=how.dry_run, over_time=how.over_time)


def placement_of(where: Where) -> Placement:
    """Raises PlacementError where the options contradict each other."""
    from primbench.spec.placement import Placement

    return Placement(**{name: value for name, value in asdict(where).items() if name != "device"})
