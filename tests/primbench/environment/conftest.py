"""A place in files: what each reader reads there is known."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from primbench.environment import fingerprint
from primbench.environment.fingerprint import Environment

SYSTEM = "sys/devices/system"
CPU = f"{SYSTEM}/cpu/cpu{min(os.sched_getaffinity(0))}"
GPU, NETWORK_CARD = "sys/bus/pci/devices/0000:65:00.0", "sys/bus/pci/devices/0000:66:00.0"

CAPACITIES = {0: 1024, 1: 1024, 2: 1024, 3: 1024, 8: 446}
CACHE = {"level": "3\n", "type": "Unified\n", "size": "32768K\n", "shared_cpu_list": "0-3,8\n"}

PORT, IPV4 = "ports/1", "0000:0000:0000:0000:0000:ffff:0a00:0001"
ADAPTER = {
    "device/vendor": "0x15b3\n",
    f"{PORT}/gid_attrs/types/0": "IB/RoCE v1\n",
    f"{PORT}/gid_attrs/types/3": "RoCE v2\n",
    f"{PORT}/gids/0": "fe80:0000:0000:0000:bace:f6ff:fe00:0001\n",
    f"{PORT}/gids/1": "0000:0000:0000:0000:0000:0000:0000:0000\n",
    f"{PORT}/gids/2": f"{IPV4}\n",  # of another network namespace: its type cannot be read
    f"{PORT}/gids/3": f"{IPV4}\n",
    f"{PORT}/link_layer": "Ethernet\n",
    f"{PORT}/state": "4: ACTIVE\n",
    "ports/2/link_layer": "Ethernet\n",
    "ports/2/state": "1: DOWN\n",
}
FILES = {
    "dev/gdrdrv": "",
    "dev/infiniband/uverbs0": "",
    "dev/nvidia-caps/nvidia-cap1": "",
    "dev/nvidia-uvm": "",
    "dev/nvidia0": "",
    "dev/nvidiactl": "",
    "dev/null": "",
    "dev/shm/nccl-1": "",
    "etc/nccl.conf": "NCCL_DEBUG=WARN\n",
    "etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\n',
    "proc/cmdline": (
        "BOOT_IMAGE=/vmlinuz root=UUID=1 ro mitigations=off iommu=pt isolcpus=2-3 transparent-hugepage=never "
        'processor.max_cstate=1 pci="noats,a b" quiet hostname=secret -- init=/x mitigations=auto\n'
    ),
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC 9654\nflags\t\t: fpu hypervisor avx\n\nprocessor\t: 1\n",
    "proc/driver/nvidia/version": (
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (dvs@buildhost)\n"
        "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1)\n"
    ),
    "proc/meminfo": "MemTotal:       24684096 kB\nMemFree:  3 kB\nMemAvailable:   1024 kB\n",
    "proc/self/attr/apparmor/current": "docker-default (enforce)\n",
    "proc/self/autogroup": "/autogroup-25 nice 5\n",
    "proc/self/cgroup": "0::/job/step\n",
    "proc/self/maps": (
        "7f00-7f01 r-xp 00000000 08:01 12 /usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04\n"
        "7f01-7f02 r--p 00000000 08:01 12 /usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04\n"
        "7f02-7f03 r--p 00000000 08:01 13 /opt/my env/numpy.libs/libscipy_openblas64_-56d6093b.so\n"
        "7f03-7f04 r--p 00000000 08:01 14 /opt/torch/lib/libgomp-24e2ab19.so.1.0.0\n"
        "7f04-7f05 r--p 00000000 08:01 15 /usr/lib/libgomp.so.1.0.0\n"
        "7f05-7f06 r--p 00000000 08:01 16 /opt/torch/lib/libc10.so\n"
        "7f06-7f07 r--p 00000000 08:01 17 /opt/nvidia/libcublasLt.so.13.0.0.19\n"
        "7f07-7f08 r--p 00000000 08:01 18 /opt/nvidia/libcudnn_graph.so.9\n"
        "7f07-7f08 r--p 00000000 08:01 18 /opt/nvidia/libcudnn.so.9.19.0\n"
        "7f08-7f09 r--p 00000000 08:01 19 /usr/lib/libcurand.so.10\n"
        "7f09-7f0a rw-p 00000000 00:00 0\n"
        "7ffc-7ffd rw-p 00000000 00:00 0 [stack]\n"
    ),
    "proc/self/mountinfo": (
        "20 1 254:0 / / rw - ext4 /dev/vda rw\n"
        "21 20 0:30 / / rw - overlay overlay rw,lowerdir=/a\n"
        "29 21 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
        "30 21 0:27 / /sys/fs/fuse/connections rw - fusectl fusectl rw\n"
        "31 21 0:28 / /models rw,relatime - nfs4 10.0.0.1:/models rw\n"
        "32 21 0:29 / /tmp/primbench-h3p244u4/overlay-0/merged rw - fuse.fuse-overlayfs fuse-overlayfs rw\n"
    ),
    "proc/self/status": (
        "Name:\tpython\nUid:\t1000\t0\t0\t0\nTracerPid:\t0\nVmLck:\t0 kB\n"
        "CapEff:\t000002000080000b\nUmask:\t0027\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t3\n"
        "Speculation_Store_Bypass:\tthread force mitigated\nSpeculationIndirectBranch:\tconditional force disabled\n"
        "Mems_allowed_list:\t0\n"
    ),
    "proc/self/uid_map": "         0       1000          1\n         1     100000      65536\n",
    "proc/sys/kernel/numa_balancing": "1\n",
    "proc/sys/kernel/random/boot_id": "c5f3f6a0-2f5e-4d0b-9d8a-0f3f6a02f5e4\n",
    "proc/sys/kernel/sched_autogroup_enabled": "1\n",
    "proc/version": "Linux version 6.8.0-45-generic (buildd@x) #45-Ubuntu SMP\n",
    f"{GPU}/class": "0x030200\n",
    f"{GPU}/iommu_group/type": "DMA-FQ\n",
    f"{GPU}/vendor": "0x10de\n",
    "sys/module/nvidia_peermem/refcnt": "0\n",
    f"{NETWORK_CARD}/class": "0x020700\n",
    f"{NETWORK_CARD}/iommu_group/type": "identity\n",
    f"{NETWORK_CARD}/vendor": "0x15b3\n",
    "sys/class/dmi/id/product_name": "Standard PC\n",
    "sys/class/dmi/id/sys_vendor": "QEMU\n",
    **{f"sys/class/infiniband/mlx5_0/{name}": text for name, text in ADAPTER.items()},
    "sys/class/net/lo/mtu": "65536\n",
    f"{SYSTEM}/clocksource/clocksource0/current_clocksource": "tsc\n",
    f"{CPU}/cpufreq/scaling_governor": "performance\n",
    **{f"{SYSTEM}/cpu/cpu{cpu}/cpu_capacity": f"{capacity}\n" for cpu, capacity in CAPACITIES.items()},
    **{f"{SYSTEM}/cpu/cpu{cpu}/cache/index3/{name}": text for cpu in CAPACITIES for name, text in CACHE.items()},
    f"{CPU}/cpuidle/state0/disable": "0\n",
    f"{CPU}/cpuidle/state0/latency": "0\n",
    f"{CPU}/cpuidle/state1/disable": "0\n",
    f"{CPU}/cpuidle/state1/latency": "2\n",
    f"{CPU}/cpuidle/state2/disable": "1\n",
    f"{CPU}/cpuidle/state2/latency": "170\n",
    f"{SYSTEM}/cpu/intel_pstate/no_turbo": "1\n",
    f"{SYSTEM}/cpu/online": "0-3,8\n",
    **{
        f"{SYSTEM}/cpu/cpu{cpu}/topology/{name}": text
        for cpu in CAPACITIES.keys() | os.sched_getaffinity(0)
        for name, text in {"core_cpus_list": f"{cpu}\n", "physical_package_id": f"{cpu // 8}\n"}.items()
    },
    "sys/kernel/mm/memory_peers/nv_mem/version": "1.3\n",
    "sys/module/gdrdrv/refcnt": "0\n",
    f"{SYSTEM}/cpu/vulnerabilities/mds": "Not affected\n",
    f"{SYSTEM}/cpu/vulnerabilities/spec_store_bypass": "Mitigation: Speculative Store Bypass disabled via prctl\n",
    f"{SYSTEM}/node/has_memory": "0\n",
    f"{SYSTEM}/node/node0/cpulist": "0-3,8\n",
    f"{SYSTEM}/node/node0/distance": "10\n",
    f"{SYSTEM}/node/node0/meminfo": "Node 0 MemTotal:       24684096 kB\nNode 0 MemFree:  3 kB\n",
    f"{SYSTEM}/node/online": "0\n",
    "sys/fs/cgroup/job/cpu.max": "150000 50000\n",
    "sys/fs/cgroup/job/cpu.weight": "200\n",
    "sys/fs/cgroup/job/cpu.stat": "usage_usec 9\nnr_periods 40\nnr_throttled 7\nthrottled_usec 2500000\n",
    "sys/fs/cgroup/job/memory.events": "low 0\nhigh 0\nmax 5\noom 2\noom_kill 2\n",
    "sys/fs/cgroup/job/memory.max": "8589934592\n",
    "sys/fs/cgroup/job/memory.stat": "anon 9\nworkingset_refault_anon 5\nworkingset_refault_file 3\n",
    "sys/fs/cgroup/job/io.max": "8:16 rbps=2097152 wbps=max riops=max wiops=120\n",
    "sys/fs/cgroup/job/pids.current": "96\n",
    "sys/fs/cgroup/job/pids.events": "max 2\n",
    "sys/fs/cgroup/job/pids.max": "4096\n",
    "sys/fs/cgroup/job/step/cpu.max": "max 100000\n",
    "sys/fs/cgroup/job/step/cpu.weight": "39\n",
    "sys/fs/cgroup/job/step/cpu.stat": "usage_usec 9\nnr_periods 90\nnr_throttled 0\nthrottled_usec 0\n",
    "sys/fs/cgroup/job/step/memory.events": "oom_kill 1\n",
    "sys/fs/cgroup/job/step/memory.max": "max\n",
    "sys/fs/cgroup/job/step/memory.stat": "workingset_refault_file 70\n",
    "sys/fs/cgroup/job/step/pids.current": "9\n",
    "sys/fs/cgroup/job/step/pids.max": "max\n",
    "sys/kernel/mm/transparent_hugepage/defrag": "always defer [defer+madvise] madvise never\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/kernel/mm/transparent_hugepage/shmem_enabled": "always within_size advise [never] deny force\n",
    "sys/kernel/security/lsm": "lockdown,capability,yama,apparmor\n",
    "tmp/nvidia-mps/control": "",
}  # fmt: skip
LINKS = {
    "proc/self/ns/cgroup": "cgroup:[4026531835]",
    "proc/self/ns/mnt": "mnt:[4026533001]",
    "proc/self/ns/pid": "pid:[4026533002]",
    "proc/self/ns/pid_for_children": "pid:[4026533009]",
    "proc/self/ns/user": "user:[4026531837]",
}
V1 = {
    "proc/self/cgroup": "6:blkio:/job\n5:pids:/job\n3:memory:/job\n2:cpu,cpuacct:/job\n1:name=systemd:/\n",
    "proc/self/mountinfo": (
        "20 1 254:0 / / rw - ext4 /dev/vda rw\n"
        "31 31 0:28 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n"
        "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "36 31 0:33 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
        "37 31 0:34 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n"
    ),
    "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
    "sys/fs/cgroup/cpu/cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
    "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/cpu/job/cpu.shares": "512\n",
    "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "50000\n",
    "sys/fs/cgroup/cpu/job/cpu.stat": "nr_periods 12\nnr_throttled 3\nthrottled_time 250000000\n",
    "sys/fs/cgroup/blkio/job/blkio.throttle.read_bps_device": "8:0 1048576\n",
    "sys/fs/cgroup/blkio/job/blkio.throttle.read_iops_device": "",
    "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "1073741824\n",
    "sys/fs/cgroup/memory/job/memory.stat": "workingset_refault_file 1\ntotal_workingset_refault_file 4\n",
    "sys/fs/cgroup/memory/job/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/pids/job/pids.current": "101\n",
    "sys/fs/cgroup/pids/job/pids.max": "100\n",
}  # fmt: skip

Made = Callable[..., Path]


@pytest.fixture
def place(tmp_path: Path) -> Made:
    """``place({path: text or None})``: the root of the place above, with these files changed or, for None, absent."""

    def write(changes: Mapping[str, str | None] | None = None) -> Path:
        root = tmp_path / "place"
        for name, text in (FILES | dict(changes or {})).items():
            if text is not None:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
        (root / "proc/self/ns").mkdir()
        for name, target in LINKS.items():
            (root / name).symlink_to(target)
        return root

    return write


@pytest.fixture
def look(place: Made) -> Callable[..., Environment]:
    """``look(changes)``: what is found in the place, GPUs apart."""
    return lambda changes=None: fingerprint.collect(gpus=False, root=place(changes))


@pytest.fixture
def v1() -> dict[str, str]:
    """The changes that make its control groups those of v1."""
    return V1


@pytest.fixture
def adapter() -> list[str]:
    """The files of its adapter."""
    return [f"sys/class/infiniband/mlx5_0/{name}" for name in ADAPTER]
