"""Spans of time, each a begin and an end in seconds or nanoseconds: what they cover together, and what holes leave."""

from __future__ import annotations

import bisect
import math
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_Time = TypeVar("_Time", int, float)


def union(spans: Iterable[tuple[_Time, _Time]]) -> list[tuple[_Time, _Time]]:
    """What they cover, as spans that are apart, in order."""
    found: list[tuple[_Time, _Time]] = []
    for begin, end in sorted(span for span in spans if span[0] < span[1]):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def by_thread(spans: Iterable[tuple[object, _Time, _Time]]) -> Mapping[object, list[tuple[_Time, _Time]]]:
    """What those of each thread cover. spans: each after its thread."""
    found: dict[object, list[tuple[_Time, _Time]]] = {}
    for thread, begin, end in spans:
        found.setdefault(thread, []).append((begin, end))
    return {thread: union(own) for thread, own in found.items()}


def length(spans: Iterable[tuple[float, float]]) -> float:
    """Of all of them together. spans: apart."""
    return math.fsum(end - begin for begin, end in spans)


def within(spans: Sequence[tuple[_Time, _Time]], begin: _Time, end: _Time) -> _Time:
    """How long of a time some span covers. spans: apart, in order."""
    first = max(0, bisect.bisect_right(spans, begin, key=lambda span: span[0]) - 1)
    total: _Time = begin - begin
    for span_begin, span_end in spans[first:]:
        if span_begin >= end:
            break
        total += max(begin - begin, min(span_end, end) - max(span_begin, begin))
    return total


def around(holes: Sequence[tuple[_Time, _Time]], begin: _Time, end: _Time) -> Iterator[tuple[_Time, _Time]]:
    """A span without the holes in it, in pieces. holes: apart, in order."""
    for hole_begin, hole_end in holes[bisect.bisect_left(holes, begin, key=lambda hole: hole[0]) :]:
        if hole_begin >= end:
            break
        yield begin, hole_begin
        begin = min(hole_end, end)
    yield begin, end
