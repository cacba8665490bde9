"""What is loaded into a process: the interpreter, libraries by build, and the variables they read."""

from __future__ import annotations

import contextlib
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
from primbench.environment import bytecode, interpreter, rdma
from primbench.environment.configuration import (
    cache_folders,
    configuration_files,
    homely,
    of_file,
    of_variable,
    other_variables,
    recorded,
    variables,
)
from primbench.environment.libraries import (
    OF_PRELOADS,
    Library,
    libraries,
    of_library,
    of_provider,
    preloads,
    providers,
)
from primbench.environment.reading import Reader, of_process, read_all
from primbench.quantities import Whole
from primbench.system.meaning import NOTHING, Meaning
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


LITTLE_OPTIMIZED = ("-O0", "-O", "-O1", "-Og")
"""Options of a compiler by which an interpreter is slow."""
_MOST_ENTRIES = 100_000  # takes 0.04 s


class Blas(msgspec.Struct, frozen=True, kw_only=True):
    """A BLAS or threading library at work. architecture: the family of kernels it chose for this CPU."""

    name: str
    path: str
    version: str | None = None
    architecture: str | None = None
    threads: Whole | None = None


_OF_START_CODE = Meaning("stack", "start-code", by_itself=True)
_OF_INTERPRETER = Meaning("stack", "python-settings", by_itself=True)
_OF_POOL = Meaning("limits", "threads", counts=True, late=True, beside=True)


class Software(msgspec.Struct, frozen=True, kw_only=True):
    """None is unknown, with the reason in ``missing`` under the field's name. The home folder is written "~".

    python_build: compiler and options that matter for speed, such as "GCC 12.2.0, LTO, PGO".
    packages: distributions that can move a result. imported: those of them of which a module is loaded. libraries: name
    -> the files mapped under it: two are two copies at work. preloads: what names them, such as LD_PRELOAD -> libraries
    that come before all others. providers: what is called, such as malloc -> the library in which it is found.
    threads: pool of threads, such as "openblas" -> how many compute. variables: those that libraries read. files:
    configuration files found, such as /etc/nccl.conf, with the SHA-256 of each. caches: variable that names, or would
    name, the folder of a cache -> "writable", or why not. uncompiled: package whose modules have no .pyc files that are
    up to date -> whether the next one is kept. hooks: what Python calls at each function, line or allocation, such as
    "sys.setprofile". start_code: .pth file or module -> a digest of what Python ran of it at its start. interpreter:
    what code can set of Python -> how it is. other_threads: names of threads of Python that others have started in this
    process by now. search_path: how many folders Python looks for modules in;
    search_folder_entries: names in the largest of them, of which it reads all at each start; at most 100000.
    other_variables: names of those of which nothing is known; environment_bytes: size of all. nccl_plugins: network
    plugin of NCCL -> where it is found, if it is.
    """

    python_version: Annotated[str | None, Meaning("stack", "python")] = None
    python_implementation: Annotated[str | None, Meaning("stack", "python")] = None
    python_executable: Annotated[str | None, Meaning("stack", "python", varies=True)] = None
    python_build: Annotated[str | None, Meaning("stack", "python", by_doctor=True)] = None
    libc: Annotated[str | None, Meaning("stack", "python")] = None
    packages: Annotated[
        dict[str, str] | None, Meaning("stack", entry=Meaning("stack", "packages", by_itself=True))
    ] = {}
    imported: Annotated[list[str] | None, NOTHING] = None
    libraries: Annotated[dict[str, list[Library]] | None, Meaning("stack", entry=of_library)] = None
    preloads: Annotated[dict[str, list[Library]] | None, Meaning("stack", entry=OF_PRELOADS)] = None
    providers: Annotated[dict[str, Library] | None, Meaning("stack", entry=of_provider)] = None
    blas: Annotated[list[Blas] | None, Meaning("stack", "libraries", late=True)] = None
    threads: Annotated[dict[str, Whole] | None, Meaning("stack", entry=_OF_POOL)] = None
    variables: Annotated[dict[str, str] | None, Meaning("stack", entry=of_variable)] = {}
    files: Annotated[dict[str, str] | None, Meaning("stack", entry=of_file)] = {}
    caches: Annotated[dict[str, str] | None, Meaning("stack", entry=Meaning("stack", varies=True))] = {}
    uncompiled: Annotated[dict[str, str] | None, Meaning("confinement", "files", by_doctor=True)] = None
    hooks: Annotated[list[str] | None, Meaning("stack", by_doctor=True)] = None
    start_code: Annotated[dict[str, str] | None, Meaning("stack", entry=_OF_START_CODE)] = None
    interpreter: Annotated[dict[str, str] | None, Meaning("stack", entry=_OF_INTERPRETER)] = None
    other_threads: Annotated[list[str] | None, Meaning("stack", "other-threads")] = None
    search_path: Annotated[Whole | None, NOTHING] = None
    search_folder_entries: Annotated[Whole | None, NOTHING] = None
    other_variables: Annotated[list[str] | None, Meaning("confinement")] = None
    environment_bytes: Annotated[Whole | None, NOTHING] = None
    nccl_plugins: Annotated[dict[str, str] | None, Meaning("stack", "nccl", varies=True, by_doctor=True)] = None
    missing: dict[str, str] = {}


