"""Batched, grouped and scaled products: counts, what their references see, and what is refused."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from primbench.backends import missing, open_backend
from primbench.errors import InvalidRequest, VerificationError
from primbench.kernels.batched_gemm import BatchedGemm
from primbench.kernels.gemm import Gemm
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


def test_groups_without_tokens_are_not_read() -> None:
    """Of a random split on average: of 128 groups 8 tokens find 7.78."""
    few = {split: GroupedGemm(128, 8, 32, 16, "bfloat16", split) for split in ("even", "random")}
    read = {
        split: (problem.bytes_moved() - 2 * 8 * (32 + 16) - 4 * 128) / 2 / (32 * 16) for split, problem in few.items()
    }
    assert {"even": 8, "random": 8} == read
    many = GroupedGemm(8, 100, 32, 16, "bfloat16")
    assert many.memory_bytes() == many.bytes_moved()
    used = [len(slices(few["random"].inputs(np.random.default_rng(seed))[2])) for seed in range(200)]
    assert abs(np.mean(used) - 7.78) < 0.15


SCALED = {"float8_e4m3": ("row", "mx", "block"), "int8": ("tensor",), "int4": ("group",), "float4_e2m1": ("nv",)}


@pytest.mark.parametrize(
    "problem",
    [
        Gemm(3, 70, 512, "bfloat16", trans_b=True),
        GroupedGemm(3, 20, 33, 17),
        *(ScaledGemm(4, 256, 512, dtype, scaling) for dtype, scalings in SCALED.items() for scaling in scalings),
    ],
    ids=repr,
)
def test_a_reference_by_blocks_of_columns_is_that_of_all_at_once(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = problem.inputs(np.random.default_rng(0))
    once = problem.reference(np.random.default_rng(1), *inputs)
    monkeypatch.setattr("primbench.kernels.gemm.problem.BLOCK", 3 * 512)
    blocks = problem.reference(np.random.default_rng(1), *inputs)
    for name in ("expected", "scale"):
        np.testing.assert_allclose(getattr(blocks, name), getattr(once, name), rtol=1e-12, atol=1e-12)


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
@pytest.mark.parametrize("split", ["even", "random", "zipf"])
def test_groups_have_all_tokens_in_turn(split: str, tokens: int) -> None:
    _, _, ends = GroupedGemm(8, tokens, 2, 2, split=split).inputs(np.random.default_rng(0))
    sizes = np.diff(ends, prepend=0)
    assert (tokens, "int32") == (sizes.sum(), ends.dtype.name)
    assert (sizes.max() - sizes.min() <= 1) == (split == "even") or tokens == 3
    taken = [rows for _, rows in slices(ends)]
    assert list(range(tokens)) == [each for rows in taken for each in range(rows.start, rows.stop)]


@pytest.mark.parametrize(("tokens", "used"), [(5, 4), (761, 8)])
def test_the_busiest_groups_are_elsewhere_with_each_seed_and_those_without_tokens_are_not_read(
    tokens: int, used: int
) -> None:
    problem = GroupedGemm(8, tokens, 3, 4, "bfloat16", "zipf")
    sizes = [np.diff(problem.inputs(np.random.default_rng(seed))[2], prepend=0) for seed in range(3)]
    assert len({tuple(each) for each in sizes}) > 1
    assert 1 == len({tuple(sorted(each)) for each in sizes})
    assert used == (sizes[0] > 0).sum()
    assert problem.bytes_moved() == 2 * (tokens * (3 + 4) + used * 3 * 4) + 8 * 4
    assert tokens < 761 or [280, 140, 93, 70, 56, 47, 40, 35] == sorted(sizes[0])[::-1]  # of 280/k


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


FEW_BITS = [("float8_e4m3", "mx"), ("int8", "row"), ("int4", "group"), ("float4_e2m1", "mx"), ("float4_e2m1", "nv")]


def by_definition(problem: ScaledGemm, inputs: Any) -> Any:
    """C in float64, element by element of both matrices."""
    a, b, *scales = inputs
    size = {"mx": 32, "nv": 16}.get(problem.scaling, problem.k)

    def factor(stored: Any, scale: Any, row: int, column: int) -> float:
        if problem.dtype == "float4_e2m1":
            bits = stored[row, column // 2] >> 4 * (column % 2) & 15
            number = float(np.array(bits, np.uint8).view(ml_dtypes.float4_e2m1fn))
        else:
            number = float(stored[row, column])
        if problem.scaling == "row":
            return number * float(scale[0, row])
        one = scale[row, column // size]
        return number * float(one.view(ml_dtypes.float8_e8m0fnu) if problem.scaling == "mx" else one)

    def weight(row: int, column: int) -> float:
        bits = b[row, column // 2] >> 4 * (column % 2) & 15
        scale, zero = (float(each) for each in scales[0][column // 128, row])
        return (int(bits) - 8) * scale + zero

    shape, columns = (problem.m, problem.n), range(problem.k)
    if problem.dtype == "int4":
        of_a = np.array([[float(a[i, c]) for c in columns] for i in range(problem.m)])
        return of_a @ np.array([[weight(j, c) for c in columns] for j in range(problem.n)]).T
    of_both = (
        np.array([[factor(stored, scale, i, c) for c in columns] for i in range(rows)])
        for stored, scale, rows in zip((a, b), scales, shape, strict=True)
    )
    return np.matmul(*(each if i == 0 else each.T for i, each in enumerate(of_both)))


@pytest.mark.parametrize(("dtype", "scaling"), FEW_BITS)
def test_numbers_of_few_bits_are_what_their_formats_say(dtype: str, scaling: str) -> None:
    """And one scale that is another, or two elements of a byte the other way round, are found."""
    problem = ScaledGemm(3, 16, 256, dtype, scaling)
    inputs = problem.inputs(np.random.default_rng(0))
    output = by_definition(problem, inputs)
    np.testing.assert_allclose(problem.reference(np.random.default_rng(1), *inputs).expected, output, rtol=1e-12)
    wrong = [each.copy() for each in inputs]
    wrong[-1].reshape(-1)[-1] = 130 if scaling == "mx" else 4
    with pytest.raises(VerificationError, match="wrong result"):
        error(problem, inputs, by_definition(problem, wrong).astype(ml_dtypes.bfloat16))
    if inputs[1].dtype == np.uint8:
        swapped = inputs[1] << 4 | inputs[1] >> 4
        with pytest.raises(VerificationError, match="wrong result"):
            error(problem, inputs, by_definition(problem, (inputs[0], swapped, *inputs[2:])).astype(ml_dtypes.bfloat16))


@pytest.mark.wheel
@pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))
def test_a_gpus_tiles_of_scales_are_where_its_library_looks_for_them() -> None:
    """Element 16 (row % 32) + 4 (row / 32) + column of a tile of 128 rows and 4 columns (cuBLAS manual)."""
    import torch

    from primbench.kernels.scaled_gemm.torch import _swizzled

    scales = np.arange(200 * 6).reshape(200, 6) % 251
    found = _swizzled(torch.from_numpy(scales.astype(np.uint8))).numpy()
    assert 256 * 8 == found.size
    for row, column in ((0, 0), (37, 1), (131, 5), (199, 3)):
        tile = row // 128 * 2 + column // 4
        place = 512 * tile + 16 * (row % 32) + 4 * (row % 128 // 32) + column % 4
        assert scales[row, column] == found[place]


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
        ("'nv' with dtype='int8': one of row, tensor", lambda: ScaledGemm(16, 16, 32, "int8", "nv")),
        ("'mx' n=16 k=48: n must be a multiple of 16, k of 32", lambda: ScaledGemm(16, 16, 48, scaling="mx")),
        ("split='odd': one of random, even, zipf", lambda: GroupedGemm(1, 1, 1, 1, split="odd")),
    ],
)
def test_nonsense_is_refused(expected: str, make: Any) -> None:
    with pytest.raises(InvalidRequest, match=expected):
        make()
