"""Batched, grouped and scaled products: counts, what their references see, and what is refused."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from primbench.backends import missing, open_backend
from primbench.errors import InvalidRequest, VerificationError
from primbench.kernels.batched_gemm import BatchedGemm
from primbench.kernels.grouped_gemm import GroupedGemm
from primbench.kernels.grouped_gemm.problem import slices
from primbench.kernels.scaled_gemm import ScaledGemm
from primbench.problem import Problem, description_of
from primbench.registry import setup_of
from primbench.timing.verify import error_of


def error(problem: Problem, inputs: tuple[Any, ...], output: Any) -> float:
    reference = problem.reference(np.random.default_rng(1), *inputs)
    return error_of(output, problem, reference)


def test_operations_and_bytes_are_those_of_all_products() -> None:
    assert (7 * 2 * 2 * 3 * 4, 7 * 4 * (2 * 4 + 4 * 3 + 2 * 3)) == (
        BatchedGemm(7, 2, 3, 4).flop(), BatchedGemm(7, 2, 3, 4).bytes_moved(),
    )  # fmt: skip
    grouped = GroupedGemm(8, 100, 3, 4, "bfloat16", "even")
    assert (2 * 100 * 3 * 4, 2 * (100 * 4 + 8 * 4 * 3 + 100 * 3) + 8 * 4) == (grouped.flop(), grouped.bytes_moved())
    scaled = ScaledGemm(32, 128, 512, scaling="block")
    assert 32 * 512 + 128 * 512 + 2 * 32 * 128 + 4 * (4 * 32 + 4) == scaled.bytes_moved()


@pytest.mark.parametrize(("batch", "m"), [(5, 8), (40, 300)])
def test_one_product_of_a_batch_that_is_wrong_is_found_where_it_is_compared(batch: int, m: int) -> None:
    problem = BatchedGemm(batch, m, 256, 512, "float64", trans_b=True)
    inputs = problem.inputs(np.random.default_rng(0))
    output = inputs[0] @ inputs[1].swapaxes(1, 2)
    assert error(problem, inputs, output) <= problem.tolerance()
    output[-1] *= 1 + 1e-9
    with pytest.raises(VerificationError, match="wrong result"):
        error(problem, inputs, output)


@pytest.mark.parametrize("tokens", [3, 1000])
@pytest.mark.parametrize("split", ["even", "random"])
def test_groups_have_all_tokens_in_turn(split: str, tokens: int) -> None:
    _, _, ends = GroupedGemm(8, tokens, 2, 2, split=split).inputs(np.random.default_rng(0))
    sizes = np.diff(ends, prepend=0)
    assert (tokens, "int32") == (sizes.sum(), ends.dtype.name)
    assert (sizes.max() - sizes.min() <= 1) == (split == "even")
    taken = [rows for _, rows in slices(ends)]
    assert list(range(tokens)) == [each for rows in taken for each in range(rows.start, rows.stop)]


@pytest.mark.parametrize("group", range(5))
def test_a_group_that_took_another_matrix_is_found(group: int) -> None:
    problem = GroupedGemm(5, 3000, 70, 65, "float64")
    a, b, ends = inputs = problem.inputs(np.random.default_rng(0))
    output = np.empty((3000, 70))
    for each, rows in slices(ends):
        np.matmul(a[rows], b[each], out=output[rows])
    assert error(problem, inputs, output) <= problem.tolerance()
    rows = dict(slices(ends))[group]
    np.matmul(a[rows][-1:], b[group - 1], out=output[rows][-1:])  # one token alone, the group's last
    with pytest.raises(VerificationError, match="wrong result"):
        error(problem, inputs, output)


@pytest.mark.parametrize("scaling", ["tensor", "row", "block"])
@pytest.mark.parametrize("m", [36, 2100])
def test_every_scale_counts(scaling: str, m: int) -> None:
    """The product by its definition, element by element of the scales; then one scale of each that is left out."""
    problem = ScaledGemm(m, 256, 1024, scaling=scaling)
    a, b, scale_a, scale_b = inputs = problem.inputs(np.random.default_rng(0))

    def product(scale_a: Any, scale_b: Any) -> Any:
        of_a = {"tensor": scale_a, "row": scale_a.T, "block": np.repeat(scale_a.T, 128, axis=1)}[scaling]
        blocks = np.repeat(np.repeat(scale_b, 128, axis=0), 128, axis=1)
        of_b = {"tensor": scale_b, "row": scale_b.T, "block": blocks}[scaling]
        c = (a.astype(np.float32) * of_a) @ (b.astype(np.float32) * of_b).T
        return c.astype(ml_dtypes.bfloat16)

    assert error(problem, inputs, product(scale_a, scale_b)) <= problem.tolerance()
    for one in range(2):
        wrong = [scale_a.copy(), scale_b.copy()]
        wrong[one][-1, -1] = 4
        with pytest.raises(VerificationError, match="wrong result"):
            error(problem, inputs, product(*wrong))


@pytest.mark.wheel
@pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))
def test_torch_scales_by_row_and_groups_bfloat16_and_does_not_leave_it_at_what_it_lacks() -> None:
    backend = open_backend("torch", "cpu")
    for problem in (ScaledGemm(36, 128, 512, scaling="row"), GroupedGemm(4, 96, 64, 80, "bfloat16")):
        inputs = problem.inputs(np.random.default_rng(0))
        step = setup_of(problem.primitive, "torch")(backend, problem, *map(backend.put, inputs))
        assert description_of(step).algorithm in (None, "torch._grouped_mm")
        assert error(problem, inputs, backend.get(step())) <= problem.tolerance()


@pytest.mark.parametrize(
    ("expected", "make"),
    [
        ("tf32' with dtype='float16'", lambda: BatchedGemm(1, 1, 1, 1, "float16", math_mode="tf32")),
        ("'block' n=64 k=512: n must be a multiple of 128, k of 512", lambda: ScaledGemm(8, 64, 512, scaling="block")),
        ("scaling='row' n=24 k=16: n must be a multiple of 16", lambda: ScaledGemm(8, 24, 16, scaling="row")),
        ("split='odd': one of random, even", lambda: GroupedGemm(1, 1, 1, 1, split="odd")),
    ],
)
def test_nonsense_is_refused(expected: str, make: Any) -> None:
    with pytest.raises(InvalidRequest, match=expected):
        make()
