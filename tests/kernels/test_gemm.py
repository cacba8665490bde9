from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from primbench.errors import InvalidRequest
from primbench.kernels.gemm import Gemm
from primbench.random import sample


def test_counts() -> None:
    gemm = Gemm(2, 3, 4, "float16")
    assert gemm.flop() == 2 * 2 * 3 * 4
    assert gemm.bytes_moved() == 2 * (2 * 4 + 4 * 3 + 2 * 3)
    assert Gemm(2, 3, 4, beta=1.0).bytes_moved() == 4 * (2 * 4 + 4 * 3 + 2 * 2 * 3)
    assert Gemm(2, 3, 4, bias=True).bytes_moved() == 4 * (2 * 4 + 4 * 3 + 2 * 3 + 3)
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


@pytest.mark.parametrize("m", [5, 3000])
@pytest.mark.parametrize("added", [{"bias": True}, {"beta": 0.3}])
def test_a_reference_adds_in_float64_biases_to_each_row_and_a_matrix(m: int, added: dict[str, Any]) -> None:
    """In a reference of all of C, and in one of some of it."""
    gemm = Gemm(m, 300, 200, "float16", **added)
    a, b, d = (each.astype(np.float64) for each in gemm.inputs(np.random.default_rng(0)))
    assert ((300,) if gemm.bias else (m, 300)) == d.shape
    reference = gemm.reference(np.random.default_rng(1), *gemm.inputs(np.random.default_rng(0)))
    full = a @ b + (d if gemm.bias else 0.3 * d)
    np.testing.assert_allclose(full[reference.index], reference.expected, rtol=1e-12)
    assert (64, 64) == reference.expected.shape or m == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"m": 0}, "m=0: a whole number"),
        ({"n": -3}, "n=-3"),
        ({"dtype": "float128"}, "dtype='float128': one of float64"),
        ({"dtype": "bfloat16", "math_mode": "tf32"}, "tf32 is a mode of float32"),
        ({"accumulate": "float16"}, "accumulate='float16' with dtype='float32'"),
        ({"dtype": "int8", "beta": 1.0}, "only alpha=1"),
        ({"bias": True, "beta": 1.0}, "gemm bias: only alpha=1"),
        ({"bias": True, "dtype": "float8_e4m3"}, "gemm bias: .* neither int8 nor float8_e4m3"),
        ({"alpha": float("nan")}, "a finite number"),
    ],
)
def test_nonsense_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        Gemm(**({"m": 1, "n": 1, "k": 1} | options))  # type: ignore[arg-type]


def test_a_sample_has_one_of_every_strip_and_the_edge() -> None:
    rows = sample(np.random.default_rng(3), 1000, 10)
    assert 10 == len(rows)
    assert 999 == rows[-1]
    assert list(range(9)) == [int(row) // 100 for row in rows[:-1]]
    assert [0, 1, 2] == list(sample(np.random.default_rng(3), 3, 10))


def test_float64_inputs_use_all_of_their_bits() -> None:
    (a, _) = Gemm(100, 2, 100, "float64").inputs(np.random.default_rng(0))
    assert (a.view(np.uint64) & np.uint64(2**29 - 1) != 0).mean() > 0.9


def error(gemm: Gemm, product: Any) -> float:
    a, b = gemm.inputs(np.random.default_rng(0))
    reference = gemm.reference(np.random.default_rng(1), a, b)
    difference = abs(product(a, b)[reference.index].astype(np.float64) - reference.expected)
    return float((difference / reference.scale).max())


def as_float32(a: Any, b: Any) -> Any:
    return a.astype(np.float32) @ b.astype(np.float32)


def as_tf32(a: Any, b: Any) -> Any:
    a, b = ((x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (a, b))
    return a @ b


@pytest.mark.parametrize("k", [16, 512, 4096])
def test_rounding_passes(k: int) -> None:
    for dtype in ("float32", "float16", "bfloat16"):
        gemm = Gemm(80, 90, k, dtype)
        out = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
        assert error(gemm, lambda a, b, out=out: as_float32(a, b).astype(out)) < gemm.tolerance() / 2
    tf32 = Gemm(80, 90, k, math_mode="tf32")
    assert error(tf32, as_tf32) < tf32.tolerance()


@pytest.mark.parametrize("k", [512, 4096])
@pytest.mark.parametrize(
    ("dtype", "accumulate", "fault"),
    [
        ("float32", "float32", as_tf32),
        ("bfloat16", "float32", lambda a, b: as_float32(a[:, :-16], b[:-16])),
        ("bfloat16", "float32", lambda a, b: 1.05 * as_float32(a, b)),
        ("float16", "float16", lambda a, b: 0 * as_float32(a, b)),
    ],
    ids=["tf32 unasked", "16 terms left out", "5 % too large", "zeros"],
)
def test_faults_do_not(dtype: str, accumulate: str, fault: Any, k: int) -> None:
    gemm = Gemm(80, 90, k, dtype, accumulate=accumulate)
    assert error(gemm, fault) > gemm.tolerance()
