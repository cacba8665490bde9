"""A place as plain values that can be set beside another's, and what each of these fields says."""

from __future__ import annotations

import functools
import typing
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from primbench.environment.devices import Devices
from primbench.environment.filesystems import STRICTLY, kind_of
from primbench.environment.fingerprint import Environment
from primbench.environment.libraries import Library, is_c_library
from primbench.environment.software import Blas, Software
from primbench.system.meaning import FactId, Meaning

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from primbench.environment.confinement import Confinement

# What is put together here of several fields. kernels: of each library of ``software.blas``, those it chose.
_KERNELS = Meaning("stack", entry=Meaning("stack", "cpu-kernels", late=True, beside=True, by_cpu=True))
_ADDED: dict[type, dict[str, Any]] = {
    Software: {"kernels": Annotated[dict[str, list[str]], _KERNELS]},
    Devices: {
        "gpu_count": Annotated[int | None, Meaning("limits", "gpu-count")],
        "cuda_driver_version": Annotated[str | None, Meaning("stack", "driver")],
    },
}

# Read since one version or shortly before.
_OF_LIMITS = (
    *("io_limits", "processes_own_max", "niceness", "session_niceness", "scheduling"),
    *("stack_bytes", "address_space_bytes", "file_size_bytes", "cpu_time_limit_s"),
)


@functools.cache
def meaning_of(field: FactId) -> Meaning:
    """What a field of ``comparable`` says.

    Raises LookupError for a field of which nothing is declared.
    """
    meaning = _within(Environment, None, field[:])
    if meaning is None:
        raise LookupError(f"{field}: its struct declares no Meaning for it")
    return meaning


def _within(kind: Any, meaning: Meaning | None, rest: Sequence[str | int]) -> Meaning | None:
    """kind, meaning: of what ``rest`` lies in; all of a dictionary's entry says what that says."""
    if not rest:
        return meaning
    name, *inner = rest
    if isinstance(name, int) and meaning is not None:
        (element,) = typing.get_args(kind)
        return _within(element, _of_element(meaning), inner)
    if typing.get_origin(kind) is dict and meaning is not None:
        return _of_entry(meaning, str(name))
    of_field, own = _declared(_fields(kind)[str(name)])
    return _within(of_field, own or (meaning and (meaning.inside or meaning)), inner)


def _of_entry(meaning: Meaning, key: str) -> Meaning | None:
    """What an entry of a dictionary says, where meaning is that of the dictionary."""
    return meaning.entry(key) if callable(meaning.entry) else meaning.entry or meaning


def _of_element(meaning: Meaning) -> Meaning:
    """What each element of a list says, where meaning is that of the list."""
    found = meaning.entry if isinstance(meaning.entry, Meaning) else meaning
    return found._replace(inside=meaning.inside)


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
    for group in (found["machine"], found["confinement"], found["devices"]):
        group["missing"] |= _unread(group, group)
    found["limits"]["missing"] |= _unread(found["limits"], ("cpu_group_depth",))
    if environment.limits.io_limits is None:  # without limits it is []
        found["limits"]["missing"] |= _unread(found["limits"], _OF_LIMITS)
    runtime = found["confinement"]["runtime"]
    if runtime is not None:
        del runtime["evidence"]
        unsure = [name for name, value in runtime.items() if value is None]
        runtime["missing"] = dict.fromkeys(unsure, "the evidence does not tell")
    found["confinement"] |= _folders(environment.confinement, other.confinement)
    return found | {"devices": _devices(found["devices"])}


def _unread(group: Mapping[str, Any], fields: Iterable[str]) -> dict[str, str]:
    """Reasons for those of the fields that are None without one, as an older primbench leaves them."""
    names = [name for name in fields if group[name] is None and name not in group["missing"]]
    return dict.fromkeys(names, "the primbench that looked did not read it yet")


def _folders(own: Confinement, other: Confinement) -> dict[str, dict[str, str]]:
    """Of each folder what is of matter where the other place has another."""
    pairs = {
        "filesystems": (_mount, own.filesystems, other.filesystems or {}),
        "access_times": (_noted, own.access_times, other.access_times or {}),
    }
    return {
        field: {what: of(how, theirs.get(what)) for what, how in ours.items()}
        for field, (of, ours, theirs) in pairs.items()
        if ours is not None
    }


def _mount(where: str, other: str | None) -> str:
    """The kind of file system alone where it is the same in both places: mounted elsewhere, it is no slower."""
    kind = kind_of(where)
    return kind if other is not None and kind_of(other) == kind else where


def _noted(how: str, other: str | None) -> str:
    """Once a day and never are no other cost of reading."""
    return how if STRICTLY in (how, other) else "relatime"


def _loaded(software: Software, other: Software) -> dict[str, Any]:
    """What an older primbench did not record is not known."""
    unread = [name for name in Software.__struct_fields__ if getattr(software, name) is None]
    missing = dict.fromkeys(unread, "not recorded") | software.missing
    found: dict[str, Any] = {"missing": missing}
    if software.libraries is not None:
        found["libraries"] = _libraries(software.libraries, other.libraries or {})
    if software.preloads is not None:
        found["preloads"] = _preloads(software.preloads)
    if software.providers is not None:
        found["providers"] = _providers(software.providers, other.providers or {})
    if software.blas is None:
        missing["kernels"] = missing.get("blas", "not recorded")
        return found
    return found | _of_blas(software.blas)


def _libraries(libraries: dict[str, list[Library]], others: dict[str, list[Library]]) -> dict[str, list[str]]:
    return {name: _builds(files, others.get(name, [])) for name, files in libraries.items()}


def _preloads(preloads: dict[str, list[Library]]) -> dict[str, list[str]]:
    return {where: [f"{file.name}, {_build(file)}" for file in files] for where, files in preloads.items()}


def _providers(providers: dict[str, Library], others: dict[str, Library]) -> dict[str, str]:
    return {what: _provider(file, others.get(what)) for what, file in providers.items()}


def _of_blas(blas: list[Blas]) -> dict[str, Any]:
    """The libraries, and of each one the kernels that it chose by the CPU."""
    chosen = sorted({each.name for each in blas if each.architecture})
    return {
        "blas": sorted(" ".join(filter(None, [each.name, each.version])) for each in blas),
        "kernels": {name: _kernels(blas, name) for name in chosen},
    }


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


def _kernels(blas: list[Blas], name: str) -> list[str]:
    return sorted(each.architecture for each in blas if each.name == name and each.architecture)


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
