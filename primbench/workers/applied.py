"""Whether a worker has what its arm asked for: a runtime may leave a setting out and say nothing."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from primbench.environment import confinement
from primbench.environment.configuration import is_recorded, recorded
from primbench.runtimes import inherited
from primbench.runtimes import limits as of_groups
from primbench.spec.arm import Arm, in_words, settings_of
from primbench.spec.placement import THREAD_VARIABLES, Placement
from primbench.system.cgroups import USUAL_WEIGHT, cgroup_version
from primbench.system.files import attempt, format_cpu_list
from primbench.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.workers.protocol import Ready

PAGE_BYTES = 65_536  # of the largest pages that a kernel counts memory in
ENOUGH_ALIKE = 0.01  # systemd rounds quotas to whole percents
_OF_RUNTIMES = re.compile(r"(NVIDIA|PRIMBENCH)_.+")  # they read these, and may write them anew


class Outside(NamedTuple):
    """This process, for what is judged by it. None is unknown. seccomp_filters: that it stands behind itself."""

    is_root: bool
    namespaces: dict[str, str] | None
    seccomp_filters: int | None
    cgroup_version: str | None


ELSEWHERE = Outside(is_root=True, namespaces=None, seccomp_filters=None, cgroup_version=None)
"""Of a process on another machine nothing is known."""


def outside(root: Path = Path("/")) -> Outside:
    return Outside(
        is_root=os.geteuid() == 0,
        namespaces=attempt({}, "namespaces", lambda: confinement.READERS["namespaces"].value(root)),
        seccomp_filters=attempt({}, "seccomp_filters", lambda: confinement.READERS["seccomp_filters"].value(root)),
        cgroup_version=attempt({}, "cgroup_version", lambda: cgroup_version(root)),
    )


def mismatch(arm: Arm, placement: Placement, ready: Ready, here: Outside) -> str | None:
    """The first setting that a worker has not got, with what it found and the way out; None where it has them all.

    placement: what the worker itself was asked for, which may be of all arms alike. What could not be read back is no
    mismatch; image, cgroup and root are not.
    """
    placed = replace(arm, placement=placement)
    for field in settings_of(arm):
        found = _FOUND[field](placed, ready, here) if field in _FOUND else None
        if found is not None:
            return f"{in_words(arm, field)}: the worker found {found}: {_way_out(arm, field, here)}"
    return None


def _cpus(arm: Arm, ready: Ready, here: Outside) -> str | None:
    """What CPU quota holds for the worker, be it of a group above, where it is not the one asked for."""
    limits = ready.environment.limits
    if "cpu_quota" in limits.missing or arm.cpus is None:
        return None
    if limits.cpu_quota is None:
        return "no quota"
    is_met = math.isclose(limits.cpu_quota, arm.cpus, rel_tol=ENOUGH_ALIKE, abs_tol=ENOUGH_ALIKE)
    return None if is_met else f"a quota of {limits.cpu_quota:g} CPUs"


def _cpuset(arm: Arm, ready: Ready, here: Outside) -> str | None:
    """What CPUs the worker found, where not those asked for: as they were before a library bound any thread."""
    cpus, placed = set(ready.placement.cpus), arm.placement
    binds = any(each is not None for each in (placed.cpus, placed.cpu_node, placed.cpu_kind, placed.numa_node))
    is_met = cpus <= set(arm.cpuset or ()) if binds else cpus == set(arm.cpuset or ())
    return None if is_met else f"CPUs {format_cpu_list(cpus)}"


def _mems(arm: Arm, ready: Ready, here: Outside) -> str | None:
    nodes = ready.environment.limits.memory_nodes_allowed
    return None if nodes is None or set(nodes) == set(arm.mems or ()) else f"memory nodes {format_cpu_list(nodes)}"


def _memory(arm: Arm, ready: Ready, here: Outside) -> str | None:
    limits = ready.environment.limits
    return None if "memory_limit_bytes" in limits.missing else _size(arm.memory_bytes, limits.memory_limit_bytes)


def _shm(arm: Arm, ready: Ready, here: Outside) -> str | None:
    found_bytes = ready.environment.limits.shm_bytes
    return None if found_bytes is None else _size(arm.shm_bytes, found_bytes)


def _size(asked_bytes: int | None, found_bytes: int | None) -> str | None:
    """What size was found, where it differs from the one asked for by a page or more: the kernel rounds to pages."""
    if asked_bytes is None or (found_bytes is not None and abs(asked_bytes - found_bytes) < PAGE_BYTES):
        return None
    return "no limit" if found_bytes is None else format_bytes(found_bytes)


def _weight(arm: Arm, ready: Ready, here: Outside) -> str | None:
    """Engines make a weight of shares in ways that differ by version, and one of 100 or more is not recorded."""
    limits = ready.environment.limits
    is_met = "cpu_weight" in limits.missing or (arm.cpu_weight or 0) >= USUAL_WEIGHT or limits.cpu_weight is not None
    return None if is_met else "the usual weight"


def _niceness(arm: Arm, ready: Ready, here: Outside) -> str | None:
    found = ready.environment.limits.niceness
    return None if found in (None, arm.niceness) else f"niceness {found}"


def _processes(arm: Arm, ready: Ready, here: Outside) -> str | None:
    limits = ready.environment.limits
    is_met = "processes_max" in limits.missing or limits.processes_max == arm.processes_max
    return None if is_met else "no limit" if limits.processes_max is None else f"a limit of {limits.processes_max}"


def _files(arm: Arm, ready: Ready, here: Outside) -> str | None:
    limits = ready.environment.limits
    is_met = "open_files" in limits.missing or limits.open_files == arm.open_files
    return None if is_met else f"a limit of {'any number' if limits.open_files is None else limits.open_files}"


def _read_rate(arm: Arm, ready: Ready, here: Outside) -> str | None:
    found = ready.environment.limits.io_limits
    is_met = found is None or any(each.endswith(f"rbps={arm.read_bytes_per_s}") for each in found)
    return None if is_met else ", ".join(found or ()) or "no limit"


def _preload(arm: Arm, ready: Ready, here: Outside) -> str | None:
    """By the file's name: the dynamic linker leaves out what it cannot load, and says so where nobody hears it.

    Mapped is what a link leads to.
    """
    found = ready.environment.software.preloads
    names = {file.name for file in (found or {}).get("LD_PRELOAD", [])}
    asked = {os.path.basename(path) for path in (str(arm.preload), os.path.realpath(str(arm.preload)))}
    return None if found is None or names & asked else "it not loaded"


def _seccomp(arm: Arm, ready: Ready, here: Outside) -> str | None:
    """Beyond the filters of who starts it. A runtime's own default may be any, none included."""
    found, filters = ready.environment.confinement.seccomp, ready.environment.confinement.seccomp_filters
    if found is None or arm.seccomp == "default":
        return None
    adds_none = found == "disabled" or (filters is not None and filters == here.seccomp_filters)
    if arm.seccomp == "unconfined":
        return None if adds_none or arm.is_far else "a filter"
    return "no filter of it" if adds_none else None


