from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from primbench.kernels.softmax import Softmax
from primbench.kernels.softmax import problem as softmax


def test_bytes_are_those_of_each_array_once() -> None:
    assert 4 * 2 * 3 * 5 == Softmax(3, 5).bytes_moved()
    assert 2 * 3 * 3 * 5 == Softmax(3, 5, "log_softmax", "backward", "bfloat16").bytes_moved()
    assert 4 * (3 * 5 + 3) + 8 * 3 == Softmax(3, 5, "cross_entropy").bytes_moved()
    assert 4 * (2 * 3 * 5 + 3) + 8 * 3 == Softmax(3, 5, "cross_entropy", "backward").bytes_moved()


@pytest.mark.wheel
@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("kind", softmax.KINDS)
def test_the_reference_is_what_torch_finds_in_float64(kind: str, direction: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    problem = Softmax(6, 10, kind, direction)
    inputs = problem.inputs(np.random.default_rng(0))
    named = softmax.named_inputs(problem, inputs)
    arrays: list[Any] = [None if each is None else torch.from_numpy(each) for each in named]
    x, target, dy = arrays
    x = x.double().requires_grad_()
    if kind == "cross_entropy":
        y = torch.nn.functional.cross_entropy(x, target, reduction="none")
    else:
        y = getattr(torch, kind)(x, 1)
    found = y if direction == "forward" else torch.autograd.grad(y, x, dy.double())[0]
    reference = problem.reference(np.random.default_rng(0), *inputs)
    np.testing.assert_allclose(found.detach().numpy()[reference.index], reference.expected, rtol=1e-9, atol=1e-12)
    assert problem.output_shape == found.shape == reference.expected.shape


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_tenth_too_much_of_one_word_in_very_many_is_found(direction: str) -> None:
    problem = Softmax(1, 128_256, direction=direction, dtype="bfloat16")
    reference = problem.reference(np.random.default_rng(0), *problem.inputs(np.random.default_rng(0)))
    assert 0.1 * abs(reference.expected / reference.scale).max() > problem.tolerance()


def test_a_sum_in_float32_passes_and_one_that_leaves_out_a_word_does_not() -> None:
    """Eight lanes, as AVX has them."""
    problem = Softmax(8, 50_256)
    (x,) = problem.inputs(np.random.default_rng(0))
    reference = problem.reference(np.random.default_rng(0), x)
    powers = np.exp(x)
    lanes = np.add.accumulate(powers.reshape(8, -1, 8), axis=1)[:, -1]
    for total, is_right in ((lanes.sum(axis=1), True), (powers.astype(np.float64)[:, :-1].sum(axis=1), False)):
        error = (abs(powers / total[:, None] - reference.expected) / reference.scale).max()
        assert (error < problem.tolerance()) == is_right, error
        assert error > 1


def test_rows_of_a_large_one_are_checked_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(softmax, "FULL_CHECK", 0)
    problem = Softmax(100, 7, "cross_entropy", "backward")
    reference = problem.reference(np.random.default_rng(0), *problem.inputs(np.random.default_rng(0)))
    assert (softmax.CHECKED_ROWS, 7) == reference.expected.shape
    assert 99 == reference.index[-1]
