"""What spans of time cover together, beside counting moments one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from primbench.measurement.spans import around, by_thread, length, union, within

MOMENTS = st.integers(0, 40)
SPANS = st.lists(st.tuples(MOMENTS, MOMENTS).map(lambda ends: (min(ends), max(ends))), max_size=8)


def moments(spans: list[tuple[int, int]]) -> set[int]:
    return {each for begin, end in spans for each in range(begin, end)}


def test_spans_that_nest_or_lie_beside_each_other_count_once() -> None:
    spans = union([(-10, 5), (10, 30), (15, 20), (25, 40), (60, 90), (110, 120)])
    assert 5 + 30 + 20 == within(spans, 0, 80)


@given(spans=SPANS, begin=MOMENTS, end=MOMENTS)
def test_what_is_covered_is_each_moment_once(spans: list[tuple[int, int]], begin: int, end: int) -> None:
    apart = union(spans)
    assert moments(apart) == moments(spans)
    assert len(moments(spans)) == length(apart)
    assert len(moments(spans) & {*range(begin, end)}) == within(apart, begin, end)


@given(holes=SPANS, span=SPANS.filter(bool).map(lambda several: several[0]))
def test_what_is_left_of_a_span_is_outside_the_holes_that_begin_in_it(
    holes: list[tuple[int, int]], span: tuple[int, int]
) -> None:
    own = [hole for hole in union(holes) if hole[0] >= span[0]]
    assert moments([*around(union(holes), *span)]) == moments([span]) - moments(own)


def test_threads_have_spans_of_their_own() -> None:
    assert {1: [(0, 3)], 2: [(1, 2)]} == by_thread([(1, 0, 2), (2, 1, 2), (1, 1, 3)])
