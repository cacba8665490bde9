from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from primbench.backends import open_backend
from primbench.errors import InvalidRequest
from primbench.kernels.elementwise import Elementwise
from primbench.kernels.elementwise import problem as elementwise
from primbench.registry import setup_of


@pytest.mark.parametrize(
    ("arrays", "options"),
    [
        (2, {"op": "copy"}),
        (3, {"op": "add"}),
        (2, {"op": "silu"}),
        (3, {"op": "silu", "direction": "backward"}),
        (3, {"op": "swiglu"}),
    ],
)
def test_bytes_are_those_of_each_array_once(arrays: int, options: dict[str, Any]) -> None:
    assert arrays * 1000 * 4 == Elementwise(1000, **options).bytes_moved()
    assert arrays * 1000 * 2 == Elementwise(1000, dtype="bfloat16", **options).bytes_moved()


def test_rope_also_reads_a_cosine_and_a_sine_for_each_pair_of_a_token() -> None:
    tokens, heads, head_dim = 5, 3, 8
    problem = Elementwise(tokens * heads * head_dim, "rope", heads=heads, head_dim=head_dim)
    assert 4 * (2 * tokens * heads * head_dim + 2 * tokens * head_dim // 2) == problem.bytes_moved()


def test_rope_keeps_lengths_and_turns_by_the_difference_of_places() -> None:
    """The product of two heads depends on how far apart their tokens are: section 3.1 of the paper."""
    problem = Elementwise(8 * 16, "rope", heads=1, head_dim=16)
    x, cos, sin = problem.inputs(np.random.default_rng(0))
    x = np.tile(x[:16], 8)
    rotated = problem.reference(np.random.default_rng(0), x, cos, sin).expected.reshape(8, 16)
    products = rotated @ rotated.T
    for apart in range(8):
        np.testing.assert_allclose(np.diagonal(products, apart), products[0, apart], rtol=1e-6)


@pytest.mark.parametrize("op", elementwise.ACTIVATIONS)
def test_a_gradient_is_the_slope_of_the_forward_pass(op: str) -> None:
    x, step = np.random.default_rng(0).uniform(-1, 1, 500), 1e-6
    (up, _), (down, _) = (elementwise._FORWARD[op](x + h) for h in (step, -step))
    slope, _ = elementwise._BACKWARD[op](np.ones(500), x)
    np.testing.assert_allclose((up - down) / (2 * step), slope, atol=1e-8)


def test_a_large_reference_is_a_part_of_the_full_one(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Elementwise(4096, "rope", heads=4, head_dim=16)
    inputs = problem.inputs(np.random.default_rng(0))
    full = problem.reference(np.random.default_rng(1), *inputs)
    monkeypatch.setattr(elementwise, "CHECKED", 100)
    part = problem.reference(np.random.default_rng(1), *inputs)
    assert (100,) == part.expected.shape
    np.testing.assert_array_equal(full.expected[part.index], part.expected)


@pytest.mark.wheel
@pytest.mark.parametrize("op", ["gelu", "swiglu", "rope"])
def test_a_slip_is_beyond_the_tolerance(op: str) -> None:
    """The approximation by tanh for gelu, the arrays exchanged for the others."""
    pytest.importorskip("torch", reason="torch is not installed")
    problem, backend = Elementwise(4096, op), open_backend("torch", "cpu")
    inputs = problem.inputs(np.random.default_rng(0))
    right = problem.reference(np.random.default_rng(0), *inputs)
    slipped = Elementwise(4096, "gelu_tanh") if op == "gelu" else problem
    given = inputs if op == "gelu" else (*inputs[:-2], *inputs[:-3:-1])
    y = backend.get(setup_of("elementwise", "torch")(backend, slipped, *map(backend.put, given))())
    assert (abs(y[right.index] - right.expected) / right.scale).max() > problem.tolerance()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"op": "add", "direction": "backward"}, "op='add': relu, gelu, gelu_tanh, silu have one"),
        ({"op": "rope", "heads": 3}, "elements=4096 op='rope': a multiple of heads times head_dim, 384"),
        ({"op": "rope", "heads": 1, "head_dim": 1}, "head_dim=1"),
    ],
)
def test_nonsense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        Elementwise(4096, **options)
