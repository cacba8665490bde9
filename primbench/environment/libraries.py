"""The files mapped into a process: libraries by build, which come before all others, and whose functions it calls.

A path alone tells nothing: /usr/lib/libblas.so.3 is another library in each place that chose another alternative.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from primbench.environment.configuration import homely
from primbench.system import elf
from primbench.system.files import attempt, utf8
from primbench.system.meaning import Fact
from primbench.system.processes import environ_of, folder_of, root_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# What computes, allocates or starts threads. Wheels rename theirs: libgomp-24e2ab19.so.1.0.0.
_AT_WORK = re.compile(
    r"(libcuda|libcudart|libcublas|libcublasLt|libcudnn(?:_[a-z_]+)?|libcusparse|libcusparseLt|libnccl|libnvrtc"
    r"|libnvJitLink|libnvidia-ml|libcupti|libtorch_cpu|libtorch_cuda|libmkl(?:_[a-z0-9_]+)?|libgomp|libiomp5|libomp"
    r"|lib(?:scipy_)?openblas(?:p|o|64_|64_p)?|lib(?:cblas|blas|lapack|atlas|satlas|tatlas)(?:64_?)?|libblis(?:-mt)?"
    r"|libflexiblas\w*|libarmpl\w*|libnvpl_\w+|libtbb|libdnnl|libjemalloc|libtcmalloc(?:_[a-z_]+)?|libmimalloc"
    r"|libpython[0-9.]*[0-9]t?|libc|ld-musl)(?![a-zA-Z0-9_]).*\.so"
)
_NAMED = re.compile(
    r"(.+?)(?:-[0-9a-f]{8})*(?:-[0-9]+(?:\.[0-9]+)+)?(?:\.(?:cpython|pypy|abi)[^.]*)?\.so(?:\.[0-9.]*)?"
)
_EXTENSION = re.compile(r".*/(?:site|dist)-packages/(.+/)(?!lib)[^/]+\.so")
_OF_THE_STANDARD_LIBRARY = "/lib-dynload/"  # told by the interpreter's version and build

_PRELOADING = "/etc/ld.so.preload"  # ld.so(8)
_PRELOADING_VARIABLES = ("LD_PRELOAD", "LD_AUDIT")

# Modules of NumPy 2 and 1 that multiply matrices, and the names by which a BLAS may offer that.
_OF_NUMPY = ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath")
_GEMM = (
    *("scipy_cblas_sgemm64_", "cblas_sgemm64_", "cblas_sgemm_64", "scipy_cblas_sgemm", "cblas_sgemm"),
    *("sgemm_64_", "sgemm64_", "sgemm_"),
)


# That neither compute nor allocate in what is measured.
_VARIES = re.compile(r"lib(crypto|ssl|z|bz2|lzma|uuid|expat|sqlite3|readline|ncursesw?|tinfo)|(msgspec|psutil)/.+")
_OF_THE_CPU = re.compile(r"libmkl_(vml_)?(def|mc3?|avx.*)")  # MKL loads the one that suits it
_RULE_OF_PROVIDER = {"malloc": "preloads", "NumPy's gemm": "blas"}

OF_PRELOADS = Fact(rule="preloads", layer="stack", late=True, called=True, by_itself=True)


def of_library(name: str) -> Fact:
    """What it means that a library of that name is another build, or is there in one place alone."""
    return Fact(
        rule="libraries",
        layer="stack",
        varies=_VARIES.fullmatch(name) is not None,
        late=True,
        beside=not is_at_work(name),
        by_cpu=_OF_THE_CPU.fullmatch(name) is not None,
        by_itself=True,
    )


def of_provider(what: str) -> Fact:
    """What it means that another library is called for it."""
    rule = _RULE_OF_PROVIDER.get(what)
    return Fact(rule=rule, layer="stack", late=True, beside=True, called=True, by_itself=True)


class Library(msgspec.Struct, frozen=True, kw_only=True):
    """A file mapped into this process. None is unknown, with the reason in ``missing`` under the field's name."""

    path: Annotated[str, Fact("Where it lies.")]
    version: Annotated[str | None, Fact("What its name says of its version.")] = None
    build_id: Annotated[str | None, Fact("By its notes, in hex: two files that share it are the same library.")] = None
    size_bytes: Annotated[int | None, Fact("Its size, which tells those apart that have no build id.")] = None
    missing: dict[str, str] = {}

    @property
    def name(self) -> str:
        return os.path.basename(self.path)


