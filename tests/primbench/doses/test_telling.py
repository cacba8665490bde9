"""What is told of simulated processes, whose harms are known: no real one has slopes that anybody knows."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from primbench.doses import bounding, report, telling
from primbench.doses.bounding import BoundQuestion, ReplayedStep
from primbench.doses.dosing import Dosing, busy_cpus
from primbench.doses.factors import BUSY_ARM, MEMORY_ARM, DosingPlace
from primbench.doses.recalling import recalled
from primbench.doses.schedule import give_doses
from primbench.environment.fingerprint import collect
from primbench.errors import InvalidRequest
from primbench.kernels.replay import Replay
from primbench.kernels.replay.problem import DELAYS_NS, Part, delayed, encoded
from primbench.measurement import Measurement, Samples
from primbench.measurement.readings import HostReading
from primbench.numa.placement import EffectivePlacement
from primbench.results.file import Results
from primbench.results.record import Record, Worker
from primbench.results.writer import header
from primbench.spec.arm import Arm
from primbench.spec.case import Case
from primbench.spec.neighbour import Neighbour

if TYPE_CHECKING:
    from primbench.doses.factors import FactorId
    from primbench.doses.found import Bounds
    from primbench.kernels.replay.problem import Delayed

STEP_S, CALL_S, SCATTER, PAIR_S = 1e-3, 2e-6, 0.01, 10.0
OF_CALLS, OF_TIME = 0.1, 0.9  # what the step is longer by for a us of each call, and for a dose of less CPU time
OF_COLLECTIVES = 0.2  # the same for 100 us of each collective, of a step of two ranks
HARMS = {BUSY_ARM: (1.3, 1.5, 1.1), MEMORY_ARM: (1.3 * 1.2, 1.5, 1.1 * 1.8)}
"""By arm: how many times as long the step, a product and a copy take."""
HALF = (1.15 * 1.1, 1.25, 1.05 * 1.34)
"""Of a neighbour that does half of both harms."""
HERE = collect(gpus=False)
PROBLEM = Replay(calls=encoded([Part("gemm", {"m": 16, "n": 16, "k": 16})], [0] * 100))


class Simulated(Dosing):
    """Makes up what processes would have measured."""

    clock_s = 0.0

    def why_not(self, arm: Arm) -> str | None:
        return "no way to it" if arm.name == "nowhere" else None

    def _pair(self, name: str, arms: Sequence[Arm], cases: Sequence[Case]) -> None:
        number = 1 + max((each.case.process for each in self.found.records), default=-1)
        self.numbers[name].append(number)
        self.took_s[name].append(PAIR_S)
        Simulated.clock_s += PAIR_S
        self._cases += len(arms) * len(cases)
        self._timed_s += PAIR_S / 2
        self._starts_s.append(PAIR_S / 2)
        rng = random.Random(number)
        for arm, case in itertools.product(arms, cases):
            self._add(arm, replace(case, arm=arm.name, process=number, placement=arm.placement), rng)

    def _add(self, arm: Arm, case: Case, rng: random.Random) -> None:
        limits = replace(HERE.limits, cpu_quota=arm.cpus, cpus_allowed=list(arm.affinity or self.here.cpus))
        place = replace(HERE, limits=limits)
        number = len(self.found.workers)
        placed = EffectivePlacement(
            cpus=limits.cpus_allowed, memory_policy=None, memory_nodes=None, rung="none", threads=2 // case.ranks
        )
        self.found.workers.append(
            Worker(
                worker=number, pid=1, backend=case.backend, device="cpu", environment=place, placement=placed,
                versions={}, arm=arm,
            )
        )  # fmt: skip
        found = measured(arm, case, min(arm.cpus or 2.0, len(limits.cpus_allowed)), rng)
        self.found.records.append(
            Record(case=case, status="ok", measurement=found, worker=number, started_utc="", duration_s=1.0)
        )


def measured(arm: Arm, case: Case, granted: float, rng: random.Random) -> Measurement:
    """granted: CPUs, of which the step uses two."""
    step, product, copy = HARMS.get(arm.name, HALF) if arm.neighbour else (1.0, 1.0, 1.0)
    base_s = {
        "replay": STEP_S * step * (1 + OF_TIME * (2 / granted - 1)) * (1 + OF_CALLS * (1.5 if arm.niceness else 0))
        * (1 + OF_COLLECTIVES * (3 if arm.ipc else 0)),
        "launch": CALL_S + (1.5e-6 if arm.niceness else 0), "gemm": 1e-3 * product, "memcpy": 1e-2 * copy,
        "allreduce": 1e-4 + (300e-6 if arm.ipc else 0),
    }[case.primitive]  # fmt: skip
    own_s = base_s * rng.gauss(1, SCATTER)

    def samples(time_s: float) -> Samples:
        taken_s = [time_s * rng.gauss(1, SCATTER) for _ in range(20)]
        return Samples(samples_s=taken_s, calls_per_sample=1, taken_by="a test", stopped="count")

    longer: dict[Delayed, float] = {"calls": OF_CALLS / 1000}
    if case.ranks > 1:
        longer["collectives"] = OF_COLLECTIVES / 100_000
    others = {
        delayed(what, each): samples(own_s * (1 + share * each))
        for what, share in longer.items() for each in DELAYS_NS[what]
    }  # fmt: skip
    cpu_time_s = min(2.0, granted) / case.ranks
    host = HostReading(duration_s=1.0, cpu_time_s=cpu_time_s, voluntary_switches=0, involuntary_switches=0)
    return Measurement(
        batch_s=samples(own_s), host=host, counts={"calls": 100, "left_out_calls": 0},
        others=others if case.parameters.get("dosed") else {},
    )  # fmt: skip


def question(*places: Arm, budget_s: float, ranks: int = 1) -> BoundQuestion:
    parameters = PROBLEM.parameters() | {"ranks": ranks}
    case = Case(primitive="replay", parameters=parameters, backend="torch", device="cpu")
    here = DosingPlace("cpu", (0, 1), 2 // ranks, 2.0, ranks)
    return BoundQuestion(
        step=ReplayedStep("a step", case, None), here=here, places=places, budget_s=budget_s, timeout_s=1.0
    )


def nothing() -> Results:
    return Results(header=header([], {}), workers=[], records=[])


def bounds(monkeypatch: pytest.MonkeyPatch, *places: Arm, rounds: int = 3, ranks: int = 1) -> Bounds:
    """By as many pairs of each of the four trials."""
    monkeypatch.setattr(bounding, "Dosing", Simulated)
    monkeypatch.setattr(time, "monotonic", lambda: Simulated.clock_s)
    asked, results = question(*places, budget_s=4 * PAIR_S * rounds + 1, ranks=ranks), nothing()
    found, ended = bounding.bound(asked, results, None, print)
    assert ended is None
    assert_recalled(found, results)
    return found


def assert_recalled(found: Bounds, results: Results) -> None:
    """A file tells the same again, but for whose step it is, which it has from the captured one."""
    again = recalled(results)
    assert again is not None
    there = [each for each in found.places if each.measured is not None]
    assert replace(found, step="", took_s=None, places=there) == replace(again, step="")


def test_each_slope_is_what_was_put_in(monkeypatch: pytest.MonkeyPatch) -> None:
    found = bounds(monkeypatch)
    told = {each.factor: each for each in found.slopes}
    truth: dict[FactorId, float] = {"calls": OF_CALLS, "quota": OF_TIME, "cpus": OF_TIME, "busy": 0.3, "memory": 0.2}
    assert truth.keys() == told.keys()
    for factor, share in truth.items():
        slope = told[factor]
        assert slope.low is not None
        assert slope.high is not None
        assert slope.low - 0.02 < share < slope.high + 0.02, slope
    assert {"loses"} == {each.verdict for each in found.slopes if each.pairs > 2}
    assert (100, 0) == (found.calls, found.left_out_calls)


def test_a_step_of_two_ranks_is_told_of_collectives_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """And is foretold by them in a place where they take longer; it cannot do with fewer CPUs than ranks."""
    found = bounds(monkeypatch, Arm(name="slow", ipc="private"), ranks=2)
    told = {each.factor: each for each in found.slopes}
    slope = told["collectives"]
    assert (slope.low or 1.0) < OF_COLLECTIVES < (slope.high or 0.0)
    assert ("loses", "each rank needs a CPU") == (slope.verdict, told["cpus"].reason)
    (place,) = found.places
    assert {"calls": 0.0, "collectives": 3.0, "quota": 0.0} == pytest.approx(
        {each.factor: each.dose for each in place.doses if each.factor != "cpus"}, abs=1.0
    )
    assert place.is_within
    assert "with 1 thread on each of 2 ranks;" in str([*report._notes(found)])


def test_where_others_had_the_cpus_longer_calls_are_told_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dosing, "waited_share", lambda self: 0.4)
    found = bounds(monkeypatch)
    verdicts = {each.factor: (each.verdict, each.reason) for each in found.slopes}
    assert ("loses", None) == verdicts.pop("calls")
    assert {("not told", "too busy to tell")} == {*verdicts.values()}
    assert report.answer(found).endswith(": too busy to tell, as it waited for a CPU during 40.0% of its time.")


@pytest.mark.parametrize(
    ("arm", "truth"),
    [
        (Arm(name="quota", cpus=0.8), 1 + OF_TIME * 1.5),
        (Arm(name="one CPU", affinity=(0,)), 1 + OF_TIME),
        (Arm(name="longer calls", niceness=5), 1 + 1.5 * OF_CALLS),
        (Arm(name="half", neighbour=Neighbour(words="x", primitive="gemm", parameters={})), HALF[0]),
        (Arm(name="alike"), 1.0),
    ],
    ids=lambda each: each.name if isinstance(each, Arm) else "",
)
def test_places_are_foretold(arm: Arm, truth: float, monkeypatch: pytest.MonkeyPatch) -> None:
    found = bounds(monkeypatch, arm)
    (place,) = found.places
    assert place.low is not None
    assert place.high is not None
    assert place.low < truth < place.high < 1.3 * place.low
    assert (3, True, []) == (place.pairs, place.is_within, place.beyond)
    document = report.document(found)
    assert ["passed"] == [each.state for each in document.checks()]
    (words,) = document.beside
    assert words.words.endswith(", as foretold.")


def test_more_than_was_tried_is_said_and_what_no_slope_is_of_not_foretold(monkeypatch: pytest.MonkeyPatch) -> None:
    (place,) = bounds(monkeypatch, Arm(name="little", cpus=0.2)).places
    assert ["quota"] == place.beyond
    (place,) = bounds(monkeypatch, Arm(name="half", cpus=0.8), rounds=0).places
    assert "no slope is known of quota" == place.reason
    assert (None, 3, None) == (place.low, place.pairs, place.is_within)


def test_nothing_is_foretold_by_an_interval_that_holds_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here one that spans a hundredth, of a step that scatters by as much."""
    monkeypatch.setattr(telling, "SAYS_NOTHING", 1.01)
    (place,) = bounds(monkeypatch, Arm(name="half", cpus=0.5)).places
    assert (None, None, None) == (place.ratio, place.low, place.is_within)
    assert "too few pairs tell of the scatter" == place.reason
    assert place.measured is not None


