"""What spans of time cover together, beside counting moments one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from primbench.measurement.spans import around, by_thread, holds, length, threads_inside, union, within

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
def test_what_is_left_of_a_span_is_outside_the_holes_in_it(holes: list[tuple[int, int]], span: tuple[int, int]) -> None:
    own = [hole for hole in union(holes) if span[0] <= hole[0] and hole[1] <= span[1]]
    left = [*around(union(holes), *span)]
    assert moments(left) == moments([span]) - moments(own)
    assert all(begin < end for begin, end in left)


@given(spans=SPANS, moment=MOMENTS)
def test_a_span_holds_each_of_its_moments(spans: list[tuple[int, int]], moment: int) -> None:
    assert (moment in moments(spans)) == holds(union(spans), moment)


def test_threads_have_spans_of_their_own() -> None:
    assert {1: [(0, 3)], 2: [(1, 2)]} == by_thread([(1, 0, 2), (2, 1, 2), (1, 1, 3)])


def test_a_thread_with_a_moment_outside_its_spans_is_told_from_others() -> None:
    spans = by_thread((thread, 0, 3) for thread in (1, 2, 3))
    assert {1, 3} == threads_inside(spans, [(1, 0), (2, 3), (2, 1), (4, 1)])