def is_at_work(name: str) -> bool:
    """Whether a library of that name computes, allocates or starts threads: that one has it and another not tells."""
    return _AT_WORK.match(f"{name}.so") is not None


def is_c_library(file: Library) -> bool:
    return re.match(r"libc[.-]|ld-musl-", file.name) is not None


def libraries(root: Path, pid: int = 0) -> dict[str, list[Library]]:
    """Name -> files, as mapped: links are followed, so that a file's name ends in its full version.

    The interpreter's own modules are left out; those of packages have names such as numpy/linalg/_umath_linalg.
    """
    found: dict[str, set[str]] = {}
    for path in mapped(root, pid):
        if _OF_THE_STANDARD_LIBRARY not in path:
            found.setdefault(utf8(name_of(path)), set()).add(path)
    return {
        name: [_library(path, root_of(root, pid)) for path in sorted(paths)] for name, paths in sorted(found.items())
    }


def mapped(root: Path, pid: int) -> list[str]:
    """Files of code, of whatever names, by their paths in the process's own root."""
    found: dict[str, bool] = {}
    for line in filter(None, os.fsdecode((folder_of(root, pid) / "maps").read_bytes()).split("\n")):
        _, permissions, _, _, _, *path = line.split(maxsplit=5)
        if path and path[0].startswith("/"):
            found[path[0]] = found.get(path[0], False) or "x" in permissions
    return [
        path
        for path, is_code in found.items()
        if ".so" in os.path.basename(path) or (is_code and elf.is_elf(_under(root_of(root, pid), path)))
    ]


def name_of(path: str) -> str:
    """What a library is called by whatever version; of a package's own with that."""
    name = os.path.basename(path)
    if known := _AT_WORK.match(name):
        return known[1]
    named = _NAMED.fullmatch(name)
    folder = _EXTENSION.fullmatch(path)
    return (folder[1] if folder else "") + (named[1] if named else name)


def _library(path: str, root: Path) -> Library:
    missing: dict[str, str] = {}
    file = _under(root, path)
    return Library(
        path=homely(path),
        version=attempt(missing, "version", lambda: _version_in(path)),
        build_id=attempt(missing, "build_id", lambda: elf.build_id(file)),
        size_bytes=attempt(missing, "size_bytes", lambda: file.stat().st_size),
        missing={name: homely(reason) for name, reason in missing.items()},
    )


def _version_in(path: str) -> str:
    found = re.search(r"\.so\.([0-9][0-9.]*)", os.path.basename(path))
    if found is None:
        raise ValueError("its name has none")
    return found[1]


def preloads(root: Path, pid: int = 0) -> dict[str, list[Library]]:
    """The file or variable that names them -> libraries before all others, of those that are mapped."""
    files, own_root = mapped(root, pid), root_of(root, pid)
    return {
        where: found
        for where, entries in _asked_first(own_root, environ_of(root, pid))
        if (
            found := [
                _library(path, own_root) for path in files if any(_is_named(path, entry, own_root) for entry in entries)
            ]
        )
    }


