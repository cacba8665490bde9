"""The checks that there are, and what they say of a place."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench import doctor
from primbench.doctor.finding import Finding
from primbench.doctor.place import Place

if TYPE_CHECKING:
    from types import ModuleType

Check = Callable[[Place], Iterator[Finding]]


def _checks() -> Iterator[Check]:
    names = [found.name for found in pkgutil.iter_modules(doctor.__path__)]
    modules = [importlib.import_module(f"{doctor.__name__}.{name}") for name in names]
    for module in sorted((each for each in modules if hasattr(each, "RANK")), key=lambda each: each.RANK):
        yield from _checks_in(module)


def _checks_in(module: ModuleType) -> list[Check]:
    functions = [value for name, value in vars(module).items() if inspect.isfunction(value) and name[0] != "_"]
    return [function for function in functions if function.__module__ == module.__name__]


_REFUSED = (": EACCES", ": EPERM")

CHECKS: tuple[Check, ...] = tuple(_checks())


def _of_another(finding: Finding, pid: int) -> Finding:
    """The same of another process: where its files are, and the command that would show what was refused."""
    evidence = [line.replace("/proc/self/", f"/proc/{pid}/") for line in finding.evidence]
    if finding.severity != "unknown" or not any(line.endswith(_REFUSED) for line in evidence):
        return replace(finding, evidence=evidence)
    advice, fix = "look with the rights of root", [f"sudo primbench doctor --pid {pid}"]
    return replace(finding, evidence=evidence, advice=advice, fix=fix)


def examine(place: Place) -> list[Finding]:
    """What every check says of the place, in the checks' order; a check with nothing to say is "ok"."""
    found: list[Finding] = []
    for check in CHECKS:
        name = check.__name__.replace("_", "-")
        said = [finding if place.pid is None else _of_another(finding, place.pid) for finding in check(place)]
        found += said or [Finding(check=name, severity="ok", summary=(check.__doc__ or "").strip())]
    return found