def test_nothing_is_foretold_where_calls_were_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A place in which the step runs, and no call alone: it may have any dose of longer ones."""
    add = Simulated._add

    def but_calls(self: Simulated, arm: Arm, case: Case, rng: random.Random) -> None:
        add(self, arm, case, rng)
        if case.primitive == "launch":
            failed = replace(self.found.records[-1], status="failed", measurement=None, reason="no launch")
            self.found.records[-1] = failed

    monkeypatch.setattr(Simulated, "_add", but_calls)
    (place,) = bounds(monkeypatch, Arm(name="half", cpus=1.0)).places
    assert (None, None) == (place.ratio, place.is_within)
    assert "half: no launch" in (place.reason or "")
    assert place.measured is not None


def test_nothing_is_said_where_no_harm_matters_and_the_margin_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.OF_CALLS", 0.0)
    monkeypatch.setattr(f"{__name__}.OF_TIME", 0.0)
    monkeypatch.setattr(f"{__name__}.HARMS", dict.fromkeys(HARMS, (1.0, 1.5, 1.8)))
    found = bounds(monkeypatch, rounds=6)
    assert {"nothing"} == {each.verdict for each in found.slopes}
    assert report.answer(found).startswith("a step: nothing by ")
    assert "fine" == report.document(found).answer.tone  # type: ignore[union-attr]


def test_a_place_that_is_not_there_costs_no_dose(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere, half = Arm(name="nowhere"), Arm(name="half", cpus=1.0)
    first, other = bounds(monkeypatch, nowhere, half).places
    assert ("nowhere", "no way to it", None, 0) == (first.place, first.reason, first.measured, first.pairs)
    assert other.measured is not None
    with pytest.raises(InvalidRequest, match="--in nowhere: no way to it"):
        bounds(monkeypatch, nowhere)


NEIGHBOUR = Neighbour(words="x", primitive="gemm", parameters={})


@pytest.mark.parametrize(
    ("place", "asked"),
    [(Arm(name="half", neighbour=NEIGHBOUR), {"beside"}), (Arm(name="quota", cpus=1.0), {"calls", "quota"})],
    ids=["beside", "quota"],
)
def test_every_dose_is_given_once_then_those_of_which_a_place_is_foretold(
    place: Arm, asked: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the time of six pairs, of which two are left after the first of each."""
    monkeypatch.setattr(time, "monotonic", lambda: Simulated.clock_s)
    here = question(budget_s=0.0)
    dosing = Simulated(step=here.step.case, here=here.here, found=nothing(), writer=None, timeout_s=1.0)
    give_doses(dosing, time.monotonic() + 6 * PAIR_S + 1, [place])
    by_number = sorted((number, name) for name, several in dosing.numbers.items() for number in several)
    first, then = {name for _, name in by_number[:4]}, {name for _, name in by_number[4:]}
    assert ({"calls", "quota", "cpus", "beside"}, 6) == (first, len(by_number))
    assert then <= asked


