"""Which of the machine's CPUs and memory nodes this process may use: its control group's cpuset, and its own affinity.

Every reader takes the ``root`` under which /proc and /sys are found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.system.cgroups import cgroup_folders
from primbench.system.files import attempt, labelled_value, parse_cpu_list, read_cpu_list

if TYPE_CHECKING:
    from pathlib import Path

_AFFINITY = "/proc/self/status Cpus_allowed_list"


def cpus_allowed(root: Path) -> tuple[list[int], str]:
    """The CPUs online that this process may run on, and what says so.

    That is the control group where the process is bound no further, else its own affinity.
    Raises OSError or ValueError where neither can be read, or not which CPUs are online.
    """
    online = set(read_cpu_list(root / "sys/devices/system/cpu/online"))
    reasons: dict[str, str] = {}
    affinity = attempt(reasons, "affinity", lambda: _of_status(root, "Cpus_allowed_list"))
    group = attempt(reasons, "cpuset", lambda: _cpuset(root, "cpus"))
    if group is not None:
        cpus, source = group
        # The mask of a process that was never bound names every CPU there could ever be.
        if affinity is None or online & set(affinity) == online & set(cpus):
            return sorted(online & set(cpus)), source
    if affinity is None:
        raise ValueError("; ".join(reasons.values()))
    return sorted(online & set(affinity)), _AFFINITY


def memory_nodes_allowed(root: Path) -> list[int]:
    """The nodes online that this process may take memory from. Raises OSError or ValueError where that is not told."""
    online = set(read_cpu_list(root / "sys/devices/system/node/online"))
    reasons: dict[str, str] = {}
    allowed = attempt(reasons, "status", lambda: _of_status(root, "Mems_allowed_list"))
    if allowed is None:
        group = attempt(reasons, "cpuset", lambda: _cpuset(root, "mems"))
        if group is None:
            raise ValueError("; ".join(reasons.values()))
        allowed, _ = group
    return sorted(online & set(allowed))


def _of_status(root: Path, label: str) -> tuple[int, ...]:
    numbers = parse_cpu_list(labelled_value(root / "proc/self/status", label))
    if not numbers:
        raise ValueError(f"/proc/self/status: {label} is empty")
    return numbers


def _cpuset(root: Path, what: str) -> tuple[tuple[int, ...], str]:
    """What the nearest control group that has "cpus" or "mems" says of them, and the words for where."""
    names = {f"cpuset.{what}.effective": "v2", f"cpuset.effective_{what}": "v1", f"cpuset.{what}": "v1"}
    for folder in cgroup_folders("cpuset", root):
        for name, version in names.items():
            if (folder / name).is_file() and (numbers := read_cpu_list(folder / name)):
                return numbers, f"cgroup {version} {name}"
    raise ValueError(f"no control group of this process tells its cpuset.{what}")
