"""What tells two places apart: another software stack, other limits, another confinement, or another machine.

A difference in time between two places is an effect of the container only where their stacks are the same.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec
from msgspec.structs import replace

from primbench.environment.comparable import comparable, meaning_of
from primbench.environment.words import are_alike, parted
from primbench.system.meaning import Fact, FactId, Layer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.environment.fingerprint import Environment
    from primbench.environment.software import Software

ChangeKind = Literal["differs", "unknown", "varies"]
SAME_MEMORY = 0.01

# Packages of libraries, which are loaded without an import; those of CUDA at the first call of these frameworks.
_LIBRARIES = re.compile(r"mkl(-.+)?|tbb|intel-openmp")
_LIBRARIES_OF_CUDA = re.compile(r"(nvidia|cuda)-.+")
_LOADS_CUDA_LATE = re.compile(r"cupy(-.+)?|numba-cuda|cuda-.+")
_NOT_LOADED = "one of the two had not loaded it"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A field that is not the same in both."""

    field: FactId
    """Which one."""
    kind: ChangeKind
    """"differs"; "unknown" where one side could not be read; "varies" where it need not be the same."""
    a: Any
    """Its value in the first; None is absent, no limit, or not known."""
    b: Any
    """Its value in the second, likewise."""
    reason: str | None = None
    """Why one side could not be read; None where both were."""


class LayerDifference(msgspec.Struct, frozen=True, kw_only=True):
    """What differs in a part of two places."""

    same: bool | None
    """Whether nothing does; None where nothing that is known differs, but something is known of one side only."""
    changes: list[Change]
    """The fields that are not the same."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """What tells two places apart."""

    stack: LayerDifference
    """Libraries by build, packages, interpreter, driver, variables that choose code, version of primbench."""
    limits: LayerDifference
    """What may be used."""
    confinement: LayerDifference
    """What stands between a process and the kernel."""
    machine: LayerDifference
    """Kernel and hardware, where what is hidden from one side is no difference: a container cannot change it."""


def machine_changes(begun: Environment, now: Environment) -> list[Change]:
    """In what another machine, kernel or setting shows, of a place that is gone on in; records of a file are of one."""
    found = difference(begun, now).machine.changes
    return [each for each in found if each.kind == "differs" and not is_of_start(each)]


def is_of_start(change: Change) -> bool:
    """Whether it is the memory that a kernel keeps for itself, which is not the same after every start."""
    return change.field == ("machine", "memory_bytes") and math.isclose(change.a, change.b, rel_tol=SAME_MEMORY)


def difference(a: Environment, b: Environment, *, same_work: bool = True) -> Difference:
    """Compare two places as two processes saw them. Libraries are those that each had loaded.

    same_work: whether the two had opened the same backend on the same device. Then what one of them did without is of
    no matter: a package that it lacks and the other did not import, a library that neither computes nor allocates. Else
    a library that one of them alone had loaded is unknown of the other.
    """
    idle = _idle(a.software, b.software) | _unread(a.software, b.software)
    changes = [
        _of_same_work(each, idle) if same_work else _of_other_work(each)
        for each in _changes(FactId(), comparable(a, b), comparable(b, a))
    ]
    return Difference(**{layer: _layer(layer, found) for layer, found in _by_layer(changes).items()})


def _by_layer(changes: list[Change]) -> dict[Layer, list[Change]]:
    """What a library chose by the CPU is of the machine where machines differ."""
    found = {layer: [each for each in changes if meaning_of(each.field).layer == layer] for layer in get_args(Layer)}
    if any(each.kind == "differs" for each in found["machine"]):
        found["machine"] += [each for each in found["stack"] if meaning_of(each.field).by_cpu]
        found["stack"] = [each for each in found["stack"] if not meaning_of(each.field).by_cpu]
    return found


def _layer(name: Layer, changes: list[Change]) -> LayerDifference:
    kinds = {change.kind for change in changes}
    same = False if "differs" in kinds else None if "unknown" in kinds and name != "machine" else True
    return LayerDifference(same=same, changes=changes)


def _changes(field: FactId, a: Any, b: Any, why_a: str | None = None, why_b: str | None = None) -> Iterator[Change]:
    """why_a, why_b: why a side is not known; both unknown is no difference that could be told."""
    if a == b and why_a == why_b:  # most of two places, and it need not be gone through field by field
        return
    if isinstance(a, dict) and isinstance(b, dict):
        (of_a, reasons_a), (of_b, reasons_b) = parted(a), parted(b)
        for name in sorted({*of_a, *of_b}):
            inner = FactId(*field, name)
            yield from _changes(inner, of_a.get(name), of_b.get(name), reasons_a.get(name), reasons_b.get(name))
    elif _holds_structs(a) and _holds_structs(b):
        for number, (left, right) in enumerate(itertools.zip_longest(a, b)):
            yield from _changes(FactId(*field, number), left, right)
    else:
        yield from _changes_of_value(field, a, b, why_a, why_b)


def _changes_of_value(field: FactId, a: Any, b: Any, why_a: str | None, why_b: str | None) -> Iterator[Change]:
    reasons = [why for value, why in ((a, why_a), (b, why_b)) if value is None and why]
    if len(reasons) == 1 or not are_alike(field, a, b):
        kind = _kind(meaning_of(field), a, b, unknown=bool(reasons))
        yield Change(field=field, kind=kind, a=a, b=b, reason=reasons[0] if reasons else None)


def _kind(fact: Fact, a: Any, b: Any, *, unknown: bool) -> ChangeKind:
    both_beside_the_first = None not in (fact.first, a, b) and fact.first not in (a, b)
    if fact.varies or both_beside_the_first:
        return "varies"
    return "unknown" if unknown else "differs"


def _idle(a: Software, b: Software) -> set[FactId]:
    """The fields of packages that one place lacks, and the work went without in the other."""
    if a.imported is None or b.imported is None or a.packages is None or b.packages is None:
        return set()
    imported = {*a.imported, *b.imported}
    late = [_LIBRARIES, *([_LIBRARIES_OF_CUDA] if any(map(_LOADS_CUDA_LATE.fullmatch, imported)) else [])]
    lacking = (a.packages.keys() ^ b.packages.keys()) - imported
    return {FactId("software", "packages", name) for name in lacking if not any(each.fullmatch(name) for each in late)}


def _unread(a: Software, b: Software) -> set[FactId]:
    """The fields of variables and files that no library reads which either has loaded."""
    if a.libraries is None or b.libraries is None:
        return set()
    readers = {field: meaning_of(field).read_by for each in (a, b) for field in _set_from_outside(each)}
    loaded = {*a.libraries, *b.libraries}
    return {field for field, by in readers.items() if by is not None and not any(map(by.fullmatch, loaded))}


def _set_from_outside(software: Software) -> list[FactId]:
    groups = {"variables": software.variables, "files": software.files}
    return [FactId("software", group, name) for group, found in groups.items() for name in found or ()]


def _of_same_work(change: Change, idle: set[FactId]) -> Change:
    is_done_without = None in (change.a, change.b) and meaning_of(change.field).beside
    return replace(change, kind="varies") if change.field in idle or is_done_without else change


def _of_other_work(change: Change) -> Change:
    """Unknown where one process had loaded all that the other had of a library, and more."""
    if change.kind == "differs" and meaning_of(change.field).late:
        a, b = (
            Counter(each if isinstance(each, list) else [each] * (each is not None)) for each in (change.a, change.b)
        )
        if a <= b or b <= a:
            return replace(change, kind="unknown", reason=_NOT_LOADED)
    return change


def _holds_structs(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)
