"""What is loaded into this process: the interpreter, libraries by build, and the variables they read."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import sys
from pathlib import Path

import msgspec

from primbench.sysfiles import attempt, utf8

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


class Library(msgspec.Struct, frozen=True, kw_only=True):
    """A file mapped into this process. version: from its name, where it is there. build_id: from its notes, in hex.

    Two files with one build id are the same library, wherever they lie. missing: as everywhere.
    """

    path: str
    version: str | None = None
    build_id: str | None = None
    missing: dict[str, str] = {}


class Blas(msgspec.Struct, frozen=True, kw_only=True):
    """A BLAS or threading library at work. architecture: the family of kernels it chose for this CPU."""

    name: str
    path: str
    version: str | None = None
    architecture: str | None = None
    threads: int | None = None


class Software(msgspec.Struct, frozen=True, kw_only=True):
    """None is unknown, with the reason in ``missing`` under the field's name.

    python_build: compiler and options that matter for speed, such as "GCC 12.2.0, LTO, PGO".
    packages: distributions that can move a result. libraries: name -> the files mapped under it: two are two copies at
    work. variables: those that libraries read. files: configuration files found, such as /etc/nccl.conf, with the
    SHA-256 of each. caches: cache folder by the variable or rule that names it -> "writable", or why not.
    """

    python_version: str
    python_implementation: str
    python_executable: str
    python_build: str | None = None
    libc: str | None = None
    packages: dict[str, str] = {}
    libraries: dict[str, list[Library]] | None = None
    blas: list[Blas] | None = None
    variables: dict[str, str] = {}
    files: dict[str, str] = {}
    caches: dict[str, str] = {}
    missing: dict[str, str] = {}


def collect(root: Path) -> Software:
    """Libraries are those loaded by now."""
    missing: dict[str, str] = {}
    return Software(
        python_version=platform.python_version(),
        python_implementation=sys.implementation.name,
        python_executable=sys.executable,
        libc=attempt(missing, "libc", _libc),
        packages=_packages(),
        libraries=attempt(missing, "libraries", lambda: _libraries(root)),
        variables=_variables(),
        missing=missing,
    )


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


def _libc() -> str:
    version = os.confstr("CS_GNU_LIBC_VERSION")  # raises ValueError with a C library that does not know the name
    if version is None:
        raise ValueError("confstr tells no CS_GNU_LIBC_VERSION: not glibc")
    return version


def _libraries(root: Path) -> dict[str, list[Library]]:
    """Name -> files, as mapped: links are followed, so that a file's name ends in its full version."""
    found: dict[str, set[str]] = {}
    for line in (root / "proc/self/maps").read_text().splitlines():
        path = line.split(maxsplit=5)[5:]
        named = _LIBRARY.match(os.path.basename(path[0])) if path else None
        if named is not None:
            found.setdefault(named[1], set()).add(path[0])
    return {name: [Library(path=path) for path in sorted(paths)] for name, paths in sorted(found.items())}
