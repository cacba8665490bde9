"""What CPU time went to: of each CPU since boot, and of a process with all that it started."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from primbench.system.processes import children, fields_of_stat

if TYPE_CHECKING:
    from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_OWN = slice(11, 15)  # of /proc/PID/stat, indices after the name: in user mode and kernel, of itself and ended children


class Spent(NamedTuple):
    """CPU time that CPUs spent, since boot."""

    busy_s: float
    """CPU time by any program or the kernel."""
    idle_s: float
    stolen_s: float
    """CPU time taken by the hypervisor, while there was something to run."""

    @property
    def all_s(self) -> float:
        return self.busy_s + self.idle_s + self.stolen_s


def spent(root: Path) -> dict[str, Spent]:
    """Of all CPUs together, by the name "cpu", and of each, "cpu0" and so on. Raises OSError, ValueError.

    Source: proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal; guests' time is in the first two.
    """
    path = root / "proc/stat"
    found = {}
    with path.open(errors="replace") as lines:
        for line in lines:  # what is counted of interrupts follows, in very long lines
            name, *fields = line.split() or [""]
            if not name.startswith("cpu"):
                break
            user, nice, system, idle, waiting, irq, softirq, stolen = (int(each) / TICKS_PER_S for each in fields[:8])
            found[name] = Spent(user + nice + system + irq + softirq, idle + waiting, stolen)
    if "cpu" not in found or not found["cpu"].all_s:
        raise ValueError(f"{path} counts no CPU time")
    return found


def spent_by(root: Path) -> float:
    """Seconds of this process and of all that it started, also of what has ended meanwhile.

    Raises OSError, also where the kernel does not list what a process started.
    """
    own = os.readlink(root / "proc/self")
    found, waiting = 0.0, [own]
    while waiting:
        folder = root / "proc" / waiting.pop()
        try:
            found += sum(map(int, fields_of_stat(folder / "stat")[_OWN])) / TICKS_PER_S
            waiting += map(str, children(folder))
        except (FileNotFoundError, ProcessLookupError):  # it has ended, and is counted as ended
            if folder.name == own:
                raise
    return found
