"""The machine as its kernel shows it: what a container shares with its host."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import time
from typing import TYPE_CHECKING, Annotated

import msgspec

from primbench.environment import rdma
from primbench.environment.reading import word
from primbench.quantities import Seconds, Whole
from primbench.system import boot, cores, pci, sandbox
from primbench.system.cores import Cache, CpuKind
from primbench.system.files import attempt, labelled_bytes, labelled_value, read_cpu_list, read_number, utf8
from primbench.system.meaning import Fact
from primbench.system.processes import folder_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_machine = functools.partial(Fact, layer="machine", of_others=False)
_of_first_cpu = functools.partial(Fact, layer="machine")
_thp = functools.partial(_machine, rule="huge-pages")
_CPU = "/sys/devices/system/cpu"
_THP = "/sys/kernel/mm/transparent_hugepage"
# Of x86 and Arm, as /proc/cpuinfo names them: those that libraries have kernels for.
_VECTORS = re.compile(
    r"sse4_2|avx|f16c|fma|avx2|avx_vnni|avx512(f|bw|_vnni|_bf16|_fp16)|amx_(tile|bf16|int8|fp16)"
    r"|asimd(hp|dp)?|sve2?|i8mm|bf16|sme2?"
)
_EMULATOR = re.compile(r"qemu-[a-z0-9_]+")
_EMULATED = "QEMU TCG"  # in the name of the CPU where QEMU has no KVM, and is told of no other kind
_START_CHARACTERS = 4096  # of /proc/cpuinfo: its first CPU


def vectors(root: Path) -> list[str]:
    """Extensions of the first CPU. Raises ValueError on an architecture whose /proc/cpuinfo lists none."""
    path = root / "proc/cpuinfo"
    flags = attempt({}, "", lambda: labelled_value(path, "flags")) or labelled_value(path, "Features")
    return [flag for flag in flags.split() if _VECTORS.fullmatch(flag)]


def emulator(root: Path, pid: int = 0) -> str:
    """The program that interprets a process, 0 this one, such as "qemu-x86_64", or "none".

    QEMU answers for /proc/self/exe itself, and not for the same link of a thread; Rosetta gives Apple's processors a
    name of its own.
    """
    with (root / "proc/cpuinfo").open() as lines:
        start = lines.read(_START_CHARACTERS)
    program = (
        (folder_of(root, pid) / "exe").readlink() if pid else attempt({}, "", (root / "proc/thread-self/exe").readlink)
    )
    found = _EMULATOR.match(program.name) if program is not None else None
    if found is not None:
        return utf8(found[0])
    if _EMULATED in start:
        return _EMULATED
    return "Rosetta" if "VirtualApple" in start else "none"


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """None is unknown, with the reason in ``missing`` under the field's name."""

    # fmt: off
    kernel: Annotated[str, _machine("The release of the kernel.", "uname()", lambda root: os.uname().release, "kernel")]
    architecture: Annotated[str, _machine("The kind of CPU, such as x86_64.",
        "uname()", lambda root: os.uname().machine, "machine")]
    boot_id: Annotated[str | None, Fact("The id of the kernel that runs, another one after each start.",
        "/proc/sys/kernel/random/boot_id", boot.boot_id, of_others=False)] = None
    os_name: Annotated[str | None, _machine("The name of the system around this process.",
        "/etc/os-release PRETTY_NAME", _os_name, layer="stack")] = None
    cpu_model: Annotated[str | None, _machine("The name of the first CPU, or the numbers that stand for it.",
        "/proc/cpuinfo", _cpu_model, "machine")] = None
    cpus_total: Annotated[Whole | None, _machine("How many CPUs are online.",
        f"{_CPU}/online", lambda root: len(read_cpu_list(root / "sys/devices/system/cpu/online")), "machine")] = None
    memory_bytes: Annotated[Whole | None, _machine("Memory that the kernel has to give.",
        "/proc/meminfo MemTotal", _meminfo_bytes("MemTotal"), "machine")] = None
    memory_available_bytes: Annotated[Whole | None, Fact("What of that may be taken without swapping.",
        "/proc/meminfo MemAvailable", _meminfo_bytes("MemAvailable"), of_others=False)] = None
    virtualization: Annotated[str | None, _machine(
        "A hint: none, the hypervisor's name, unnamed hypervisor, Kata Containers with that name, or gVisor.",
        "/proc/cpuinfo flags, /sys/class/dmi/id, /proc/cmdline, /proc/version",
        sandbox.virtualization, "machine")] = None
    kernel_parameters: Annotated[list[str] | None, _machine(
        "Parameters that it was booted with and that can change speed (mitigations=, iommu=, isolcpus=, ...).",
        "/proc/cmdline", _kernel_parameters, "kernel")] = None
    mitigations: Annotated[dict[str, str] | None, _machine(
        "By vulnerability of the CPU, the kernel's own words for what it does about it.",
        f"{_CPU}/vulnerabilities", _mitigations, "mitigations")] = None
    cpu_kinds: Annotated[list[CpuKind] | None, _machine("Kinds of CPUs that differ in speed; none where all are alike.",
        f"/sys/devices/cpu_*/cpus, {_CPU}/cpuN/cpu_capacity or cpufreq", cores.cpu_kinds, "machine")] = None
    last_level_caches: Annotated[list[Cache] | None, _machine("Caches before memory, and the CPUs that share each.",
        f"{_CPU}/cpuN/cache", cores.last_level_caches, "machine")] = None
    clocksource: Annotated[str | None, _machine("What the kernel's clock is read from, such as tsc.",
        "/sys/devices/system/clocksource",
        lambda root: word(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"), "clock")] = None
    clock_s: Annotated[Seconds | None, _machine("What one reading of the clock takes that times everything.",
        "time.perf_counter_ns(), measured", _clock_s, varies=True)] = None
    clock_resolution_s: Annotated[Seconds | None, _machine("The smallest step of that clock that was seen.",
        "time.perf_counter_ns(), measured", _clock_resolution_s, varies=True)] = None
    governor: Annotated[str | None, _of_first_cpu(
        "What chooses the clock of the first CPU that this process may run on, such as performance.",
        f"{_CPU}/cpuN/cpufreq/scaling_governor",
        lambda root, pid: word(_first_cpu(root, pid) / "cpufreq/scaling_governor"), "cpu-frequency")] = None
    turbo: Annotated[bool | None, _machine("Whether clocks of CPUs may rise above the nominal one.",
        f"{_CPU}/intel_pstate/no_turbo or cpufreq/boost", _turbo, "cpu-frequency")] = None
    deepest_idle_s: Annotated[Seconds | None, _of_first_cpu(
        "The time it takes that CPU to wake from the deepest idle state that is enabled.",
        f"{_CPU}/cpuN/cpuidle/state*", _deepest_idle_s, "cpu-frequency")] = None
    transparent_hugepage: Annotated[str | None, _thp("What memory is given in huge pages: always, madvise or never.",
        f"{_THP}/enabled", _transparent_hugepage("enabled"))] = None
    transparent_hugepage_defrag: Annotated[str | None, _thp("When memory is moved together to make huge pages.",
        f"{_THP}/defrag", _transparent_hugepage("defrag"))] = None
    transparent_hugepage_shmem: Annotated[str | None, _thp("What shared memory is given in huge pages.",
        f"{_THP}/shmem_enabled", _transparent_hugepage("shmem_enabled"))] = None
    numa_balancing: Annotated[bool | None, _machine("Whether the kernel moves pages between NUMA nodes by itself.",
        "/proc/sys/kernel/numa_balancing", lambda root: read_number(root / "proc/sys/kernel/numa_balancing") != 0,
        "numa-balancing")] = None
    lsm: Annotated[list[str] | None, _machine("The security modules at work.",
        "/sys/kernel/security/lsm", lambda root: word(root / "sys/kernel/security/lsm").split(","))] = None
    iommu: Annotated[list[str] | None, _machine(
        "The kinds of IOMMU groups that NVIDIA's GPUs are in, such as identity or DMA, or none.",
        "/sys/bus/pci/devices/*/iommu_group/type", _iommu, "machine")] = None
    vectors: Annotated[list[str] | None, _machine("Extensions of the instruction set that compute on vectors.",
        "/proc/cpuinfo flags or Features", vectors, "machine")] = None
    emulator: Annotated[str | None, _of_first_cpu("The program that interprets this one, such as qemu-x86_64, or none.",
        "/proc/thread-self/exe, /proc/cpuinfo", emulator, "machine")] = None
    infiniband: Annotated[list[str] | None, _machine("Names of InfiniBand and RoCE adapters.",
        "/sys/class/infiniband", rdma.adapters, "network")] = None
    infiniband_vendors: Annotated[dict[str, str] | None, _machine("The PCI number of each adapter's maker.",
        "/sys/class/infiniband/*/device/vendor", rdma.vendors, "network")] = None
    roce_addresses: Annotated[list[str] | None, _machine(
        "Addresses of ports on Ethernet, by index: mlx5_0:1 3 RoCE v2 IPv4; a port that has none here has none.",
        "/sys/class/infiniband/*/ports/*/gid_attrs/types", rdma.roce_addresses, "network", layer="confinement")] = None
    peer_memory: Annotated[list[str] | None, _machine(
        "Modules of the kernel that let adapters reach GPU memory, such as nvidia_peermem.",
        "/sys/module, /sys/kernel/mm/memory_peers", rdma.peer_memory, "network")] = None
    peer_memory_clients: Annotated[list[str] | None, _machine(
        "Of these, and of others, those that are registered with the adapters' drivers.",
        "/sys/kernel/mm/memory_peers", rdma.peer_memory_clients, "network")] = None
    gdrdrv: Annotated[bool | None, _machine("Whether the module of GDRCopy is loaded.",
        "/sys/module/gdrdrv", rdma.gdrdrv, by_doctor=True)] = None
    cores_by_package: Annotated[list[Whole] | None, _machine("How many cores with CPUs online each socket has.",
        "/sys/devices/system/cpu/cpuN/topology", cores.cores_by_package, by_doctor=True)] = None
    acs_redirect: Annotated[list[str] | None, _machine(
        "Bridges above NVIDIA's GPUs that send what these say to each other up to the root complex.",
        "/sys/bus/pci/devices/*/config of bridges", pci.acs_redirecting, "network")] = None
    # fmt: on
    missing: dict[str, str] = {}


# Boot parameters that can change what a launch, a copy or a kernel takes: Linux, admin-guide/kernel-parameters.txt.
_PARAMETER = re.compile(
    r"mitigations|(no)?spectre_\w+|nospec\w*|spec_\w+|(no)?pti|l1tf|mds|tsx\w*|retbleed|srbds|gather_data_sampling|kpti"
    r"|iommu(\.\w+)?|(intel|amd)_iommu|swiotlb|pci|pcie_\w+|isolcpus|nohz(_full)?|rcu_nocbs|irqaffinity|nosmt|maxcpus"
    r"|idle|(processor|intel_idle)\.max_cstate|cpuidle\.\w+|(intel|amd)_pstate|cpufreq\.\w+"
    r"|transparent_hugepage\w*|numa_balancing|numa|default_hugepagesz|hugepagesz|hugepages"
    r"|clocksource|tsc|nowatchdog|preempt|seccomp|apparmor|selinux|lsm|psi"
)
_CLOCK_READINGS = 1000  # 0.05 ms, and 1 ms where each is a system call
_ROUNDS = 5


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


def _meminfo_bytes(label: str) -> Callable[[Path], int]:
    return lambda root: labelled_bytes(root / "proc/meminfo", label)


def _kernel_parameters(root: Path) -> list[str]:
    """Boot parameters that can change speed, in their order; "-" in names is "_", after "--" init's begin."""
    text = (root / "proc/cmdline").read_text().partition(" -- ")[0]
    given = re.findall(r'(?:[^\s"]|"[^"]*")+', text)
    return [each for each in given if _PARAMETER.fullmatch(each.partition("=")[0].replace("-", "_"))]


def _mitigations(root: Path) -> dict[str, str]:
    folder = root / "sys/devices/system/cpu/vulnerabilities"
    return {path.name: word(path) for path in sorted(folder.iterdir())}


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


def _iommu(root: Path) -> list[str]:
    groups = [root / "sys/bus/pci/devices" / address / "iommu_group" for address in pci.gpu_addresses(root)]
    if not groups:
        raise LookupError("there is no NVIDIA GPU on the PCI bus here")
    return sorted({word(group / "type") if group.exists() else "none" for group in groups})