def collect(root: Path, pid: int = 0) -> Software:
    """Libraries are those loaded by now."""
    return Software(**read_all(READERS, root, pid))


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
        ("optimization untold", "--enable-optimizations" not in given and "--with-dbmliborder" in given),
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
    """Package -> version, by the names of metadata folders; the first on the path counts, as for imports.

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


def _imported(root: Path) -> list[str]:
    return [name for name in _packages(root) if _module_of(name) in sys.modules]


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


def _executable(root: Path, pid: int) -> str:
    return homely(os.readlink(folder_of(root, pid) / "exe") if pid else sys.executable or "")


def _files(root: Path, pid: int) -> dict[str, str]:
    return configuration_files(root_of(root, pid), environ_of(root, pid))


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


def _other_variables(root: Path, pid: int) -> list[str]:
    return other_variables(environ_of(root, pid))


def _environment_bytes(root: Path, pid: int) -> int:
    """As execve(2) is given them: NAME=VALUE, and a zero byte after each."""
    return sum(len(os.fsencode(name)) + len(os.fsencode(value)) + 2 for name, value in environ_of(root, pid).items())


def _nccl_plugins(root: Path, pid: int) -> dict[str, str]:
    found = rdma.plugins(root_of(root, pid), environ_of(root, pid))
    return {recorded(name): where for name, where in found.items()}


READERS = {
    "python_version": Reader("platform.python_version()", lambda root: platform.python_version()),
    "python_implementation": Reader("sys.implementation", lambda root: sys.implementation.name),
    "python_executable": of_process("sys.executable, /proc/PID/exe of another process", _executable),
    "python_build": Reader("sysconfig: CONFIG_ARGS and the compiler", _python_build),
    "libc": Reader("confstr(CS_GNU_LIBC_VERSION)", _libc),
    "packages": Reader("metadata folders on sys.path", _packages),
    "imported": Reader("sys.modules", _imported),
    "libraries": of_process("/proc/self/maps, notes of the files", libraries),
    "preloads": of_process("/etc/ld.so.preload, LD_PRELOAD, LD_AUDIT, /proc/self/maps", preloads),
    "providers": Reader("dlsym(), dladdr()", providers),
    "blas": Reader("threadpoolctl", _blas),
    "threads": Reader("threadpoolctl, frameworks that are loaded", _threads),
    "variables": of_process("environment variables", lambda root, pid: variables(environ_of(root, pid))),
    "files": of_process("/etc/nccl.conf, ~/.nccl.conf, files named by variables", _files),
    "caches": Reader("access() of the folders that variables name", cache_folders),
    "uncompiled": Reader("__pycache__ of packages on sys.path", bytecode.uncompiled),
    "hooks": Reader("sys.gettrace(), sys.getprofile(), sys.monitoring, tracemalloc.is_tracing()", _hooks),
    "start_code": Reader("*.pth of site-packages, sitecustomize, usercustomize", interpreter.start_code),
    "interpreter": Reader("gc, sys.getswitchinterval(), sys.meta_path, getitimer()", interpreter.settings),
    "other_threads": Reader("threading.enumerate()", interpreter.other_threads),
    "search_path": Reader("sys.path", lambda root: len(sys.path)),
    "search_folder_entries": Reader("scandir() of sys.path", _search_folder_entries),
    "other_variables": of_process("names of environment variables", _other_variables),
    "environment_bytes": of_process("environment variables", _environment_bytes),
    "nccl_plugins": of_process("LD_LIBRARY_PATH, /etc/ld.so.cache, NCCL_NET_PLUGIN", _nccl_plugins),
}
