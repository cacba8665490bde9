"""What the machine did to this process while a case was timed: counters before and after, and their differences."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from primbench.cgroups import cgroup_folders
from primbench.measurement import HostReading
from primbench.sysfiles import attempt, whole_number

_THROTTLED_UNIT_S = {"throttled_usec": 1e-6, "throttled_time": 1e-9}  # of v2, of v1
_PERIODS = ("nr_periods", "nr_throttled")


class Throttling(NamedTuple):
    """Of one control group. A number that its cpu.stat lacks is None."""

    held_back_s: float
    periods: int | None = None
    throttled_periods: int | None = None

    def since(self, before: Throttling) -> Throttling:
        return Throttling(
            self.held_back_s - before.held_back_s,
            _difference(self.periods, before.periods),
            _difference(self.throttled_periods, before.throttled_periods),
        )


def _difference(now: int | None, before: int | None) -> int | None:
    return None if now is None or before is None else now - before


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Counters at one moment; only the differences that ``since`` makes of them mean anything.

    waited_s: by thread. throttling: by cpu.stat file, of this process's own control group and those above it.
    """

    root: Path
    time_s: float
    cpu_time_s: float
    voluntary_switches: int
    involuntary_switches: int
    cpu_pressure_some_s: float | None
    waited_s: dict[str, float] | None
    throttling: dict[str, Throttling] | None
    missing: dict[str, str]


def start(root: Path = Path("/")) -> Snapshot:
    """Read the counters; ``root`` is where /proc and /sys are found."""
    missing: dict[str, str] = {}
    pressure_s = attempt(missing, "cpu_pressure_some_s", lambda: cpu_pressure("total", root) * 1e-6)
    waited_s = attempt(missing, "waited_s", lambda: _waited_s(root))
    throttling = attempt(missing, "throttled_s", lambda: _throttling(root))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return Snapshot(
        root=root,
        time_s=time.perf_counter(),
        cpu_time_s=usage.ru_utime + usage.ru_stime,
        voluntary_switches=usage.ru_nvcsw,
        involuntary_switches=usage.ru_nivcsw,
        cpu_pressure_some_s=pressure_s,
        waited_s=waited_s,
        throttling=throttling,
        missing=missing,
    )


def since(before: Snapshot) -> HostReading:
    """The differences from ``before`` until now.

    Of control groups the one counts that was held back most. waited_s counts the threads that are there now.
    """
    now = start(before.root)
    missing = now.missing | before.missing
    pressure_s = waited_s = throttled = None
    if before.cpu_pressure_some_s is not None and now.cpu_pressure_some_s is not None:
        pressure_s = now.cpu_pressure_some_s - before.cpu_pressure_some_s
    if before.waited_s is not None and now.waited_s is not None:
        waited_s = max(now.waited_s[thread] - before.waited_s.get(thread, 0.0) for thread in now.waited_s)
    if before.throttling is not None and now.throttling is not None:
        same = before.throttling.keys() & now.throttling.keys()
        held_back = [now.throttling[group].since(before.throttling[group]) for group in same]
        throttled = max(held_back, key=lambda each: each.held_back_s, default=None)
        if throttled is None:
            missing["throttled_s"] = "this process was moved to another control group"
    return HostReading(
        duration_s=now.time_s - before.time_s,
        cpu_time_s=now.cpu_time_s - before.cpu_time_s,
        voluntary_switches=now.voluntary_switches - before.voluntary_switches,
        involuntary_switches=now.involuntary_switches - before.involuntary_switches,
        cpu_pressure_some_s=pressure_s,
        waited_s=waited_s,
        throttled_s=throttled and throttled.held_back_s,
        quota_periods=throttled and throttled.periods,
        throttled_periods=throttled and throttled.throttled_periods,
        missing=missing,
    )


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


def _waited_s(root: Path) -> dict[str, float]:
    """Thread -> seconds in which it could have run and had no CPU: Linux, scheduler/sched-stats.rst, schedstat."""
    found = {}
    folder = root / "proc/self/task"
    for thread in os.listdir(folder):
        path = folder / thread / "schedstat"
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            _, waited_ns, _ = path.read_text().split()
            found[thread] = whole_number(waited_ns, path) * 1e-9
    if not found:
        raise ValueError(f"{folder}: no thread has schedstat: this kernel does not count how long they wait")
    return found


def _throttling(root: Path) -> dict[str, Throttling]:
    """cpu.stat file -> what its group's quota has done."""
    found = {}
    paths = [folder / "cpu.stat" for folder in cgroup_folders("cpu", root)]
    for path in paths:
        counters = dict(line.split(" ", 1) for line in path.read_text().splitlines() if " " in line)
        for name in _THROTTLED_UNIT_S.keys() & counters.keys():
            held_back_s = whole_number(counters[name], path) * _THROTTLED_UNIT_S[name]
            periods = [whole_number(counters[each], path) if each in counters else None for each in _PERIODS]
            found[str(path)] = Throttling(held_back_s, *periods)
    if not found:
        # The root group of v2 has the file without the counter.
        raise ValueError(f"{paths[0]} counts no throttling: this control group can have no quota")
    return found
