"""The machine as its kernel shows it: what a container shares with its host."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import time
from typing import TYPE_CHECKING, Annotated

import msgspec

from primbench.environment import processor, rdma
from primbench.environment.reading import Reader, of_process, read_all, word
from primbench.quantities import Seconds, Whole
from primbench.system import cores, pci
from primbench.system.boot import boot_id
from primbench.system.cores import Cache, CpuKind
from primbench.system.files import labelled_bytes, labelled_value, read_cpu_list, read_number
from primbench.system.meaning import NOTHING, Meaning

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """None is unknown, with the reason in ``missing`` under the field's name.

    boot_id: of the kernel that runs, another one after each start.
    virtualization: a hint: "none", the hypervisor's name, "unnamed hypervisor", or "gVisor", a kernel of its own.
    kernel_parameters: those of /proc/cmdline that can change speed (mitigations=, iommu=, isolcpus=, ...).
    mitigations: vulnerability -> the kernel's own words.
    cpu_kinds: [] where all CPUs are alike.
    clock_s: cost of one reading of the clock that times everything; clock_resolution_s: its smallest step seen.
    governor: of the first CPU that this process may run on. turbo: whether frequencies may rise above the nominal one.
    deepest_idle_s: the time it takes to wake from the deepest idle state that is enabled, of that CPU.
    transparent_hugepage, _defrag, _shmem: the choice made. numa_balancing: whether the kernel moves pages by itself.
    lsm: security modules at work. iommu: the kinds of IOMMU groups that NVIDIA's GPUs are in: "identity", "DMA", ...
    or "none".
    vectors: extensions of the instruction set that compute on vectors. emulator: the program that interprets this one,
    such as "qemu-x86_64", or "none". infiniband: adapters; infiniband_vendors: the PCI number of each one's maker.
    roce_addresses: of ports on Ethernet, by index: "mlx5_0:1 3 RoCE v2 IPv4"; a port that has none here has "none".
    peer_memory: modules that let adapters reach GPU memory, such as "nvidia_peermem".
    acs_redirect: bridges above NVIDIA's GPUs that send what these say to each other up to the root complex.
    """

    kernel: Annotated[str, Meaning("machine", "kernel")]
    architecture: Annotated[str, Meaning("machine", "machine")]
    boot_id: Annotated[str | None, NOTHING] = None
    os_name: Annotated[str | None, Meaning("stack")] = None
    cpu_model: Annotated[str | None, Meaning("machine", "machine")] = None
    cpus_total: Annotated[Whole | None, Meaning("machine", "machine")] = None
    memory_bytes: Annotated[Whole | None, Meaning("machine", "machine")] = None
    memory_available_bytes: Annotated[Whole | None, NOTHING] = None
    virtualization: Annotated[str | None, Meaning("machine", "machine")] = None
    kernel_parameters: Annotated[list[str] | None, Meaning("machine", "kernel")] = None
    mitigations: Annotated[dict[str, str] | None, Meaning("machine", "mitigations")] = None
    cpu_kinds: Annotated[list[CpuKind] | None, Meaning("machine", "machine")] = None
    last_level_caches: Annotated[list[Cache] | None, Meaning("machine", "machine")] = None
    clocksource: Annotated[str | None, Meaning("machine", "clock")] = None
    clock_s: Annotated[Seconds | None, Meaning("machine", varies=True)] = None
    clock_resolution_s: Annotated[Seconds | None, Meaning("machine", varies=True)] = None
    governor: Annotated[str | None, Meaning("machine", "frequency")] = None
    turbo: Annotated[bool | None, Meaning("machine", "frequency")] = None
    deepest_idle_s: Annotated[Seconds | None, Meaning("machine", "frequency")] = None
    transparent_hugepage: Annotated[str | None, Meaning("machine", "huge-pages")] = None
    transparent_hugepage_defrag: Annotated[str | None, Meaning("machine", "huge-pages")] = None
    transparent_hugepage_shmem: Annotated[str | None, Meaning("machine", "huge-pages")] = None
    numa_balancing: Annotated[bool | None, Meaning("machine", "numa-balancing")] = None
    lsm: Annotated[list[str] | None, Meaning("machine")] = None
    iommu: Annotated[list[str] | None, Meaning("machine", "machine")] = None
    vectors: Annotated[list[str] | None, Meaning("machine", "machine")] = None
    emulator: Annotated[str | None, Meaning("machine", "machine")] = None
    infiniband: Annotated[list[str] | None, Meaning("machine", "network")] = None
    infiniband_vendors: Annotated[dict[str, str] | None, Meaning("machine", "network")] = None
    roce_addresses: Annotated[list[str] | None, Meaning("confinement", "network")] = None
    peer_memory: Annotated[list[str] | None, Meaning("machine", "network")] = None
    acs_redirect: Annotated[list[str] | None, Meaning("machine", "network")] = None
    missing: dict[str, str] = {}


# Boot parameters that can change what a launch, a copy or a kernel takes: Linux, admin-guide/kernel-parameters.txt.
_PARAMETER = re.compile(
    r"mitigations|(no)?spectre_\w+|nospec\w*|spec_\w+|(no)?pti|l1tf|mds|tsx\w*|retbleed|srbds|gather_data_sampling|kpti"
    r"|iommu(\.\w+)?|(intel|amd)_iommu|swiotlb|pci|pcie_\w+|isolcpus|nohz(_full)?|rcu_nocbs|irqaffinity|nosmt|maxcpus"
    r"|idle|(processor|intel_idle)\.max_cstate|cpuidle\.\w+|(intel|amd)_pstate|cpufreq\.\w+"
    r"|transparent_hugepage\w*|numa_balancing|numa|default_hugepagesz|hugepagesz|hugepages"
    r"|clocksource|tsc|nowatchdog|preempt|seccomp|apparmor|selinux|lsm|psi"
)
_GVISOR = "Sun Jan 10 15:06:54 PST 2016"  # gVisor's kernel version always has this date
_CLOCK_READINGS = 1000  # 0.05 ms, and 1 ms where each is a system call
_ROUNDS = 5


def collect(root: Path, pid: int = 0) -> Machine:
    """pid: of the process by whose first CPU and program it is told."""
    return Machine(**read_all(READERS, root, pid, of_machine=True))


def _kernel(root: Path) -> str:
    return os.uname().release


def _architecture(root: Path) -> str:
    return os.uname().machine


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
    return len(read_cpu_list(root / "sys/devices/system/cpu/online"))


def _meminfo_bytes(label: str) -> Callable[[Path], int]:
    def read(root: Path) -> int:
        return labelled_bytes(root / "proc/meminfo", label)

    return read


def _virtualization(root: Path) -> str:
    with contextlib.suppress(OSError):
        if _GVISOR in (root / "proc/version").read_text():
            return "gVisor"
    if "hypervisor" not in labelled_value(root / "proc/cpuinfo", "flags").split():
        return "none"
    names = []
    for path in (root / "sys/class/dmi/id/sys_vendor", root / "sys/class/dmi/id/product_name"):
        with contextlib.suppress(OSError):
            names.append(path.read_text().strip())
    return " ".join(names) or "unnamed hypervisor"


def _kernel_parameters(root: Path) -> list[str]:
    """Boot parameters that can change speed, in their order; "-" in names is "_", after "--" init's begin."""
    text = (root / "proc/cmdline").read_text().partition(" -- ")[0]
    given = re.findall(r'(?:[^\s"]|"[^"]*")+', text)
    return [each for each in given if _PARAMETER.fullmatch(each.partition("=")[0].replace("-", "_"))]


