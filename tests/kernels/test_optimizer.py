from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from primbench.backends import open_backend
from primbench.errors import UnsupportedCase, VerificationError
from primbench.kernels.optimizer import Optimizer
from primbench.kernels.optimizer.problem import BETAS, LEARNING_RATE, MOMENTUM
from primbench.registry import setup_of
from primbench.timing.verify import check_output


@pytest.mark.parametrize(("arrays", "method"), [(5, "sgd"), (7, "adam"), (7, "adamw")])
def test_bytes_are_those_of_each_array_once_read_and_once_written(arrays: int, method: str) -> None:
    assert arrays * 3 * 10 * 4 == Optimizer(3, 10, method).bytes_moved()


@pytest.mark.parametrize("method", ["sgd", "adam", "adamw"])
def test_a_step_is_as_the_papers_have_it(method: str) -> None:
    """Of one element, by hand."""
    problem = Optimizer(1, 1, method)
    p, g, m, v = 0.5, -0.25, 0.125, 0.0625
    inputs = [np.array([[value]]) for value in (p, g, m, v)][: 3 if method == "sgd" else 4]
    found = problem.reference(np.random.default_rng(0), *inputs).expected
    if method == "sgd":
        m = MOMENTUM * m + g
        np.testing.assert_allclose([p - LEARNING_RATE * m, m], found)
        return
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    update = m / (1 - BETAS[0] ** 11) / (np.sqrt(v / (1 - BETAS[1] ** 11)) + 1e-8)
    decayed = p * (1 - 0.1) if method == "adamw" else p
    np.testing.assert_allclose([decayed - LEARNING_RATE * update, m, v], found, rtol=1e-12)


def test_betas_of_float32_pass_and_a_step_miscounted_does_not() -> None:
    problem = Optimizer(20, 1000, "adam")
    inputs = problem.inputs(np.random.default_rng(0))
    reference = problem.reference(np.random.default_rng(0), *inputs)
    p, g, m, v = (array.reshape(-1).astype(np.float64) for array in inputs)
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g

    def error_of(one: float, two: float, steps: int) -> float:
        updated = p - LEARNING_RATE * m / (1 - one**steps) / (np.sqrt(v / (1 - two**steps)) + 1e-8)
        output = np.concatenate([updated, m, v])
        return float((abs(output[reference.index] - reference.expected) / reference.scale).max())

    rounded = error_of(float(np.float32(0.9)), float(np.float32(0.999)), 11)
    assert 0.01 < rounded < problem.tolerance() < error_of(0.9, 0.999, 10)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_that_do_not_decay_are_found(dtype: str) -> None:
    decaying, kept = (Optimizer(4, 500, method, dtype=dtype) for method in ("adamw", "adam"))
    inputs = decaying.inputs(np.random.default_rng(0))
    right, wrong = (each.reference(np.random.default_rng(0), *inputs) for each in (decaying, kept))
    assert (abs(wrong.expected - right.expected) / right.scale).max() > 2 * decaying.tolerance()


def set_up(problem: Optimizer) -> tuple[Any, Any, Any]:
    pytest.importorskip("torch", reason="torch is not installed")
    backend = open_backend("torch", "cpu")
    inputs = problem.inputs(np.random.default_rng(0))
    step = setup_of("optimizer", "torch")(backend, problem, *map(backend.put, inputs))
    return backend, step, problem.reference(np.random.default_rng(0), *inputs)


@pytest.mark.wheel
@pytest.mark.parametrize("method", ["sgd", "adamw"])
def test_a_tensor_that_is_left_out_is_found_and_so_is_a_step_too_many(method: str) -> None:
    problem = Optimizer(4, 50, method)
    backend, step, reference = set_up(problem)
    check_output(backend, problem, step, reference)
    updated = step()
    with pytest.raises(VerificationError, match="wrong result"):
        check_output(backend, problem, lambda: step() and step(), reference)
    updated.optimizer.param_groups[0]["params"][2].grad = None
    with pytest.raises(VerificationError, match="wrong result"):
        check_output(backend, problem, step, reference)


@pytest.mark.wheel
def test_the_one_that_torch_computes_wrongly_is_refused() -> None:
    with pytest.raises(UnsupportedCase, match=r"fused sgd on a CPU is wrong in bfloat16: ask for algo=foreach"):
        set_up(Optimizer(2, 20, "sgd", "fused", "bfloat16"))
