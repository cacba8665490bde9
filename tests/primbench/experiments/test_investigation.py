"""Investigations of made places: a process's time is what its design's causes come to, times noise of a seed.

No process runs: what is held is the search and its certificate, by places whose causes are known.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable

import msgspec
import pytest

from primbench.experiments.why.certificate import role
from primbench.experiments.why.conclusion import Conclusion
from primbench.experiments.why.investigation import Investigation
from primbench.experiments.why.rounds import Observation, Round, Subset

Told = list[tuple[Round, list[Observation]]]


class MadePlaces:
    """causes: what each set adds where all of it is there, of FAST's second. needs: (i, j), where i fails without j."""

    def __init__(
        self, causes: dict[tuple[int, ...], float], *, scatter: float = 0.01, needs: Iterable[tuple[int, int]] = ()
    ) -> None:
        self.causes = {frozenset(each): excess for each, excess in causes.items()}
        self.scatter, self.needs, self.dice = scatter, list(needs), random.Random(1)

    def time_s(self, design: Subset) -> float:
        return 1 + sum(excess for causes, excess in self.causes.items() if causes <= design)

    def measure(self, asked: Round) -> list[Observation]:
        return [self._observe(pair, design) for pair in asked.pairs for design in asked.designs]

    def _observe(self, pair: int, design: Subset) -> Observation:
        if any(i in design and j not in design for i, j in self.needs):
            return Observation(pair=pair, design=design, value_s=None, failure="one needs another")
        noise = self.dice.gauss(0, self.scatter)
        return Observation(pair=pair, design=design, value_s=self.time_s(design) * math.exp(noise))


def investigate(
    n: int, places: MadePlaces, *, seed: int = 1, before: Callable[[Round], None] = lambda _: None
) -> tuple[Conclusion, Told]:
    investigation, told = Investigation(n, seed=seed), Told()
    while (asked := investigation.next()) is not None:
        before(asked)
        told.append((asked, places.measure(asked)))
        investigation.tell(*told[-1])
    return investigation.conclude(), told


def found(conclusion: Conclusion) -> set[int]:
    return {i for proof in conclusion.proofs for i in proof.differences}


def roles(conclusion: Conclusion) -> dict[int, str | None]:
    return {each.difference: each.role for proof in conclusion.proofs for each in proof.contributions}


def test_one_cause_is_proven_both_ways_and_again_after_a_pause() -> None:
    conclusion, told = investigate(16, MadePlaces({(5,): 0.3}))
    (proof,) = conclusion.proofs
    assert ("explained", frozenset({5}), True) == (conclusion.outcome, proof.differences, proof.repeated)
    assert proof.harms.low < 1.3 < (proof.harms.high or 0)
    assert proof.heals.low < 1.3 < (proof.heals.high or 0)
    assert conclusion.unexplained is not None
    assert conclusion.unexplained.low < 1 < (conclusion.unexplained.high or 0)
    assert proof.share == pytest.approx(1, abs=0.1)
    assert conclusion.final
    assert ["certificate", "repeat"] == [asked.stage for asked, _ in told if asked.stage not in ("effect", "search")]
    assert [True] == [asked.after_pause for asked, _ in told if asked.stage == "repeat"]


def test_a_certificate_is_of_pairs_that_no_search_used() -> None:
    _, told = investigate(16, MadePlaces({(5,): 0.3}))
    pairs = [pair for asked, _ in told for pair in asked.pairs]
    assert len(pairs) == len(set(pairs))
    assert all(asked.pairs[0] % 2 == 0 for asked, _ in told)


@pytest.mark.parametrize(
    ("causes", "roles_told"),
    [
        ({(3, 7): 0.3}, {3: "only together", 7: "only together"}),
        ({(3,): 0.3, (7,): 0.3, (3, 7): -0.3}, {3: "enough by itself", 7: "enough by itself"}),
        ({(3,): 0.4, (3, 7): -0.2}, {3: "adds", 7: "takes away"}),
        ({(3,): 0.3, (7,): 0.2}, {3: "adds", 7: "adds"}),
    ],
)
def test_sets_of_two_have_roles(causes: dict[tuple[int, ...], float], roles_told: dict[int, str]) -> None:
    conclusion, _ = investigate(12, MadePlaces(causes))
    assert ("explained", roles_told) == (conclusion.outcome, roles(conclusion))


def test_a_small_cause_beside_a_large_one_is_found_in_what_is_left() -> None:
    conclusion, _ = investigate(12, MadePlaces({(2,): 1.5, (9,): 0.12}, scatter=0.005))
    assert [(frozenset({2}), frozenset()), (frozenset({9}), frozenset({2}))] == [
        (each.differences, each.base) for each in conclusion.proofs
    ]
    large, small = conclusion.proofs
    assert large.share == pytest.approx(1.5 / 1.62, abs=0.05)
    assert small.share == pytest.approx(0.12 / 1.62, abs=0.02)


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_named_where_nothing_differs(seed: int) -> None:
    conclusion, told = investigate(8, MadePlaces({}, scatter=0.005), seed=seed)
    assert ("no difference", ()) == (conclusion.outcome, conclusion.proofs)
    assert {"effect"} == {asked.stage for asked, _ in told}


