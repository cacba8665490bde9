"""Functions of files of Python as they stand there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from primbench.errors import InvalidField, UnsupportedCase, VerificationError
from primbench.kernels.time import Function
from primbench.measurement import Measurement
from primbench.spec.method import Method
from primbench.timing.case import measure

FILE = """
import numpy as np
from beside import ONE

def inputs(n=8, scale=1.0):
    return np.random.standard_normal((n, n)), np.full((n, n), scale)

def single(n=8):
    return np.ones(n)

def add(a, b):
    return a + b

def added(a, b):
    return np.add(b, a)

def wrong(a, b):
    return a + b + ONE

def both(a, b):
    return a + b, a - b

def few(a, b):
    return a[:2] + b[:2]

KEPT = []

def cached(a, b):
    if not KEPT:
        KEPT.append(a + b)
    return KEPT[0]

def words(a, b):
    return "a + b"

def nothing(n=1):
    for _ in range(n):
        pass

def power(x, to=2):
    return x**to

TEN = 10
"""


QUICK = Method(min_time_s=0.002, max_time_s=0.02)


@pytest.fixture
def time(tmp_path: Path) -> Callable[..., Measurement]:
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    (tmp_path / "beside.py").write_text("ONE = 1\n")

    def timed(function: str, method: Method = QUICK, **fields: str) -> Measurement:
        named = {name: value if name == "arguments" else f"{path}::{value}" for name, value in fields.items()}
        problem = Function(f"{path}::{function}", **named)
        return measure(problem, "numpy", "cpu", method=method)

    return timed


def test_a_function_is_timed_as_it_stands_there(time: Callable[..., Measurement]) -> None:
    measured = time("nothing", arguments="n=100")
    assert measured.wall_s is not None
    assert measured.verified is None
    assert "no function is named whose output it has to equal" in measured.missing["verified"]


@pytest.mark.parametrize("function", ["add", "added"])
def test_its_output_is_that_of_another_one_on_inputs_made_alike(
    time: Callable[..., Measurement], function: str
) -> None:
    measured = time(function, setup="inputs", like="add", arguments="n=16,scale=0.5")
    assert (True, 0.0) == (measured.verified, measured.error)


def test_several_outputs_are_compared_together(time: Callable[..., Measurement]) -> None:
    assert time("both", setup="inputs", like="both").verified


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("wrong", "wrong result"),
        ("cached", "elements of the output were never written"),
        ("few", r"the output has shape \(2, 8\), expected \(8, 8\)"),
    ],
)
def test_what_gives_another_output_is_found_out(time: Callable[..., Measurement], function: str, reason: str) -> None:
    with pytest.raises(VerificationError, match=reason):
        time(function, setup="inputs", like="add")


@pytest.mark.parametrize(
    ("function", "fields", "reason"),
    [
        ("nosuch", {}, "has no function nosuch: it has inputs, single, add"),
        ("TEN", {}, "has no function TEN"),
        ("add", {"setup": "nosuch"}, "has no function nosuch"),
        ("add", {}, "missing a required argument: '.+': --setup FILE.py::FUNCTION makes its arguments"),
        ("words", {"setup": "inputs", "like": "words"}, "what is compared is an array of real numbers"),
    ],
)
def test_what_cannot_be_called_or_compared_is_refused(
    time: Callable[..., Measurement], function: str, fields: dict[str, str], reason: str
) -> None:
    with pytest.raises(UnsupportedCase, match=reason):
        time(function, **fields)


def test_inputs_that_its_setup_makes_are_cold_where_that_is_asked_for(time: Callable[..., Measurement]) -> None:
    method = Method(min_time_s=0.002, max_time_s=0.02, cache="cold")
    assert time("power", method, setup="single", like="power", arguments="n=4194304").input_sets > 1
    with pytest.raises(UnsupportedCase, match="no inputs that a cache could hold"):
        time("nothing", method, arguments="n=4")


def test_a_setup_may_give_one_argument(time: Callable[..., Measurement]) -> None:
    assert time("power", setup="single", like="power", arguments="n=4").verified


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"function": "mine.py"}, "FILE.py::FUNCTION"),
        ({"function": "mine::f"}, "FILE.py::FUNCTION"),
        ({"function": "mine.py::f g"}, "FILE.py::FUNCTION"),
        ({"function": "a.py::f", "arguments": "n"}, "NAME=VALUE"),
        ({"function": "a.py::f", "arguments": "n="}, "NAME=VALUE"),
        ({"function": "a.py::f", "like": "b"}, "FILE.py::FUNCTION"),
    ],
)
def test_what_names_no_function_is_refused(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidField, match=reason):
        Function(**fields)


def test_a_file_is_named_in_full_wherever_a_worker_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert f"{tmp_path}/a.py::f" == Function("a.py::f").function
