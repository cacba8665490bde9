"""What is loaded into a process: the interpreter, libraries by build, and the variables they read."""

from __future__ import annotations

import functools
import itertools
import os
import platform
import re
import sys
import sysconfig
import tracemalloc
import warnings
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from primbench import backends
from primbench.distributed import networks
from primbench.environment import bytecode, configuration, rdma
from primbench.environment import gpu_code as of_gpus
from primbench.environment import interpreter as of_python
from primbench.environment import libraries as loaded
from primbench.environment.configuration import homely, recorded
from primbench.environment.libraries import Library
from primbench.quantities import Whole
from primbench.system.distributions import versions
from primbench.system.meaning import Fact
from primbench.system.processes import environ_of, folder_of, root_of

if TYPE_CHECKING:
    from pathlib import Path

# Distributions whose version can move a result.
_PACKAGE = re.compile(
    r"numpy|scipy|ml-dtypes|torch|(pytorch-)?triton|llvmlite|tbb|intel-openmp|threadpoolctl|msgspec"
    r"|(numba|cupy|cuda|cupti|nvidia|nvmath|mkl)(-.+)?"
)

# The module of a distribution that names it otherwise. Those of libraries alone, such as nvidia-cublas, have none.
_MODULES = {
    r"cupy-.+": "cupy",
    r"pytorch-triton": "triton",
    r"numba-cuda": "numba.cuda",
    r"cuda-(bindings|core|pathfinder)": r"cuda.\1",
    r"(cupti|nvmath)-python": r"\1",
    r"nvidia-ml-py": "pynvml",
}


OPTIMIZATION_UNTOLD = "optimization untold"
"""Of an interpreter of which nothing installed says how it was built."""
LITTLE_OPTIMIZED = ("-O0", "-O", "-O1", "-Og")
"""Options of a compiler by which an interpreter is slow."""
_MOST_ENTRIES = 100_000  # takes 0.04 s


class Blas(msgspec.Struct, frozen=True, kw_only=True):
    """A BLAS or threading library at work."""

    name: Annotated[str, Fact("What it is called, such as openblas.")]
    path: Annotated[str, Fact("Where it lies.")]
    version: Annotated[str | None, Fact("Its version.")] = None
    architecture: Annotated[str | None, Fact("The family of kernels that it chose for this CPU.")] = None
    threads: Annotated[Whole | None, Fact("How many threads compute in it.")] = None


_stack = functools.partial(Fact, layer="stack")
_own = functools.partial(_stack, of_others=False)
_of_packages = _stack(rule="packages", by_itself=True)
_of_pool = Fact(rule="threads", layer="limits", counts=True, late=True, beside=True)
_of_caches = _stack(varies=True)
_of_start_code = _stack(rule="start-code", by_itself=True)
_of_interpreter = _stack(rule="python-settings", by_itself=True)


