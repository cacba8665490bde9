"""Pressure stall information: how long tasks waited for a CPU."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from primbench.system.cgroups import cgroup_folders

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
    found = re.search(rf"^some\b.*? {name}=([0-9]+(?:\.[0-9]+)?)(?=\s|$)", text, re.MULTILINE | re.ASCII)
    if found is None:
        raise ValueError(f"{path} has no {name} of some")
    return float(found[1])
