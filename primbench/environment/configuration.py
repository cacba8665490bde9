"""What is set for libraries from outside: variables, configuration files, folders for their caches."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from primbench.spec.confidential import hidden, is_secret
from primbench.spec.variables import CACHE_SIZES, INSTRUCTIONS, is_for_libraries
from primbench.system.files import utf8
from primbench.system.meaning import Fact

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_NAMES_A_HOST = {"NCCL_COMM_ID", "NCCL_HOSTID", "NCCL_RAS_ADDR"}
_OF_SHELLS = re.compile(
    r"_|(OLD)?PWD|SHLVL|SHELL|TERM|COLORTERM|HOME|HOSTNAME|USER|LOGNAME|PATH|LANG|LANGUAGE|LC_.+|TZ|EDITOR|PAGER"
    r"|DISPLAY|LS_COLORS|container|DEBIAN_FRONTEND|(XDG|SSH|SUDO|GPG|DBUS|TMUX|VSCODE)_?.*"
)
# What NVIDIA's images say of themselves: no library reads it.
_LABELS = {"CUDA_VERSION", "CUDNN_VERSION", "NCCL_VERSION", "NVIDIA_PRODUCT_NAME", "NVIDIA_REQUIRE_CUDA"}

_CONFIGURATION_FILES = ("/etc/nccl.conf", "~/.nccl.conf", ".numba_config.yaml")  # the last in the working folder
_RULES_OF_FILES = {r".*nccl.*": "nccl", r".*numba.*": "cpu-kernels"}
_NAMING_FILES = ("NCCL_CONF_FILE", "NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "CUBLASLT_CONFIG_FILE")
_IN_TEMPORARY_FILES = ""
# Variable -> the folder where it is not set; None where no cache is kept then.
_CACHES = {
    "CUDA_CACHE_PATH": "~/.nv/ComputeCache",
    "CUPY_CACHE_DIR": "~/.cupy/kernel_cache",
    "NUMBA_CACHE_DIR": None,
    "TORCHINDUCTOR_CACHE_DIR": _IN_TEMPORARY_FILES,
    "TRITON_CACHE_DIR": "~/.triton/cache",
}


# What is so of variables whose names a pattern fits as a whole: the first that says a thing counts. read_by: libraries
# that alone read them, where that is known.
_OF_VARIABLES: dict[str, dict[str, Any]] = {
    r".+_NUM_THREADS": {"layer": "limits", "rule": "threads", "read_by": r".*"},
    r"OMP_(PLACES|PROC_BIND)|(GOMP_CPU|KMP|MKL)_AFFINITY": {"layer": "limits", "rule": "pinning"},
    r".+_AFFINITY": {"layer": "limits"},
    r"OMP_WAIT_POLICY|GOMP_SPINCOUNT|KMP_(BLOCKTIME|LIBRARY)|OPENBLAS_THREAD_TIMEOUT": {"rule": "waiting"},
    "|".join((*INSTRUCTIONS, *CACHE_SIZES, "NUMBA_OPT")): {"rule": "cpu-kernels"},
    # names of what is compared itself, such as libraries and GPUs, and what changes no speed
    r"CUDA_VISIBLE_DEVICES": {"layer": "limits", "varies": True, "is_told_by_effect": True},
    r"LD_(AUDIT|LIBRARY_PATH|PRELOAD)|PRIMBENCH_.+|NVIDIA_(VISIBLE_DEVICES|DRIVER_CAPABILITIES|REQUIRE_.+)": {
        "varies": True, "is_told_by_effect": True,
    },
    r"NVIDIA_.+": {"is_told_by_effect": True},
    r"PYTHONPATH|CUDA_VERSION|.+_CACHE_.+|CUDA_MPS_(LOG|PIPE)_DIRECTORY": {"varies": True},
    r"(?!LD_DEBUG|TORCH_DISTRIBUTED_|.+_INJECTION).+_(DEBUG|DIR|HOME|PATH)": {"varies": True},
    # Python, the loader and the C library
    r"PYTHON(DEVMODE|DUMPREFS|MALLOCSTATS|PERFSUPPORT|TRACEMALLOC)": {
        "rule": "python-settings", "more_is_slower": True,
    },
    r"PYTHON(ASYNCIODEBUG|DEBUG|MALLOC|OPTIMIZE)|PYTHON_(GIL|JIT)": {"rule": "python-settings"},
    r"PYTHON(DONTWRITEBYTECODE|PYCACHEPREFIX)": {"rule": "bytecode"},
    r"PYTHON(PROFILEIMPORTTIME|VERBOSE)|LD_(BIND_NOT|DEBUG|PROFILE)": {"more_is_slower": True},
    r"MALLOC_(CHECK|PERTURB)_": {"rule": "allocator", "read_by": r".*", "more_is_slower": True},
    r"GLIBC_TUNABLES|MALLOC_(ARENA_(MAX|TEST)|(MMAP|TRIM)_THRESHOLD_|MMAP_MAX_|TOP_PAD_)": {
        "rule": "allocator", "read_by": r".*",
    },
    r"(PYTHON|LD_).*": {"read_by": r".*"},
    # libraries
    r"MALLOC_CONF": {"rule": "allocator", "read_by": r"libjemalloc.*"},
    r"MALLOC_.+": {"rule": "allocator"},
    r"TCMALLOC_.+": {"rule": "allocator", "read_by": r"libtcmalloc.*"},
    r"NUMPY_MADVISE_HUGEPAGE": {"rule": "allocator", "read_by": r"numpy/.+"},
    r"THP_MEM_ALLOC_ENABLE": {"rule": "huge-pages", "read_by": r"libtorch.*|torch/.+"},
    r"NCCL_.+": {"rule": "nccl", "read_by": r"libnccl.*|libtorch_cuda.*"},
    r"CUDA_LAUNCH_BLOCKING": {"more_is_slower": True},
    r"(CUBLAS|CUBLASLT|CUDA|CUDNN|NVIDIA)_.+": {"read_by": r"lib(cuda|cublas|cudnn|nv).*"},
    r"(ATEN|PYTORCH|TORCH|TORCHINDUCTOR)_.+|LRU_CACHE_CAPACITY": {"read_by": r"libtorch.*|torch/.+"},
    r"TRITON_.+": {"read_by": r"triton/.+|libtorch.*"},
    r"CUPY_.+": {"read_by": r"cupy.*/.+"},
    r"(NPY|NUMPY)_.+": {"read_by": r"numpy/.+"},
    r"NUMBA_.+": {"read_by": r"numba/.+"},
    r"NUMEXPR_.+": {"read_by": r"numexpr/.+"},
    r"FLEXIBLAS.*": {"read_by": r"libflexiblas.*"},
    r"(OPENBLAS|GOTO)_.+": {"read_by": r"lib(scipy_)?openblas.*"},
    r"MKL_.+": {"read_by": r"libmkl.*|libtorch.*"},
    r"(ONEDNN|DNNL)_.+": {"read_by": r"libdnnl.*|libtorch.*"},
    r"BLIS_.+": {"read_by": r"libblis.*"},
    r"GOMP_.+": {"read_by": r"libgomp.*"},
    r"KMP_.+": {"read_by": r"libi?omp[0-9]?.*"},
    r"OMP_(PLACES|PROC_BIND|WAIT_POLICY|SCHEDULE|STACKSIZE|DYNAMIC|NESTED|MAX_ACTIVE_LEVELS|THREAD_LIMIT|CANCELLATION"
    r"|DISPLAY_(ENV|AFFINITY)|AFFINITY_FORMAT|MAX_TASK_PRIORITY|TARGET_OFFLOAD|DEFAULT_DEVICE|TEAMS_THREAD_LIMIT)": {
        "read_by": r"lib(g|i)?omp[0-9]?.*",
    },
    r"UCX_.+": {"read_by": r"libuc[mpst].*"},
    r"NVSHMEM_.+": {"read_by": r"libnvshmem.*"},
    r".*": {"layer": "stack", "rule": "variables", "by_itself": True},
}  # fmt: skip


def of_variable(name: str) -> Fact:
    """What it means that a variable is set otherwise."""
    said: dict[str, Any] = {}
    for names, of_these in _OF_VARIABLES.items():
        said = of_these | said if re.fullmatch(names, name, re.DOTALL) else said
    read_by = said.get("read_by")
    return Fact(**said | {"read_by": read_by and re.compile(read_by)})


def of_file(name: str) -> Fact:
    """What it means that a configuration file holds something else."""
    rule = next((rule for names, rule in _RULES_OF_FILES.items() if re.fullmatch(names, name)), "variables")
    read_by = re.compile(r"numba/.+") if "numba" in name else None
    return Fact(rule=rule, layer="stack", read_by=read_by, by_itself=True)


def variables(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Environment variables that libraries read and that can change speed; none that holds a secret or a host."""
    return {name: recorded(value) for name, value in sorted(environ.items()) if is_recorded(name)}


