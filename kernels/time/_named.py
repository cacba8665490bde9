"""A function by the name of its file and its own, and its arguments."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from typing import TYPE_CHECKING, Any

from primbench.errors import InvalidField, UnsupportedCase, VerificationError
from primbench.registry.sources import import_file
from primbench.timing.function import calls_it, on_host, with_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from primbench.problem import Array

NONE = "none"
"""In place of arguments."""


def split(word: str) -> tuple[str, str]:
    """The file and the function."""
    file, _, function = word.rpartition("::")
    return file, function


def values_of(arguments: str) -> dict[str, Any]:
    """Each by name: a number, True or False, or a text. Raises InvalidField."""
    pairs = [pair.partition("=") for pair in arguments.split(",")] if arguments != NONE else []
    for name, equals, value in pairs:
        if not name.isidentifier() or not equals or not value:
            raise InvalidField(f"time arguments={arguments}: NAME=VALUE, several with commas between")
    return {name: _value(word) for name, _, word in pairs}


def _value(word: str) -> Any:
    if word in ("True", "False"):
        return word == "True"
    for read in (int, float):
        try:
            return read(word)
        except ValueError:
            continue
    return word


@functools.cache
def loaded(word: str) -> Callable[..., Any]:
    """The function that FILE.py::FUNCTION names. Raises UnsupportedCase where there is none.

    Modules that stand beside the file are found, as they are where Python runs it.
    """
    file, name = split(word)
    if not os.path.exists(file):
        raise UnsupportedCase(f"{file}: no such file")
    if (folder := os.path.dirname(file)) not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = sys.modules.get(file) or import_file(file)
    except (Exception, SystemExit) as error:
        raise UnsupportedCase(f"{file} cannot be imported: {type(error).__name__}: {error}") from error
    found = getattr(module, name, None)
    if not callable(found):
        functions = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
        raise UnsupportedCase(f"{file} has no function {name}: it has {', '.join(functions) or 'none'}")
    function: Callable[..., Any] = found
    return function


def call_of(function: str, setup: str, arguments: str) -> Callable[[], Any]:
    """What calls a function with arguments that are made for it. Raises UnsupportedCase."""
    called, named = loaded(function), values_of(arguments)
    if not setup:
        _refuse_unlike(called, named)
        return functools.partial(called, **named) if named else called
    return with_inputs(called, functools.partial(loaded(setup), **named))


def _refuse_unlike(function: Callable[..., Any], named: Mapping[str, Any]) -> None:
    """Raises UnsupportedCase where it is not called with such arguments, which says how to give them."""
    try:
        inspect.signature(function).bind(**named)
    except TypeError as error:
        made = "--setup FILE.py::FUNCTION makes its arguments, --arguments NAME=VALUE gives it numbers and words"
        raise UnsupportedCase(f"{error}: {made}") from None
    except ValueError:  # one that does not say what it takes
        pass


@functools.cache
def expected_of(like: str, setup: str, arguments: str) -> Array:
    """What a function returns, on the host, whatever is written later where it wrote it."""
    return on_host(call_of(like, setup, arguments)()).copy()


@functools.cache
def refuse_borrowed(function: str, like: str, setup: str, arguments: str) -> None:
    """Raises VerificationError where a function calls the one that its output is compared with."""
    if function != like and calls_it(call_of(function, setup, arguments), loaded(like)):
        raise VerificationError(f"it calls {split(like)[1]} itself, so that its output says nothing of its own work")
