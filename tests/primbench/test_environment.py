from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from primbench import environment, nvml
from primbench.environment import Environment
from primbench.errors import PlacementError

CPU = f"sys/devices/system/cpu/cpu{min(os.sched_getaffinity(0))}"
FILES = {
    "etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\n',
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC 9654\nflags\t\t: fpu hypervisor avx\n\nprocessor\t: 1\n",
    "proc/meminfo": "MemTotal:       24684096 kB\nMemFree:  3 kB\nMemAvailable:   1024 kB\n",
    "proc/self/cgroup": "0::/job/step\n",
    "proc/self/mountinfo": "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    "proc/self/status": "Mems_allowed_list:\t0\n",
    "proc/self/maps": (
        "7f00-7f01 r-xp 00000000 08:01 12 /usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04\n"
        "7f01-7f02 r--p 00000000 08:01 12 /usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04\n"
        "7f02-7f03 r--p 00000000 08:01 13 /opt/my env/numpy.libs/libscipy_openblas64_-56d6093b.so\n"
        "7f03-7f04 r--p 00000000 08:01 14 /opt/torch/lib/libgomp-24e2ab19.so.1.0.0\n"
        "7f04-7f05 r--p 00000000 08:01 15 /usr/lib/libgomp.so.1.0.0\n"
        "7f05-7f06 r--p 00000000 08:01 16 /opt/torch/lib/libc10.so\n"
        "7f06-7f07 r--p 00000000 08:01 17 /opt/nvidia/libcublasLt.so.13.0.0.19\n"
        "7f07-7f08 r--p 00000000 08:01 18 /opt/nvidia/libcudnn_graph.so.9\n"
        "7f08-7f09 r--p 00000000 08:01 19 /usr/lib/libcurand.so.10\n"
        "7f09-7f0a rw-p 00000000 00:00 0\n"
        "7ffc-7ffd rw-p 00000000 00:00 0 [stack]\n"
    ),
    "sys/class/dmi/id/sys_vendor": "QEMU\n",
    "sys/class/dmi/id/product_name": "Standard PC\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "sys/devices/system/cpu/online": "0-3,8\n",
    f"{CPU}/cpufreq/scaling_governor": "performance\n",
    "sys/devices/system/node/has_memory": "0\n",
    "sys/devices/system/node/node0/cpulist": "0-3,8\n",
    "sys/devices/system/node/online": "0\n",
    "sys/fs/cgroup/job/cpu.max": "150000 100000\n",
    "sys/fs/cgroup/job/memory.max": "8589934592\n",
    "sys/fs/cgroup/job/step/cpu.max": "max 100000\n",
    "sys/fs/cgroup/job/step/memory.max": "max\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
}
# None without a reason means "no limit" in these.
LIMITS = ("cpu_quota", "memory_limit_bytes")


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def without_gpus(root: Path) -> Environment:
    return environment.collect(gpus=False, root=root)


def test_facts_are_read_from_their_files(tmp_path: Path) -> None:
    found = without_gpus(write(tmp_path, FILES))
    expected = {
        "os_name": "Debian GNU/Linux 12 (bookworm)",
        "cpu_model": "AMD EPYC 9654",
        "cpus_total": 5,
        "memory_bytes": 24684096 * 1024,
        "memory_available_bytes": 1024 * 1024,
        "cpu_quota": 1.5,
        "memory_limit_bytes": 8589934592,
        "virtualization": "QEMU Standard PC",
        "clocksource": "tsc",
        "governor": "performance",
        "transparent_hugepage": "madvise",
    }
    assert expected == {name: getattr(found, name) for name in expected}
    assert [[0, 1, 2, 3, 8]] == [node.cpus for node in found.nodes or []]
    assert {"gpus": "not asked for"} == found.missing


def test_libraries_are_the_mapped_files_each_copy_once(tmp_path: Path) -> None:
    expected = {
        "libcublasLt": ["/opt/nvidia/libcublasLt.so.13.0.0.19"],
        "libcuda": ["/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04"],
        "libcudnn": ["/opt/nvidia/libcudnn_graph.so.9"],
        "libgomp": ["/opt/torch/lib/libgomp-24e2ab19.so.1.0.0", "/usr/lib/libgomp.so.1.0.0"],
        "libscipy_openblas64_": ["/opt/my env/numpy.libs/libscipy_openblas64_-56d6093b.so"],
    }
    assert expected == without_gpus(write(tmp_path, FILES)).libraries


def test_no_limit_is_none_without_a_reason(tmp_path: Path) -> None:
    files = FILES | {"sys/fs/cgroup/job/cpu.max": "max 100000", "sys/fs/cgroup/job/memory.max": "max"}
    found = without_gpus(write(tmp_path, files))
    assert (found.cpu_quota, found.memory_limit_bytes) == (None, None)
    assert not set(LIMITS) & set(found.missing)