def _asked_first(root: Path, environ: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    file = root / _PRELOADING.lstrip("/")
    if file.is_file():
        lines = (line.partition("#")[0] for line in file.read_text().splitlines())
        yield _PRELOADING, [entry for line in lines for entry in re.split(r"[\s:]+", line) if entry]
    for name in _PRELOADING_VARIABLES:
        yield name, [entry for entry in re.split(r"[\s:]+", environ.get(name, "")) if entry]


def _is_named(path: str, entry: str, root: Path) -> bool:
    """Whether an entry stands for the file: by its path, links followed, or as libjemalloc.so.2 for one of them."""
    if os.path.realpath(_under(root, entry)) == str(_under(root, path)):
        return True
    name, asked = os.path.basename(path), os.path.basename(entry)
    return name == asked or name.startswith(f"{asked}.")


def providers(root: Path) -> dict[str, Library]:
    """What is called -> the file in which the dynamic loader finds it: malloc, and what multiplies NumPy's matrices.

    NumPy's own file where it was built without a BLAS.
    """
    every = ctypes.CDLL(None)
    found = {"malloc": _file_of("malloc", every)}
    module = next((sys.modules[name] for name in _OF_NUMPY if name in sys.modules), None)
    if module is not None:
        found["NumPy's gemm"] = _gemm_of(str(module.__file__), every)
    return {what: _library(path, Path("/")) for what, path in found.items()}


def _gemm_of(path: str, every: ctypes.CDLL) -> str:
    """What all may call comes before what NumPy's own file brings along, as for the loader."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held:
        name = next((name for name in _GEMM if held.find(b"\0%s\0" % name.encode()) >= 0), None)
    own = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    for scope in (every, own):
        if name is not None and hasattr(scope, name):
            return _file_of(name, scope)
    return os.path.realpath(path)


class _Found(ctypes.Structure):
    """Dl_info of dladdr(3)."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


_AT_PHDR = 3  # elf.h


class _Loaded(ctypes.Structure):
    """The head of dl_phdr_info, dl_iterate_phdr(3)."""

    _fields_ = (("base", ctypes.c_void_p), ("file", ctypes.c_char_p))


def _file_of(function: str, scope: ctypes.CDLL) -> str:
    """A program that is loaded at a fixed address, as Debian's Python, has a stub that the loader gives out for it."""
    file = _file_at(function, scope)
    if file == os.path.realpath("/proc/self/exe"):
        return next((path for path in _loaded_after_the_program() if _defines(path, function)), file)
    return file


def _file_at(function: str, scope: ctypes.CDLL) -> str:
    """Of the program itself the loader knows no file, but the name that it was called by."""
    try:
        address = ctypes.cast(getattr(scope, function), ctypes.c_void_p)
        found, program = _looked_up(address), _looked_up(_headers_of_the_program())
    except AttributeError as error:  # a program that is linked statically
        raise LookupError(f"{error}") from None
    if found.base and found.base == program.base:
        return os.path.realpath("/proc/self/exe")
    name = os.fsdecode(found.file or b"")
    if "/" not in name:  # as the kernel's own linux-vdso.so.1: no path
        raise LookupError(f"dladdr knows no file of {function}: {name!r}")
    return os.path.realpath(name)


def _looked_up(address: ctypes.c_void_p) -> _Found:
    """Nothing in it where the address is in no file that is loaded."""
    found = _Found()
    ctypes.CDLL(None).dladdr(address, ctypes.byref(found))
    return found


def _headers_of_the_program() -> ctypes.c_void_p:
    """The address of its program headers, getauxval(3)."""
    ask = ctypes.CDLL(None).getauxval
    ask.argtypes, ask.restype = [ctypes.c_ulong], ctypes.c_void_p
    return ctypes.c_void_p(ask(_AT_PHDR))


def _defines(path: str, function: str) -> bool:
    try:
        return path == _file_at(function, ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY))
    except (LookupError, OSError):  # it has none, nor has what it brings along; or is no file, as the kernel's own
        return False


def _loaded_after_the_program() -> list[str]:
    """Files in the order in which the loader looks through them: what is preloaded comes first."""
    files: list[str] = []

    def note(loaded: Any, size: int, nothing: int | None) -> int:
        files.append(os.path.realpath(os.fsdecode(loaded.contents.file or b"")))
        return 0

    called = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Loaded), ctypes.c_size_t, ctypes.c_void_p)
    ctypes.CDLL(None).dl_iterate_phdr(called(note), None)
    return files[1:]


def _under(root: Path, path: str) -> Path:
    return root / path.lstrip("/")
