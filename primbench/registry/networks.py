"""Which whole models there are: classes in the files of suites/models/, known before one of these is imported.

Such a file may import torch, which takes seconds: what it defines is read from its text, a class statement in one line
and the first line of the docstring that follows.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from primbench.errors import InvalidRequest, near
from primbench.problem.patterns import LEARNING_BATCH, LEARNING_STEPS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from primbench.problem.network import Network

PACKAGE = "primbench.suites.models"
_CLASS = re.compile(r'^class \w+\(\w+, name="(\w+)"\):\n    """(.+?)(?:"""|$)', re.MULTILINE)
_NUMBER = re.compile(r"^    (\w+) = (\d+)$", re.MULTILINE)


class Summary(NamedTuple):
    """What is known of a network before it is built."""

    text: str
    """What it is, in a sentence."""
    batch_size: int
    """How many examples a step of the original has."""
    learning_batch: int = LEARNING_BATCH
    """How many a step has of a training on examples that can be learnt."""
    learning_steps: int = LEARNING_STEPS
    """How many steps such a training has."""


class _Shipped(NamedTuple):
    module: str
    summary: Summary


@functools.cache
def _shipped() -> dict[str, _Shipped]:
    found: dict[str, _Shipped] = {}
    spec = importlib.util.find_spec(PACKAGE)
    for folder in spec.submodule_search_locations or () if spec else ():
        for file in sorted(name for name in os.listdir(folder) if name.endswith(".py")):
            with open(os.path.join(folder, file), encoding="utf-8") as text:
                read = _read(text.read())
            found |= {name: _Shipped(f"{PACKAGE}.{file.removesuffix('.py')}", each) for name, each in read.items()}
    return found


def _read(text: str) -> dict[str, Summary]:
    """Raises ValueError where a class does not say its batch."""
    found = {}
    for each in _CLASS.finditer(text):
        own = text[each.end() :].partition("\nclass ")[0]
        numbers = {name: int(number) for name, number in _NUMBER.findall(own) if name in Summary._fields}
        if "batch_size" not in numbers:
            raise ValueError(f"model {each[1]}: its class has no line such as batch_size = 64")
        found[each[1]] = Summary(each[2], **numbers)
    return found


def summaries() -> dict[str, Summary]:
    """Every model by name, in alphabetical order; those of ``--kernels`` files among them."""
    imported = {
        name: Summary(
            (cls.__doc__ or "").strip().partition("\n")[0], cls.batch_size, cls.learning_batch, cls.learning_steps
        )
        for name, cls in _defined().items()
    }
    return dict(sorted((imported | {name: each.summary for name, each in _shipped().items()}).items()))


def _defined() -> dict[str, type[Network]]:
    """By what is imported by now."""
    module = sys.modules.get("primbench.problem.network")
    return module.NETWORKS if module else {}


def refuse_again(names: Iterable[str]) -> None:
    """Raises TypeError where a model that has just been defined has the name of one of primbench's."""
    for name in _shipped().keys() & set(names):
        if (module := _defined()[name].__module__) != _shipped()[name].module:
            raise TypeError(f"model {name!r} is defined in {_shipped()[name].module} and {module}")


def is_shipped(name: str) -> bool:
    """Whether it came with primbench, and not in a file of ``--kernels``."""
    return name in _shipped()


def names() -> list[str]:
    return list(summaries())


def network(name: str, *, draws: bool = True) -> Network:
    """Imports its file. draws: Network's. Raises InvalidRequest naming those there are."""
    if name not in _defined() and name in _shipped():
        importlib.import_module(_shipped()[name].module)
    if name not in _defined():
        raise InvalidRequest(f"model {name!r}: {near(name, names())}there are {', '.join(names())}")
    return _defined()[name](draws=draws)