def test_cgroup_v1_limits(tmp_path: Path) -> None:
    files = FILES | {
        "proc/self/cgroup": "3:memory:/job\n2:cpu,cpuacct:/job\n",
        "proc/self/mountinfo": (
            "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
            "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        ),
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "50000\n",
        "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "1073741824\n",
    }
    found = without_gpus(write(tmp_path, files))
    assert (found.cpu_quota, found.memory_limit_bytes) == (0.5, 2**30)


def test_limits_of_a_hidden_cgroup_are_unknown_not_absent(tmp_path: Path) -> None:
    found = without_gpus(write(tmp_path, FILES | {"proc/self/cgroup": "0::/elsewhere\n"}))
    assert set(LIMITS) <= set(found.missing)


def test_bare_metal_has_no_hypervisor_flag(tmp_path: Path) -> None:
    files = FILES | {"proc/cpuinfo": "model name\t: Xeon\nflags\t\t: fpu avx\n"}
    assert without_gpus(write(tmp_path, files)).virtualization == "none"


def test_arm_is_named_by_its_numbers(tmp_path: Path) -> None:
    files = FILES | {"proc/cpuinfo": "processor\t: 0\nFeatures\t: sve\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"}
    found = without_gpus(write(tmp_path, files))
    assert found.cpu_model == "implementer 0x41 part 0xd4f"
    assert "has no flags" in found.missing["virtualization"]


GARBAGE = [None, b"", b"\x00\xff\xfe", b"garbage", b"\n\n:\n", b"1 0\n", b"9" * 5000]


@pytest.mark.parametrize("content", GARBAGE)
@pytest.mark.parametrize("name", sorted(FILES))
def test_a_broken_file_never_raises_and_every_unknown_has_a_reason(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    root = write(tmp_path, FILES)
    (root / name).unlink() if content is None else (root / name).write_bytes(content)
    found = without_gpus(root)
    unknown = {field for field in found.__struct_fields__ if getattr(found, field) is None}
    assert unknown - set(LIMITS) <= set(found.missing)
    assert all(found.missing.values())


def test_folders_in_place_of_files_never_raise(tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).mkdir(parents=True)
    assert set(without_gpus(tmp_path).missing) >= {"os_name", "nodes", "cpu_model", "libraries"}


def test_empty_root_has_a_reason_for_everything_read_from_it(tmp_path: Path) -> None:
    expected = set(environment._READERS) - {"libc"} | {"gpus"}
    assert expected == set(without_gpus(tmp_path).missing) - {"libc"}


def test_this_machine_is_described_and_survives_json() -> None:
    found = environment.collect(gpus=True)
    assert sorted(os.sched_getaffinity(0)) == found.cpus_allowed
    assert sys.executable == found.python_executable
    assert (found.memory_bytes or 0) >= (found.memory_available_bytes or 0) > 0
    assert found == msgspec.json.decode(msgspec.json.encode(found), type=Environment)


def test_gpus_are_listed_in_the_order_of_cuda(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(nvml, "device_count", lambda: 2)
    monkeypatch.setattr(nvml, "identity", lambda device: nvml.Gpu(name=f"GPU of {device}"))
    gpus = environment.collect(gpus=True, root=tmp_path).gpus or []
    assert ["GPU of cuda:0", "GPU of cuda:1"] == [gpu.name for gpu in gpus]


def test_gpus_that_cannot_be_listed_have_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail() -> int:
        raise PlacementError("GPUs cannot be found: nvmlInit: NVMLError_DriverNotLoaded (9)")

    monkeypatch.setattr(nvml, "device_count", fail)
    found = environment.collect(gpus=True, root=tmp_path)
    assert found.gpus is None
    assert "DriverNotLoaded" in found.missing["gpus"]


def test_variables_that_affect_speed_are_kept_and_secrets_are_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = {
        "CUDA_MODULE_LOADING": "LAZY",
        "LD_PRELOAD": "",
        "NCCL_DEBUG": "INFO",
        "OMP_NUM_THREADS": "1",
        "PYTORCH_CUDA_ALLOC_CONF": "backend:native",
        "TORCHINDUCTOR_CACHE_DIR": "/tmp/x",
    }
    dropped = dict.fromkeys(
        ["HOME", "USER", "NVIDIA_API_KEY", "TORCH_HUB_TOKEN", "CUPY_PASSWORD", "NCCL_SECRET", "MY_CUDA_PATH"], "s3cret"
    )
    for name in os.environ:
        monkeypatch.delenv(name)
    for name, value in (kept | dropped).items():
        monkeypatch.setenv(name, value)
    assert kept == without_gpus(tmp_path).variables


def test_packages_are_those_on_the_path_that_matter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folders = [
        "first/numpy-2.4.6.dist-info",
        "first/ml_dtypes-0.5.1.dist-info",
        "first/cupy_cuda13x-14.2.0.dist-info",
        "first/~umpy-1.0.dist-info",  # what an interrupted uninstallation leaves
        "first/numpydoc-1.0.dist-info",
        "first/requests-2.0.dist-info",
        "first/numpy",
        "second/numpy-1.26.0-py3.11.egg-info",
        "second/scipy-1.11.0.egg-info",
        "second/torch-2.13.0+cpu.dist-info",
    ]
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
    path = [str(tmp_path / "first"), str(tmp_path / "absent.zip"), str(tmp_path / "second")]
    monkeypatch.setattr(sys, "path", path)
    expected = {
        "cupy-cuda13x": "14.2.0",
        "ml-dtypes": "0.5.1",
        "numpy": "2.4.6",
        "scipy": "1.11.0",
        "torch": "2.13.0+cpu",
    }
    assert expected == without_gpus(tmp_path).packages


def test_collecting_imports_no_framework() -> None:
    code = (
        "import json, sys; from primbench import environment; environment.collect(gpus=False);"
        "print(json.dumps(sorted({'numpy', 'torch', 'cupy', 'numba', 'pynvml', 'psutil'} & set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
