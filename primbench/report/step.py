"""The words of a step in two places: by how much it is longer, and what of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.units import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.compare.step import PartChange, StepComparison

LEAST_SHARE = 0.02  # of the difference, below which changes are told together


def step(found: StepComparison, baseline: str, other: str, *, is_proven: bool = False) -> Iterator[str]:
    """Two or three lines. baseline, other: the places in which it was taken apart. is_proven: whether these differ."""
    pairs = f"{found.pairs} pair{'s' * (found.pairs != 1)}"
    times = f"{format_time(found.baseline_s)} in {baseline}, {format_time(found.arm_s)} in {other}"
    what = "the step as a whole" if found.is_whole else "the step's parts together, as the whole is no case of both"
    yield f"{what}: {times}, {_signed(found.whole)}, by {pairs}"
    if not (found.differs or is_proven):
        yield f"no difference of the step is certain; {_certain(found) or 'its parts are above'}"
        return
    yield f"of {format_time(found.whole.seconds)}: {', '.join([*_of_parts(found), *_rest(found)])}"
    if found.is_whole:
        fits = "within" if found.is_explained else "outside"
        yield f"the parts explain {format_time(found.explained_s)}, which is {fits} the interval of the whole"


def _certain(found: StepComparison) -> str:
    """Of the parts, which are better known than the step; intervals are of each by itself."""
    least_s = LEAST_SHARE * max(abs(each.seconds) for each in found.changes)
    parts = [each for each in found.changes if each.differs and abs(each.seconds) >= least_s]
    return f"of its parts: {', '.join(f'{each.name} {_signed(each)}{_each(each)}' for each in parts)}" if parts else ""


def _of_parts(found: StepComparison) -> Iterator[str]:
    limit_s = LEAST_SHARE * abs(found.whole.seconds)
    parts = found.changes[:-1] if found.is_whole else found.changes
    large = [each for each in parts if abs(each.seconds) >= limit_s]
    for each in large:
        yield f"{each.name} {_signed(each)}{_each(each)}"
    if rest_s := sum(each.seconds for each in parts if each not in large):
        yield f"all others {format_time(rest_s)}"


def _rest(found: StepComparison) -> Iterator[str]:
    calls = f"{found.unmeasured} call{'s' * (found.unmeasured != 1)}"
    if found.is_whole:
        among = f" (with {calls} not measured in both)" if found.unmeasured else ""
        yield f"{found.changes[-1].name} {_signed(found.changes[-1])}{among}"
    elif found.unmeasured:
        yield f"without {calls} not measured in both"


def _each(change: PartChange) -> str:
    return f" ({change.calls} calls x {format_time(change.each_s)})" if change.calls > 1 and change.each_s else ""


def _signed(change: PartChange) -> str:
    interval = f" [{', '.join(map(format_time, change.interval))}]" if change.interval else ""
    return f"{format_time(change.seconds)}{interval}"