class Software(msgspec.Struct, frozen=True, kw_only=True):
    """None is unknown, with the reason in ``missing`` under the field's name. The home folder is written "~"."""

    # fmt: off
    python_version: Annotated[str | None, _own("The version of Python.",
        "platform.python_version()", lambda root: platform.python_version(), "python")] = None
    python_implementation: Annotated[str | None, _own("Which Python it is, such as cpython.",
        "sys.implementation", lambda root: sys.implementation.name, "python")] = None
    python_executable: Annotated[str | None, _stack("The program that is run.",
        "sys.executable, /proc/PID/exe of another process",
        lambda root, pid: homely(os.readlink(folder_of(root, pid) / "exe") if pid else sys.executable or ""), "python",
        varies=True)] = None
    python_build: Annotated[str | None, _own(
        "Python's compiler, and options of its build that matter for speed, such as GCC 12.2.0, LTO, PGO.",
        "sysconfig: CONFIG_ARGS and the compiler", _python_build, "python", by_doctor=True)] = None
    libc: Annotated[str | None, _own("The C library and its version.",
        "confstr(CS_GNU_LIBC_VERSION)", _libc, "python")] = None
    packages: Annotated[dict[str, str] | None, _own("Distributions that can move a result, with their versions.",
        "metadata folders on sys.path", _packages, entry=_of_packages)] = {}
    imported: Annotated[list[str] | None, Fact("Those of them of which a module is loaded.",
        "sys.modules", lambda root: [name for name in _packages(root) if _module_of(name) in sys.modules],
        of_others=False)] = None
    libraries: Annotated[dict[str, list[Library]] | None, _stack(
        "By name, the files of libraries that are mapped: two under one name are two copies at work.",
        "/proc/self/maps, notes of the files", loaded.libraries, entry=loaded.of_library)] = None
    preloads: Annotated[dict[str, list[Library]] | None, _stack(
        "By what names them, such as LD_PRELOAD, the libraries that come before all others.",
        "/etc/ld.so.preload, LD_PRELOAD, LD_AUDIT, /proc/self/maps", loaded.preloads, entry=loaded.OF_PRELOADS)] = None
    providers: Annotated[dict[str, Library] | None, _own("By what is called, such as malloc, the library that has it.",
        "dlsym(), dladdr()", loaded.providers, entry=loaded.of_provider)] = None
    gpu_code: Annotated[dict[str, list[str]] | None, Fact(
        "By library with kernels for GPUs, what these are for: sm_90, or compute_90, which the driver compiles.",
        "/proc/self/maps, .nv_fatbin of the files", of_gpus.gpu_code)] = None
    blas: Annotated[list[Blas] | None, _own("The libraries of linear algebra and of threads at work.",
        "threadpoolctl", _blas, "libraries", late=True)] = None
    threads: Annotated[dict[str, Whole] | None, _own("By pool of threads, such as openblas, how many compute.",
        "threadpoolctl, frameworks that are loaded", _threads, entry=_of_pool)] = None
    variables: Annotated[dict[str, str] | None, _stack("Variables of the environment that libraries read.",
        "environment variables", lambda root, pid: configuration.variables(_of_the_place(root, pid)),
        entry=configuration.of_variable)] = {}
    files: Annotated[dict[str, str] | None, _stack(
        "Configuration files that were found, such as /etc/nccl.conf, with the SHA-256 of each.",
        "/etc/nccl.conf, ~/.nccl.conf, files named by variables",
        lambda root, pid: configuration.configuration_files(root_of(root, pid), environ_of(root, pid)),
        entry=configuration.of_file)] = None
    caches: Annotated[dict[str, str] | None, _own(
        "By the variable that names a cache's folder, or would, whether one can be kept there: writable, or why not.",
        "access() of the folders that variables name", configuration.cache_folders, entry=_of_caches)] = None
    uncompiled: Annotated[dict[str, str] | None, _own(
        "By package whose modules have no .pyc files that are up to date, whether the next one is kept.",
        "__pycache__ of packages on sys.path", bytecode.uncompiled, "files", layer="confinement",
        by_doctor=True)] = None
    hooks: Annotated[list[str] | None, _own(
        "What Python calls at each function, line or allocation, such as sys.setprofile.",
        "sys.gettrace(), sys.getprofile(), sys.monitoring, tracemalloc.is_tracing()", _hooks, by_doctor=True)] = None
    start_code: Annotated[dict[str, str] | None, _own(
        "By .pth file or module, a digest of what Python ran of it at its start.",
        "*.pth of site-packages, sitecustomize, usercustomize", of_python.start_code, entry=_of_start_code)] = None
    interpreter: Annotated[dict[str, str] | None, _own("What code can set of Python, and how it is.",
        "gc, sys.getswitchinterval(), sys.meta_path, getitimer()", of_python.settings, entry=_of_interpreter)] = None
    other_threads: Annotated[list[str] | None, _own(
        "Names of threads of Python that others have started in this process by now.",
        "threading.enumerate()", of_python.other_threads, "other-threads")] = None
    search_path: Annotated[Whole | None, Fact("How many folders Python looks for modules in.",
        "sys.path", lambda root: len(sys.path), of_others=False)] = None
    search_folder_entries: Annotated[Whole | None, Fact(
        "Names in the largest of these folders, all of which Python reads at each start; at most 100000.",
        "scandir() of sys.path", _search_folder_entries, of_others=False)] = None
    other_variables: Annotated[list[str] | None, _stack("Names of variables of which nothing is known.",
        "names of environment variables", lambda root, pid: configuration.other_variables(_of_the_place(root, pid)),
        layer="confinement")] = None
    environment_bytes: Annotated[Whole | None, Fact("The size of all variables together.",
        "environment variables", _environment_bytes)] = None
    nccl_plugins: Annotated[dict[str, str] | None, _stack("By network plugin of NCCL, where it is found, if it is.",
        "LD_LIBRARY_PATH, /etc/ld.so.cache, NCCL_NET_PLUGIN", _nccl_plugins, "nccl", varies=True,
        by_doctor=True)] = None
    # fmt: on
    missing: dict[str, str] = {}