def other_variables(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The names of all others but secrets and what shells and terminals set: a program of any kind may read them."""
    return sorted(
        utf8(name)
        for name in environ
        if not (is_for_libraries(name) or is_secret(name) or name in _LABELS or _OF_SHELLS.fullmatch(name))
    )


def is_recorded(name: str) -> bool:
    """Whether ``variables`` tells of it where it is set."""
    return is_for_libraries(name) and name not in _NAMES_A_HOST | _LABELS


def recorded(value: str) -> str:
    """The value of a variable, as it is told."""
    return hidden(homely(value))


def homely(text: str) -> str:
    """The text in UTF-8 with "~" for the home folder, whose name is mostly that of a person."""
    home = os.environ.get("HOME", "").rstrip("/")
    short = re.sub(rf"(?<![\w./~-]){re.escape(home)}(?![\w.-])", "~", text) if home else text
    return utf8(short)


def _sha256(path: Path) -> str:
    import hashlib  # every worker looks for these files, and few machines have one

    return hashlib.sha256(path.read_bytes()).hexdigest()


def configuration_files(root: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """File -> SHA-256 of what is in it, or why that cannot be read, of those that there are."""
    named = [environ[name] for name in _NAMING_FILES if environ.get(name)]
    found = {}
    for name in [*_CONFIGURATION_FILES, *named]:
        path = _under(root, name, environ)
        try:
            if path.is_file():
                found[recorded(name)] = _sha256(path)
        except OSError as error:
            found[recorded(name)] = f"{error.strerror}"
    return found


def cache_names(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variable -> the folder that it names or that is used without it, "~" in it; none where no cache is kept."""
    folders = {name: environ.get(name) or usual for name, usual in _CACHES.items()}
    found = {name: folder for name, folder in folders.items() if folder is not None}
    return {name: folder or temporary_files(environ) for name, folder in found.items()}


def temporary_files(environ: Mapping[str, str] = os.environ) -> str:
    """The folder that temporary files are made in, as the variables of a process say."""
    return environ.get("TMPDIR") or "/tmp"


def cache_folders(root: Path) -> dict[str, str]:
    """Variable -> "writable" or why not; none where no cache is kept."""
    found = {name: _writable(root, folder) for name, folder in cache_names().items()}
    if os.environ.get("CUDA_CACHE_DISABLE") == "1":
        found["CUDA_CACHE_PATH"] = "disabled by CUDA_CACHE_DISABLE"
    return found


def _writable(root: Path, folder: str) -> str:
    """Whether a cache can be kept there, "writable" or why not, by the nearest folder above that exists; makes none."""
    nearest = _under(root, folder)
    while not os.path.lexists(nearest) and nearest != root:
        nearest = nearest.parent
    shown = homely("/" + str(nearest.relative_to(root)).removeprefix("."))
    if not os.path.isdir(nearest):
        return f"{shown} is no folder"
    if os.access(nearest, os.W_OK | os.X_OK):
        return "writable"
    read_only = os.statvfs(nearest).f_flag & os.ST_RDONLY
    return f"{shown} " + ("is on a file system mounted read-only" if read_only else "may not be written to")


def _under(root: Path, name: str, environ: Mapping[str, str] = os.environ) -> Path:
    return root / os.path.abspath(in_home(name, environ)).lstrip("/")


def in_home(name: str, environ: Mapping[str, str] = os.environ) -> str:
    """The path with a "~" that it begins with replaced by the home folder of whoever has these variables."""
    home = environ.get("HOME") or os.path.expanduser("~")
    return home + name[1:] if name == "~" or name.startswith("~/") else name
