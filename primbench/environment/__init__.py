"""What this place is: machine, limits, libraries, GPUs. Enough to say whether two places may be compared.

No host name, user name or serial number is asked for; paths and the listed variables are kept as they are.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from primbench import __version__, nvml
from primbench.topology import (
    Node,
    attempt,
    cgroup_folders,
    labelled_value,
    memory_nodes,
    parse_cpu_list,
    whole_number,
)

if TYPE_CHECKING:
    from collections.abc import Callable

# Distributions whose version can move a result.
_PACKAGE = re.compile(
    r"numpy|scipy|ml-dtypes|torch|(pytorch-)?triton|llvmlite|tbb|intel-openmp|threadpoolctl|msgspec|psutil"
    r"|(numba|cupy|cuda|cupti|nvidia|nvmath|mkl)(-.+)?"
)

# Libraries whose build can move a result. Wheels rename theirs: libgomp-24e2ab19.so.1.0.0.
_LIBRARY = re.compile(
    r"(libcuda|libcudart|libcublas|libcublasLt|libcudnn|libnccl|libnvrtc|libnvidia-ml|libcupti|libmkl|libgomp"
    r"|libiomp5|libomp|lib(?:scipy_)?openblas(?:p|64_|64_p)?|libc|ld-musl)(?![a-zA-Z0-9]).*\.so"
)

_VARIABLE = re.compile(
    r"(BLIS|CUBLAS|CUBLASLT|CUDA|CUDNN|CUPY|DNNL|GOMP|KMP|MALLOC|MKL|NCCL|NUMBA|NUMEXPR|NVIDIA|OMP|ONEDNN|OPENBLAS|PRIMBENCH"
    r"|PYTORCH|TORCH|TORCHINDUCTOR)_.+|LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|PYTHONMALLOC|PYTHONOPTIMIZE"
)
_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASS|CREDENTIAL|AUTH")

_V1_NO_LIMIT_BYTES = 2**62  # v1 writes "no limit" as the largest multiple of a page


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """What one process observed of its place. None is unknown, with the reason in ``missing`` under its name.

    cpus_total: CPUs online; cpus_allowed: those this process may run on.
    cpu_quota: CPUs' worth of time that the control groups grant; memory_limit_bytes: likewise. None without a
    reason in ``missing``: no limit.
    virtualization: a hint: "none", the hypervisor's name, or "unnamed hypervisor".
    libraries: name -> files mapped into this process; two files of one name are two copies at work.
    """

    time_utc: str
    primbench_version: str
    python_version: str
    python_implementation: str
    python_executable: str
    kernel: str
    machine: str
    os_name: str | None
    libc: str | None
    cpu_model: str | None
    cpus_total: int | None
    cpus_allowed: list[int]
    memory_bytes: int | None
    memory_available_bytes: int | None
    cpu_quota: float | None
    memory_limit_bytes: int | None
    nodes: list[Node] | None
    virtualization: str | None
    clocksource: str | None
    governor: str | None
    transparent_hugepage: str | None
    packages: dict[str, str]
    libraries: dict[str, list[str]] | None
    gpus: list[nvml.Gpu] | None
    variables: dict[str, str]
    missing: dict[str, str]


def collect(gpus: bool, root: Path = Path("/")) -> Environment:
    """Observe the place of this process. Never raises and imports no framework.

    Libraries are those loaded by now: call it after the backend is open. root: of /proc, /sys and /etc.
    """
    missing: dict[str, str] = {}
    read: dict[str, Any] = {
        field: attempt(missing, field, functools.partial(reader, root)) for field, reader in _READERS.items()
    }
    return Environment(
        time_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        primbench_version=__version__,
        python_version=platform.python_version(),
        python_implementation=sys.implementation.name,
        python_executable=sys.executable,
        kernel=os.uname().release,
        machine=os.uname().machine,
        cpus_allowed=sorted(os.sched_getaffinity(0)),
        packages=_packages(),
        gpus=attempt(missing, "gpus", _gpus if gpus else _not_asked),
        variables=_variables(),
        missing=missing,
        **read,
    )


def _not_asked() -> None:
    raise LookupError("not asked for")


def _gpus() -> list[nvml.Gpu]:
    return [nvml.identity(f"cuda:{index}") for index in range(nvml.device_count())]


def _packages() -> dict[str, str]:
    """From the names of the installed metadata folders, first on the path first, as imports find them.

    importlib.metadata opens each file for the same two words: 0.2 s where 400 packages are installed, and an
    exception where an interrupted uninstallation left an empty folder.
    """
    found: dict[str, str] = {}
    for folder in sys.path:
        with contextlib.suppress(OSError):
            for entry in sorted(os.listdir(folder or ".")):
                named = re.fullmatch(r"([^-]+)-([^-]+)(?:-.+)?\.(?:dist|egg)-info", entry)
                if named is not None:
                    name = re.sub(r"[-_.]+", "-", named[1]).lower()
                    if _PACKAGE.fullmatch(name):
                        found.setdefault(name, named[2])
    return dict(sorted(found.items()))


def _variables() -> dict[str, str]:
    """Those that libraries read and that can change speed; never one whose name speaks of a secret."""
    return {
        name: utf8(value)
        for name, value in sorted(os.environ.items())
        if _VARIABLE.fullmatch(name) and not _SECRET.search(name)
    }


def utf8(text: str) -> str:
    """What the system hands over in bytes that are no UTF-8, such as a file's name, has them escaped."""
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _os_name(root: Path) -> str:
    text = (root / "etc/os-release").read_text()
    found = re.search(r'^PRETTY_NAME="?([^"\n]+)', text, re.MULTILINE)
    if found is None:
        raise ValueError("/etc/os-release has no PRETTY_NAME")
    return found[1]


