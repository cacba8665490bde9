"""Pressure stall information: how long tasks waited for a CPU, or for memory."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from primbench.system.cgroups import cgroup_folders
from primbench.system.files import attempt

if TYPE_CHECKING:
    from pathlib import Path


def cpu_pressure(name: str, root: Path) -> float:
    """A number of the line "some": Linux, accounting/psi.rst: "avg10" is in percent, "total" in microseconds.

    Of the machine or, where that is hidden, of the own control group. Raises OSError or ValueError.
    """
    path = root / "proc/pressure/cpu"
    try:
        text = path.read_text()
    except OSError:
        path = cgroup_folders("cpu", root)[0] / "cpu.pressure"
        text = path.read_text()
    return _some(name, text, path)


def memory_pressure(name: str, root: Path) -> float:
    """As ``cpu_pressure``, of the own control group, which may have a limit, or of the machine where that is hidden."""
    groups = attempt({}, "", lambda: cgroup_folders("memory", root)) or []
    own = [path for folder in groups[:1] if (path := folder / "memory.pressure").exists()]
    path = (own or [root / "proc/pressure/memory"])[0]
    return _some(name, path.read_text(), path)


def _some(name: str, text: str, path: Path) -> float:
    found = re.search(rf"^some\b.*? {name}=([0-9]+(?:\.[0-9]+)?)(?=\s|$)", text, re.MULTILINE | re.ASCII)
    if found is None:
        raise ValueError(f"{path} has no {name} of some")
    return float(found[1])
