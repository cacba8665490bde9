"""What processes, set-ups and samples scatter by is told apart, of numbers that are made so."""

from __future__ import annotations

import numpy as np
import pytest

from bench.set_ups import parts


@pytest.mark.parametrize(("process", "set_up", "sampling"), [(0.02, 0.01, 0.005), (0.0, 0.02, 0.01), (0.03, 0.0, 0.01)])
def test_parts_of_a_scatter_are_found(process: float, set_up: float, sampling: float) -> None:
    dice, shape, halves = np.random.default_rng(7), (4000, 4), 2
    made = dice.normal(0, process, 4000)[:, None, None] + dice.normal(0, set_up, shape)[:, :, None]
    found = parts(made + dice.normal(0, sampling * halves**0.5, (*shape, halves)))
    assert (process, set_up, sampling) == pytest.approx(found[:3], rel=0.05, abs=1e-3)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    dice, studies, held = np.random.default_rng(8), 400, [0, 0]
    for _ in range(studies):
        made = dice.normal(0, 1, 8)[:, None, None] + dice.normal(0, 1, (8, 4))[:, :, None]
        found = parts(made + dice.normal(0, 1, (8, 4, 2)))  # two halves, so that what sampling leaves varies by 1 / 2
        truths = (1 / 1.5, found.processes_over_rest), (1 / 0.5, found.set_ups_over_samples)
        for number, (truth, (low, high)) in enumerate(truths):
            held[number] += low <= truth <= high
    assert all(0.92 * studies < each < 0.98 * studies for each in held)
