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
    for number in range(first, len(spans)):  # a slice would copy all that are left, of hundreds of thousands
        span_begin, span_end = spans[number]
        if span_begin >= end:
            break
        total += max(begin - begin, min(span_end, end) - max(span_begin, begin))
    return total


def holds(spans: Sequence[tuple[_Time, _Time]], moment: _Time) -> bool:
    """Whether one of them lasts at a moment. spans: apart, in order."""
    number = bisect.bisect_right(spans, moment, key=lambda span: span[0]) - 1
    return number >= 0 and moment < spans[number][1]


def around(holes: Sequence[tuple[_Time, _Time]], begin: _Time, end: _Time) -> Iterator[tuple[_Time, _Time]]:
    """A span without the holes that lie in it, in pieces. holes: apart, in order."""
    for number in range(bisect.bisect_left(holes, begin, key=lambda hole: hole[0]), len(holes)):
        hole_begin, hole_end = holes[number]
        if hole_end > end:
            break
        if begin < hole_begin:
            yield begin, hole_begin
        begin = hole_end
    if begin < end:
        yield begin, end


def threads_inside(
    spans: Mapping[object, Sequence[tuple[_Time, _Time]]], moments: Iterable[tuple[object, _Time]]
) -> set[object]:
    """Threads that have spans, and no moment outside them. spans: apart, in order. moments: each after its thread."""
    return spans.keys() - {thread for thread, moment in moments if not holds(spans.get(thread, []), moment)}
