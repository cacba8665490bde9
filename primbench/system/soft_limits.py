"""What a process is held to by itself, and may raise up to the hard limit: getrlimit(2)."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

from primbench.system.cgroups import lines_of
from primbench.system.files import whole_number
from primbench.system.processes import folder_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def soft_limit(kind: int, label: str) -> Callable[[Path, int], int | None]:
    """label: in /proc/PID/limits, which tells of others without the rights that prlimit(2) needs."""

    def read(root: Path, pid: int) -> int | None:
        if not pid:
            limit, _ = resource.getrlimit(kind)
            return None if limit == resource.RLIM_INFINITY else limit
        path = folder_of(root, pid) / "limits"
        found = [line.removeprefix(label).split()[0] for line in lines_of(path) if line.startswith(label)]
        if not found:
            raise ValueError(f"{path} has no {label}")
        return None if found[0] == "unlimited" else whole_number(found[0], path)

    return read