def _libc(root: Path) -> str:
    version = os.confstr("CS_GNU_LIBC_VERSION")  # raises ValueError with a C library that does not know the name
    if version is None:
        raise ValueError("confstr tells no CS_GNU_LIBC_VERSION: not glibc")
    return version


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


def _cpu_quota(root: Path) -> float | None:
    """The smallest quota / period of the control groups above this process."""
    quotas = [quota for folder in cgroup_folders("cpu", root) if (quota := _quota_of(folder)) is not None]
    return min(quotas, default=None)


def _quota_of(folder: Path) -> float | None:
    v1 = folder / "cpu.cfs_quota_us"
    if v1.exists():
        quota, period = v1.read_text(), (folder / "cpu.cfs_period_us").read_text()
    else:
        path = folder / "cpu.max"
        if not path.exists():  # the root group has none
            return None
        quota, _, period = path.read_text().partition(" ")
    if quota.strip() in ("max", "-1"):
        return None
    return whole_number(quota, folder) / whole_number(period, folder)


def _memory_limit_bytes(root: Path) -> int | None:
    """The smallest limit of the control groups above this process."""
    paths = [
        folder / name
        for folder in cgroup_folders("memory", root)
        for name in ("memory.max", "memory.limit_in_bytes")
        if (folder / name).exists()
    ]
    limits = [whole_number(text, path) for path in paths if (text := path.read_text().strip()) != "max"]
    return min((limit for limit in limits if limit < _V1_NO_LIMIT_BYTES), default=None)


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


def _libraries(root: Path) -> dict[str, list[str]]:
    """Name -> files, as mapped: links are followed, so that a file's name ends in its full version."""
    found: dict[str, set[str]] = {}
    for line in (root / "proc/self/maps").read_text().splitlines():
        path = line.split(maxsplit=5)[5:]
        named = _LIBRARY.match(os.path.basename(path[0])) if path else None
        if named is not None:
            found.setdefault(named[1], set()).add(path[0])
    return {name: sorted(paths) for name, paths in sorted(found.items())}


_READERS: dict[str, Callable[[Path], Any]] = {
    "os_name": _os_name,
    "libc": _libc,
    "cpu_model": _cpu_model,
    "cpus_total": _cpus_total,
    "memory_bytes": _meminfo_bytes("MemTotal"),
    "memory_available_bytes": _meminfo_bytes("MemAvailable"),
    "cpu_quota": _cpu_quota,
    "memory_limit_bytes": _memory_limit_bytes,
    "nodes": memory_nodes,
    "virtualization": _virtualization,
    "clocksource": _clocksource,
    "governor": _governor,
    "transparent_hugepage": _transparent_hugepage,
    "libraries": _libraries,
}
