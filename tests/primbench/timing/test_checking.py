from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from primbench.backends import open_backend
from primbench.errors import VerificationError
from primbench.kernels.gemm import Gemm
from primbench.measurement.outputs import Checked
from primbench.problem import Reference, Step, described
from primbench.registry import setup_of
from primbench.timing import checking
from primbench.timing.checking import FEW_REPEATS, FIRST_CALLS, OutputCheck
from primbench.timing.digest import of_host
from primbench.timing.references import KnownOfCase

PROBLEM = Gemm(20, 30, 40)
INPUTS = PROBLEM.inputs(np.random.default_rng(0))
BACKEND = open_backend("numpy", "cpu")
RIGHT = of_host(INPUTS[0] @ INPUTS[1])


def right_step(change: Callable[[int, Any], None] = lambda call, output: None) -> Step:
    """change: what is done to the output of each call, which are counted from 0."""
    right, calls = setup_of("gemm", "numpy")(BACKEND, PROBLEM, *INPUTS), iter(range(10**9))

    def step() -> Any:
        output = right()
        change(next(calls), output)
        return output

    return step


def flipped(output: Any) -> None:
    output.view(np.uint32)[3, 7] ^= 1


def reference() -> Reference:
    return PROBLEM.reference(np.random.default_rng(1), *INPUTS)


def not_asked_for() -> Reference:
    raise AssertionError("the reference was made")


def known(*digests: str) -> KnownOfCase:
    return KnownOfCase(outputs=[Checked(digest=each, error=0.25) for each in digests])


def test_the_first_process_compares_with_the_reference_and_sees_whether_calls_give_the_same() -> None:
    check = OutputCheck(BACKEND, PROBLEM, right_step(), reference)
    assert 0 <= check.begin()() <= PROBLEM.tolerance()
    assert (RIGHT, [RIGHT]) == (check.output().digest, list(check.output().calls))
    assert 2 <= check.output().calls[RIGHT] <= FIRST_CALLS


def test_it_says_what_share_of_the_output_is_compared_and_a_later_one_repeats_it() -> None:
    problem = Gemm(700, 800, 900)
    inputs = problem.inputs(np.random.default_rng(0))
    step = setup_of("gemm", "numpy")(BACKEND, problem, *inputs)
    check = OutputCheck(BACKEND, problem, step, lambda: problem.reference(np.random.default_rng(1), *inputs))
    error = check.begin()()
    assert 64 * 64 / (700 * 800) == check.output().compared_fraction
    told = Checked(digest=check.output().digest, error=error, compared_fraction=check.output().compared_fraction)
    later = OutputCheck(BACKEND, problem, step, not_asked_for, known=KnownOfCase(outputs=[told]))
    later.begin()()
    assert check.output().compared_fraction == later.output().compared_fraction
    whole = OutputCheck(BACKEND, PROBLEM, right_step(), reference)
    whole.begin()()
    assert 1 == whole.output().compared_fraction


def test_a_later_one_compares_digests_and_has_the_error_of_the_first() -> None:
    check = OutputCheck(BACKEND, PROBLEM, right_step(), not_asked_for, known=known("of another", RIGHT))
    assert 0.25 == check.begin()()
    assert {RIGHT: 1} == check.output().calls
    assert 0.25 == check.error_of_late(right_step()())


def test_an_output_that_differs_is_compared_with_the_reference_and_repeated() -> None:
    check = OutputCheck(
        BACKEND, PROBLEM, right_step(lambda call, output: flipped(output)), reference, known=known(RIGHT)
    )
    assert check.begin()() != 0.25
    assert [FEW_REPEATS + 1] == list(check.output().calls.values())
    assert RIGHT not in check.output().calls


def test_a_call_that_once_gave_another_output_is_followed_by_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "MOST_REPEATS", 40)
    monkeypatch.setattr(checking, "REPEATS_S", 60.0)

    def once(call: int, output: Any) -> None:
        if call == 1:
            flipped(output)

    check = OutputCheck(BACKEND, PROBLEM, right_step(once), reference, known=known(RIGHT))
    check.begin()()
    assert [1, 40] == sorted(check.output().calls.values())
    assert 1 == check.output().calls[check.output().digest]


def test_of_an_operation_that_gives_others_each_time_each_output_is_compared_with_the_reference() -> None:
    """As soon as that is known, and at once where earlier processes have shown it."""

    def otherwise(call: int, output: Any) -> None:
        output.view(np.uint32)[3, 7] ^= 1 + call % 7

    check = OutputCheck(BACKEND, PROBLEM, right_step(otherwise), reference, known=known(RIGHT))
    assert 0 <= check.begin()() <= PROBLEM.tolerance()
    assert 3 == len(check.output().calls) == sum(check.output().calls.values())
    check = OutputCheck(BACKEND, PROBLEM, right_step(otherwise), reference, known=known(RIGHT, "another"))
    check.begin()()
    assert [1] == list(check.output().calls.values())


@pytest.mark.parametrize("said", [(), (RIGHT,), (RIGHT, "another")])
def test_a_wrong_output_never_passes_whatever_is_known(said: tuple[str, ...]) -> None:
    def wrong(call: int, output: Any) -> None:
        output[7, 3] *= 1.01

    with pytest.raises(VerificationError, match="wrong result"):
        OutputCheck(BACKEND, PROBLEM, right_step(wrong), reference, known=known(*said)).begin()()


def test_an_element_that_is_not_written_makes_another_output() -> None:
    product = INPUTS[0] @ INPUTS[1]
    with pytest.raises(VerificationError, match="600 of 600"):
        OutputCheck(BACKEND, PROBLEM, lambda: product, reference, known=known(RIGHT)).begin()()


def test_a_wrong_output_after_all_were_timed_is_found_though_the_first_one_was_right() -> None:
    check = OutputCheck(BACKEND, PROBLEM, right_step(), reference, known=known(RIGHT))
    check.begin()()
    with pytest.raises(VerificationError, match="wrong result"):
        check.error_of_late(0 * right_step()())


def test_calls_that_are_processes_or_take_long_are_not_repeated_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    check = OutputCheck(BACKEND, PROBLEM, described(right_step(), is_process=True), reference)
    check.begin()()
    assert {RIGHT: 1} == check.output().calls
    monkeypatch.setattr(checking, "LONG_S", 0.0)
    check = OutputCheck(BACKEND, PROBLEM, right_step(), reference)
    check.begin()()
    assert {RIGHT: 1} == check.output().calls


@pytest.mark.wheel
@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_other_backends_of_a_cpu_know_their_outputs_again(backend: str) -> None:
    pytest.importorskip(backend)
    opened = open_backend(backend, "cpu")
    step = setup_of("gemm", backend)(opened, PROBLEM, *map(opened.put, INPUTS))
    first = OutputCheck(opened, PROBLEM, step, reference)
    error = first.begin()()
    assert [first.output().digest] == list(first.output().calls)
    by_digest = KnownOfCase(outputs=[Checked(digest=first.output().digest, error=error)])
    assert error == OutputCheck(opened, PROBLEM, step, not_asked_for, known=by_digest).begin()()
