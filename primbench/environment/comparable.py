"""A place as plain values that can be set beside another's, and what each of these fields says."""

from __future__ import annotations

import functools
import re
import typing
from typing import Annotated, Any

import msgspec

from primbench.environment.devices import Devices
from primbench.environment.fingerprint import Environment
from primbench.environment.libraries import Library, is_c_library
from primbench.environment.software import Blas, Software
from primbench.system.meaning import Meaning

# What is put together here of several fields. kernels: of each library of ``software.blas``, those it chose.
_KERNELS = Meaning("stack", entry=Meaning("stack", "cpu-kernels", late=True, beside=True, by_cpu=True))
_ADDED: dict[type, dict[str, Any]] = {
    Software: {"kernels": Annotated[dict[str, list[str]], _KERNELS]},
    Devices: {
        "gpu_count": Annotated[int | None, Meaning("limits", "gpu-count")],
        "cuda_driver_version": Annotated[str | None, Meaning("stack", "driver")],
    },
}


@functools.cache
def meaning_of(field: str) -> Meaning:
    """What a field says, by its name in ``comparable``, such as "limits.cpu_quota" or "devices.gpus[0].uuid".

    Raises LookupError for a field of which nothing is declared.
    """
    meaning = _within(Environment, None, field)
    if meaning is None:
        raise LookupError(f"{field}: its struct declares no Meaning for it")
    return meaning


def _within(kind: Any, meaning: Meaning | None, rest: str) -> Meaning | None:
    """kind, meaning: of what ``rest`` lies in. What follows a dictionary's name is a key, dots and all."""
    if not rest:
        return meaning
    if rest.startswith("[") and meaning is not None:
        of_element = meaning.entry if isinstance(meaning.entry, Meaning) else meaning
        (element,) = typing.get_args(kind)
        return _within(element, of_element._replace(inside=meaning.inside), rest.partition("]")[2])
    if typing.get_origin(kind) is dict and meaning is not None:
        key = rest.removeprefix(".")
        return meaning.entry(key) if callable(meaning.entry) else meaning.entry or meaning
    name = re.split(r"[.\[]", rest.removeprefix("."), maxsplit=1)[0]
    of_field, own = _declared(_fields(kind)[name])
    return _within(of_field, own or (meaning and (meaning.inside or meaning)), rest.removeprefix(".")[len(name) :])


@functools.cache
def _fields(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True) | _ADDED.get(kind, {})


def _declared(hint: Any) -> tuple[Any, Meaning | None]:
    """A field's type where it is not None, and what it says, if that is declared."""
    found: Meaning | None = None
    if typing.get_origin(hint) is Annotated:
        found = next((each for each in hint.__metadata__ if isinstance(each, Meaning)), None)
        hint = hint.__origin__
    if type(None) in typing.get_args(hint):
        hint = next(each for each in typing.get_args(hint) if each is not type(None))
    return hint, found


def comparable(environment: Environment, other: Environment) -> dict[str, Any]:
    """The environment as plain values, with what identifies a thing in place of where it lies."""
    found: dict[str, Any] = msgspec.to_builtins(environment, str_keys=True)
    software = environment.software
    found["software"] |= _loaded(software, other.software)
    machine = found["machine"]
    unread = [name for name, value in machine.items() if value is None and name not in machine["missing"]]
    machine["missing"] |= dict.fromkeys(unread, "the primbench that looked did not read it yet")
    runtime = found["confinement"]["runtime"]
    if runtime is not None:
        del runtime["evidence"]
        unsure = [name for name, value in runtime.items() if value is None]
        runtime["missing"] = dict.fromkeys(unsure, "the evidence does not tell")
    return found | {"devices": _devices(found["devices"])}


def _loaded(software: Software, other: Software) -> dict[str, Any]:
    """What is not recorded is not known."""
    unread = [name for name in ("preloads", "providers", "threads") if getattr(software, name) is None]
    missing = dict.fromkeys(unread, "not recorded") | software.missing
    found: dict[str, Any] = {"missing": missing}
    if software.libraries is not None:
        theirs = other.libraries or {}
        found["libraries"] = {name: _builds(files, theirs.get(name, [])) for name, files in software.libraries.items()}
    if software.preloads is not None:
        found["preloads"] = {
            where: [f"{file.name}, {_build(file)}" for file in files] for where, files in software.preloads.items()
        }
    if software.providers is not None:
        theirs_by = other.providers or {}
        found["providers"] = {what: _provider(file, theirs_by.get(what)) for what, file in software.providers.items()}
    if software.blas is not None:
        found["blas"] = sorted(" ".join(filter(None, [each.name, each.version])) for each in software.blas)
        chosen = sorted({each.name for each in software.blas if each.architecture})
        found["kernels"] = {name: _kernels(software.blas, name) for name in chosen}
    else:
        missing["kernels"] = missing.get("blas", "not recorded")
    return found


def _builds(files: list[Library], others: list[Library]) -> list[str]:
    """By build id where all have one, else by version and size."""
    with_id = all(file.build_id for file in [*files, *others])
    return sorted(_build(file, with_id=with_id) for file in files)


def _build(file: Library, *, with_id: bool = True) -> str:
    if with_id and file.build_id:
        return f"build id {file.build_id}"
    return f"version {file.version or 'not known'}, {file.size_bytes} B"


def _provider(file: Library, other: Library | None) -> str:
    """Named where it is another build. The C library is told by itself."""
    (build,) = _builds([file], [other] if other else [])
    if is_c_library(file):
        return "the C library"
    return build if other is not None and [build] == _builds([other], [file]) else f"{file.path}, {_build(file)}"


def _kernels(blas: list[Blas], name: str) -> list[str]:
    return sorted(each.architecture for each in blas if each.name == name and each.architecture)


def _devices(devices: dict[str, Any]) -> dict[str, Any]:
    """GPUs and how many they are. The driver is one for all, and known of them where /proc does not show it."""
    gpus = None if devices["gpus"] is None else [dict(gpu) for gpu in devices["gpus"]]
    by_gpu = {name: [gpu.pop(name) for gpu in gpus or []] for name in ("driver_version", "cuda_driver_version")}
    versions = {name: next(filter(None, values), None) for name, values in by_gpu.items()}
    missing = dict(devices["missing"])
    if versions["cuda_driver_version"] is None:
        missing["cuda_driver_version"] = "no GPU was asked"
    if gpus is None:
        missing["gpu_count"] = missing.get("gpus", "no GPU was asked")
    return devices | {
        "gpus": gpus,
        "gpu_count": None if gpus is None else len(gpus),
        "driver_version": devices["driver_version"] or versions["driver_version"],
        "cuda_driver_version": versions["cuda_driver_version"],
        "missing": missing,
    }
