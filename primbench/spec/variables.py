"""Variables of the environment that libraries read: those of a worker are the same in every arm.

Some mean something on one machine alone, such as the name of its CPU: those do not go to another machine.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

import msgspec

from primbench.spec.confidential import is_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

Reason = Literal["instructions", "cache-sizes", "cpus", "gpus", "host", "path"]
"""Why a variable does not go to another machine: by what of this one its value is."""

INSTRUCTIONS = (
    *("ATEN_CPU_CAPABILITY", "ATEN_AVX512_256", "BLIS_ARCH_TYPE", "BLIS_MODEL_TYPE"),
    *("DNNL_CPU_ISA_HINTS", "DNNL_MAX_CPU_ISA", "ONEDNN_CPU_ISA_HINTS", "ONEDNN_MAX_CPU_ISA"),
    *("MKL_CBWR", "MKL_DEBUG_CPU_TYPE", "MKL_ENABLE_INSTRUCTIONS"),
    *("NPY_DISABLE_CPU_FEATURES", "NPY_ENABLE_CPU_FEATURES", "NUMBA_CPU_FEATURES", "NUMBA_CPU_NAME"),
    "OPENBLAS_CORETYPE",
)
"""Variables that have a library take its code for a CPU, whichever it runs on."""
CACHE_SIZES = ("OPENBLAS_BLOCK_FACTOR", "OPENBLAS_L2_SIZE")
"""Variables that have a library divide its work as suits the caches of a CPU."""

# Of which variables, and of which of their values or, where those are lists, entries of them.
_OF_A_MACHINE: tuple[tuple[Reason, str, str], ...] = (
    ("instructions", "|".join(INSTRUCTIONS), ""),
    ("instructions", "GLIBC_TUNABLES", r"glibc\.cpu\."),
    ("cache-sizes", "|".join(CACHE_SIZES), ""),
    ("cpus", "GOMP_CPU_AFFINITY", ""),
    ("cpus", "KMP_AFFINITY", r".*proclist"),
    ("cpus", "OMP_PLACES", r"\s*[{!0-9]"),
    ("gpus", "(CUDA|NVIDIA)_VISIBLE_DEVICES", ""),
    ("host", "NCCL_(COMM_ID|HOSTID|RAS_ADDR)", ""),
    ("path", ".*", "(?s).*/"),
)
LISTS = {
    **dict.fromkeys(("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "PYTHONPATH", "GLIBC_TUNABLES"), ":"),
    **dict.fromkeys(("CUDA_VISIBLE_DEVICES", "PYTORCH_CUDA_ALLOC_CONF", "UCX_NET_DEVICES", "UCX_TLS"), ","),
}
"""Variables that are lists, with what stands between their entries."""

_VARIABLE = re.compile(
    r"(ATEN|BLIS|CUBLAS|CUBLASLT|CUDA|CUDNN|CUPY|DNNL|FLEXIBLAS|GOMP|GOTO|KMP|MALLOC|MKL|NCCL|NPY|NUMBA|NUMEXPR|NUMPY"
    r"|NVIDIA|NVSHMEM|OMP|ONEDNN|OPENBLAS|PRIMBENCH|PYTORCH|TCMALLOC|TORCH|TORCHINDUCTOR|TRITON|UCX)_.+"
    r"|FLEXIBLAS|GLIBC_TUNABLES|LD_(AUDIT|BIND_NOT|BIND_NOW|DEBUG|DYNAMIC_WEAK|LIBRARY_PATH|PRELOAD|PROFILE)|LRU_CACHE_CAPACITY|THP_MEM_ALLOC_ENABLE"
    r"|PYTHON(ASYNCIODEBUG|DEBUG|DEVMODE|DONTWRITEBYTECODE|DUMPREFS|MALLOC|MALLOCSTATS|OPTIMIZE|PATH|PERFSUPPORT|PROFILEIMPORTTIME|PYCACHEPREFIX|TRACEMALLOC|VERBOSE)|PYTHON_(GIL|JIT)"
)


def is_for_libraries(name: str) -> bool:
    """Whether a variable is of those that libraries read, and no secret."""
    return _VARIABLE.fullmatch(name) is not None and not is_secret(name)


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """Names of variables that libraries read and that are set where a worker of another machine was started from."""

    carried: list[str]
    """Those that it was given."""
    left: dict[str, Reason]
    """Those that it was not given, in whole or in part, each with the reason."""


def of_this_machine(name: str, value: str) -> Reason | None:
    """Why a variable means nothing on another machine; None where it means the same there."""
    for reason, names, values in _OF_A_MACHINE:
        if re.fullmatch(names, name) and any(re.match(values, entry) for entry in _entries(name, value)):
            return reason
    return None


def choosing_code(environ: Mapping[str, str]) -> dict[str, str]:
    """Those set that have a library take instructions whether or not the CPU has them."""
    return {name: value for name, value in environ.items() if of_this_machine(name, value) == "instructions"}


def for_any_machine(variables: Mapping[str, str]) -> dict[str, str]:
    """Those that mean the same on another machine, and of lists the entries that do."""
    parts = {name: _general(name, value) for name, value in variables.items()}
    return {name: value for name, value in parts.items() if value is not None}


def _general(name: str, value: str) -> str | None:
    kept = [entry for entry in _entries(name, value) if of_this_machine(name, entry) is None]
    return ":".join(kept) if kept else None


def _entries(name: str, value: str) -> list[str]:
    return value.split(LISTS[name]) if name in LISTS else [value]
