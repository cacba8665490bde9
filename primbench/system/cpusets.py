"""Which of the machine's CPUs and memory nodes a process may use: its control group's cpuset, and its own affinity.

Every reader takes the ``root`` under which /proc and /sys are found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.system.cgroups import cgroup_folders
from primbench.system.files import attempt, labelled_value, parse_cpu_list, read_cpu_list
from primbench.system.processes import folder_of

if TYPE_CHECKING:
    from pathlib import Path

_AFFINITY = "/proc/{}/status Cpus_allowed_list"


def cpus_allowed(root: Path, pid: int = 0) -> tuple[list[int], str]:
    """The CPUs online that a process, 0 this one, may run on, and what says so.

    That is the control group where the process is bound no further, else its own affinity.
    Raises OSError or ValueError where neither can be read, or not which CPUs are online.
    """
    online = set(read_cpu_list(root / "sys/devices/system/cpu/online"))
    reasons: dict[str, str] = {}
    affinity = attempt(reasons, "affinity", lambda: _of_status(root, pid, "Cpus_allowed_list"))
    group = attempt(reasons, "cpuset", lambda: _cpuset(root, pid, "cpus"))
    if group is not None:
        cpus, source = group
        # The mask of a process that was never bound names every CPU there could ever be.
        if affinity is None or online & set(affinity) == online & set(cpus):
            return sorted(online & set(cpus)), source
    if affinity is None:
        raise ValueError("; ".join(reasons.values()))
    return sorted(online & set(affinity)), _AFFINITY.format(pid or "self")


def memory_nodes_allowed(root: Path, pid: int = 0) -> list[int]:
    """The nodes online that the process may take memory from. Raises OSError or ValueError where that is not told."""
    online = set(read_cpu_list(root / "sys/devices/system/node/online"))
    reasons: dict[str, str] = {}
    allowed = attempt(reasons, "status", lambda: _of_status(root, pid, "Mems_allowed_list"))
    if allowed is None:
        group = attempt(reasons, "cpuset", lambda: _cpuset(root, pid, "mems"))
        if group is None:
            raise ValueError("; ".join(reasons.values()))
        allowed, _ = group
    return sorted(online & set(allowed))


def _of_status(root: Path, pid: int, label: str) -> tuple[int, ...]:
    numbers = parse_cpu_list(labelled_value(folder_of(root, pid) / "status", label))
    if not numbers:
        raise ValueError(f"{folder_of(root, pid)}/status: {label} is empty")
    return numbers


def _cpuset(root: Path, pid: int, what: str) -> tuple[tuple[int, ...], str]:
    """What the nearest control group that has "cpus" or "mems" says of them, and the words for where."""
    names = {f"cpuset.{what}.effective": "v2", f"cpuset.effective_{what}": "v1", f"cpuset.{what}": "v1"}
    for folder in cgroup_folders("cpuset", root, pid):
        for name, version in names.items():
            if (folder / name).is_file() and (numbers := read_cpu_list(folder / name)):
                return numbers, f"cgroup {version} {name}"
    raise ValueError(f"no control group of {f'process {pid}' if pid else 'this process'} tells its cpuset.{what}")