def _mitigations(root: Path) -> dict[str, str]:
    folder = root / "sys/devices/system/cpu/vulnerabilities"
    return {path.name: word(path) for path in sorted(folder.iterdir())}


def _clocksource(root: Path) -> str:
    return word(root / "sys/devices/system/clocksource/clocksource0/current_clocksource")


def _clock_s(root: Path) -> float:
    """Seconds that reading the clock takes, in the quickest of several rounds: slower ones were interrupted."""
    return min((readings[-1] - readings[0]) / (len(readings) - 1) for readings in _clock_readings()) / 1e9


def _clock_resolution_s(root: Path) -> float:
    steps = {late - early for readings in _clock_readings() for early, late in itertools.pairwise(readings)}
    return min(steps - {0}) / 1e9  # ValueError where the clock stands still


def _clock_readings() -> list[list[int]]:
    return [[time.perf_counter_ns() for _ in range(_CLOCK_READINGS)] for _ in range(_ROUNDS)]


def _first_cpu(root: Path, pid: int) -> Path:
    return root / f"sys/devices/system/cpu/cpu{min(os.sched_getaffinity(pid))}"


def _governor(root: Path, pid: int) -> str:
    return word(_first_cpu(root, pid) / "cpufreq/scaling_governor")


def _turbo(root: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return read_number(root / "sys/devices/system/cpu/intel_pstate/no_turbo") == 0
    return read_number(root / "sys/devices/system/cpu/cpufreq/boost") != 0


def _deepest_idle_s(root: Path, pid: int) -> float:
    states = [path for path in (_first_cpu(root, pid) / "cpuidle").iterdir() if path.name.startswith("state")]
    latencies_us = [read_number(path / "latency") for path in states if read_number(path / "disable") == 0]
    if not latencies_us:
        raise ValueError("no idle state is enabled")
    return max(latencies_us) / 1e6


def _transparent_hugepage(name: str) -> Callable[[Path], str]:
    def read(root: Path) -> str:
        path = root / "sys/kernel/mm/transparent_hugepage" / name
        chosen = re.search(r"\[([\w+]+)\]", path.read_text())
        if chosen is None:
            raise ValueError(f"{path} marks no choice")
        return chosen[1]

    return read


def _numa_balancing(root: Path) -> bool:
    return read_number(root / "proc/sys/kernel/numa_balancing") != 0


def _lsm(root: Path) -> list[str]:
    return word(root / "sys/kernel/security/lsm").split(",")


def _iommu(root: Path) -> list[str]:
    groups = [root / "sys/bus/pci/devices" / address / "iommu_group" for address in pci.gpu_addresses(root)]
    if not groups:
        raise LookupError("there is no NVIDIA GPU on the PCI bus here")
    return sorted({word(group / "type") if group.exists() else "none" for group in groups})


_CPU = "/sys/devices/system/cpu"
_THP = "/sys/kernel/mm/transparent_hugepage"
READERS = {
    "kernel": Reader("uname()", _kernel),
    "architecture": Reader("uname()", _architecture),
    "boot_id": Reader("/proc/sys/kernel/random/boot_id", boot_id),
    "os_name": Reader("/etc/os-release PRETTY_NAME", _os_name),
    "cpu_model": Reader("/proc/cpuinfo", _cpu_model),
    "cpus_total": Reader(f"{_CPU}/online", _cpus_total),
    "memory_bytes": Reader("/proc/meminfo MemTotal", _meminfo_bytes("MemTotal")),
    "memory_available_bytes": Reader("/proc/meminfo MemAvailable", _meminfo_bytes("MemAvailable")),
    "virtualization": Reader("/proc/cpuinfo flags, /sys/class/dmi/id, /proc/version", _virtualization),
    "kernel_parameters": Reader("/proc/cmdline", _kernel_parameters),
    "mitigations": Reader(f"{_CPU}/vulnerabilities", _mitigations),
    "cpu_kinds": Reader(f"/sys/devices/cpu_*/cpus, {_CPU}/cpuN/cpu_capacity or cpufreq", cores.cpu_kinds),
    "last_level_caches": Reader(f"{_CPU}/cpuN/cache", cores.last_level_caches),
    "clocksource": Reader("/sys/devices/system/clocksource", _clocksource),
    "clock_s": Reader("time.perf_counter_ns(), measured", _clock_s),
    "clock_resolution_s": Reader("time.perf_counter_ns(), measured", _clock_resolution_s),
    "governor": of_process(f"{_CPU}/cpuN/cpufreq/scaling_governor", _governor),
    "turbo": Reader(f"{_CPU}/intel_pstate/no_turbo or cpufreq/boost", _turbo),
    "deepest_idle_s": of_process(f"{_CPU}/cpuN/cpuidle/state*", _deepest_idle_s),
    "transparent_hugepage": Reader(f"{_THP}/enabled", _transparent_hugepage("enabled")),
    "transparent_hugepage_defrag": Reader(f"{_THP}/defrag", _transparent_hugepage("defrag")),
    "transparent_hugepage_shmem": Reader(f"{_THP}/shmem_enabled", _transparent_hugepage("shmem_enabled")),
    "numa_balancing": Reader("/proc/sys/kernel/numa_balancing", _numa_balancing),
    "lsm": Reader("/sys/kernel/security/lsm", _lsm),
    "iommu": Reader("/sys/bus/pci/devices/*/iommu_group/type", _iommu),
    "vectors": Reader("/proc/cpuinfo flags or Features", processor.vectors),
    "emulator": of_process("/proc/thread-self/exe, /proc/cpuinfo", processor.emulator),
    "infiniband": Reader("/sys/class/infiniband", rdma.adapters),
    "infiniband_vendors": Reader("/sys/class/infiniband/*/device/vendor", rdma.vendors),
    "roce_addresses": Reader("/sys/class/infiniband/*/ports/*/gid_attrs/types", rdma.roce_addresses),
    "peer_memory": Reader("/sys/module, /sys/kernel/mm/memory_peers", rdma.peer_memory),
    "acs_redirect": Reader("/sys/bus/pci/devices/*/config of bridges", pci.acs_redirecting),
}
