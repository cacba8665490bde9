from __future__ import annotations

import numpy as np
import pytest

from primbench.errors import InvalidRequest
from primbench.kernels.gemm import Gemm


def test_counts() -> None:
    gemm = Gemm(2, 3, 4, "float16")
    assert gemm.flop() == 2 * 2 * 3 * 4
    assert gemm.bytes_moved() == 2 * (2 * 4 + 4 * 3 + 2 * 3)
    assert Gemm(2, 3, 4, beta=1.0).bytes_moved() == 4 * (2 * 4 + 4 * 3 + 2 * 2 * 3)
    assert Gemm(2, 3, 4, "int8").bytes_moved() == 2 * 4 + 4 * 3 + 4 * 2 * 3


def test_stored_shapes_follow_the_transposes() -> None:
    a, b = Gemm(2, 3, 4, trans_a=True, trans_b=True).inputs(np.random.default_rng(0))
    assert (4, 2) == a.shape
    assert (3, 4) == b.shape


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int8", "float8_e4m3"])
def test_inputs_are_random_seeded_and_not_zero(dtype: str) -> None:
    first, again, other = (Gemm(50, 2, 60, dtype).inputs(np.random.default_rng(seed))[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.view(np.uint8), again.view(np.uint8))
    assert (first.view(np.uint8) != other.view(np.uint8)).mean() > 0.5
    assert len(np.unique(first.astype(np.float32))) > 30
    assert (first.astype(np.float32) == 0).mean() < 0.1


def test_a_large_reference_is_sampled_and_says_so() -> None:
    gemm = Gemm(700, 800, 900)
    inputs = gemm.inputs(np.random.default_rng(0))
    reference = gemm.reference(np.random.default_rng(1), *inputs)
    assert (64, 64) == reference.expected.shape
    full = inputs[0].astype(np.float64) @ inputs[1].astype(np.float64)
    np.testing.assert_allclose(full[reference.index], reference.expected, rtol=1e-12)


def test_the_default_accumulation_is_filled_in() -> None:
    assert ["float64", "float32", "float32", "float32", "int32"] == [
        Gemm(1, 1, 1, dtype).accumulate for dtype in ("float64", "float32", "float16", "bfloat16", "int8")
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"m": 0}, "m=0: a size is a whole number"),
        ({"n": -3}, "n=-3"),
        ({"dtype": "float128"}, "dtype='float128': one of float64"),
        ({"dtype": "bfloat16", "math_mode": "tf32"}, "tf32 is a mode of float32"),
        ({"accumulate": "float16"}, "accumulate='float16' with dtype float32"),
        ({"dtype": "int8", "beta": 1.0}, "only alpha=1"),
        ({"alpha": float("nan")}, "finite numbers"),
    ],
)
def test_nonsense_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        Gemm(**({"m": 1, "n": 1, "k": 1} | options))  # type: ignore[arg-type]


def test_the_tolerance_lets_rounding_pass_and_nothing_else() -> None:
    """A float32 product is within it; the same product with inputs rounded to 10 bits, as tf32 does, is not."""
    gemm = Gemm(128, 128, 512)
    a, b = gemm.inputs(np.random.default_rng(0))
    reference = gemm.reference(np.random.default_rng(1), a, b)

    def error(product: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> float:
        return float((abs(product - reference.expected) / reference.scale).max())

    tf32 = [(x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (a, b)]
    assert error(a @ b) < gemm.tolerance() < error(tf32[0] @ tf32[1])
    assert error(tf32[0] @ tf32[1]) < Gemm(128, 128, 512, math_mode="tf32").tolerance()
