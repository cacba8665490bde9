"""A place as plain values that can be set beside another's, and what each of these fields says."""

from __future__ import annotations

import functools
import typing
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from primbench.environment.devices import Devices
from primbench.environment.filesystems import STRICTLY, kind_of
from primbench.environment.fingerprint import GROUPS, Environment
from primbench.environment.libraries import Library, is_c_library
from primbench.environment.reading import NOT_READ_YET, NOT_RECORDED
from primbench.environment.software import Blas, Software
from primbench.system.meaning import Fact, FactId, fact_in, facts_of, hints

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from primbench.environment.confinement import Confinement

# What is put together here of several fields. kernels: of each library of ``software.blas``, those it chose.
_KERNELS = Fact(layer="stack", entry=Fact(rule="cpu-kernels", layer="stack", late=True, beside=True, by_cpu=True))
_ADDED: dict[type, dict[str, Any]] = {
    Software: {"kernels": Annotated[dict[str, list[str]], _KERNELS]},
    Devices: {
        "gpu_count": Annotated[int | None, Fact(rule="gpu-count", layer="limits")],
        "cuda_driver_version": Annotated[str | None, Fact(rule="driver", layer="stack")],
    },
}


@functools.cache
def meaning_of(field: FactId) -> Fact:
    """What is declared of a field of ``comparable``.

    Raises LookupError for a field of which nothing is.
    """
    fact = _within(Environment, None, field[:])
    if fact is None:
        raise LookupError(f"{field}: its struct declares no Fact for it")
    return fact


def _within(kind: Any, fact: Fact | None, rest: Sequence[str | int]) -> Fact | None:
    """kind, fact: of what ``rest`` lies in; all of a dictionary's entry is as that is."""
    if not rest:
        return fact
    name, *inner = rest
    if isinstance(name, int) and fact is not None:
        (element,) = typing.get_args(kind)
        return _within(element, fact.entry if isinstance(fact.entry, Fact) else fact, inner)
    if typing.get_origin(kind) is dict and fact is not None:
        return fact.entry(str(name)) if callable(fact.entry) else fact.entry or fact
    hint = (hints(kind) | _ADDED.get(kind, {}))[str(name)]
    return _within(_without_none(hint), fact_in(hint) or fact, inner)


def _without_none(hint: Any) -> Any:
    """A field's type where it is not None."""
    kind = hint.__origin__ if typing.get_origin(hint) is Annotated else hint
    kinds = typing.get_args(kind)
    return next(each for each in kinds if each is not type(None)) if type(None) in kinds else kind


def comparable(environment: Environment, other: Environment) -> dict[str, Any]:
    """The environment as plain values, with what identifies a thing in place of where it lies."""
    found: dict[str, Any] = msgspec.to_builtins(environment, str_keys=True)
    for name, kind in GROUPS.items():
        reason = NOT_RECORDED if kind is Software else NOT_READ_YET
        found[name]["missing"] = _unread(found[name], facts_of(kind), reason) | found[name]["missing"]
    found["software"] |= _loaded(environment.software, other.software, found["software"]["missing"])
    runtime = found["confinement"]["runtime"]
    if runtime is not None:
        del runtime["evidence"]
        unsure = [name for name, value in runtime.items() if value is None]
        runtime["missing"] = dict.fromkeys(unsure, "the evidence does not tell")
    found["confinement"] |= _folders(environment.confinement, other.confinement)
    return found | {"devices": _devices(found["devices"])}


def _unread(group: Mapping[str, Any], facts: Mapping[str, Fact], reason: str) -> dict[str, str]:
    """A reason for each fact that is None, as an older primbench leaves them, and not because there is no limit."""
    names = [name for name, fact in facts.items() if group[name] is None and not fact.is_no_limit]
    return dict.fromkeys(names, reason)


def _folders(own: Confinement, other: Confinement) -> dict[str, dict[str, str]]:
    """Of each folder what is of matter where the other place has another."""
    found: dict[str, dict[str, str]] = {}
    for field, shown in (("filesystems", _mount), ("access_times", _noted)):
        ours, theirs = getattr(own, field), getattr(other, field) or {}
        if ours is not None:
            found[field] = {what: shown(how, theirs.get(what)) for what, how in ours.items()}
    return found


