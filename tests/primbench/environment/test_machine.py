from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from primbench.environment.fingerprint import Environment
from primbench.system.cores import Cache, CpuKind

Look = Callable[..., Environment]


def test_every_field_is_read_from_its_file(look: Look) -> None:
    found = look().machine
    expected = {
        "kernel": os.uname().release,
        "architecture": os.uname().machine,
        "os_name": "Debian GNU/Linux 12 (bookworm)",
        "cpu_model": "AMD EPYC 9654",
        "cpus_total": 5,
        "memory_bytes": 24684096 * 1024,
        "memory_available_bytes": 1024 * 1024,
        "virtualization": "QEMU Standard PC",
        "kernel_parameters": [
            "mitigations=off", "iommu=pt", "isolcpus=2-3", "transparent-hugepage=never", "processor.max_cstate=1",
            'pci="noats,a b"',
        ],
        "mitigations": {
            "mds": "Not affected",
            "spec_store_bypass": "Mitigation: Speculative Store Bypass disabled via prctl",
        },
        "cpu_kinds": [
            CpuKind(name="performance", cpus=[0, 1, 2, 3], told_by="cpu_capacity", capacity=1024),
            CpuKind(name="efficiency", cpus=[8], told_by="cpu_capacity", capacity=446),
        ],
        "last_level_caches": [Cache(level=3, size_bytes=2**25, cpus=[0, 1, 2, 3, 8])],
        "clocksource": "tsc",
        "governor": "performance",
        "turbo": False,
        "deepest_idle_s": 2e-6,
        "transparent_hugepage": "madvise",
        "transparent_hugepage_defrag": "defer+madvise",
        "transparent_hugepage_shmem": "never",
        "boot_id": "c5f3f6a0-2f5e-4d0b-9d8a-0f3f6a02f5e4",
        "numa_balancing": True,
        "lsm": ["lockdown", "capability", "yama", "apparmor"],
        "iommu": ["DMA-FQ"],
        "vectors": ["avx"],
        "emulator": "none",
        "infiniband": ["mlx5_0"],
        "infiniband_vendors": {"mlx5_0": "0x15b3"},
        "roce_addresses": ["mlx5_0:1 0 IB/RoCE v1 link-local", "mlx5_0:1 3 RoCE v2 IPv4"],
        "peer_memory": ["nvidia_peermem"],
        "peer_memory_clients": ["nv_mem"],
        "gdrdrv": True,
        "cores_by_package": [4, 1],
        "acs_redirect": [],
    }  # fmt: skip
    assert expected == {name: getattr(found, name) for name in expected}
    assert {} == found.missing
    measured = {"clock_s", "clock_resolution_s", "missing"}
    assert set(found.__struct_fields__) == {*expected, *measured}


def test_clock_has_a_cost_and_a_step(look: Look) -> None:
    found = look().machine
    assert 0 < (found.clock_resolution_s or 0)
    assert 0 < (found.clock_s or 0) < 0.001


def test_bare_metal_has_no_hypervisor_flag(look: Look) -> None:
    assert look({"proc/cpuinfo": "model name\t: Xeon\nflags\t\t: fpu avx\n"}).machine.virtualization == "none"


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({"sys/firmware/acpi/tables/FACP": "FACP\x14\x01\x00\x00\x06fFIRECKFCVMFADT"}, "unnamed hypervisor"),
        (
            {
                "proc/cmdline": "root=/dev/pmem0p1 systemd.unit=kata-containers.target agent.log=debug",
            },
            "Kata Containers (unnamed hypervisor)",
        ),
    ],
)
def test_a_hypervisor_without_dmi_is_told_by_what_everybody_may_read(
    look: Look, files: dict[str, str], name: str
) -> None:
    flags = {
        "proc/cpuinfo": "model name\t: Xeon\nflags\t\t: fpu hypervisor\n",
        "sys/class/dmi/id/sys_vendor": None,
        "sys/class/dmi/id/product_name": None,
    }
    assert name == look({**flags, **files}).machine.virtualization


def test_an_emulated_processor_is_known_by_its_name(look: Look) -> None:
    cpu = "model name\t: QEMU TCG CPU version 2.5+\nflags\t\t: fpu hypervisor\n"
    assert "QEMU TCG" == look({"proc/cpuinfo": cpu}).machine.emulator


def test_gvisor_is_known_by_its_kernel(look: Look) -> None:
    version = "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016\n"
    assert look({"proc/version": version}).machine.virtualization == "gVisor"


def test_hypervisor_without_a_name_has_one_made_up(look: Look) -> None:
    files = {"sys/class/dmi/id/sys_vendor": None, "sys/class/dmi/id/product_name": None}
    assert look(files).machine.virtualization == "unnamed hypervisor"


def test_arm_is_named_by_its_numbers(look: Look) -> None:
    cpuinfo = "processor\t: 0\nFeatures\t: sve\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"
    found = look({"proc/cpuinfo": cpuinfo}).machine
    assert found.cpu_model == "implementer 0x41 part 0xd4f"
    assert "has no flags" in found.missing["virtualization"]


@pytest.mark.parametrize(("boost", "expected"), [("1\n", True), ("0\n", False), (None, None)])
def test_turbo_without_intel_pstate_is_boost(look: Look, boost: str | None, expected: bool | None) -> None:
    folder = "sys/devices/system/cpu"
    found = look({f"{folder}/intel_pstate/no_turbo": None, f"{folder}/cpufreq/boost": boost}).machine
    assert expected == found.turbo
    assert ("turbo" in found.missing) == (expected is None)


def test_no_idle_state_enabled_is_a_reason(look: Look) -> None:
    folder = f"sys/devices/system/cpu/cpu{min(os.sched_getaffinity(0))}/cpuidle"
    found = look({f"{folder}/state{number}/disable": "1\n" for number in range(3)}).machine
    assert (found.deepest_idle_s, found.missing["deepest_idle_s"]) == (None, "no idle state is enabled")


def test_gpu_outside_an_iommu_group_and_no_gpu_at_all_are_told_apart(look: Look) -> None:
    assert look({"sys/bus/pci/devices/0000:65:00.0/iommu_group/type": None}).machine.iommu == ["none"]


def test_no_gpu_has_no_iommu(look: Look) -> None:
    found = look({"sys/bus/pci/devices/0000:65:00.0/vendor": "0x1002\n"}).machine
    assert "no NVIDIA GPU" in found.missing["iommu"]
