"""All checks: content with the healthy place, one finding for each change of it, a reason for what is unknown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from primbench.doctor import table
from primbench.doctor.cause import Finding
from primbench.doctor.place import Place, look
from primbench.numa.topology import Link

MakePlace = Callable[[Mapping[str, Any]], Place]

TWO_NODES = {"limits.cpus_allowed": [0, 1, 4, 5], "topology.packages": []}
KINDS = [
    {"name": "performance", "cpus": [0, 1, 8, 9], "told_by": "cpu_core"},
    {"name": "efficiency", "cpus": [2, 3], "told_by": "cpu_atom"},
]
MIB = 2**20
PEERMEM = {"devices.driver_is_open": False, "machine.peer_memory": ["nvidia_peermem"]}
ADAPTERS = {"machine.infiniband": ["mlx5_0", "mlx5_1"]}
ON_ONE_BUS = {"devices.gpus.1.pci_address": "0000:17:01.0", "machine.virtualization": "QEMU"}
ROCE = ["mlx5_0:1 0 IB/RoCE v1 IPv4", "mlx5_0:1 1 RoCE v2 IPv4"]
LIBRARY: dict[str, Any] = {"version": None, "build_id": None, "size_bytes": None, "missing": {}}

# changes of the healthy place, check, severity, words that must be said in the summary, evidence, advice or fix
CASES: list[tuple[Mapping[str, Any], str, str, list[str]]] = [
    # cpu
    ({"limits.cpu_quota": 0.5}, "cpu-quota", "warning", ["0.5 of the 8 CPUs", "cpuset"]),
    (
        {"limits.cpu_quota": 2, "limits.throttled_periods": 7, "limits.periods": 9, "limits.throttled_s": 0.31},
        "cpu-quota",
        "problem",
        ["held back in 7 of 9 periods, 310 ms"],
    ),
    (
        {"limits.cpu_quota": 16.0, "limits.throttled_periods": 1},
        "cpu-quota",
        "problem",
        ["quota of 16 CPUs", "8 may run", "8 threads"],
    ),
    ({"limits.cpu_quota": 1.5}, "cpu-quota", "warning", ["1 thread run"]),
    ({"limits.cpu_quota": 1.5, "runtime": "docker"}, "cpu-quota", "warning", ["docker run --cpuset-cpus 0 "]),
    ({"limits.cpu_quota": 1.5, "runtime": "containerd"}, "cpu-quota", "warning", ["CPU manager"]),
    (TWO_NODES, "cpus-allowed", "warning", ["nodes 0 and 1", "--numa-node auto"]),
    ({"limits.cpus_allowed": list(range(16))}, "cpus-allowed", "note", ["nodes 0 and 1"]),
    ({"limits.cpus_allowed": [0, 1, 8]}, "cpus-allowed", "warning", ["CPUs 1,9 are one core"]),
    (
        {"machine.cpu_kinds": KINDS},
        "cpu-kinds",
        "warning",
        ["CPUs of 2 kinds", "performance: CPUs 0-1,8-9", "--cpu-kind perf"],
    ),
    ({"machine.cpu_kinds": KINDS, "limits.cpus_allowed": [2, 3]}, "cpu-kinds", "warning", ["on efficiency CPUs alone"]),
    (
        {"pid": 7, "held.by_node": {0: 2**30, 1: 3 * 2**30}, "held.by_policy": {"bind:1": 2**32}},
        "memory-held",
        "warning",
        ["75.0% of its memory is on node 1", "policies: bind:1 4 GiB", "migratepages 7 1"],
    ),
    (
        {"contention.gpu_processes": [[], [{"pid": 31, "memory_bytes": 2**30}]]},
        "gpu-processes",
        "warning",
        ["hold cuda:1, too", "process 31, 1 GiB"],
    ),
    ({"contention.waiting_fraction": 0.4}, "cpu-contention", "warning", ["40.0% of the last 10 s"]),
    ({"contention.stolen_fraction": 0.05}, "cpu-contention", "warning", ["5.0%", "hypervisor"]),
    ({"machine.governor": "schedutil"}, "cpu-frequency", "warning", ["cpupower frequency-set -g performance"]),
    ({"machine.turbo": False}, "cpu-frequency", "note", ["turbo is off"]),
    ({"machine.deepest_idle_s": 133e-6}, "cpu-frequency", "note", ["133 us"]),
    ({"machine.clocksource": "hpet"}, "clock", "warning", ["hpet"]),
    ({"machine.clocksource": "kvm-clock"}, "clock", "note", ["kvm-clock"]),
    ({"machine.clocksource": "kvm-clock", "machine.clock_s": 9e-7}, "clock", "warning", ["900 ns"]),
    ({"machine.clock_resolution_s": 1e-5}, "clock", "warning", ["10.0 us"]),
    ({"software.variables": {"OMP_NUM_THREADS": "16"}}, "threads", "warning", ["=16", "set it to 8"]),
    ({"software.variables": {"MKL_NUM_THREADS": "9,2"}}, "threads", "warning", ["=9"]),
    ({"software.threads": {"openmp": 64}}, "threads", "warning", ["those of openmp", "openmp has 64 threads"]),
    ({"limits.niceness": 10}, "priority", "warning", ["niceness 10", "without nice"]),
    ({"limits.session_niceness": 5}, "priority", "warning", ["niceness 5 of the session"]),
    ({"limits.scheduling": "idle"}, "priority", "warning", ["policy idle"]),
    ({"limits.cpu_weight": 39, "limits.niceness": 19}, "priority", "warning", ["niceness 19 and a", "weight 39"]),
    ({"limits.open_files": 256}, "open-files", "warning", ["256 files", "ulimit -n 65536"]),
    ({"limits.open_files": 1024}, "open-files", "note", ["1024 files", "loaders"]),
    ({"limits.open_files": 2**30, "runtime": "docker"}, "open-files", "note", ["1073741824", "--ulimit nofile="]),
    ({"software.variables": {"OMP_NUM_THREADS": "1"}}, "threads", "warning", ["one thread of the 8 CPUs", "to 8"]),
    ({"software.variables": {"OMP_NUM_THREADS": "3"}}, "threads", "warning", ["3 threads of the 8 CPUs", "to 8"]),
    (
        {"software.variables": {"OMP_NUM_THREADS": "1"}, "limits.cpu_quota": 2.0},
        "threads",
        "warning",
        ["of the 2 CPUs"],
    ),
    ({"software.variables": {"KMP_AFFINITY": "granularity=fine"}}, "variables", "warning", ["on the same"]),
    ({"software.variables": {"CUDA_INJECTION64_PATH": "/t.so"}}, "variables", "warning", ["sees every call"]),
    ({"software.variables": {"PYTHONDONTWRITEBYTECODE": "1"}}, "variables", "note", [".pyc"]),
    ({"software.variables": {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}}, "variables", "warning", ["collective"]),
    ({"software.variables": {"PYTHONVERBOSE": "1"}}, "variables", "note", ["unset PYTHONVERBOSE", "each module"]),
    ({"software.variables": {"OMP_WAIT_POLICY": "active"}}, "variables", "note", ["keep their CPUs from others"]),
    ({"software.variables": {"MALLOC_ARENA_MAX": "1"}}, "variables", "note", ["another way"]),
    ({"limits.cpus_allowed": [0]}, "few-cpus", "warning", ["1 CPU for 2 GPUs", "of the machine: 16"]),
    ({"limits.cpus_allowed": [0], "devices.gpus": []}, "few-cpus", "warning", ["1 CPU: ", "2 CPUs or more"]),
    ({"limits.cpus_allowed": [0, 1], "runtime": "docker"}, "few-cpus", "warning", ["2 CPUs", "of 8 CPUs or more"]),
    ({"limits.processes_max": 99, "limits.processes_free": 60}, "processes", "warning", ["60 more", "pids.max: 99"]),
    ({"limits.processes_own_max": 7}, "processes", "problem", ["7 more may be started by RLIMIT_NPROC", "ulimit -u"]),
    ({"limits.processes_refused": 3, "runtime": "docker"}, "processes", "warning", ["3 times", "--pids-limit"]),
    ({"limits.processes_refused": 3, "limits.processes_free": 90}, "processes", "problem", ["90 more", "3 times"]),
    ({"limits.descriptors": 985, "limits.open_files": 1000}, "descriptors", "problem", ["985 of the 1000", "lsof"]),
    (
        {"limits.descriptors": 150_000, "limits.open_files": 2**20},
        "descriptors",
        "warning",
        ["150000 files are open", "O_CLOEXEC"],
    ),
    ({"confinement.open_file_s": 4e-5}, "file-opens", "warning", ["takes 40.0 us", "scanner"]),
    ({"confinement.open_temporary_s": 4e-5}, "file-opens", "warning", ["a temporary file takes 40.0 us", "fanotify"]),
    ({"confinement.interruptions_hz": 4000.0}, "interruptions", "warning", ["4000 times a second", "perf"]),
    ({"confinement.locked_bytes": 2**30}, "locked-pages", "note", ["1 GiB of memory are locked", "mlockall"]),
    ({"confinement.probed": True}, "probes", "warning", ["uprobe", "uprobe_events"]),
    ({"software.search_path": 404}, "search-path", "note", ["404 folders", "*.pth"]),
    ({"software.search_folder_entries": 100_000}, "search-path", "warning", ["100000 entries", "PYTHONPATH"]),
    ({"software.environment_bytes": 1_600_000}, "environment-size", "note", ["1.53 MiB", "unset"]),
    ({"limits.io_limits": ["8:0 rbps=1048576"]}, "io-limits", "warning", ["8:0 rbps=1048576", "io.max"]),
    ({"machine.vectors": ["sse4_2"], "machine.virtualization": "QEMU"}, "vector-instructions", "warning", ["no AVX2"]),
    (
        {"software.blas": [{"name": "openblas", "path": "/o.so", "architecture": "Prescott"}]},
        "vector-instructions",
        "warning",
        ["openblas takes kernels", "/o.so: Prescott"],
    ),
    ({"machine.emulator": "qemu-x86_64"}, "emulation", "problem", ["qemu-x86_64 stands in for an x86_64", "20 times"]),
    # memory
    ({"confinement.set_mempolicy": "EPERM"}, "memory-policy", "warning", ["set_mempolicy: EPERM"]),
    (
        {"confinement.mbind": "ENOSYS", "topology.nodes.1.gpu": "0000:ca:00.0"},
        "memory-policy",
        "note",
        ["no difference"],
    ),
    (
        {"confinement.mbind": "EPERM", "runtime": "docker"},
        "memory-policy",
        "warning",
        ["docker run --cap-add SYS_NICE"],
    ),
    (
        {"confinement.mbind": "EPERM", "runtime": "podman"},
        "memory-policy",
        "warning",
        ["podman run --cap-add SYS_NICE"],
    ),
    ({"limits.memory_nodes_allowed": [1]}, "memory-nodes", "warning", ["node 0", "remote"]),
    ({"machine.numa_balancing": True}, "numa-balancing", "warning", ["sysctl kernel.numa_balancing=0"]),
    ({"machine.transparent_hugepage": "never"}, "huge-pages", "warning", ["enabled: never"]),
    ({"confinement.transparent_hugepage_disabled": True}, "huge-pages", "warning", ["PR_SET_THP_DISABLE"]),
    ({"limits.shm_bytes": 512 * MIB}, "shared-memory", "problem", ["512 MiB"]),
    ({"limits.shm_bytes": 64 * MIB, "devices.gpus": []}, "shared-memory", "warning", ["64 MiB"]),
    ({"limits.shm_bytes": 64 * MIB, "runtime": "docker"}, "shared-memory", "problem", ["--shm-size=1g"]),
    ({"machine.infiniband": ["mlx5_0"]}, "locked-memory", "problem", ["1 MiB", "mlx5_0", "ulimit -l unlimited"]),
    ({"limits.memory_limit_bytes": 2**32}, "memory-limit", "note", ["4 GiB of the machine's 256 GiB"]),
    ({"limits.out_of_memory_kills": 2}, "memory-limit", "warning", ["2 processes were killed", "no limit"]),
    (
        {"limits.out_of_memory_kills": 2, "limits.memory_limit_bytes": 2**32},
        "memory-limit",
        "problem",
        ["2 processes were killed", "limit 4 GiB"],
    ),
    ({"limits.memory_limit_bytes": 2**30, "limits.reread_bytes": 2**33}, "page-cache", "warning", ["8 GiB of files"]),
    ({"contention.memory_waiting_fraction": 0.25}, "page-cache", "warning", ["25.0% of the last 10 s"]),
    (
        {"devices.gpu_files": ["/dev/dxg"]},
        "pinned-memory",
        "note",
        ["/dev/dxg", "half"],
    ),
    # confinement
    ({"runtime": None}, "runtime", "note", ["some container"]),
    (
        {
            "confinement.seccomp": "filter",
            "confinement.speculation_store_bypass": "thread force mitigated",
            "machine.kernel": "5.4.0-150-generic",
        },
        "speculation",
        "warning",
        ["because it has a seccomp filter", "kernel 5.4.0", "spec_store_bypass_disable=prctl"],
    ),
    (
        {"confinement.speculation_indirect_branch": "conditional force disabled"},
        "speculation",
        "warning",
        ["for this process alone"],
    ),
    ({"limits.data_bytes": 2**30}, "address-space", "warning", ["1 GiB of the machine's", "RLIMIT_DATA", "ulimit -d"]),
    ({"limits.address_space_bytes": 2**30}, "address-space", "warning", ["RLIMIT_AS"]),
    (
        {"limits.realtime_limit_s": 0.2, "limits.scheduling": "rr"},
        "realtime-time",
        "warning",
        ["under the policy rr it is killed once a thread has computed for 0.2 s"],
    ),
    ({"limits.thread_cpus": {"0": 7}}, "thread-cpus", "warning", ["7 threads of it may run on CPU 0 alone, its first"]),
    ({"limits.thread_cpus": {"0-1": 1}}, "thread-cpus", "note", ["1 thread of it may run on CPUs 0-1 alone"]),
    (
        {"limits.thread_niceness": {"19": 2, "-5": 1}, "limits.thread_scheduling": {"idle": 1, "fifo": 1}},
        "thread-order",
        "warning",
        ["go before single threads of it: 2 threads with niceness 19 and 1 thread with the policy idle"],
    ),
    (
        {"confinement.executable_pages": "EACCES"},
        "executable-pages",
        "problem",
        ["(EACCES)", "could not create a primitive", "MemoryDenyWriteExecute="],
    ),
    (
        {"confinement.noexec": ["temporary files"]},
        "noexec",
        "warning",
        ["nothing that is compiled can be loaded from temporary files", "TMPDIR"],
    ),
    (
        {"confinement.calls_s": {"mmap": 65e-6, "clone": 90e-6, "futex": 0.3e-6}},
        "system-calls",
        "warning",
        ["mapping a page and unmapping it takes 65.0 us: a filter, a tracer or a sandbox looks at each"],
    ),
    ({"limits.cpu_time_limit_s": 3600}, "cpu-time", "warning", ["computed for 3600 s", "ulimit -t"]),
    ({"software.variables": {"ONEDNN_VERBOSE": "2"}}, "variables", "warning", ["a line for each call"]),
    ({"software.variables": {"DNNL_PRIMITIVE_CACHE_CAPACITY": "0"}}, "variables", "warning", ["kernels anew"]),
    ({"software.variables": {"OMP_DYNAMIC": "true"}}, "variables", "warning", ["takes fewer threads"]),
    ({"confinement.system_call_s": 2.5e-6}, "system-calls", "warning", ["2.50 us"]),
    ({"confinement.packet_s": 2.2e-5}, "packets", "warning", ["takes 22.0 us", "firewall", "nft list ruleset"]),
    ({"confinement.tracer": "4242 (strace)"}, "tracer", "warning", ["process 4242 (strace)"]),
    ({"software.hooks": ["sys.setprofile"]}, "python-hooks", "warning", ["sys.setprofile"]),
    ({"confinement.lsm_profile": "docker-default (enforce)"}, "security-profile", "note", ["docker-default"]),
    ({"machine.virtualization": "KVM"}, "machine-kind", "note", ["KVM"]),
    ({"machine.virtualization": "gVisor"}, "gvisor", "warning", ["stands in for the kernel"]),
    ({"machine.cores_by_package": [1] * 8}, "sockets", "warning", ["8 sockets of one core each", "cores=8,sockets=1"]),
    (
        {"confinement.read_ahead_bytes": {"temporary files": 16384, "Python": 2**17}},
        "read-ahead",
        "warning",
        ["nvme0n1 is read 16 KiB ahead", "(temporary files)", "blockdev --setra 256 /dev/nvme0n1"],
    ),
    (
        {"confinement.read_ahead_bytes": {"Python": 0}, "confinement.disks": {"Python": "nfs4"}},
        "read-ahead",
        "warning",
        ["nfs4 is read 0 B ahead"],
    ),
    (
        {"contention.reread_bytes_per_s": 2.0**27, "machine.memory_available_bytes": 2**30},
        "page-cache",
        "warning",
        ["128 MiB of files a second are read again", "of 256 GiB 1 GiB are left"],
    ),
    # cuda
    ({"devices.cuda": "CUDA_ERROR_UNKNOWN"}, "cuda-start", "problem", ["2 GPUs, and CUDA does not start", "UNKNOWN"]),
    (
        {"devices.cuda": "CUDA_ERROR_UNKNOWN", "devices.refused_files": {"/dev/nvidia-uvm": "EPERM"}},
        "cuda-start",
        "problem",
        ["open() of /dev/nvidia-uvm: EPERM", "control group of devices"],
    ),
    (
        {"software.gpu_code": {"libmine.so": ["compute_80", "sm_80"], "libfine.so": ["sm_90a"]}},
        "gpu-code",
        "warning",
        ["libmine.so brought no code", "9.0: the driver compiles", "compute_80, sm_80", "sm_90"],
    ),
    ({"software.gpu_code": {"libold.so": ["sm_75"]}}, "gpu-code", "warning", ["none of their kernels runs there"]),
    ({"machine.kernel_parameters": ["mitigations=off"]}, "kernel-parameters", "note", ["mitigations=off"]),
    ({"machine.mitigations": {"spectre_v2": "Vulnerable"}}, "mitigations", "note", ["spectre_v2"]),
    ({"confinement.root_filesystem": "overlay"}, "root-filesystem", "note", ["overlay"]),
    ({"confinement.root_filesystem": "fuse.squashfuse_ll"}, "root-filesystem", "note", ["fuse"]),
    # files
    ({"confinement.filesystems": {"working folder": "9p on /mnt/c"}}, "filesystems", "warning", ["9p on /mnt/c"]),
    (
        {"confinement.filesystems": {"home": "nfs4 on ~", "Python": "xfs on /"}},
        "filesystems",
        "warning",
        ["home: each"],
    ),
    (
        {"confinement.filesystems": {"CUDA_CACHE_PATH": "overlay on /"}, "runtime": "docker"},
        "filesystems",
        "note",
        ["CUDA_CACHE_PATH: kept in the container's own layer", "docker run -v"],
    ),
    ({"confinement.far_mounts": {"/models": "lustre"}}, "filesystems", "note", ["/models", "page by page"]),
    (
        {"software.uncompiled": {"numpy": "PYTHONDONTWRITEBYTECODE or -B"}},
        "bytecode",
        "warning",
        ["of numpy: each start", "__pycache__ of numpy: PYTHON"],
    ),
    (
        {
            "software.uncompiled": {"torch": "kept once it is compiled"},
            "confinement.filesystems": {"Python": "overlay on /"},
            "runtime": "docker",
        },
        "bytecode",
        "note",
        ["lost with the container"],
    ),
    ({"confinement.io_uring": "EPERM", "runtime": "docker"}, "io-uring", "note", ["EPERM", "seccomp=PROFILE"]),
    # GPUs
    (
        {"devices.gpus": None, "devices.missing": {"gpus": "nvmlInit: NVMLError_Unknown (999)"}, "runtime": "docker"},
        "gpus-visible",
        "problem",
        ["NVMLError_Unknown", "daemon-reload"],
    ),
    (
        {"devices.gpus": None, "confinement.user_map": ["0 1000 1"], "runtime": "podman"},
        "gpus-visible",
        "problem",
        ["no-cgroups = true"],
    ),
    (
        {"devices.gpus": None, "devices.gpu_files": [], "runtime": "podman"},
        "gpus-visible",
        "problem",
        ["driver 580.1 is loaded", "podman run --gpus all", "--device nvidia.com/gpu=all"],
    ),
    (
        {"devices.gpus": None, "devices.gpu_files": [], "devices.driver_version": None},
        "gpus-visible",
        "note",
        ["no NVIDIA GPU"],
    ),
    (
        {"devices.gpus": None, "devices.gpu_files": ["/dev/dxg"], "devices.driver_version": None},
        "gpus-visible",
        "note",
        ["this is WSL2", "driver belongs in Windows"],
    ),
    (
        {"devices.gpus": [], "software.variables": {"CUDA_VISIBLE_DEVICES": ""}},
        "gpus-visible",
        "note",
        ["CUDA_VISIBLE_DEVICES="],
    ),
    ({"devices.gpu_files": ["/dev/nvidia-uvm", "/dev/nvidia0"]}, "gpu-files", "warning", ["1 of /dev/nvidia0"]),
    (
        {"devices.gpu_files": ["/dev/nvidia0", "/dev/nvidia1"], "runtime": "docker"},
        "gpu-files",
        "problem",
        ["/dev/nvidia-uvm"],
    ),
    (
        {"software.variables": {"NVIDIA_DRIVER_CAPABILITIES": "utility"}},
        "driver-capabilities",
        "problem",
        ["no libcuda"],
    ),
    ({"devices.gpus.0.persistence": False}, "persistence", "warning", ["cuda:0: ", "nvidia-smi -pm 1"]),
    ({"devices.gpus.1.ecc": False}, "ecc", "note", ["cuda:1: ECC is off"]),
    ({"devices.gpus.0.ecc_errors_uncorrected": 3}, "ecc-errors", "problem", ["3 memory errors"]),
    ({"devices.gpus.0.repair_pending": True}, "repair-pending", "warning", ["reset"]),
    ({"devices.gpus.0.mig": True, "devices.gpus.1.mig": True}, "mig", "warning", ["cuda:0 and cuda:1: MIG is on"]),
    ({"devices.gpus.0.virtualization_mode": "vgpu"}, "vgpu", "warning", ["virtual GPU"]),
    ({"devices.gpus.0.confidential_computing": True}, "confidential-computing", "warning", ["encrypted"]),
    ({"devices.gpus.0.power_limit_w": 350.0}, "power-limit", "warning", ["350 W, of 700 W"]),
    ({"devices.gpus.0.sm_clock_application_hz": 0.99e9}, "application-clock", "note", ["50.0%"]),
    ({"devices.gpus.0.compute_mode": "prohibited"}, "compute-mode", "problem", ["nvidia-smi -c DEFAULT"]),
    ({"devices.gpus.0.compute_mode": "exclusive process"}, "exclusive-mode", "note", ["one process"]),
    ({"devices.gpus.0.pcie_width": 8}, "pcie-width", "problem", ["8 of 16 lanes"]),
    ({"devices.gpus.0.pcie_generation": 1}, "pcie-generation", "note", ["generation 1 of 5", "idle"]),
    ({"devices.gpus.0.pcie_replays": 12}, "pcie-replays", "note", ["12 packets"]),
    ({"devices.mps_control": True}, "mps", "warning", ["control pipe"]),
    ({"devices.mps_control": True, "devices.mps_of_another": True}, "mps", "problem", ["another user's"]),
    ({"devices.gpus.1.mps": True}, "mps", "warning", ["clients on cuda:1"]),
    # where GPUs are
    (
        {"limits.cpus_allowed": [4, 5, 6, 7]},
        "gpu-node",
        "warning",
        ["beside cuda:0 and cuda:1", "node 0", "CPUs 0-3,8-11"],
    ),
    (
        {"topology.gpus.0.node_by_sysfs": None, "topology.gpus.0.node_by_nvml": None},
        "gpu-node",
        "warning",
        ["cuda:0 is not known", "primbench numa"],
    ),
    (
        {"topology.gpus.0.node_by_nvml": 1},
        "gpu-witnesses",
        "warning",
        ["sysfs says node 0, NVML node 1"],
    ),
    (
        {"topology.gpus.0.links": [Link(peer="0000:ca:00.0", kind="SYS", peer_access=False)]},
        "peer-access",
        "warning",
        ["cuda:0 and 0000:ca:00.0 (SYS)"],
    ),
    ({"machine.acs_redirect": ["0000:16:01.0"]}, "acs", "warning", ["0000:16:01.0", "setpci -s"]),
    ({"topology.gpus.1.fabric": "in progress"}, "fabric", "problem", ["cuda:1 has not", "802", "fabricmanager"]),
    (
        ON_ONE_BUS | {"topology.gpus.0.links": [Link(peer="0000:17:01.0", kind="PHB")]},
        "pci-tree",
        "note",
        ["all 2 GPUs on one bus", "NCCL_TOPO_FILE"],
    ),
    ({"machine.iommu": ["DMA-FQ"]}, "iommu", "warning", ["DMA-FQ", "iommu=pt"]),
    (
        {"software.variables": {"CUDA_VISIBLE_DEVICES": "0"}, "devices.driver_version": "440.33.01"},
        "visible-devices",
        "warning",
        ["450.51"],
    ),
    # software
    (
        {"software.libraries": {"libgomp": [{"path": "/a", **LIBRARY}, {"path": "/b", **LIBRARY}]}},
        "library-copies",
        "warning",
        ["2 copies of libgomp"],
    ),
    (
        {"software.libraries": {"libcuda": [{"path": "/usr/local/cuda/compat/libcuda.so.1", **LIBRARY}]}},
        "driver-library",
        "warning",
        ["/usr/local/cuda/compat"],
    ),
    (
        {"software.libraries": {"ld-musl": [{"path": "/lib/ld-musl-x86_64.so.1", **LIBRARY}]}, "software.libc": None},
        "c-library",
        "warning",
        ["musl"],
    ),
    ({"software.python_build": "Clang 18.1.3"}, "python-build", "warning", ["Clang 18.1.3"]),
    (
        {"software.python_build": "GCC 12.2.0, optimization untold, debug, -Og"},
        "python-debug",
        "warning",
        ["(debug, -Og)", "a loop takes 8 times as long"],
    ),
    ({"software.python_build": "GCC 12.2.0, -O0"}, "python-debug", "warning", ["(-O0)"]),
    ({"software.caches": {"NUMBA_CACHE_DIR": "EROFS"}}, "caches", "warning", ["NUMBA_CACHE_DIR: EROFS"]),
    ({"software.variables": {"CUDA_LAUNCH_BLOCKING": "1"}}, "variables", "problem", ["unset CUDA_LAUNCH_BLOCKING"]),
    ({"software.variables": {"CUDA_MODULE_LOADING": "EAGER"}}, "variables", "note", ["EAGER"]),
    (
        {
            "software.preloads": {"/etc/ld.so.preload": [{"path": "/x.so"}]},
            "software.providers": {"malloc": {"path": "/x.so"}},
        },
        "preloads",
        "warning",
        ["x.so is put before all other libraries by /etc/ld.so.preload, and malloc comes from it"],
    ),
    (
        {"software.providers": {"malloc": {"path": "/usr/lib/libjemalloc.so.2"}}},
        "preloads",
        "warning",
        ["malloc comes from /usr/lib/libjemalloc.so.2, not from the C library"],
    ),
    # collectives
    ({"software.variables": {"NCCL_P2P_DISABLE": "1"}}, "nccl-variables", "warning", ["directly"]),
    ({"software.variables": {"NCCL_NVLS_ENABLE": "0"}}, "nccl-variables", "warning", ["multicast"]),
    ({"software.variables": {"NCCL_DEBUG": "info"}}, "nccl-variables", "note", ["log"]),
    ({"software.variables": {"NCCL_ALGO": "Ring"}}, "nccl-variables", "note", ["NCCL_ALGO=Ring"]),
    (
        {"software.nccl_plugins": {"ofi": "not found"}, "software.variables": {"NCCL_NET_PLUGIN": "ofi"}},
        "nccl-plugin",
        "warning",
        ["plugin ofi is not found", "unset NCCL_NET_PLUGIN"],
    ),
    ({"machine.infiniband_vendors": {"efa_0": "0x1d0f"}}, "nccl-plugin", "warning", ["sockets", "efa_0"]),
    (ADAPTERS, "rdma-files", "warning", ["2 adapters, and files to use none", "mlx5_0 and mlx5_1"]),
    (ADAPTERS | {"devices.gpus": []}, "rdma-files", "note", ["sockets"]),
    (ADAPTERS | {"runtime": "docker"}, "rdma-files", "warning", ["docker run --device /dev/infiniband"]),
    (ADAPTERS | {"devices.driver_is_open": False}, "gpu-direct", "warning", ["nvidia_peermem", "not the open ones"]),
    (ADAPTERS | {"machine.kernel": "5.4.0"}, "gpu-direct", "warning", ["kernel 5.4.0", "modprobe nvidia-peermem"]),
    (
        ADAPTERS | {"devices.driver_is_open": False, "machine.peer_memory": ["nvidia_peermem"]},
        "gpu-direct",
        "warning",
        ["nvidia_peermem is loaded and not registered", "memory_peers: none", "MLNX_OFED"],
    ),
    ({"machine.gdrdrv": True}, "gdrcopy", "warning", ["/dev/gdrdrv is not here"]),
    ({"machine.gdrdrv": True, "runtime": "docker"}, "gdrcopy", "warning", ["docker run --device /dev/gdrdrv"]),
    ({"machine.roce_addresses": ["mlx5_0:1 none"]}, "roce-addresses", "warning", ["mlx5_0:1 has no RoCE v2"]),
    ({"machine.roce_addresses": ["mlx5_0:1 3 RoCE v2 IPv4"]}, "roce-addresses", "warning", ["do not begin at 0"]),
    (
        {"machine.roce_addresses": ROCE, "software.variables": {"NCCL_IB_GID_INDEX": "3"}},
        "roce-addresses",
        "warning",
        ["NCCL_IB_GID_INDEX=3 is no RoCE v2 address of mlx5_0:1 here"],
    ),
    ({"software.files": {"/etc/nccl.conf": "ab" * 32}}, "nccl-files", "note", ["/etc/nccl.conf"]),
]

# What looks alike and is in order.
CONTENT: list[tuple[Mapping[str, Any], str]] = [
    ({"software.gpu_code": {"libcufft.so.12": ["sm_75"], "libcufile.so.0": ["compute_86", "sm_86"]}}, "gpu-code"),
    ({"limits.cpu_quota": 8.0}, "cpu-quota"),
    ({"machine.architecture": "aarch64", "machine.clocksource": "arch_sys_counter"}, "clock"),
    ({"software.variables": {"OMP_NUM_THREADS": "8"}}, "threads"),
    ({"limits.cpus_allowed": [0], "machine.cpus_total": 1, "devices.gpus": []}, "few-cpus"),
    (
        {"limits.processes_own_max": 7, "confinement.root_user": True, "confinement.user_map": ["0 0 4294967295"]},
        "processes",
    ),
    ({"limits.memory_limit_bytes": 2**33, "limits.reread_bytes": 2**30}, "page-cache"),
    ({"contention.reread_bytes_per_s": 2.0**18}, "page-cache"),
    ({"software.variables": {"OMP_NUM_THREADS": "many"}}, "threads"),
    ({"machine.numa_balancing": True, "topology.nodes": []}, "numa-balancing"),
    ({"limits.shm_bytes": 128 * MIB, "devices.gpus": []}, "shared-memory"),
    ({"limits.memlock_bytes": None, "machine.infiniband": ["mlx5_0"]}, "locked-memory"),
    ({"confinement.seccomp": "filter"}, "speculation"),
    ({"confinement.lsm_profile": "unconfined_u:unconfined_r:unconfined_t:s0"}, "security-profile"),
    ({"confinement.lsm_profile": "none"}, "security-profile"),
    ({"software.variables": {"NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}}, "driver-capabilities"),
    ({"machine.iommu": ["DMA"], "devices.gpus": []}, "iommu"),
    ({"machine.iommu": None, "machine.missing": {"iommu": "no GPU"}, "devices.gpus": [], "topology.gpus": []}, "iommu"),
    ({"software.variables": {"CUDA_VISIBLE_DEVICES": "0"}}, "visible-devices"),
    ({"software.variables": {"CUDA_LAUNCH_BLOCKING": "0", "CUDA_MODULE_LOADING": "LAZY"}}, "variables"),
    ({"software.variables": {"NCCL_P2P_DISABLE": "0", "NCCL_NVLS_ENABLE": "1"}}, "nccl-variables"),
    ({"confinement.filesystems": {"home": "9p on /"}, "confinement.root_filesystem": "9p"}, "filesystems"),
    ({"software.variables": {"OMP_PROC_BIND": "false", "KMP_AFFINITY": "disabled"}}, "variables"),
    (
        {"software.variables": {"OMP_NUM_THREADS": "1"}, "limits.cpu_quota": 2.0, "limits.cores_allowed": None},
        "threads",
    ),
    ({"software.variables": {"OMP_NUM_THREADS": "1"}, "limits.cpu_quota": 1.5}, "threads"),
    ({"machine.vectors": ["sse4_2"]}, "vector-instructions"),
    ({"software.uncompiled": {"torch": "kept once it is compiled"}}, "bytecode"),
    ({"machine.acs_redirect": ["0000:16:01.0"], "devices.gpus": []}, "acs"),
    ({"machine.virtualization": "QEMU"}, "pci-tree"),
    (ON_ONE_BUS, "pci-tree"),
    (ON_ONE_BUS | ADAPTERS | {"software.variables": {"NCCL_TOPO_FILE": "/t.xml"}}, "pci-tree"),
    (ADAPTERS | {"devices.infiniband_files": ["/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1"]}, "rdma-files"),
    (ADAPTERS, "gpu-direct"),
    (ADAPTERS | PEERMEM | {"machine.peer_memory_clients": ["nv_mem"]}, "gpu-direct"),
    (ADAPTERS | PEERMEM | {"machine.peer_memory_clients": None}, "gpu-direct"),
    ({"machine.gdrdrv": True, "devices.gdrdrv_file": True}, "gdrcopy"),
    ({"devices.cuda": "CUDA_ERROR_NO_DEVICE", "devices.gpus": []}, "cuda-start"),
    ({"machine.cores_by_package": [1], "limits.cpus_allowed": [0], "limits.cores_allowed": 1}, "sockets"),
    ({"software.variables": {"OMP_NUM_THREADS": "4"}}, "threads"),
    ({"software.variables": {"OMP_NUM_THREADS": "2"}, "limits.cpu_quota": 2.5}, "threads"),
    ({"machine.roce_addresses": ROCE}, "roce-addresses"),
    ({"machine.roce_addresses": ROCE, "software.variables": {"NCCL_IB_GID_INDEX": "1"}}, "roce-addresses"),
    ({"software.python_implementation": "pypy", "software.python_build": "GCC"}, "python-build"),
    ({"software.python_build": "GCC 12.2.0, debug, -Og"}, "python-build"),
    ({"limits.data_bytes": 2**50, "limits.resident_bytes": 0, "limits.file_locks_max": 0}, "address-space"),
    ({"limits.realtime_limit_s": 0.2, "limits.scheduling": "other"}, "realtime-time"),
    ({"limits.cpus_allowed": [0], "limits.thread_cpus": {"1": 1, "2": 1}}, "thread-cpus"),  # as OMP_PROC_BIND does
    ({"limits.thread_niceness": {"-9": 1}, "limits.thread_scheduling": {"rr": 1}}, "thread-order"),
    ({"confinement.calls_s": {"mmap": 8e-6, "clone": 90e-6}}, "system-calls"),
    ({"software.python_build": "GCC 12.2.0, optimization untold"}, "python-debug"),
]


def of(findings: list[Finding], check: str) -> list[Finding]:
    return [finding for finding in findings if finding.cause == check]


def test_healthy_place_is_ok_by_every_check(place: MakePlace) -> None:
    found = table.examine(place({}))
    assert {"ok"} == {finding.severity for finding in found}, [f for f in found if f.severity != "ok"]
    assert len(table.checks()) == len(found)


@pytest.mark.parametrize(("changes", "check", "severity", "words"), CASES)
def test_cause_is_found(
    place: MakePlace, changes: Mapping[str, Any], check: str, severity: str, words: list[str]
) -> None:
    found = of(table.examine(place(changes)), check)
    assert [severity] == [finding.severity for finding in found], found
    assert {type(value) for value in found[0].values} <= {str, int, float}  # which JSON gives back as they are
    said = " ".join([found[0].summary, *found[0].evidence, found[0].advice or "", *found[0].fix])
    assert [] == [word for word in words if word not in said], said


@pytest.mark.parametrize(("changes", "check"), CONTENT)
def test_what_is_in_order_is_no_finding(place: MakePlace, changes: Mapping[str, Any], check: str) -> None:
    assert ["ok"] == [finding.severity for finding in of(table.examine(place(changes)), check)]


def test_every_check_has_a_case_that_it_finds(place: MakePlace) -> None:
    worse = [place(changes) for changes, *_ in CASES]
    found = [{finding.cause for finding in table.examine(each) if finding.severity != "ok"} for each in worse]
    assert [] == [cause.id for cause in table.checks() if not any(cause.id in each for each in found)]


def test_under_wsl2_one_device_file_is_all_there_is(place: MakePlace) -> None:
    (found,) = of(table.examine(place({"devices.gpu_files": ["/dev/dxg"]})), "gpu-files")
    assert "ok" == found.severity


UNKNOWN = {
    "cpu-quota": ("limits", "cpu_quota"),
    "cpus-allowed": ("topology", "packages"),
    "cpu-kinds": ("machine", "cpu_kinds"),
    "cpu-contention": ("contention", "waiting_fraction"),
    "gpu-processes": ("contention", "gpu_processes"),
    "variables": ("software", "variables"),
    "caches": ("software", "caches"),
    "nccl-files": ("software", "files"),
    "priority": ("limits", "niceness"),
    "open-files": ("limits", "open_files"),
    "processes": ("limits", "processes_max"),
    "io-limits": ("limits", "io_limits"),
    "cpu-frequency": ("machine", "governor"),
    "clock": ("machine", "clock_s"),
    "memory-policy": ("confinement", "set_mempolicy"),
    "memory-nodes": ("limits", "memory_nodes_allowed"),
    "numa-balancing": ("machine", "numa_balancing"),
    "huge-pages": ("machine", "transparent_hugepage"),
    "shared-memory": ("limits", "shm_bytes"),
    "locked-memory": ("limits", "memlock_bytes"),
    "memory-limit": ("limits", "memory_limit_bytes"),
    "vector-instructions": ("machine", "vectors"),
    "emulation": ("machine", "emulator"),
    "acs": ("machine", "acs_redirect"),
    "bytecode": ("software", "uncompiled"),
    "io-uring": ("confinement", "io_uring"),
    "runtime": ("confinement", "runtime"),
    "speculation": ("confinement", "seccomp"),
    "system-calls": ("confinement", "system_call_s"),
    "tracer": ("confinement", "tracer"),
    "file-opens": ("confinement", "open_file_s"),
    "packets": ("confinement", "packet_s"),
    "cpu-time": ("limits", "cpu_time_limit_s"),
    "realtime-time": ("limits", "realtime_limit_s"),
    "thread-cpus": ("limits", "thread_cpus"),
    "thread-order": ("limits", "thread_niceness"),
    "executable-pages": ("confinement", "executable_pages"),
    "noexec": ("confinement", "noexec"),
    "interruptions": ("confinement", "interruptions_hz"),
    "probes": ("confinement", "probed"),
    "locked-pages": ("confinement", "locked_bytes"),
    "descriptors": ("limits", "descriptors"),
    "search-path": ("software", "search_path"),
    "environment-size": ("software", "environment_bytes"),
    "security-profile": ("confinement", "lsm_profile"),
    "machine-kind": ("machine", "virtualization"),
    "gvisor": ("machine", "virtualization"),
    "sockets": ("machine", "cores_by_package"),
    "read-ahead": ("confinement", "read_ahead_bytes"),
    "cuda-start": ("devices", "cuda"),
    "gpu-code": ("software", "gpu_code"),
    "kernel-parameters": ("machine", "kernel_parameters"),
    "mitigations": ("machine", "mitigations"),
    "root-filesystem": ("confinement", "root_filesystem"),
    "filesystems": ("confinement", "filesystems"),
    "gpu-files": ("devices", "gpu_files"),
    "ecc": ("devices.gpus.0", "ecc"),
    "gpu-node": ("topology", "gpus"),
    "mps": ("devices", "mps_control"),
    "iommu": ("machine", "iommu"),
    "library-copies": ("software", "libraries"),
    "python-build": ("software", "python_build"),
    "python-debug": ("software", "python_build"),
    "python-hooks": ("software", "hooks"),
}


@pytest.mark.parametrize("check", UNKNOWN)
def test_unknown_value_is_unknown_with_its_reason(place: MakePlace, check: str) -> None:
    part, field = UNKNOWN[check]
    changes = {f"{part}.{field}": None, f"{part}.missing": {field: "because of this"}}
    (found,) = of(table.examine(place(changes)), check)
    of_gpu = " of cuda:0" * part.startswith("devices.gpus")
    assert ("unknown", [f"{field}{of_gpu}: because of this"]) == (found.severity, found.evidence)


PARTS: dict[str, Callable[[Place], msgspec.Struct]] = {
    "machine": lambda place: place.environment.machine,
    "limits": lambda place: place.environment.limits,
    "confinement": lambda place: place.environment.confinement,
    "software": lambda place: place.environment.software,
    "devices": lambda place: place.environment.devices,
    "devices.gpus.0": lambda place: place.gpus[0],
    "topology": lambda place: place.topology,
    "contention": lambda place: place.contention,
}


@pytest.mark.parametrize("part", PARTS)
def test_any_value_may_be_unknown(place: MakePlace, part: str) -> None:
    fields = [field.name for field in msgspec.structs.fields(PARTS[part](place({}))) if field.default is None]
    assert fields
    for field in fields:
        found = table.examine(place({f"{part}.{field}": None, f"{part}.missing": {field: "because of this"}}))
        assert len(table.checks()) <= len(found)


def test_pressure_is_missed_under_a_limit_alone(place: MakePlace) -> None:
    hidden = {"contention.memory_waiting_fraction": None, "contention.missing": {"memory_waiting_fraction": "no PSI"}}
    for changes, severity in ({}, "ok"), ({"limits.memory_limit_bytes": 2**33}, "unknown"):
        (found,) = of(table.examine(place(hidden | changes)), "page-cache")
        assert severity == found.severity


def test_gpu_memory_is_no_node_of_the_host(place: MakePlace) -> None:
    assert [0] == [node.id for node in place({"topology.nodes.1.gpu": "0000:ca:00.0"}).nodes]


@pytest.mark.parametrize("name", sorted(path.stem for path in (Path(__file__).parents[2] / "trees").glob("*.json")))
def test_recorded_machines_are_examined(tree: Callable[[str], Path], name: str) -> None:
    found = table.examine(look(tree(name)))
    assert len(table.checks()) <= len(found)
    assert all(finding.summary for finding in found)


def test_corrupt_files_raise_nothing(damaged: list[tuple[str, Place]]) -> None:
    for damage, place in damaged:
        assert len(table.checks()) <= len(table.examine(place)), damage
