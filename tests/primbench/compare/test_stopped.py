"""What stops the threads of one place, or limits them, after its workers told of it: by made records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from primbench.compare.comparison import Explanation
from primbench.compare.pairs import compare
from primbench.environment import fingerprint
from primbench.measurement import Measurement, Samples
from primbench.measurement.readings import MOVED, HostReading
from primbench.registry import build
from primbench.results.file import Results
from primbench.spec.case import Case

MadeStudy = Callable[..., Results]
HERE = fingerprint.collect(gpus=False)
FREE = replace(HERE, limits=replace(HERE.limits, cpu_quota=None))
LIMITED = replace(HERE, limits=replace(HERE.limits, cpu_quota=0.5))
RUNS = {"cpu_time_s": 0.95, "waited_s": 0.05}
SLEEPS = {"cpu_time_s": 0.4, "waited_s": 0.1}
STOPS = (
    "in {place} its threads neither ran nor waited for a CPU for 50.0% of the time, 0.0% in {other}: something stops"
)
THROTTLED = RUNS | {"throttled_s": 0.5, "quota_periods": 10, "throttled_periods": 5}
HELD_BACK = "a CPU quota that {place} was given after its start: it held it back in 20 of 40 periods, for 2.00 s added"
REGROUPED = "processes of {place} were moved to another control group while they were timed"


def case(primitive: str, **parameters: Any) -> Case:
    problem = build(primitive, parameters)
    return Case(primitive=primitive, parameters=problem.parameters(), backend="numpy", device="cpu")


GEMM = case("gemm", m=64, n=64, k=64)
PROGRAM = case("launch", call="process_start")
CALL = case("launch", call="getppid")
SUM = case("allreduce", ranks=2, bytes=4096)


def host(reading: Mapping[str, Any]) -> HostReading:
    return HostReading(**{"duration_s": 1.0, "voluntary_switches": 0, "involuntary_switches": 0, **reading})


@pytest.fixture
def causes(made_study: MadeStudy) -> Callable[..., list[str]]:
    """``causes(case, one, other, ratio)``: in order, of the arm "other" that takes ``ratio`` times as long as "one"."""

    def of(
        what: Case, one: Mapping[str, Any], other: Mapping[str, Any], ratio: float = 2.0, *, limited: str = "",
        arms: Sequence[str] = ("host:name=one", "host:name=other"), beside: Sequence[Case] = (),
    ) -> list[str]:  # fmt: skip
        def measured(name: str, case: Case, pair: int) -> Measurement:
            time_s = 1e-3 * (1 + pair / 1e4) * (ratio if name == "other" else 1)
            timed = Samples(samples_s=[time_s] * 7, calls_per_sample=1, taken_by="", stopped="noise")
            return Measurement(batch_s=timed, host=host(other if name == "other" else one))

        places = {name: LIMITED if name == limited else FREE for name in ("one", "other")}
        study = made_study(arms, [what, *beside], measured, pairs=4, environments=places)
        (found,) = [each for each in compare(study).arms[0].cases if each.case.parameters == what.parameters]
        explanation = found.explanation or Explanation(parts=[], evidence=[], causes=[])
        return explanation.causes

    return of


Causes = Callable[..., list[str]]


def names_first(found: list[str], words: str, place: str, other: str = "") -> bool:
    return bool(found) and found[0].startswith(words.format(place=place, other=other))


def test_threads_that_neither_run_nor_wait_are_stopped_in_the_place_where_that_takes_longer(causes: Causes) -> None:
    assert names_first(causes(GEMM, RUNS, SLEEPS), STOPS, "other", "one")
    assert names_first(causes(GEMM, SLEEPS, RUNS, 0.5), STOPS, "one", "other")
    assert [] == causes(GEMM, SLEEPS, RUNS), "which works towards the other side"
    assert [] == causes(GEMM, SLEEPS, SLEEPS)


def test_what_is_stopped_half_of_the_time_takes_no_ten_times_as_long(causes: Causes) -> None:
    (found,) = causes(GEMM, RUNS, SLEEPS, 10.0)
    assert found.endswith("; that makes a ratio of 4, no more")


def test_threads_that_the_kernel_held_back_or_that_sleep_for_others_are_not_stopped(causes: Causes) -> None:
    assert [] == causes(PROGRAM, RUNS, SLEEPS), "who waits for a program that it starts"
    assert [] == causes(SUM, RUNS, SLEEPS), "nor for another rank"
    assert [] == causes(GEMM, RUNS, SLEEPS | {"waited_s": None}), "nor where the kernel does not count"
    quota = SLEEPS | {"throttled_s": 0.5, "quota_periods": 10, "throttled_periods": 5}
    assert not any("neither ran" in each for each in causes(GEMM, RUNS, quota))


def test_what_one_thread_slept_is_not_set_against_the_time_of_several(causes: Causes) -> None:
    two = {"cpu_time_s": 1.6, "waited_s": 0.1}
    assert [] == causes(GEMM, two, SLEEPS), "of two threads, who each slept a fifth of the time"
    assert [] == causes(GEMM, SLEEPS, two, 0.5)


def test_what_stops_a_case_that_never_sleeps_is_told_of_those_that_do_beside_it(causes: Causes) -> None:
    assert names_first(causes(PROGRAM, RUNS, SLEEPS, beside=[GEMM]), STOPS, "other", "one")
    assert names_first(causes(PROGRAM, RUNS, SLEEPS, beside=[CALL]), STOPS, "other", "one")
    assert names_first(causes(SUM, RUNS, SLEEPS, beside=[GEMM]), STOPS, "other", "one")
    assert [] == causes(PROGRAM, SLEEPS, RUNS, beside=[GEMM]), "which works towards the other side"


def test_a_quota_that_no_worker_had_at_its_start_is_told_by_its_counter(causes: Causes) -> None:
    assert names_first(causes(GEMM, RUNS, THROTTLED), HELD_BACK, "other")
    assert names_first(causes(GEMM, THROTTLED, RUNS, 0.5), HELD_BACK, "one")
    assert not any("after its start" in each for each in causes(GEMM, RUNS, THROTTLED, limited="other"))
    assert [] == causes(GEMM, THROTTLED, THROTTLED)


def test_a_process_that_was_moved_to_another_control_group_says_so(causes: Causes) -> None:
    moved = RUNS | {"missing": {"throttled_s": MOVED}}
    assert names_first(causes(GEMM, RUNS, moved), REGROUPED, "other")
    assert [] == causes(GEMM, moved, moved)


def test_where_nothing_moved_that_threads_wait_is_no_doing_of_what_cannot_stop_them(causes: Causes) -> None:
    waits, arms = {"cpu_time_s": 0.5, "waited_s": 0.5}, ["host:name=one", "host:env.MINE=1,nofile=99,name=other"]
    assert any("the variable MINE" in each for each in causes(GEMM, RUNS, RUNS, arms=arms))
    assert [] == causes(GEMM, RUNS, waits, 1.0, arms=arms)
    assert any("CPU quota" in each for each in causes(GEMM, RUNS, waits, 1.0, limited="other", arms=arms))
