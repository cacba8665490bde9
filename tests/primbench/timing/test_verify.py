from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from primbench.backends import open_backend
from primbench.backends.numpy import Numpy
from primbench.errors import VerificationError
from primbench.kernels.gemm import Gemm
from primbench.problem import Reference, Step, described
from primbench.registry import setup_of
from primbench.timing.calls import CallLoop
from primbench.timing.verify import check_output, count_unwritten, error_of

PROBLEM = Gemm(20, 30, 40)
INPUTS = PROBLEM.inputs(np.random.default_rng(0))
BACKEND = open_backend("numpy", "cpu")


def check(step: Step) -> float:
    return check_output(BACKEND, PROBLEM, step, PROBLEM.reference(np.random.default_rng(1), *INPUTS))


def right_step() -> Step:
    return setup_of("gemm", "numpy")(BACKEND, PROBLEM, *INPUTS)


def test_a_right_result_gives_its_error() -> None:
    assert 0 <= check(right_step()) <= PROBLEM.tolerance()


def test_one_wrong_element_is_found() -> None:
    right = right_step()

    def step() -> Any:
        output = right()
        output[7, 3] *= 1.01
        return output

    with pytest.raises(VerificationError, match="wrong result"):
        check(step)


@pytest.mark.parametrize(("expected", "is_right"), [(np.inf, True), (-np.inf, False), (np.nan, False), (1.0, False)])
def test_infinity_is_right_where_it_is_expected_and_nan_never(expected: float, *, is_right: bool) -> None:
    found = np.array([np.inf, 1.0], np.float32)
    reference = Reference(index=..., expected=np.array([expected, 1.0]), scale=np.ones(2))
    if is_right:
        assert 0 == error_of(found, PROBLEM, reference)
        return
    with pytest.raises(VerificationError, match="wrong result"):
        error_of(found, PROBLEM, reference)


def test_one_element_never_written_is_found() -> None:
    output = np.zeros((20, 30), np.float32)
    product = INPUTS[0] @ INPUTS[1]

    def step() -> Any:
        output.flat[:-1] = product.flat[:-1]
        return output

    with pytest.raises(VerificationError, match="1 of 600 elements"):
        check(step)


def test_a_result_computed_once_and_not_again_is_found() -> None:
    output = INPUTS[0] @ INPUTS[1]
    with pytest.raises(VerificationError, match="600 of 600"):
        check(lambda: output)


def test_a_call_that_is_a_process_of_its_own_is_made_once() -> None:
    """It may take as long as all that is timed, and finds nothing that an earlier one has left."""
    right, calls = right_step(), list[int]()

    def step() -> Any:
        calls.append(1)
        return right()

    check(described(step, is_process=True))
    assert [1] == calls
    check(described(step, is_process=False))
    assert 3 == len(calls)


def test_an_output_of_another_shape_is_found() -> None:
    right = right_step()
    with pytest.raises(VerificationError, match="shape"):
        check(lambda: right()[:, :1])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_nan_is_counted_in_every_dtype(dtype: type) -> None:
    host: Any = np.ones(1000, dtype)
    assert count_unwritten(host) == 0
    host[[3, 999]] = np.nan
    host[5] = -np.asarray(np.nan, dtype)
    assert count_unwritten(host) == 3


def test_infinity_is_not_nan() -> None:
    for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
        assert count_unwritten(np.full(10, np.inf, dtype)) == 0


def test_integers_never_written_hold_the_smallest_value() -> None:
    host = np.arange(6, dtype=np.int32)
    assert count_unwritten(host) == 0
    host[2:4] = np.iinfo(np.int32).min
    assert count_unwritten(host) == 2


def test_an_output_in_host_memory_needs_no_backend_to_be_looked_at() -> None:
    class Elsewhere(Numpy):
        """As of a GPU, whose arrays are not NumPy's."""

        def get(self, array: Any) -> Any:
            raise AssertionError("not an array of mine")

        poison = get

    step = right_step()
    assert (
        check_output(Elsewhere(), PROBLEM, step, PROBLEM.reference(np.random.default_rng(1), *INPUTS))
        <= PROBLEM.tolerance()
    )


@pytest.mark.parametrize("output", [None, 7, (np.zeros(3),), (each for each in "ab")])
def test_what_is_no_array_is_told_so(output: object) -> None:
    with pytest.raises(VerificationError, match=rf"^a call returned .*, of type {type(output).__name__}: it is to"):
        check(lambda: output)


def test_what_is_no_array_is_told_in_one_line() -> None:
    with pytest.raises(
        VerificationError, match=r"^a call returned \(array\(\[\[1\., 1\.\], \[1\., 1\.\]\]\),\), of type tuple: it"
    ):
        check(lambda: (np.ones((2, 2)),))


def test_a_set_up_that_returns_no_function_is_told_so() -> None:
    not_steps: Any = [None]
    with pytest.raises(VerificationError, match=r"returned None, of type NoneType: it is to return a function"):
        CallLoop(not_steps)