def _python_build(root: Path) -> str:
    """The compiler, and what it or the build was told that makes an interpreter faster or slower.

    Debian and its kin optimize by a target of the makefile, of which the installed files say nothing. Of several levels
    the compiler takes the last.
    """
    given = sysconfig.get_config_var("CONFIG_ARGS") or ""
    *_, level = ["", *re.findall(r"-O\S*", sysconfig.get_config_var("PY_CORE_CFLAGS") or "")]
    told = [
        ("LTO", "--with-lto" in given),
        ("PGO", "--enable-optimizations" in given),
        ("BOLT", "--enable-bolt" in given),
        (OPTIMIZATION_UNTOLD, "--enable-optimizations" not in given and "--with-dbmliborder" in given),
        ("JIT", "--enable-experimental-jit" in given),
        ("free-threaded", sysconfig.get_config_var("Py_GIL_DISABLED") == 1),
        ("debug", sysconfig.get_config_var("Py_DEBUG") == 1),
        (level, level in LITTLE_OPTIMIZED),
    ]
    return ", ".join([platform.python_compiler(), *(name for name, there in told if there)])


def _libc(root: Path) -> str:
    version = os.confstr("CS_GNU_LIBC_VERSION")  # raises ValueError with a C library that does not know the name
    if version is None:
        raise ValueError("confstr tells no CS_GNU_LIBC_VERSION: not glibc")
    return version


def _packages(root: Path) -> dict[str, str]:
    return {name: version for name, version in sorted(versions(sys.path).items()) if _PACKAGE.fullmatch(name)}


def _module_of(package: str) -> str:
    named = [re.sub(pattern, module, package) for pattern, module in _MODULES.items() if re.fullmatch(pattern, package)]
    return named[0] if named else package.replace("-", "_")


def _blas(root: Path) -> list[Blas]:
    return [
        Blas(
            name=each["internal_api"],
            path=homely(each["filepath"]),
            version=each["version"],
            architecture=each.get("architecture"),
            threads=each["num_threads"],
        )
        for each in _pools()
    ]


def _pools() -> list[dict[str, Any]]:
    try:
        import threadpoolctl
    except ImportError:
        raise LookupError("module 'threadpoolctl' is absent: pip install threadpoolctl") from None
    with warnings.catch_warnings():  # it warns of two OpenMP libraries, which are both in what it returns
        warnings.simplefilter("ignore")
        found: list[dict[str, Any]] = threadpoolctl.threadpool_info()
    return found


def _threads(root: Path) -> dict[str, int]:
    """Threads by library or framework loaded: of several pools of one API the largest."""
    found: dict[str, int] = {}
    for pool in _pools():
        found[pool["internal_api"]] = max(pool["num_threads"], found.get(pool["internal_api"], 0))
    return found | backends.threads()


def _hooks(root: Path) -> list[str]:
    """Of profilers, debuggers and measures of coverage; those of sys.monitoring (Python 3.12) by the tool's name."""
    monitoring = getattr(sys, "monitoring", None)
    tools = [monitoring.get_tool(number) for number in range(6)] if monitoring else []
    there = [
        ("sys.settrace", sys.gettrace() is not None),
        ("sys.setprofile", sys.getprofile() is not None),
        ("tracemalloc", tracemalloc.is_tracing()),
    ]
    return [*(name for name, is_there in there if is_there), *(f"sys.monitoring: {tool}" for tool in tools if tool)]


def _search_folder_entries(root: Path) -> int:
    """Counted no further than where nobody needs to know more."""
    return max((_entries(folder or ".") for folder in sys.path), default=0)


def _entries(folder: str) -> int:
    """0 of what is no folder, as an archive: no names are read there."""
    try:
        with os.scandir(folder) as entries:
            return sum(1 for _ in itertools.islice(entries, _MOST_ENTRIES))
    except OSError:
        return 0


def _of_the_place(root: Path, pid: int) -> dict[str, str]:
    """The variables of a process without those that were set here for a network between ranks."""
    return {name: value for name, value in environ_of(root, pid).items() if networks.OWN.get(name) != value}


def _environment_bytes(root: Path, pid: int) -> int:
    """As execve(2) is given them: NAME=VALUE, and a zero byte after each."""
    return sum(len(os.fsencode(name)) + len(os.fsencode(value)) + 2 for name, value in environ_of(root, pid).items())


def _nccl_plugins(root: Path, pid: int) -> dict[str, str]:
    found = rdma.plugins(root_of(root, pid), environ_of(root, pid))
    return {recorded(name): where for name, where in found.items()}
