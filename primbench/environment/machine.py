"""The machine as its kernel shows it: what a container shares with its host."""

from __future__ import annotations

import contextlib
import functools
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from primbench.sysfiles import attempt, labelled_value, parse_cpu_list, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """None is unknown, with the reason in ``missing`` under the field's name.

    virtualization: a hint: "none", the hypervisor's name, or "unnamed hypervisor".
    kernel_parameters: those of /proc/cmdline that can change speed (mitigations=, iommu=, isolcpus=, ...).
    mitigations: vulnerability -> the kernel's own words.
    clock_s: cost of one reading of the clock that times everything; clock_resolution_s: its smallest step seen.
    governor: of the first CPU that this process may run on. turbo: whether frequencies may rise above the nominal one.
    deepest_idle_s: the time it takes to wake from the deepest idle state that is enabled.
    transparent_hugepage, _defrag, _shmem: the choice made. numa_balancing: whether the kernel moves pages by itself.
    lsm: security modules at work. iommu: the kinds of IOMMU groups that GPUs are in ("identity", "DMA", ...).
    infiniband: adapters.
    """

    kernel: str
    architecture: str
    os_name: str | None = None
    cpu_model: str | None = None
    cpus_total: int | None = None
    memory_bytes: int | None = None
    memory_available_bytes: int | None = None
    virtualization: str | None = None
    kernel_parameters: list[str] | None = None
    mitigations: dict[str, str] | None = None
    clocksource: str | None = None
    clock_s: float | None = None
    clock_resolution_s: float | None = None
    governor: str | None = None
    turbo: bool | None = None
    deepest_idle_s: float | None = None
    transparent_hugepage: str | None = None
    transparent_hugepage_defrag: str | None = None
    transparent_hugepage_shmem: str | None = None
    numa_balancing: bool | None = None
    lsm: list[str] | None = None
    iommu: list[str] | None = None
    infiniband: list[str] | None = None
    missing: dict[str, str] = {}


def collect(root: Path) -> Machine:
    missing: dict[str, str] = {}
    read: dict[str, Any] = {
        field: attempt(missing, field, functools.partial(reader, root)) for field, reader in _READERS.items()
    }
    return Machine(kernel=os.uname().release, architecture=os.uname().machine, missing=missing, **read)


def _os_name(root: Path) -> str:
    text = (root / "etc/os-release").read_text()
    found = re.search(r'^PRETTY_NAME="?([^"\n]+)', text, re.MULTILINE)
    if found is None:
        raise ValueError("/etc/os-release has no PRETTY_NAME")
    return found[1]


def _cpu_model(root: Path) -> str:
    """The name, or on Arm, where Linux gives none, the numbers that stand for it."""
    path = root / "proc/cpuinfo"
    for label in ("model name", "cpu"):
        with contextlib.suppress(ValueError):
            return labelled_value(path, label)
    return f"implementer {labelled_value(path, 'CPU implementer')} part {labelled_value(path, 'CPU part')}"


def _cpus_total(root: Path) -> int:
    return len(parse_cpu_list((root / "sys/devices/system/cpu/online").read_text()))


def _meminfo_bytes(label: str) -> Callable[[Path], int]:
    def read(root: Path) -> int:
        path = root / "proc/meminfo"
        return whole_number(labelled_value(path, label).removesuffix("kB"), path) * 1024

    return read


def _virtualization(root: Path) -> str:
    if "hypervisor" not in labelled_value(root / "proc/cpuinfo", "flags").split():
        return "none"
    names = []
    for path in (root / "sys/class/dmi/id/sys_vendor", root / "sys/class/dmi/id/product_name"):
        with contextlib.suppress(OSError):
            names.append(path.read_text().strip())
    return " ".join(names) or "unnamed hypervisor"


def _clocksource(root: Path) -> str:
    return _word(root / "sys/devices/system/clocksource/clocksource0/current_clocksource")


def _governor(root: Path) -> str:
    """Of the first CPU that this process may run on."""
    cpu = min(os.sched_getaffinity(0))
    return _word(root / f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor")


def _word(path: Path) -> str:
    text = path.read_text().strip()
    if not text:
        raise ValueError(f"{path} is empty")
    return text


def _transparent_hugepage(root: Path) -> str:
    path = root / "sys/kernel/mm/transparent_hugepage/enabled"
    chosen = re.search(r"\[(\w+)\]", path.read_text())
    if chosen is None:
        raise ValueError(f"{path} marks no choice")
    return chosen[1]


_READERS: dict[str, Callable[[Path], Any]] = {
    "os_name": _os_name,
    "cpu_model": _cpu_model,
    "cpus_total": _cpus_total,
    "memory_bytes": _meminfo_bytes("MemTotal"),
    "memory_available_bytes": _meminfo_bytes("MemAvailable"),
    "virtualization": _virtualization,
    "clocksource": _clocksource,
    "governor": _governor,
    "transparent_hugepage": _transparent_hugepage,
}
