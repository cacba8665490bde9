"""What tells two places apart: another software stack, other limits, another confinement, or another machine.

A difference in time between two places is an effect of the container only where their stacks are the same.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal, get_args

import msgspec
from msgspec.structs import replace

from primbench.environment import Environment
from primbench.environment.libraries import Library, is_at_work, is_c_library
from primbench.environment.software import Blas, Software
from primbench.system.namespaces import FIRST_NAMESPACES

Part = Literal["stack", "limits", "confinement", "machine"]
Kind = Literal["differs", "unknown", "varies"]

# The first that matches a field says what part it belongs to.
_PARTS: dict[str, Part] = {
    r"software\.threads\..+": "limits",
    r"software\.variables\.(.+_(NUM_THREADS|AFFINITY)|OMP_(PLACES|PROC_BIND)|CUDA_VISIBLE_DEVICES)": "limits",
    r"software\..+|primbench_version|devices\.(cuda_)?driver_version": "stack",
    r"machine\.os_name": "stack",  # of the root file system, not of the kernel
    r"limits\..+|devices\.(gpu_count|gpus\[\d+\])": "limits",  # a GPU that is handed in or not
    r"confinement\..+|devices\.(gpu_files|mps_control)": "confinement",
    r".+": "machine",
}
# Worth a look, but no reason not to compare: measured anew each time, or only names of what is compared itself.
_VARIES = re.compile(
    r"machine\.(clock_s|clock_resolution_s)|confinement\.(system_call_s|namespaces\.mnt)"
    r"|software\.(python_executable|caches\..+|variables\.(CUDA_VISIBLE_DEVICES|CUDA_VERSION|.+_CACHE_.+|.+_(DEBUG|DIR|HOME"
    r"|PATH)|LD_(AUDIT|LIBRARY_PATH|PRELOAD)|PYTHONPATH|PRIMBENCH_.+|NVIDIA_(VISIBLE_DEVICES|DRIVER_CAPABILITIES|REQUIRE_.+)))"
    r"|devices\.gpus\[\d+\]\.(uuid|pci_address|pcie_generation|pcie_replays|ecc_errors_uncorrected)"
    r"|software\.libraries\.(lib(crypto|ssl|z|bz2|lzma|uuid|expat|sqlite3|readline|ncursesw?|tinfo)|(msgspec|psutil)/.+)"
)
# What a library chooses by the CPU: the machine's doing where the machines differ.
_CHOSEN_FOR_THE_CPU = re.compile(r"software\.(kernels\..+|libraries\.libmkl_(vml_)?(def|mc3?|avx.*))")
# Loaded when they are first needed.
_LOADED = re.compile(r"software\.((libraries|preloads|providers|threads|kernels)\..+|blas)")
# A library, a pool of threads or a function that one side alone has.
_OF_ONE_SIDE = re.compile(r"software\.(libraries|threads|kernels|providers)\.(.+)")
# Packages of libraries, which are loaded without an import; those of CUDA at the first call of these frameworks.
_LIBRARIES = re.compile(r"mkl(-.+)?|tbb|intel-openmp")
_LIBRARIES_OF_CUDA = re.compile(r"(nvidia|cuda)-.+")
_LOADS_CUDA_LATE = re.compile(r"cupy(-.+)?|numba-cuda|cuda-.+")
_NOT_LOADED = "one of the two had not loaded it"
# Counters and moments, and what other fields are judged by.
_IGNORED = re.compile(
    r"time_utc|software\.imported|machine\.memory_available_bytes|nodes\[\d+\]\.(allowed|initiators|memory_bytes|distances\.\d+|gpu)"
    r"|limits\.(periods|throttled_periods|throttled_s|out_of_memory_kills|shm_free_bytes)"
)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A field that is not the same in both. a, b: None is absent, no limit, or not known.

    kind: "differs"; "unknown" where one side could not be read, and ``reason`` says why; "varies" where it need not
    be the same.
    """

    field: str
    kind: Kind
    a: Any
    b: Any
    reason: str | None = None


class PartDifference(msgspec.Struct, frozen=True, kw_only=True):
    """same: None where nothing that is known differs, but something is known of one side only."""

    same: bool | None
    changes: list[Change]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """stack: libraries by build, packages, interpreter, driver, variables that choose code, version of primbench.

    limits: what may be used. confinement: what stands between a process and the kernel. machine: kernel and hardware,
    where what is hidden from one side is no difference: a container cannot change it.
    """

    stack: PartDifference
    limits: PartDifference
    confinement: PartDifference
    machine: PartDifference