def _cap_add(arm: Arm, ready: Ready, here: Outside) -> str | None:
    """Which capabilities asked for are absent; of ALL, another set in each runtime, any one will do."""
    held = ready.environment.confinement.capabilities
    absent = [name for name in arm.cap_add if name not in ("ALL", *arm.cap_drop) and f"CAP_{name}" not in (held or ())]
    if held is None or not (absent or (arm.cap_add and not held)):
        return None
    return f"no {' nor '.join(absent or arm.cap_add)}"


def _cap_drop(arm: Arm, ready: Ready, here: Outside) -> str | None:
    held = {name.removeprefix("CAP_") for name in ready.environment.confinement.capabilities or ()}
    dropped = held if "ALL" in arm.cap_drop else held & set(arm.cap_drop)
    left = sorted(dropped - set(arm.cap_add)) if "ALL" not in arm.cap_add else []
    return f"{', '.join(left)} left" if left else None


def _namespace(kind: str, setting: Callable[[Arm], str | None]) -> Callable[[Arm, Ready, Outside], str | None]:
    def found(arm: Arm, ready: Ready, here: Outside) -> str | None:
        inside, ours = (ready.environment.confinement.namespaces or {}).get(kind), (here.namespaces or {}).get(kind)
        if None in (inside, ours) or (inside == ours) == (setting(arm) == "host"):
            return None
        return f"this machine's {kind} namespace" if inside == ours else f"a {kind} namespace that is not the one here"

    return found


def _privileges(arm: Arm, ready: Ready, here: Outside) -> str | None:
    found = ready.environment.confinement.no_new_privileges
    return None if found is None or found == (arm.no_new_privileges == "yes") else "yes" if found else "no"


def _variables(arm: Arm, ready: Ready, here: Outside) -> str | None:
    """The first variable that differs from what was asked, of those recorded; placement sets some itself."""
    held = ready.environment.software.variables
    if held is None:
        return None
    set_by_placement = THREAD_VARIABLES if arm.placement.threads is not None else ()
    for name, value in arm.variables.items():
        read_back = is_recorded(name) and not _OF_RUNTIMES.fullmatch(name) and name not in set_by_placement
        if read_back and held.get(name) not in (value, recorded(value)) and "~" not in held.get(name, ""):
            return f"{name}={held[name]}" if name in held else f"no {name}"
    return None


def _way_out(arm: Arm, field: str, here: Outside) -> str:
    key = settings_of(arm)[field]
    if (
        field in of_groups.SETTINGS
        and not here.is_root
        and here.cgroup_version in ("v1", "hybrid")
        and arm.runtime != "host"
    ):
        return (
            f"without root {arm.runtime} sets no limits on control groups v1: start it as root, or boot Linux with v2 "
            "alone"
        )
    if field in of_groups.SETTINGS | inherited.SETTINGS:
        return f"a group above it may grant less, or {arm.runtime} may not set it: ask for what was found, or be root"
    if field == "preload":
        return "see whether it is a library for this machine's programs (file, ldd)"
    if field in ("cap_add", "cap_drop"):
        return f"an image that runs as another user than root, or {arm.runtime} without root, holds others"
    if field in ("network", "ipc"):
        return f"{arm.runtime} stands in another place, or was not allowed to: leave {key} out, or be root"
    if field in ("seccomp", "no_new_privileges"):
        return f"what started primbench may have it already, or {arm.runtime} does not heed it: leave {key} out"
    return f"{arm.runtime} or image {arm.image} sets it otherwise: leave {key} out"


_FOUND: dict[str, Callable[[Arm, Ready, Outside], str | None]] = {
    "cpus": _cpus,
    "cpuset": _cpuset,
    "mems": _mems,
    "memory_bytes": _memory,
    "shm_bytes": _shm,
    "preload": _preload,
    "cpu_weight": _weight,
    "niceness": _niceness,
    "processes_max": _processes,
    "open_files": _files,
    "read_bytes_per_s": _read_rate,
    "seccomp": _seccomp,
    "cap_add": _cap_add,
    "cap_drop": _cap_drop,
    "network": _namespace("net", lambda arm: arm.network),
    "ipc": _namespace("ipc", lambda arm: arm.ipc),
    "no_new_privileges": _privileges,
    "variables": _variables,
}
