"""Processes that sample in turn, as one of them sees it, on a clock that only moves when told."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Collection
from dataclasses import replace

import pytest

from primbench.devices import CPU, Device
from primbench.measurement import Samples
from primbench.timing import cpu_probe, queued
from primbench.timing.calls import CallLoop
from primbench.timing.sampling import FEW_TURNS, MIN_SAMPLES, MIN_TURNS, StoppingRule, collect, warm_up
from primbench.timing.turns import LONG_NS, TURN_NS, UNCOUNTED_NS, InTurn

OTHERS_NS = 7_000_000  # what a turn of the others takes


class Others:
    """A clock, and processes that take their turns on it. done_after: calls of theirs to be through with a metric."""

    def __init__(self, done_after: int = 0) -> None:
        self.now_ns = 1_000
        self.said: list[bool] = []
        self.began: list[int] = []
        self.done_after = done_after
        self._left = done_after

    def clock(self) -> int:
        return self.now_ns

    def give_away(self, done: bool) -> bool:
        self.said.append(done)
        self.now_ns += OTHERS_NS
        self.began.append(self.now_ns)
        self._left -= 1
        all_done = done and self._left < 0
        if all_done:
            self._left = self.done_after
        return all_done


def taker(others: Others, call_ns: int, taken: list[float]) -> Callable[[], list[float]]:
    def take() -> list[float]:
        others.now_ns += call_ns
        taken.append(call_ns / 1e9)
        return [call_ns / 1e9]

    return take


def sampled(others: Others, call_ns: int, rule: StoppingRule, uncounted_ns: int = 100_000) -> tuple[Samples, InTurn]:
    pace = InTurn(others.give_away, 3, others.clock)
    take, uncounted = taker(others, call_ns, []), taker(others, uncounted_ns, [])
    found = collect(take, rule, pace, calls_per_sample=1, taken_by="host clock", uncounted=uncounted)
    return found, pace


QUICK = StoppingRule(max_noise=0.005, min_time_s=0.0, max_time_s=1.0)


def test_a_turn_lasts_two_milliseconds_of_samples_behind_calls_that_do_not_count() -> None:
    others = Others()
    found, pace = sampled(others, 100_000, QUICK)
    assert MIN_TURNS * TURN_NS // 100_000 == len(found.samples_s), "what is quiet at once has six turns all the same"
    turns = pace.turns()
    assert 1 + MIN_TURNS + 1 == turns.count, "one before the others were met, and one that follows"
    assert 3 == turns.cpu
    assert (MIN_TURNS + 1) * OTHERS_NS / 1e9 == pytest.approx(turns.waited_s)
    assert MIN_TURNS * UNCOUNTED_NS / 1e9 == pytest.approx(turns.uncounted_s)
    assert [*[True], *[False] * (MIN_TURNS - 1), True] == others.said


def test_calls_that_outlast_what_is_to_be_sampled_get_no_more_turns_than_it_takes() -> None:
    others = Others()
    found, pace = sampled(others, 300_000_000, StoppingRule(0.005, 0.0, 0.001, hard_s=0.5))
    assert 2 == len(found.samples_s)
    assert 1 + 2 + 1 == pace.turns().count


def test_what_others_take_and_what_is_not_counted_is_not_in_the_rules_time() -> None:
    rule = StoppingRule(max_noise=0.005, min_time_s=0.1, max_time_s=1.0)
    others = Others()
    found, pace = sampled(others, 100_000, rule)
    assert 1000 <= len(found.samples_s) <= 1000 + 100 + TURN_NS // 100_000
    assert sum(found.samples_s) == pytest.approx(pace.own() / 1e9, abs=1e-5)
    assert others.now_ns > 3 * pace.own()


def test_the_clock_of_a_process_stands_still_while_others_have_their_turn() -> None:
    others = Others(done_after=4)
    pace = InTurn(others.give_away, clock=others.clock)
    before = pace.own()
    pace.meet(taker(others, 100_000, []), QUICK)
    assert before == pace.own() == pace.now()
    assert 5 * [True] == others.said, "it has nothing to do until all are there"


def test_a_metric_goes_on_until_all_have_enough_of_it() -> None:
    others = Others(done_after=20)
    found, pace = sampled(others, 500_000, QUICK)
    assert "noise" == found.stopped
    assert 41 < pace.turns().count
    assert 20 * TURN_NS // 500_000 < len(found.samples_s)
    assert others.said[-1]


def test_calls_that_are_long_need_none_ahead_of_them_and_have_six_turns_as_well() -> None:
    others = Others()
    found, pace = sampled(others, LONG_NS, QUICK, uncounted_ns=LONG_NS)
    assert MIN_SAMPLES == MIN_TURNS == len(found.samples_s)
    assert LONG_NS / 1e9 == pace.turns().uncounted_s, "those of the first turn, before it is known"


def test_what_nothing_is_judged_by_may_have_fewer_turns() -> None:
    others = Others()
    pace = InTurn(others.give_away, 3, others.clock)
    take = taker(others, 500_000, [])
    rule = replace(QUICK, least_turns=FEW_TURNS)
    found = collect(take, rule, pace, calls_per_sample=1, taken_by="graph", uncounted=taker(others, 100_000, []))
    assert FEW_TURNS * TURN_NS // 500_000 == len(found.samples_s)
    assert [True, False, False, True] == others.said


def test_a_call_that_does_not_count_is_in_no_sample() -> None:
    others = Others()
    taken: list[float] = []
    pace = InTurn(others.give_away, clock=others.clock)
    take = taker(others, 100_000, taken)
    found = collect(take, QUICK, pace, calls_per_sample=1, taken_by="host clock")
    uncounted = UNCOUNTED_NS // 100_000
    assert len(taken) == len(found.samples_s) + MIN_TURNS * uncounted


def test_a_kernel_that_does_not_count_waiting_leaves_it_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    others = Others()
    monkeypatch.setattr(queued, "queued_s", lambda: others.now_ns / 4e9)
    assert OTHERS_NS * (MIN_TURNS + 1) / 4e9 == pytest.approx(sampled(others, 100_000, QUICK)[1].turns().queued_s)
    monkeypatch.setattr(queued, "queued_s", lambda: math.nan)
    assert sampled(others, 100_000, QUICK)[1].turns().queued_s is None


def test_warming_up_is_done_alone() -> None:
    others = Others()
    pace = InTurn(others.give_away, clock=others.clock)
    warm_up(taker(others, 100_000, []), pace.now, window_s=0.05, max_time_s=1.0)
    assert [] == others.said


def test_all_call_from_one_cpu_and_are_put_back_whatever_happens() -> None:
    before = os.sched_getaffinity(0)
    cpu = max(before)
    pace = InTurn(lambda done: done, cpu)

    def call() -> None:
        with pace.in_place(CallLoop([lambda: None]), Device(CPU)):
            assert {cpu} == os.sched_getaffinity(0)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        call()
    assert before == os.sched_getaffinity(0)


def test_without_a_cpu_each_stays_where_it_is() -> None:
    before = os.sched_getaffinity(0)
    with InTurn(lambda done: done).in_place(CallLoop([lambda: None]), Device(CPU)):
        assert before == os.sched_getaffinity(0)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU: none can be taken away")
@pytest.mark.parametrize("pinned_to", [None, min, max])
def test_what_others_allow_a_thread_meanwhile_stays(pinned_to: Callable[[Collection[int]], int] | None) -> None:
    before = os.sched_getaffinity(0)
    pace = InTurn(lambda done: done, pinned_to and pinned_to(before))
    given = {max(before)} if pinned_to is None else before - {pinned_to(before)}
    try:
        with pace.in_place(CallLoop([lambda: None]), Device(CPU)):
            os.sched_setaffinity(0, given)
        assert given == os.sched_getaffinity(0)
        if pinned_to is not None:
            with pace.in_place(CallLoop([lambda: None]), Device(CPU)):
                assert given == os.sched_getaffinity(0), "the CPU of the others is no longer this thread's"
            assert pace.turns().cpu is None
    finally:
        os.sched_setaffinity(0, before)


def test_what_threads_wait_while_others_have_their_turn_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel has counted a second more each time that a turn of the others ends."""
    others, ran = Others(), itertools.count()
    monkeypatch.setattr(cpu_probe, "_counted_ns", lambda file: (next(ran), len(others.said) * 1_000_000_000))
    pace = InTurn(others.give_away, 3, others.clock)
    found = collect(taker(others, 100_000, []), QUICK, pace, calls_per_sample=1, taken_by="host clock", loop=pace.loop)
    assert found.loops_s
    assert [0.0] * len(found.loops_s) == found.queued_s
    assert len(others.said) > MIN_TURNS
