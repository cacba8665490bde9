"""Functions of a script, timed and set beside each other in this process."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import numpy as np
import pytest

import primbench
from primbench.errors import InvalidRequest, VerificationError
from primbench.spec.method import Method

QUICK = Method(min_time_s=0.001, max_time_s=0.005)


def arrays() -> tuple[Any, ...]:
    return np.random.standard_normal((8, 8)), np.random.standard_normal((8, 8))


def test_a_function_is_timed_as_it_stands() -> None:
    measured = primbench.time(lambda: sum(range(100)), method=QUICK)
    assert measured.wall_s is not None
    assert measured.batch_s is not None
    assert measured.verified is None


def test_a_cold_cache_takes_several_sets_of_arguments() -> None:
    made = list[Any]()

    def large() -> Any:
        made.append(np.zeros(1 << 24, np.int8))
        return made[-1]

    method = Method(min_time_s=0.001, max_time_s=0.005, cache="cold")
    measured = primbench.time(lambda array: array[0], setup=large, method=method)
    assert measured.input_sets > 1
    assert len(made) >= measured.input_sets


def test_functions_take_turns_and_one_that_takes_far_longer_is_slower() -> None:
    calls = list[str]()

    def short() -> None:
        calls.append("short")

    def long() -> None:
        calls.append("long")
        sum(range(20_000))

    found = primbench.versus({"short": short, "long": long}, check=False, method=QUICK, rounds=4)
    (arm,) = found.arms
    (case,) = arm.cases
    assert ("short", "long", "slower", "case effect") == (found.baseline, arm.name, case.verdict, arm.effect)
    assert case.explanation is None
    assert any("in one process" in note for note in found.notes)
    changes = sum(one != other for one, other in itertools.pairwise(calls))
    assert changes > 2 * 4, "several turns a round"
    assert "slower" in found._repr_html_()
    assert "short" == json.loads(found.to_json())["baseline"]


def test_outputs_have_to_be_those_of_the_first() -> None:
    functions = {"add": lambda a, b: a + b, "other": lambda a, b: b + a, "wrong": lambda a, b: a - b}
    with pytest.raises(VerificationError, match="wrong result"):
        primbench.versus(functions, setup=arrays, method=QUICK, rounds=1)
    del functions["wrong"]
    assert 1 == len(primbench.versus(functions, setup=arrays, method=QUICK, rounds=1).arms)


def test_generators_go_on_as_if_nothing_had_been_drawn() -> None:
    drawn = list[Any]()
    random.seed(7)
    np.random.seed(7)
    expected = random.random(), np.random.random()
    random.seed(7)
    np.random.seed(7)
    primbench.time(lambda x: None, setup=lambda: drawn.append((random.random(), np.random.random())), method=QUICK)
    assert expected == (random.random(), np.random.random())
    assert 1 == len(set(drawn)), "inputs are the same each time they are made"


def test_an_unknown_cache_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="cache='warm': hot or cold"):
        primbench.time(lambda: None, cache="warm")


def test_what_are_no_arrays_are_equal_or_not() -> None:
    found = primbench.versus({"one": lambda: 1, "other": lambda: 2 - 1}, method=QUICK, rounds=1)
    assert 1 == len(found.arms)
    with pytest.raises(VerificationError, match="wrong result: 2, and the first one returns 1"):
        primbench.versus({"one": lambda: 1, "other": lambda: 2}, method=QUICK, rounds=1)


def test_what_a_function_raises_while_it_is_timed_is_raised() -> None:
    left = dict.fromkeys(range(20))
    with pytest.raises(KeyError):
        primbench.versus({"fine": lambda: None, "ends": lambda: left.popitem()}, check=False, method=QUICK, rounds=3)


def test_one_function_alone_is_nothing_to_compare() -> None:
    with pytest.raises(InvalidRequest, match="two functions or more"):
        primbench.versus({"alone": lambda: None})


@pytest.mark.wheel
def test_a_function_of_torch_is_timed_on_the_device_of_its_output() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = torch.ones(8, requires_grad=True)
    assert primbench.time(lambda: x + x, method=QUICK).wall_s is not None
    kept = x + x
    with pytest.raises(VerificationError, match="never written"):
        primbench.versus({"add": lambda: x + x, "kept": lambda: kept}, method=QUICK, rounds=1)