def _mount(where: str, other: str | None) -> str:
    """The kind of file system alone where it is the same in both places: mounted elsewhere, it is no slower."""
    kind = kind_of(where)
    return kind if other is not None and kind_of(other) == kind else where


def _noted(how: str, other: str | None) -> str:
    """Once a day and never are no other cost of reading."""
    return how if STRICTLY in (how, other) else "relatime"


def _loaded(software: Software, other: Software, missing: dict[str, str]) -> dict[str, Any]:
    """missing: of the software, to which is added why its kernels are not known."""
    found: dict[str, Any] = {}
    if software.libraries is not None:
        found["libraries"] = _libraries(software.libraries, other.libraries or {})
    if software.preloads is not None:
        found["preloads"] = _preloads(software.preloads)
    if software.providers is not None:
        theirs = other.providers or {}
        found["providers"] = {what: _provider(file, theirs.get(what)) for what, file in software.providers.items()}
    if software.blas is None:
        missing["kernels"] = missing["blas"]
        return found
    return found | _of_blas(software.blas)


def _libraries(libraries: dict[str, list[Library]], others: dict[str, list[Library]]) -> dict[str, list[str]]:
    return {name: _builds(files, others.get(name, [])) for name, files in libraries.items()}


def _preloads(preloads: dict[str, list[Library]]) -> dict[str, list[str]]:
    return {where: [f"{file.name}, {_build(file)}" for file in files] for where, files in preloads.items()}


def _of_blas(blas: list[Blas]) -> dict[str, Any]:
    """The libraries, and of each one the kernels that it chose by the CPU."""
    chosen: dict[str, list[str]] = {}
    for name, architecture in sorted((each.name, each.architecture) for each in blas if each.architecture):
        chosen.setdefault(name, []).append(architecture)
    return {"blas": sorted(" ".join(filter(None, [each.name, each.version])) for each in blas), "kernels": chosen}


def _builds(files: list[Library], others: list[Library]) -> list[str]:
    """What tells builds of a library apart: build ids where all files have one, else version and size."""
    with_id = all(file.build_id for file in [*files, *others])
    return sorted(_build(file, with_id=with_id) for file in files)


def _build(file: Library, *, with_id: bool = True) -> str:
    if with_id and file.build_id:
        return f"build id {file.build_id}"
    return f"version {file.version or 'not known'}, {file.size_bytes} B"


def _provider(file: Library, other: Library | None) -> str:
    """The library that a function comes from, with its path where its build differs from the other place's.

    The C library is named as such: a field of its own tells its build.
    """
    (build,) = _builds([file], [other] if other else [])
    if is_c_library(file):
        return "the C library"
    return build if other is not None and [build] == _builds([other], [file]) else f"{file.path}, {_build(file)}"


def _devices(devices: dict[str, Any]) -> dict[str, Any]:
    """GPUs and how many they are. The driver is one for all, and known of them where /proc does not show it."""
    missing, gpus = dict(devices["missing"]), devices["gpus"]
    versions = _driver_versions(gpus or [])
    if versions["cuda_driver_version"] is None:
        missing["cuda_driver_version"] = "no GPU was asked"
    versions["driver_version"] = devices["driver_version"] or versions["driver_version"]
    found = devices | versions | {"gpu_count": None, "missing": missing}
    if gpus is None:
        missing["gpu_count"] = missing.get("gpus", "no GPU was asked")
        return found
    of_themselves = [{name: value for name, value in gpu.items() if name not in versions} for gpu in gpus]
    return found | {"gpus": of_themselves, "gpu_count": len(gpus)}


def _driver_versions(gpus: list[dict[str, Any]]) -> dict[str, Any]:
    """Versions of the driver and its CUDA, each by the first GPU that tells it; None where none does."""
    names = ("driver_version", "cuda_driver_version")
    return {name: next((gpu[name] for gpu in gpus if gpu[name]), None) for name in names}
