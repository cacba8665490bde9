"""All-reduce: exact sums in every dtype, the formulas of nccl-tests, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import primbench.suites as suites
from primbench.dtypes import numpy_dtype
from primbench.errors import InvalidRequest, UnsupportedCase
from primbench.kernels.allreduce import Allreduce
from primbench.measurement import Measurement, Samples
from primbench.problem.ranked import EXACT
from primbench.timing.case import setup


def summed(problem: Allreduce, seed: int) -> Any:
    """What a right implementation makes, in the dtype itself and in the order of the ranks."""
    total = problem.inputs_of(0, seed)[0].copy()
    for rank in range(1, problem.ranks):
        total += problem.inputs_of(rank, seed)[0]
    return total


@pytest.mark.parametrize("dtype", EXACT)
@pytest.mark.parametrize("ranks", [1, 2, 7, 64])
def test_sums_are_exact_in_every_dtype_and_order(dtype: str, ranks: int) -> None:
    problem = Allreduce(8 * 251, ranks, dtype)
    inputs = [problem.inputs_of(rank, 3)[0] for rank in range(ranks)]
    backwards = sum(inputs[::-1], start=np.zeros((), numpy_dtype(dtype)))
    assert 0 == problem.count_wrong(summed(problem, 3), 0, 3)
    assert 0 == problem.count_wrong(np.asarray(backwards), 1 % ranks, 3)


@pytest.mark.parametrize("dtype", EXACT)
def test_every_wrong_element_is_counted(dtype: str) -> None:
    problem = Allreduce(8 * 251, 2, dtype)
    output = summed(problem, 3)
    output[[0, 17, -1]] += numpy_dtype(dtype).type(1)
    assert 3 == problem.count_wrong(output, 1, 3)


def test_an_element_that_one_rank_left_out_is_wrong() -> None:
    problem = Allreduce(1 << 16, 2)
    assert problem.count_wrong(problem.inputs_of(0, 3)[0], 0, 3) > 0.99 * problem.count


def test_wrong_elements_are_found_where_the_inputs_repeat() -> None:
    problem = Allreduce(5_000_000, 2, "int8")
    output = summed(problem, 3)
    assert 0 == problem.count_wrong(output, 1, 3)
    output[-1] += 1
    assert 1 == problem.count_wrong(output, 1, 3)


def test_ranks_bring_different_inputs_and_the_same_ones_each_time() -> None:
    problem = Allreduce(4096, 2)
    first, second = problem.inputs_of(0, 3)[0], problem.inputs_of(1, 3)[0]
    assert (first != second).mean() > 0.99
    np.testing.assert_array_equal(first, problem.inputs_of(0, 3)[0])


def test_bandwidths_are_those_of_nccl_tests() -> None:
    taken = Samples(samples_s=[1e-3], calls_per_sample=1, taken_by="graph", stopped="noise")
    figures = Allreduce(1 << 28, 4).figures(Measurement(device_s=taken, verified=True))
    assert {"algbw_bytes_per_s": 268435456e3, "busbw_bytes_per_s": 402653184e3, "#wrong": 0} == figures
    nothing = {"algbw_bytes_per_s": None, "busbw_bytes_per_s": None, "#wrong": None}
    assert nothing == Allreduce(1 << 28, 4).figures(Measurement())


@pytest.mark.parametrize(
    ("expected", "fields"),
    [
        ("bytes=1001: float32 takes 4 each", {"bytes": 1001}),
        ("ranks=0: a whole number of at least 1", {"bytes": 1024, "ranks": 0}),
        ("dtype='float8_e4m3': one of", {"bytes": 1024, "dtype": "float8_e4m3"}),
        ("op='max': one of sum", {"bytes": 1024, "op": "max"}),
        ("ranks=128: int8 sums are exact up to 127", {"bytes": 1024, "ranks": 128, "dtype": "int8"}),
    ],
)
def test_nonsense_is_refused(expected: str, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=expected):
        Allreduce(**fields)


def test_several_ranks_are_several_processes() -> None:
    with pytest.raises(UnsupportedCase, match="2 ranks are 2 processes"):
        setup(Allreduce(1024, 2), backend="numpy", device="cpu")


def test_deepbench_has_7_sizes_on_5_numbers_of_ranks() -> None:
    problems = [problem for problem in suites.load("deepbench", only=["allreduce"]) if isinstance(problem, Allreduce)]
    assert [2, 4, 8, 16, 32] * 7 == [problem.ranks for problem in problems]
    floats = [100_000, 3_097_600, 4_194_304, 6_553_600, 16_777_217, 38_360_000, 64_500_000]
    assert floats == [problem.count for problem in problems[::5]]
