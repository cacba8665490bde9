"""A place where every check is content, and ways to make it worse. Structs only: nothing of this machine is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from primbench.doctor.contention import Contention
from primbench.doctor.place import Place
from primbench.environment.confinement import Confinement
from primbench.environment.container import ContainerRuntime
from primbench.environment.devices import Devices
from primbench.environment.fingerprint import Environment
from primbench.environment.libraries import Library
from primbench.environment.limits import Limits
from primbench.environment.machine import Machine
from primbench.environment.software import Blas, Software
from primbench.gpu.nvidia.gpu import Gpu
from primbench.numa.topology import GpuPlace, Link, Node, Topology
from primbench.system.cores import Package
from primbench.system.meaning import facts_of

PCI = ("0000:17:00.0", "0000:ca:00.0")

LIMITS: dict[str, Any] = dict.fromkeys(facts_of(Limits)) | {
    "cpus_allowed": [0, 1, 2, 3, 8, 9, 10, 11],
    "cores_allowed": 4,
    "memory_nodes_allowed": [0, 1],
    "cpu_group_depth": 2,
    "thread_cpus": {},
    "thread_niceness": {},
    "thread_scheduling": {},
    "cgroup_version": "v2",
    "shm_bytes": 2**36,
    "shm_free_bytes": 2**36,
    "memlock_bytes": 2**20,
    "open_files": 2**16,
    "stack_bytes": 2**23,
    "address_space_bytes": 2**40,
    "file_size_bytes": 2**40,
    "descriptors": 6,
    "io_limits": [],
}
"""Of all other limits there is none."""

HEALTHY = Place(
    environment=Environment(
        time_utc="2026-01-01T00:00:00+00:00",
        primbench_version="0",
        machine=Machine(
            kernel="6.8.0-40-generic",
            architecture="x86_64",
            cpu_model="Xeon",
            cpus_total=16,
            memory_bytes=2**38,
            virtualization="none",
            kernel_parameters=[],
            mitigations={"spectre_v2": "Mitigation: Enhanced IBRS", "meltdown": "Not affected"},
            clocksource="tsc",
            clock_s=45e-9,
            clock_resolution_s=20e-9,
            governor="performance",
            turbo=True,
            deepest_idle_s=2e-6,
            transparent_hugepage="madvise",
            numa_balancing=False,
            iommu=["identity"],
            vectors=["sse4_2", "avx", "avx2", "fma"],
            emulator="none",
            infiniband=[],
            infiniband_vendors={},
            roce_addresses=[],
            peer_memory=[],
            peer_memory_clients=[],
            gdrdrv=False,
            cores_by_package=[4, 4],
            acs_redirect=[],
        ),
        limits=Limits(**LIMITS),
        confinement=Confinement(
            runtime=ContainerRuntime(name="host", in_container=False, evidence=["/ is a plain file system"]),
            seccomp="disabled",
            seccomp_filters=0,
            speculation_store_bypass="thread vulnerable",
            speculation_indirect_branch="conditional enabled",
            lsm_profile="unconfined",
            namespaces={"ipc": "ipc:[1]", "net": "net:[2]", "uts": "uts:[3]"},
            root_filesystem="ext4",
            filesystems={"home": "ext4 on /", "CUDA_CACHE_PATH": "ext4 on /"},
            access_times={"home": "relatime", "CUDA_CACHE_PATH": "relatime"},
            temporary_steps=1,
            disks={"temporary files": "nvme0n1", "Python": "nvme0n1"},
            read_ahead_bytes={"temporary files": 2**17, "Python": 2**17},
            far_mounts={},
            transparent_hugepage_disabled=False,
            executable_pages="allowed",
            noexec=[],
            set_mempolicy="allowed",
            mbind="allowed",
            io_uring="allowed",
            system_call_s=0.1e-6,
            calls_s={"mmap": 2e-6, "clone": 20e-6, "futex": 0.3e-6},
            open_file_s=2e-6,
            open_temporary_s=2e-6,
            packet_s=6e-6,
            interruptions_hz=0.0,
            probed=False,
            loopback={"mtu": "65536", "queue": "noqueue"},
            locked_bytes=0,
            tracer="none",
        ),
        software=Software(
            python_version="3.12.3",
            python_implementation="cpython",
            python_executable="/usr/bin/python3",
            python_build="GCC 13.2.0, LTO, PGO",
            libc="glibc 2.39",
            packages={"numpy": "2.4.0"},
            files={},
            libraries={"libcuda": [Library(path="/usr/lib/libcuda.so.580.1", version="580.1", build_id="ab")]},
            preloads={},
            providers={
                "malloc": Library(path="/lib/libc.so.6", build_id="aa"),
                "NumPy's gemm": Library(path="/lib/libopenblas.so.0", build_id="ab"),
            },
            gpu_code={"libtorch_cuda.so": ["compute_90", "sm_80", "sm_90"]},
            blas=[Blas(name="openblas", path="/lib/libopenblas.so.0", architecture="Haswell")],
            threads={"openblas": 4},
            caches={"CUDA_CACHE_PATH": "writable"},
            uncompiled={},
            hooks=[],
            start_code={"hack.pth": "SHA-256 ab"},
            interpreter={"garbage collection": "after (700, 10, 10)", "finders": "its own"},
            other_threads=[],
            search_path=5,
            other_variables=[],
            environment_bytes=4000,
            nccl_plugins={"libnccl-net.so": "not found"},
        ),
        devices=Devices(
            gpus=[
                Gpu(
                    name="H200",
                    uuid=f"GPU-{address}",
                    pci_address=address,
                    driver_version="580.1",
                    compute_capability="9.0",
                    sm_clock_max_hz=1.98e9,
                    sm_clock_application_hz=1.98e9,
                    power_limit_w=700.0,
                    power_limit_default_w=700.0,
                    compute_mode="default",
                    virtualization_mode="none",
                    confidential_computing=False,
                    ecc=True,
                    ecc_errors_uncorrected=0,
                    repair_pending=False,
                    persistence=True,
                    mig=False,
                    mps=False,
                    pcie_generation=5,
                    pcie_generation_max=5,
                    pcie_width=16,
                    pcie_width_max=16,
                    pcie_replays=0,
                )
                for address in PCI
            ],
            gpu_files=["/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl"],
            driver_version="580.1",
            driver_is_open=True,
            mps_control=False,
            mps_of_another=False,
            cuda="CUDA_SUCCESS",
            refused_files={},
            gdrdrv_file=False,
            infiniband_files=[],
        ),
        nodes=None,
        missing={},
    ),
    topology=Topology(
        nodes=[
            Node(id=0, cpus=[0, 1, 2, 3, 8, 9, 10, 11], has_memory=True, allowed=True),
            Node(id=1, cpus=[4, 5, 6, 7, 12, 13, 14, 15], has_memory=True, allowed=True),
        ],
        packages=[
            Package(id=0, cores=[[0, 8], [1, 9], [2, 10], [3, 11]]),
            Package(id=1, cores=[[4, 12], [5, 13], [6, 14], [7, 15]]),
        ],
        cpus_allowed=[0, 1, 2, 3, 8, 9, 10, 11],
        gpus=[
            GpuPlace(
                device=f"cuda:{index}",
                pci_address=address,
                node_by_sysfs=0,
                node_by_nvml=0,
                fabric="completed",
                links=[Link(peer=PCI[1 - index], kind="NV", lanes=18, peer_access=True)],
            )
            for index, address in enumerate(PCI)
        ],
    ),
    contention=Contention(
        waiting_fraction=0.01, memory_waiting_fraction=0.0, reread_bytes_per_s=0.0, stolen_fraction=0.0
    ),
)

GROUPS = ("machine", "limits", "confinement", "software", "devices", "nodes")


@pytest.fixture(scope="session")
def place() -> Callable[[Mapping[str, Any]], Place]:
    """``place({"limits.cpu_quota": 0.5})``: the healthy place with these changes; "devices.gpus.0.ecc" is of a GPU.

    "runtime" is short for the runtime's name.
    """

    def changed(changes: Mapping[str, Any]) -> Place:
        document = msgspec.to_builtins(HEALTHY)
        for name, value in changes.items():
            if name == "runtime":
                document["environment"]["confinement"]["runtime"] |= {"name": value, "in_container": value != "host"}
                continue
            *way, last = name.split(".")
            at = document["environment"] if name.split(".")[0] in GROUPS else document
            for step in way:
                at = at[int(step)] if step.isdigit() else at[step]
            at[int(last) if last.isdigit() else last] = value
        return msgspec.convert(document, Place)

    return changed