def test_undecided_says_how_many_pairs_would_decide() -> None:
    conclusion, _ = investigate(8, MadePlaces({(1,): 0.08}, scatter=0.3))
    assert ("undecided", 12) == (conclusion.outcome, conclusion.pairs)
    assert conclusion.pairs_to_decide is not None
    assert conclusion.pairs_to_decide > 12


def test_what_makes_slow_faster_is_found_alike() -> None:
    conclusion, _ = investigate(8, MadePlaces({(1,): -0.3}))
    assert {1} == found(conclusion)
    assert conclusion.proofs[0].harms.ratio == pytest.approx(0.7, abs=0.03)


def test_one_difference_alone_is_proven_too() -> None:
    conclusion, told = investigate(1, MadePlaces({(0,): 0.3}))
    assert ("explained", {0}, None) == (conclusion.outcome, found(conclusion), conclusion.unexplained)
    assert "search" not in {asked.stage for asked, _ in told}


def test_a_subset_that_does_not_run_is_told_and_never_drawn_again() -> None:
    conclusion, told = investigate(12, MadePlaces({(2,): 0.3}, needs=[(4, 5), (8, 9)]))
    assert {2} == found(conclusion)
    drawn = [design for asked, _ in told if asked.stage == "search" for design in asked.designs if design]
    assert len(drawn) == len(set(drawn))
    assert {reason for _, reason in conclusion.failed} <= {"one needs another"}


def test_a_role_whose_place_does_not_run_is_unknown() -> None:
    conclusion, _ = investigate(6, MadePlaces({(2,): 0.3, (3,): 0.3}, needs=[(2, 3)]))
    assert {2, 3} == found(conclusion)
    assert roles(conclusion)[3] is None or len(conclusion.proofs) == 2


@pytest.mark.parametrize("failing", [frozenset(), frozenset({0, 1, 2})])
def test_it_ends_where_fast_or_slow_does_not_run(failing: Subset) -> None:
    investigation = Investigation(3)
    asked = investigation.next()
    assert asked is not None
    values = {design: None if design == failing else 1.0 for design in asked.designs}
    investigation.tell(
        asked, [Observation(pair=pair, design=each, value_s=values[each]) for pair in asked.pairs for each in values]
    )
    assert ("failed", True) == (investigation.conclude().outcome, investigation.conclude().final)
    assert investigation.next() is None


def test_a_cause_that_passes_is_told_as_such() -> None:
    places = MadePlaces({(5,): 0.3})

    def pass_by(asked: Round) -> None:
        if asked.after_pause:
            places.causes.clear()

    conclusion, _ = investigate(10, places, before=pass_by)
    assert ("not found", ()) == (conclusion.outcome, conclusion.proofs)
    assert [(frozenset({5}), False)] == [(each.differences, each.repeated) for each in conclusion.passed]


def test_rounds_of_a_file_told_again_come_to_the_same() -> None:
    conclusion, told = investigate(12, MadePlaces({(3, 7): 0.3}), seed=4)
    again = Investigation(12, seed=4)
    for line in msgspec.json.decode(msgspec.json.encode(told), type=list[tuple[Round, list[Observation]]]):
        assert again.next() == line[0]
        again.tell(*line)
    assert (conclusion, None) == (again.conclude(), again.next())


def test_it_can_be_asked_at_any_time() -> None:
    """As after an interrupt, in the middle of a round."""
    places, investigation = MadePlaces({(3,): 0.3}), Investigation(12)
    states = []
    while (asked := investigation.next()) is not None:
        investigation.tell(asked, places.measure(asked)[: len(asked.designs) * 2])
        states.append(investigation.conclude())
    assert "explained" == states[-1].outcome
    assert states[0].outcome in ("undecided", "not found")
    assert [False, True] == sorted({each.final for each in states})
    assert states[-1].final


def test_what_is_known_to_slow_is_suspected_first() -> None:
    weights = [1.0] * 12
    weights[4] = 20.0
    places, investigation = MadePlaces({(4,): 0.3}), Investigation(12, weights=weights)
    while investigation.stage == "effect" and (asked := investigation.next()) is not None:
        investigation.tell(asked, places.measure(asked))
    likeliest, probability = investigation.suspects()[0]
    assert (frozenset({4}), True) == (likeliest, probability > 0.3)


@pytest.mark.parametrize("needs", [(2, 3), (3, 2)])
def test_a_cause_that_does_not_run_alone_is_proven_with_what_it_needs(needs: tuple[int, int]) -> None:
    conclusion, _ = investigate(8, MadePlaces({(2,): 0.3}, needs=[needs]))
    assert {2, 3} == found(conclusion)
    assert roles(conclusion)[3] is None
    assert conclusion.failed


def test_a_role_goes_by_what_is_done_beside_the_others_and_alone() -> None:
    assert "adds" == role(0.2, 0.15, whole=0.3)
    assert "only together" == role(0.2, 0.01, whole=0.3) == role(0.2, -0.08, whole=0.3)
    assert "enough by itself" == role(0.01, 0.2, whole=0.3) == role(-0.08, 0.2, whole=0.3)
    assert "takes away" == role(-0.2, 0.01, whole=0.3)
    assert "adds" == role(-0.2, -0.15, whole=-0.3)