def test_a_harm_that_cannot_be_had_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    add = Simulated._add

    def without_quotas(self: Simulated, arm: Arm, case: Case, rng: random.Random) -> None:
        add(self, arm, case, rng)
        if arm.cpus is not None:
            self.found.records[-1] = replace(self.found.records[-1], status="skipped", measurement=None, reason="none")

    monkeypatch.setattr(Simulated, "_add", without_quotas)
    found = {each.factor: each for each in bounds(monkeypatch).slopes}
    assert "quota 1.5: none; quota 1: none; quota 0.5: none" == found["quota"].reason
    assert found["memory"].pairs > 3


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_answer_after_an_interrupt(stop: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    """In the fourth pair, of what was measured in the first three."""
    pair, done = Simulated._pair, itertools.count()

    def interrupted(*of_pair: Any) -> None:
        if next(done) == 3:
            raise stop
        pair(*of_pair)

    monkeypatch.setattr(Simulated, "_pair", interrupted)
    monkeypatch.setattr(bounding, "Dosing", Simulated)
    found, ended = bounding.bound(question(budget_s=60.0), nothing(), None, print)
    assert isinstance(ended, stop)
    assert found.is_cut_off
    assert {"calls": 1, "quota": 0, "cpus": 1, "busy": 1, "memory": 1} == {
        each.factor: each.pairs for each in found.slopes
    }
    assert report.answer(found).endswith("; cut off before all was tried.")
    assert {None, "it was cut off before"} == {each.reason for each in found.slopes}


@pytest.mark.parametrize(("waited_s", "cpus"), [(None, 0.5), (0.0, 0.5), (0.6, 1.25), (0.9, 2.0), (1.0, 2.0)])
def test_a_step_is_told_to_use_what_it_uses_while_it_does_not_wait(waited_s: float | None, cpus: float) -> None:
    host = HostReading(
        duration_s=1.0, cpu_time_s=0.5, voluntary_switches=0, involuntary_switches=0, waited_s=waited_s
    )  # fmt: skip
    assert cpus == pytest.approx(busy_cpus(host, 2))