def difference(a: Environment, b: Environment, *, same_work: bool = True) -> Difference:
    """Compare two places as two processes saw them. Libraries are those that each had loaded.

    same_work: whether the two had opened the same backend on the same device. Then what one of them did without is of
    no matter: a package that it lacks and the other did not import, a library that neither computes nor allocates. Else
    a library that one of them alone had loaded is unknown of the other.
    """
    changes: dict[str, list[Change]] = {part: [] for part in get_args(Part)}
    idle = _idle(a.software, b.software)
    for found in _changes("", _comparable(a, b), _comparable(b, a)):
        change = _of_same_work(found, idle) if same_work else _of_other_work(found)
        part = next(part for fields, part in _PARTS.items() if re.fullmatch(fields, change.field, re.DOTALL))
        changes[part].append(change)
    if any(change.kind == "differs" for change in changes["machine"]):
        chosen = [change for change in changes["stack"] if _CHOSEN_FOR_THE_CPU.fullmatch(change.field)]
        changes["stack"] = [change for change in changes["stack"] if change not in chosen]
        changes["machine"] += chosen
    return Difference(**{part: _part(part, found) for part, found in changes.items()})


def _part(name: str, changes: list[Change]) -> PartDifference:
    kinds = {change.kind for change in changes}
    same = False if "differs" in kinds else None if "unknown" in kinds and name != "machine" else True
    return PartDifference(same=same, changes=changes)


def _changes(field: str, a: Any, b: Any, why_a: str | None = None, why_b: str | None = None) -> Iterator[Change]:
    """why_a, why_b: why a side is not known; both unknown is no difference that could be told."""
    if isinstance(a, dict) and isinstance(b, dict):
        reasons_a, reasons_b = a.get("missing", {}), b.get("missing", {})
        for name in sorted({*a, *b} - {"missing"}):
            inner = f"{field}.{name}" if field else name
            yield from _changes(inner, a.get(name), b.get(name), reasons_a.get(name), reasons_b.get(name))
    elif _holds_structs(a) and _holds_structs(b):
        for number, (left, right) in enumerate(itertools.zip_longest(a, b)):
            yield from _changes(f"{field}[{number}]", left, right)
    elif not _IGNORED.fullmatch(field):
        reasons = [why for value, why in ((a, why_a), (b, why_b)) if value is None and why]
        if a != b or len(reasons) == 1:
            kind = _kind(field, a, b, unknown=bool(reasons))
            yield Change(field=field, kind=kind, a=a, b=b, reason=reasons[0] if reasons else None)


def _kind(field: str, a: Any, b: Any, *, unknown: bool) -> Kind:
    if _VARIES.fullmatch(field) or _of_its_own(field, a, b):
        return "varies"
    return "unknown" if unknown else "differs"


def _of_its_own(field: str, a: Any, b: Any) -> bool:
    """Two namespaces of containers are alike, though not the same."""
    first = FIRST_NAMESPACES.get(field.removeprefix("confinement.namespaces."))
    return first is not None and None not in (a, b) and first not in (a, b)


def _idle(a: Software, b: Software) -> set[str]:
    """The fields of packages that one place lacks, and the work went without in the other."""
    if a.imported is None or b.imported is None:
        return set()
    imported = {*a.imported, *b.imported}
    late = [_LIBRARIES, *([_LIBRARIES_OF_CUDA] if any(map(_LOADS_CUDA_LATE.fullmatch, imported)) else [])]
    lacking = (a.packages.keys() ^ b.packages.keys()) - imported
    return {f"software.packages.{name}" for name in lacking if not any(each.fullmatch(name) for each in late)}


def _of_same_work(change: Change, idle: set[str]) -> Change:
    return replace(change, kind="varies") if change.field in idle or _is_done_without(change) else change


def _is_done_without(change: Change) -> bool:
    """Pools of threads, kernels and functions come with a library, which is told by itself."""
    of = _OF_ONE_SIDE.fullmatch(change.field)
    return of is not None and None in (change.a, change.b) and not (of[1] == "libraries" and is_at_work(of[2]))


def _of_other_work(change: Change) -> Change:
    """Unknown where one process had loaded all that the other had of a library, and more."""
    if change.kind == "differs" and _LOADED.fullmatch(change.field):
        a, b = (
            Counter(each if isinstance(each, list) else [each] * (each is not None)) for each in (change.a, change.b)
        )
        if a <= b or b <= a:
            return replace(change, kind="unknown", reason=_NOT_LOADED)
    return change


def _holds_structs(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def _comparable(environment: Environment, other: Environment) -> dict[str, Any]:
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
        chosen = {each.name for each in software.blas if each.architecture}
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
