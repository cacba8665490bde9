"""The processors: sockets and cores, kinds of CPUs that differ in speed, and the last-level caches. Reads only.

Every reader takes the ``root`` under which /proc and /sys are found.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from primbench.system.files import attempt, read_cpu_list, read_number, trimmed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

# Intel's hybrids have a performance monitor a kind of core: Linux, tools/perf/Documentation/intel-hybrid.txt.
_MONITORS = ("cpu_core", "cpu_atom", "cpu_lowpower")
# Favoured cores of one kind clock up to a tenth higher than the others; kinds differ by a third and more.
_ANOTHER_KIND = 1.2


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """A processor socket."""

    id: int | None
    """Its number; None for the cores of which the kernel does not know the socket."""
    cores: list[list[int]]
    """The CPUs online of each core together: SMT siblings share one."""


class CpuKind(msgspec.Struct, frozen=True, kw_only=True):
    """CPUs online that are alike, on a machine where not all are."""

    name: str
    """"performance" is the quickest, then come "efficiency", "efficiency-2", ..."""
    cpus: list[int]
    told_by: str
    """What tells them apart: "cpu_core", "cpu_atom" or "cpu_lowpower" of Intel's, "cpu_capacity" of the kernel's
    scheduler, "cpuinfo_max_freq".
    """
    capacity: int | None = None
    """Capacity of the quickest of them, where the quickest CPU of all has 1024."""
    max_frequency_hz: int | None = None
    """The highest clock of the quickest of them."""


class Cache(msgspec.Struct, frozen=True, kw_only=True):
    """A cache of the last level, and the CPUs online that share it. None is unknown."""

    level: int
    size_bytes: int | None
    cpus: list[int]


def packages(root: Path) -> list[Package]:
    """Sockets with their cores and threads, of CPUs online: the kernel keeps no topology of others."""
    folder = root / "sys/devices/system/cpu"
    found: dict[int | None, set[tuple[int, ...]]] = {}
    for cpu in read_cpu_list(folder / "online"):
        number = read_number(folder / f"cpu{cpu}/topology/physical_package_id")
        found.setdefault(number if number >= 0 else None, set()).add(siblings(root, cpu))
    numbered = sorted(found.items(), key=lambda item: (item[0] is None, item[0] or 0))
    return [Package(id=number, cores=sorted(map(list, cores))) for number, cores in numbered]


def cores_by_package(root: Path) -> list[int]:
    """How many cores each socket has."""
    return [len(package.cores) for package in packages(root)]


def siblings(root: Path, cpu: int) -> tuple[int, ...]:
    """The CPUs of the core that a CPU is of. Linux before 5.3 has the older name alone. Raises OSError, ValueError."""
    path = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
    newer = path / "core_cpus_list"
    cpus = read_cpu_list(newer if newer.exists() else path / "thread_siblings_list")
    if not cpus:
        raise ValueError(f"{path}: a core without CPUs")
    return cpus


def offline_cpus(root: Path) -> list[int]:
    """CPUs that are present but switched off, ascending."""
    folder = root / "sys/devices/system/cpu"
    return sorted(set(read_cpu_list(folder / "present")) - set(read_cpu_list(folder / "online")))


def cpu_kinds(root: Path) -> list[CpuKind]:
    """The quickest first; [] where all CPUs are alike. Raises OSError or ValueError where nothing tells."""
    folder = root / "sys/devices/system/cpu"
    online = read_cpu_list(folder / "online")
    monitored = _monitored(root, online)
    speeds = _Speeds(
        capacities=attempt({}, "", partial(_of_each, folder, online, "cpu_capacity")),
        frequencies_khz=attempt({}, "", partial(_of_each, folder, online, "cpufreq/cpuinfo_max_freq")),
    )
    if not monitored and speeds == _Speeds(None, None):
        raise ValueError(f"{folder}/cpu*: neither cpu_capacity nor cpufreq/cpuinfo_max_freq can be read of every CPU")
    groups = [
        (monitor or speeds.told_by, group)
        for monitor, cpus in _by_monitor(online, monitored).items()
        for group in _by_speed(cpus, speeds.comparable)
    ]
    return [speeds.kind(number, *group) for number, group in enumerate(groups)] if len(groups) > 1 else []


class _Speeds(NamedTuple):
    """CPU -> what tells how quick it is; None where that is not told of all CPUs online."""

    capacities: dict[int, int] | None
    frequencies_khz: dict[int, int] | None

    @property
    def told_by(self) -> str:
        return "cpu_capacity" if self.capacities else "cpuinfo_max_freq"

    @property
    def comparable(self) -> dict[int, int]:
        return self.capacities or self.frequencies_khz or {}

    def kind(self, number: int, told_by: str, cpus: list[int]) -> CpuKind:
        """number: from 0, the quickest."""
        names = ("performance", "efficiency")
        return CpuKind(
            name=names[number] if number < len(names) else f"efficiency-{number}",
            cpus=cpus,
            told_by=told_by,
            capacity=max(map(self.capacities.__getitem__, cpus)) if self.capacities else None,
            max_frequency_hz=1000 * max(map(self.frequencies_khz.__getitem__, cpus)) if self.frequencies_khz else None,
        )


def slower_cpus(kinds: Iterable[CpuKind], allowed: Collection[int]) -> list[int]:
    """The allowed CPUs of any kind but the quickest that is allowed, such as efficiency cores."""
    there = [sorted(set(kind.cpus) & set(allowed)) for kind in kinds]
    return [cpu for cpus in list(filter(None, there))[1:] for cpu in cpus]


def _monitored(root: Path, online: Iterable[int]) -> dict[int, str]:
    """CPU -> its performance monitor; {} where these are not told of all CPUs."""
    found: dict[int, str] = {}
    for name in _MONITORS:
        cpus = attempt({}, "", partial(read_cpu_list, root / f"sys/devices/{name}/cpus"))
        found |= dict.fromkeys(cpus or (), name)
    return found if found.keys() >= set(online) else {}


def _by_monitor(online: Iterable[int], monitored: Mapping[int, str]) -> dict[str, list[int]]:
    """All CPUs under "" where they have no monitors."""
    names = _MONITORS if monitored else ("",)
    return {name: [cpu for cpu in online if monitored.get(cpu, "") == name] for name in names}


def _of_each(folder: Path, cpus: Iterable[int], name: str) -> dict[int, int]:
    return {cpu: read_number(folder / f"cpu{cpu}/{name}") for cpu in cpus}


def _by_speed(cpus: Iterable[int], speeds: Mapping[int, int]) -> list[list[int]]:
    """CPUs grouped by speed, the quickest first: a new group where speed falls by the factor _ANOTHER_KIND."""
    groups: list[list[int]] = []
    slowest = 0
    for cpu in sorted(cpus, key=lambda each: -speeds.get(each, 0)):
        speed = speeds.get(cpu, 0)
        if not groups or slowest > _ANOTHER_KIND * speed:
            groups.append([])
        groups[-1].append(cpu)
        slowest = speed
    return [sorted(group) for group in groups]


def last_level_caches(root: Path, cpus: Iterable[int] | None = None) -> list[Cache]:
    """Each once, by its first CPU. cpus: whose; None: all online.

    Raises OSError or ValueError where none is told.
    """
    folder = root / "sys/devices/system/cpu"
    found: list[Cache] = []
    missing: dict[str, str] = {}
    for cpu in sorted(read_cpu_list(folder / "online") if cpus is None else cpus):
        if any(cpu in cache.cpus for cache in found):
            continue
        cache = attempt(missing, "cache", partial(_last_level, folder / f"cpu{cpu}", cpu))
        if cache is not None:
            found.append(cache)
    if missing and not found:
        raise ValueError(missing["cache"])
    return found


def _last_level(folder: Path, cpu: int) -> Cache:
    levels = {read_number(index / "level"): index for index in sorted(folder.glob("cache/index*"))}
    if not levels:
        raise ValueError(f"{folder}/cache: the kernel tells no cache")
    level = max(levels)
    size = attempt({}, "", partial(_size_bytes, levels[level] / "size"))
    return Cache(level=level, size_bytes=size, cpus=_sharing(folder, levels[level], cpu))


def _sharing(folder: Path, index: Path, cpu: int) -> list[int]:
    """Linux leaves the file out where it does not know: then those of the socket, which is how most are built."""
    for path in (
        index / "shared_cpu_list",
        folder / "topology/package_cpus_list",
        folder / "topology/core_siblings_list",
    ):
        if cpus := attempt({}, "", partial(read_cpu_list, path)):
            return sorted({cpu, *cpus})
    return [cpu]


def _size_bytes(path: Path) -> int:
    text = trimmed(path.read_text())
    if re.fullmatch(r"[0-9]{1,9}K", text, re.ASCII) is None:
        raise ValueError(f"{path}: expected a size such as 32768K, found {text[:40]!r}")
    return int(text[:-1]) * 1024
