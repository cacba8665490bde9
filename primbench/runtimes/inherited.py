"""What a process hands on to all that it starts, a container's processes among them where its runtime starts them."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from primbench.spec.arm import Arm

SETTINGS = frozenset({"niceness", "open_files"})
_SESSION = Path("/proc/self/autogroup")
"""Where Linux shares CPUs out among sessions first, the niceness that counts beside programs of others (sched(7))."""


def take(arm: Arm) -> None:
    """Give this process what an arm asks for of these, and its session, which is to be its own.

    Raises OSError or ValueError where Linux refuses it.
    """
    if arm.niceness is not None:
        os.setpriority(os.PRIO_PROCESS, 0, arm.niceness)
        if _SESSION.exists():
            _SESSION.write_text(str(arm.niceness))
    if arm.open_files is not None:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (arm.open_files, max(arm.open_files, most)))
