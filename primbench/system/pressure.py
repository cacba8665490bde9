"""Pressure stall information: how long tasks waited for a CPU, for memory or for reading and writing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from primbench.system.cgroups import Folders, cgroup_folders
from primbench.system.files import attempt

if TYPE_CHECKING:
    from pathlib import Path

# The controller, where control groups are v1, whose group is meant.
_CONTROLLERS = {"cpu": "cpu", "memory": "memory", "io": "blkio"}


def cpu_pressure(name: str, root: Path, pid: int = 0) -> float:
    """A number of the line "some": Linux, accounting/psi.rst: "avg10" is in percent, "total" in microseconds.

    Of the machine or, where that is hidden, of the control group of a process, 0 this one. Raises OSError,
    ValueError.
    """
    path = root / "proc/pressure/cpu"
    try:
        text = path.read_text()
    except OSError:
        path = cgroup_folders("cpu", root, pid)[0] / "cpu.pressure"
        text = path.read_text()
    return _some(name, text, path)


def group_pressure(on: Literal["cpu", "memory", "io"], name: str, root: Path, folders: Folders) -> float:
    """As ``cpu_pressure``, of the control group, which may have a limit, or of the machine where that is hidden."""
    groups = attempt({}, "", lambda: folders(_CONTROLLERS[on])) or []
    own = [path for folder in groups[:1] if (path := folder / f"{on}.pressure").exists()]
    path = (own or [root / "proc/pressure" / on])[0]
    return _some(name, path.read_text(), path)


def _some(name: str, text: str, path: Path) -> float:
    found = re.search(rf"^some\b.*? {name}=([0-9]+(?:\.[0-9]+)?)(?=\s|$)", text, re.MULTILINE | re.ASCII)
    if found is None:
        raise ValueError(f"{path} has no {name} of some")
    return float(found[1])
