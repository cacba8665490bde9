from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.sparse import csr_array

from primbench.errors import InvalidRequest
from primbench.kernels.sparse_gemm import SparseGemm
from primbench.kernels.sparse_gemm import problem as sparse_gemm

if TYPE_CHECKING:
    from primbench.problem import Array


def matrix(problem: SparseGemm, seed: int = 0) -> csr_array:
    values, columns, row_starts, _ = problem.inputs(np.random.default_rng(seed))
    a = csr_array((values.astype(np.float64), columns, row_starts), shape=(problem.m, problem.k))
    a.check_format(full_check=True)
    return a


@pytest.mark.parametrize(
    ("expected", "problem"),
    [
        (6, SparseGemm(4, 3, 5, sparsity=0.7)),
        (20, SparseGemm(4, 3, 5, sparsity=0.0)),
        (1, SparseGemm(4, 3, 5, sparsity=0.99)),
        (1, SparseGemm(1, 1, 1)),
    ],
)
def test_the_non_zeros_are_exactly_those_asked_for_and_at_least_one(expected: int, problem: SparseGemm) -> None:
    a = matrix(problem)
    assert expected == problem.nonzeros == a.nnz
    assert a.has_canonical_format  # ascending columns, no place twice


def test_counts() -> None:
    problem = SparseGemm(4, 3, 5, sparsity=0.7)
    assert 2 * 6 * 3 == problem.flop()
    assert 4 * (6 + 5) + 4 * (6 + 5 * 3 + 4 * 3) == problem.bytes_moved()
    assert 4 * (6 + 5) + 2 * (6 + 5 * 3 + 4 * 3) == replace(problem, dtype="bfloat16").bytes_moved()


def test_places_are_spread_over_the_whole_matrix_and_follow_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_gemm, "DRAW", 1000)  # several draws, the last one shorter
    problem = SparseGemm(70, 1, 50)
    first, again, other = (matrix(problem, seed).toarray() for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert ((first != 0) != (other != 0)).sum() > problem.nonzeros
    assert [350] == [np.count_nonzero(first)]
    quarters = first.reshape(2, 35, 2, 25)
    assert (np.abs(np.count_nonzero(quarters, axis=(1, 3)) - 350 / 4) < 30).all()


def test_all_places_are_drawn_where_nothing_is_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_gemm, "DRAW", 7)
    np.testing.assert_array_equal(
        np.arange(30) % 5, SparseGemm(6, 1, 5, sparsity=0.0).inputs(np.random.default_rng(0))[1]
    )


def test_a_large_reference_is_a_part_of_the_full_one(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = SparseGemm(150, 90, 80)
    inputs = problem.inputs(np.random.default_rng(0))
    full = problem.reference(np.random.default_rng(1), *inputs)
    monkeypatch.setattr(sparse_gemm, "FULL_CHECK_FLOP", 0)
    part = problem.reference(np.random.default_rng(1), *inputs)
    assert ((150, 90), (64, 64)) == (full.expected.shape, part.expected.shape)
    np.testing.assert_allclose(full.expected[part.index], part.expected, rtol=1e-12)
    np.testing.assert_allclose(full.scale[part.index], part.scale, rtol=1e-12)


def error_of(product: Array, problem: SparseGemm, inputs: tuple[Array, ...]) -> float:
    reference = problem.reference(np.random.default_rng(1), *inputs)
    return float((abs(product - reference.expected) / reference.scale).max())


def test_the_tolerance_lets_rounding_pass_and_nothing_else() -> None:
    """A float32 product is within it; the product with values rounded to 10 bits, as tf32 does, is not."""
    problem = SparseGemm(128, 96, 512)
    inputs = problem.inputs(np.random.default_rng(0))
    values, columns, row_starts, b = inputs
    rounded = (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    right, wrong = (csr_array((v, columns, row_starts), shape=(128, 512)) @ b for v in (values, rounded))
    assert error_of(right, problem, inputs) < problem.tolerance() < error_of(wrong, problem, inputs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k=0: a whole number of at least 1"),
        ({"sparsity": 1.0}, "sparsity=1.0: below 1"),
        ({"sparsity": -0.1}, "sparsity=-0.1"),
        ({"sparsity": float("nan")}, "sparsity=nan"),
        ({"dtype": "int8"}, "dtype='int8': one of float64"),
        ({"m": 2**20, "k": 2**20}, "m=1048576, k=1048576, sparsity=0.9: 32-bit indices reach 2\\^31"),
        ({"k": 2**31, "sparsity": 0.999999}, "k=2147483648, sparsity=0.999999: 32-bit"),
        ({"m": 10**400}, "sparse_gemm m: a number of 1329 bits, 63 are the most"),
    ],
)
def test_nonsense_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        SparseGemm(**({"m": 1, "n": 1, "k": 1} | options))  # type: ignore[arg-type]


def test_the_probe_has_about_the_operations_asked_for_and_is_of_the_same_kind() -> None:
    probe = SparseGemm(10752, 6000, 3584, 0.95, "float64").probe(2**24)
    assert probe is not None
    assert (0.95, "float64") == (probe.sparsity, probe.dtype)
    assert 2**24 == pytest.approx(probe.flop(), rel=0.02)
    assert probe.probe(2**24) is None
    assert SparseGemm(7680, 1, 2560, 0.95).probe(2**24) is None
