"""Accuracies and losses of two places: what is called the same, what differs, and how often by chance alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from primbench.compare.learnt import Accuracy, LearntComparison
from primbench.compare.pairs import compare
from primbench.measurement import Measurement, Samples
from primbench.measurement.learnt import Learnt
from primbench.registry import build
from primbench.report.comparison import document
from primbench.spec.case import Case

from ..report.exports import text_of

text = text_of(document)


MadeStudy = Callable[..., Any]
SEEDS, HELD_OUT, PAIRS = 5, 256, 2
TIME = Samples(samples_s=[1.0] * 7, calls_per_sample=1, taken_by="host clock", stopped="count")


def case(network: str = "mnist_cnn") -> Case:
    parameters = build("learning", {"network": network, "deterministic": True}).parameters()
    return Case(primitive="learning", parameters=parameters, backend="torch", device="cpu")


def learnt(right: list[int] | None, losses: list[list[float | None]] | None = None, **changes: Any) -> Measurement:
    found = losses or [[2.0, 1.0, 0.5]] * SEEDS
    missing = {} if right else {"right": "it has no classes to be right about"}
    all_of = Learnt(
        losses=found, right=right, held_out=HELD_OUT, chance=0.25, deterministic=True, missing=missing, **changes
    )
    return Measurement(batch_s=TIME, learnt=all_of)


def compared(made_study: MadeStudy, measured: Callable[[str, int], Measurement]) -> tuple[LearntComparison, str]:
    """And the lines that are printed of it."""
    found = compare(made_study(["host", "podman"], [case()], lambda arm, _, pair: measured(arm, pair), pairs=PAIRS))
    (of_case,) = found.cases
    assert of_case.learnt is not None
    return of_case.learnt, text(found)


def accuracy(made_study: MadeStudy, host: list[int], podman: list[int]) -> tuple[Accuracy, str]:
    found, words = compared(made_study, lambda arm, pair: learnt({"host": host, "podman": podman}[arm]))
    assert found.accuracy is not None
    return found.accuracy, words


def test_accuracies_that_are_the_same_are_the_same_within_a_point(made_study: MadeStudy) -> None:
    """Whatever they scatter by from seed to seed."""
    right = [250, 130, 200, 90, 256]
    found, words = accuracy(made_study, right, right)
    assert ("same", 0.0) == (found.verdict, found.difference)
    assert "accuracy the same within 1 point, 0.00 points [-0.20, 0.20]; host | podman: 72.3% | 72.3%" in words
    assert "the same loss to the last bit in all 3 steps, of every seed and process" in words


def test_an_accuracy_that_is_lower_in_every_seed_differs(made_study: MadeStudy) -> None:
    found, words = accuracy(made_study, [250, 130, 200, 90, 256], [240, 119, 191, 80, 247])
    assert "differs" == found.verdict
    assert found.interval is not None
    assert found.interval[0] < -9.8 / HELD_OUT < found.interval[1] < 0
    assert "accuracy differs by -3.83 points [-4.28, -3.38]" in words


def test_what_is_not_known_well_enough_is_undecided(made_study: MadeStudy) -> None:
    found, words = accuracy(made_study, [250, 130, 200, 90, 256], [230, 150, 180, 110, 250])
    assert "undecided" == found.verdict
    assert "more seeds would tell, such as --seeds 20" in words


def test_without_classes_there_is_no_accuracy_but_a_reason(made_study: MadeStudy) -> None:
    found, words = compared(made_study, lambda arm, pair: learnt(None))
    assert (None, {"accuracy": "it has no classes to be right about"}) == (found.accuracy, found.missing)
    assert "accuracy not known: it has no classes to be right about" in words


def test_one_seed_tells_of_no_scatter(made_study: MadeStudy) -> None:
    found, words = compared(made_study, lambda arm, pair: learnt([200], [[2.0, 1.0]]))
    assert found.accuracy is not None
    assert (None, "undecided") == (found.accuracy.interval, found.accuracy.verdict)
    assert "one seed tells of no scatter" in words


@pytest.mark.parametrize("spread", [0.0, 0.2])
def test_places_that_are_alike_are_seldom_called_different(made_study: MadeStudy, spread: float) -> None:
    """5 % of all studies, however many cases they have: here two, trained anew in each place."""
    dice = np.random.default_rng(11)
    cases, studies, called = [case("mnist_cnn"), case("snn")], 200, 0
    for _ in range(studies):
        chances = {name: np.clip(dice.normal(0.7, spread, SEEDS), 0.02, 0.98) for name in ("mnist_cnn", "snn")}
        found = compare(
            made_study(
                ["host", "podman"], cases,
                lambda arm, each, pair: learnt(
                    dice.binomial(HELD_OUT, chances[str(each.parameters["network"])]).tolist()  # noqa: B023
                ),
                pairs=1,
            )
        )  # fmt: skip
        accuracies = [each.learnt.accuracy for each in found.cases if each.learnt]
        called += any(each is not None and each.verdict == "differs" for each in accuracies)
    assert called / studies <= 0.1  # 5 %, and three standard deviations


class TestLosses:
    """The first step with another loss, by one bit."""

    SAME: tuple[float | None, ...] = (2.0, 1.0, 0.5)
    BIT = np.nextafter(1.0, 2.0).item()

    def of(self, **unlike: dict[int, float | None]) -> Callable[[str, int], Measurement]:
        """place_pair -> step -> another loss, in the second of the seeds."""

        def measured(arm: str, pair: int) -> Measurement:
            changes = unlike.get(f"{arm}_{pair}", {})
            second = [changes.get(step, loss) for step, loss in enumerate(self.SAME, 1)]
            return learnt([200] * SEEDS, [list(self.SAME), second, *[list(self.SAME)] * (SEEDS - 2)])

        return measured

    def test_the_first_of_all_processes_is_named(self, made_study: MadeStudy) -> None:
        found, words = compared(made_study, self.of(podman_0={3: 0.25}, podman_1={2: self.BIT}))
        assert found.unlike is not None
        assert (2, 1, ("host", "podman"), (1.0, self.BIT)) == (
            found.unlike.step, found.unlike.seed, found.unlike.places, found.unlike.losses,
        )  # fmt: skip
        assert (
            "step 2 of 3 differs first: a loss of 1.0 against 1.0000000000000002, host against podman, seed 1" in words
        )

    def test_a_place_that_does_not_repeat_itself_is_named_before_another(self, made_study: MadeStudy) -> None:
        _, words = compared(made_study, self.of(host_1={2: None}, podman_0={2: self.BIT}))
        assert "a loss of 1.0 against no finite number, host against itself, seed 1" in words

    def test_a_process_that_does_not_repeat_itself_is_named(self, made_study: MadeStudy) -> None:
        _, words = compared(made_study, lambda arm, pair: learnt([200] * SEEDS, again=9, first_unlike=3))
        assert "step 3 of 3 differs first: host does not repeat itself in one process" in words
