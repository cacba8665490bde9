"""Settings of CPUs: which, how much of their time, and in which order."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from primbench.errors import InvalidRequest
from primbench.spec.setting import (
    OF_CONTAINER,
    OF_FILES,
    ON_CPU,
    ControlGroup,
    Setting,
    as_found,
    entry,
    one_file,
    option,
)
from primbench.spec.values import amount, numbers, whole, write_amount, write_numbers
from primbench.system.cgroups import USUAL_SHARES, USUAL_WEIGHT
from primbench.system.files import format_cpu_list

if TYPE_CHECKING:
    from primbench.spec.setting import SeenByWorker

PERIOD_US = 100_000
MOST_WEIGHT = 10_000  # of a control group v2
ENOUGH_ALIKE = 0.01  # systemd rounds quotas to whole percents
_SESSION = Path("/proc/self/autogroup")
"""Where Linux shares CPUs out among sessions first, the niceness that counts beside programs of others (sched(7))."""


def _quota_us(cpus: float) -> int:
    return round(cpus * PERIOD_US)


def _is_time(cpus: float, arm: Any) -> str | None:
    if cpus > 0 and math.isfinite(cpus):
        return None
    return f"cpus={cpus:g}: CPUs' worth of time, more than 0, such as 1.5"


def _other_quota(asked: float, found: float | None, seen: SeenByWorker) -> str | None:
    """What CPU quota holds for the worker, be it of a group above, where it is not the one asked for."""
    if found is None:
        return "no quota"
    is_met = math.isclose(found, asked, rel_tol=ENOUGH_ALIKE, abs_tol=ENOUGH_ALIKE)
    return None if is_met else f"a quota of {found:g} CPUs"


def some_numbers(key: str) -> Any:
    """``check`` of a list of CPUs or memory nodes."""

    def check(found: tuple[int, ...], arm: Any) -> str | None:
        return None if found and min(found) >= 0 else f"{key}: at least one number, as in 0-3+8"

    return check


def other_cpus(asked: tuple[int, ...], found: Any, seen: SeenByWorker) -> str | None:
    """What CPUs the worker found, where not those asked for: as they were before a library bound any thread."""
    placed = seen.arm.placement
    binds = any(each is not None for each in (placed.cpus, placed.cpu_node, placed.cpu_kind, placed.numa_node))
    is_met = seen.cpus <= set(asked) if binds else seen.cpus == set(asked)
    return None if is_met else f"CPUs {format_cpu_list(seen.cpus)}"


def _other_nodes(asked: tuple[int, ...], found: list[int], seen: SeenByWorker) -> str | None:
    return None if set(found) == set(asked) else f"memory nodes {format_cpu_list(found)}"


def _shares(weight: int) -> int:
    """As v1 has a weight, and the options of engines on v2, too."""
    return max(2, round(weight * USUAL_SHARES / USUAL_WEIGHT))


def _is_weight(weight: int, arm: Any) -> str | None:
    return None if 1 <= weight <= MOST_WEIGHT else f"cpu-weight={weight}: from 1 to {MOST_WEIGHT}, usually 100"


def _other_weight(asked: int, found: int | None, seen: SeenByWorker) -> str | None:
    """Engines make a weight of shares in ways that differ by version, and one of 100 or more is not recorded."""
    return None if asked >= USUAL_WEIGHT or found is not None else "the usual weight"


def _niceness(text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,2}", text, re.ASCII) or not -20 <= int(text) <= 19:
        raise InvalidRequest("from -20, the first to have a CPU, to 19, the last")
    return int(text)


def _be_nice(niceness: int) -> None:
    """Its session, too, which is to be its own."""
    os.setpriority(os.PRIO_PROCESS, 0, niceness)
    if _SESSION.exists():
        _SESSION.write_text(str(niceness))


ROWS = (
    Setting(
        "cpus", "cpus", float | None, "CPUs' worth of time at most: a quota.", "2",
        parse=amount, write=write_amount, check=_is_time,
        options=dict.fromkeys(("docker", "podman", "apptainer"), option("--cpus", write_amount)),
        oci=lambda container, cpus: container.limit("cpu", quota=_quota_us(cpus), period=PERIOD_US),
        group=ControlGroup(
            "cpu",
            lambda cpus, _: [("cpu.cfs_period_us", PERIOD_US), ("cpu.cfs_quota_us", _quota_us(cpus))],
            lambda cpus, _: [("cpu.max", f"{_quota_us(cpus)} {PERIOD_US}")],
            lambda cpus, _: [("CPUQuota", f"{round(cpus * 100)}%")],
        ),
        pod=entry(*OF_CONTAINER, "resources", "limits", "cpu", write=write_amount),
        shows=(("limits", "cpu_quota"), ("limits", "cpu_period_s")), unlike=_other_quota, unlimited=True, moves=ON_CPU,
        recorded=as_found,
    ),
    Setting(
        "cpuset", "cpuset", tuple[int, ...] | None, "CPUs that it may run on, by the control group.", "0-3+8",
        parse=numbers, write=write_numbers, check=some_numbers("cpuset"),
        options=dict.fromkeys(("docker", "podman", "apptainer"), option("--cpuset-cpus", format_cpu_list)),
        oci=lambda container, cpus: container.limit("cpu", cpus=format_cpu_list(cpus)),
        group=one_file("cpuset", "cpuset.cpus", "cpuset.cpus", "AllowedCPUs", format_cpu_list),
        shows=(("limits", "cpus_allowed"),), unlike=other_cpus,
        moves=ON_CPU,
    ),
    Setting(
        "mems", "mems", tuple[int, ...] | None, "Memory nodes that it may take memory of.", "0",
        parse=numbers, write=write_numbers, check=some_numbers("mems"),
        options=dict.fromkeys(("docker", "podman", "apptainer"), option("--cpuset-mems", format_cpu_list)),
        oci=lambda container, nodes: container.limit("cpu", mems=format_cpu_list(nodes)),
        group=one_file("cpuset", "cpuset.mems", "cpuset.mems", "AllowedMemoryNodes", format_cpu_list),
        shows=(("limits", "memory_nodes_allowed"),), unlike=_other_nodes, moves=ON_CPU,
    ),
    Setting(
        "cpu-weight", "cpu_weight", int | None,
        "Weight against other control groups, of which each has 100 unless told.", "50",
        parse=whole, check=_is_weight,
        options=dict.fromkeys(("docker", "podman", "apptainer"), option("--cpu-shares", _shares)),
        oci=lambda container, weight: container.limit("cpu", shares=_shares(weight)),
        group=ControlGroup(
            "cpu",
            lambda weight, _: [("cpu.shares", _shares(weight))],
            lambda weight, _: [("cpu.weight", weight)],
            lambda weight, _: [("CPUWeight", weight)],
        ),
        shows=(("limits", "cpu_weight"),), unlike=_other_weight, unlimited=True, moves=(*ON_CPU, *OF_FILES),
        recorded=as_found,
    ),
    Setting(
        "nice", "niceness", int | None, "Niceness of its processes, from -20, the first to have a CPU, to 19.", "10",
        parse=_niceness, process=_be_nice,
        shows=(("limits", "niceness"), ("limits", "session_niceness")),
        unlike=lambda asked, found, seen: None if found == asked else f"niceness {found}",
        recorded=as_found,
        moves=(*ON_CPU, *OF_FILES),
    ),
)  # fmt: skip
