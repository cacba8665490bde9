"""The public names, which are promises."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
from typing import Any

import numpy as np
import pytest

import primbench
from primbench.kernels.gemm import Gemm
from primbench.results import file as results_file


def test_all_is_sorted_and_names_each_once() -> None:
    assert sorted(set(primbench.__all__)) == primbench.__all__


@pytest.mark.wheel
def test_every_public_name_is_there_and_nothing_else_is_offered() -> None:
    for name in primbench.__all__:
        assert getattr(primbench, name) is not None
    assert primbench.__all__ == dir(primbench)


@pytest.mark.wheel
def test_star_import_gives_the_public_names() -> None:
    namespace: dict[str, object] = {}
    exec("from primbench import *", namespace)
    assert set(primbench.__all__) <= set(namespace)


@pytest.mark.parametrize("name", [name for name in primbench.__all__ if name != "__version__"])
def test_public_name_is_documented_where_it_is_defined(name: str) -> None:
    found = getattr(primbench, name)
    own = vars(found).get("__doc__") if inspect.isclass(found) else found.__doc__
    assert own or (issubclass(found, primbench.PrimbenchError) and name in documented_errors()), name


def documented_errors() -> str:
    """The exception tree, drawn once at the top of its module."""
    return importlib.import_module("primbench.errors").__doc__ or ""


def test_public_names_are_those_of_their_modules() -> None:
    from primbench import errors
    from primbench.timing import case
    from primbench.workers import run

    assert errors.PrimbenchError is primbench.PrimbenchError
    assert results_file.read is primbench.load
    assert run.run is primbench.run
    assert case.measure is primbench.measure


def test_wrong_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"^module 'primbench' has no attribute 'mesure'$"):
        primbench.mesure  # noqa: B018


@pytest.mark.wheel
def test_version_is_that_of_the_installed_distribution() -> None:
    try:
        installed = importlib.metadata.version("primbench")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the distribution primbench is not installed: this is a bare folder on the path")
    assert primbench.__version__ == installed


def test_the_example_of_the_package_is_true() -> None:
    import doctest

    assert doctest.TestResults(failed=0, attempted=3) == doctest.testmod(primbench)


def test_what_is_no_problem_is_refused_in_words() -> None:
    made: Any
    for made in ("gemm", Gemm, lambda: None):
        for call in (primbench.measure, primbench.setup, lambda problem: primbench.run([problem])):
            with pytest.raises(primbench.InvalidRequest, match=r": not a problem, such as Gemm\(256, 256, 256\)"):
                call(made)
    made = Gemm(2, 2, 2)
    with pytest.raises(primbench.InvalidRequest, match=r": one problem, and a list is asked for"):
        primbench.run(made)


def test_a_problem_of_a_script_is_not_given_to_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gemm, "__module__", "__main__")
    with pytest.raises(primbench.InvalidRequest, match=r"^gemm is defined in this script or notebook"):
        primbench.run([Gemm(2, 2, 2)])


def test_times_in_words_are_refused() -> None:
    words: Any = "1s"
    with pytest.raises(primbench.InvalidRequest, match=r"^max_time_s='1s': a number$"):
        primbench.Method(max_time_s=words)


def test_whole_numbers_of_numpy_are_sizes() -> None:
    sizes: Any = np.arange(1, 4)
    assert [int] * 3 == [type(value) for value in list(Gemm(*sizes).parameters().values())[:3]]
    with pytest.raises(primbench.InvalidRequest, match=r"^gemm m=array\(\[1, 2, 3\]\): a whole number"):
        Gemm(sizes, 1, 1)
