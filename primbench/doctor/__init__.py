"""What in this place can slow a GPU down: each known cause as a check with its evidence and its cure.

A file with RANK holds checks: each public function there is one, which is given a Place and yields what it finds, an
"unknown" for what it could not see. Its docstring says what it looks for, its name is that of its findings. Files stand
in the order of their ranks, from the GPU to the libraries, and checks in that of the file.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType

from primbench.doctor.finding import Finding, Part, Severity
from primbench.doctor.place import Place, look

__all__ = ["CHECKS", "Finding", "Part", "Place", "Severity", "examine", "look"]


Check = Callable[[Place], Iterator[Finding]]


def _checks() -> Iterator[Check]:
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    for module in sorted((each for each in modules if hasattr(each, "RANK")), key=lambda each: each.RANK):
        yield from _checks_in(module)


def _checks_in(module: ModuleType) -> list[Check]:
    functions = [value for name, value in vars(module).items() if inspect.isfunction(value) and name[0] != "_"]
    return [function for function in functions if function.__module__ == module.__name__]


CHECKS: tuple[Check, ...] = tuple(_checks())


def examine(place: Place) -> list[Finding]:
    """What every check says of the place, in the checks' order; a check with nothing to say is "ok"."""
    found: list[Finding] = []
    for check in CHECKS:
        name = check.__name__.replace("_", "-")
        said = list(check(place))
        found += said or [Finding(check=name, severity="ok", summary=(check.__doc__ or "").strip())]
    return found
