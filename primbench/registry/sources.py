"""Where primitives and kernels are defined: in kernels/, in installed packages, and in files that are named.

A folder in kernels/ has the name of its primitive. The text at the top of its ``__init__.py`` says in its first line
what that computes; ``@kernel("gemm", "torch")`` above a
function of one of its files names the backends. This is read as text, and known before anything is imported.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from types import ModuleType

PACKAGE = "primbench.kernels"
GROUP = PACKAGE  # of entry points
_KERNEL = r'(?m)^@kernel\(\s*"\w+",([^)]*)\)'  # compiled where it is used: a primitive's help does without
_WORD = r'"(\w+)"'


class PrimitiveFolder(NamedTuple):
    path: str
    summary: str


@functools.cache  # else the folder is looked through for every problem of a suite
def folders() -> dict[str, PrimitiveFolder]:
    """Primitive -> what its folder in kernels/ says of it."""
    found = {}
    for entry in _entries():
        if entry.is_dir() and os.path.isfile(opened := os.path.join(entry.path, "__init__.py")):
            with open(opened, encoding="utf-8") as file:
                found[entry.name] = _read(entry.path, file.read())
    return found


def has_folder(primitive: str) -> bool:
    """Whether it is one of these, of which no other is read."""
    if primitive.startswith("_") or not primitive.isidentifier():
        return False
    package = importlib.import_module(PACKAGE)
    return any(os.path.isfile(os.path.join(folder, primitive, "__init__.py")) for folder in package.__path__)


def _read(path: str, text: str) -> PrimitiveFolder:
    summary, *_ = text.partition('"""')[2].partition('"""')[0].splitlines() or [""]
    return PrimitiveFolder(path, summary)


@functools.cache
def files() -> list[str]:
    """Modules in kernels/ that are one file, which are to be imported to know what they define."""
    names = [entry.name.removesuffix(".py") for entry in _entries() if entry.name.endswith(".py")]
    return [f"{PACKAGE}.{name}" for name in names]


def _entries() -> list[os.DirEntry[str]]:
    package = importlib.import_module(PACKAGE)
    found = [entry for folder in package.__path__ for entry in os.scandir(folder) if not entry.name.startswith("_")]
    return sorted(found, key=lambda entry: entry.name)


def modules_in(primitive: str) -> list[str]:
    """Names of the modules in a primitive's folder, but for those that begin with _, which its kernels import."""
    names = [os.path.basename(path).removesuffix(".py") for path in _files_in(primitive)]
    return [f"{PACKAGE}.{primitive}.{name}" for name in names]


@functools.cache
def kernels_in(primitive: str) -> frozenset[tuple[str, str]]:
    """The backends that the folder of a primitive has kernels for, each with a kernel's name.

    To import all of them takes longer than click itself.
    """
    found: set[tuple[str, str]] = set()
    for path in _files_in(primitive):
        with open(path, encoding="utf-8") as file:
            for backends, _, name in (words.partition("name=") for words in re.findall(_KERNEL, file.read())):
                found.update((backend, "".join(re.findall(_WORD, name))) for backend in re.findall(_WORD, backends))
    return frozenset(found)


def _files_in(primitive: str) -> list[str]:
    folder = folders()[primitive].path
    names = sorted(name for name in os.listdir(folder) if name.endswith(".py") and not name.startswith("_"))
    return [os.path.join(folder, name) for name in names]


def installed() -> list[EntryPoint]:
    """Entry points by which installed packages bring kernels."""
    if not _is_any_installed():
        return []
    from importlib.metadata import entry_points

    return sorted(entry_points(group=GROUP))


def _is_any_installed() -> bool:
    """Whether a package on the path speaks of kernels: to import importlib.metadata takes as long as click itself."""
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:  # a zip, or not there
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")) and _speaks_of_kernels(os.path.join(folder, name)):
                return True
    return False


def _speaks_of_kernels(information: str) -> bool:
    try:
        with open(os.path.join(information, "entry_points.txt"), "rb") as file:
            return GROUP.encode() in file.read()
    except OSError:  # most have none
        return False


def import_file(path: str) -> ModuleType:
    """Import a file of Python as a module whose name is its path. Raises what it raises."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(path, path)
    if spec is None or spec.loader is None:
        raise ImportError("no file of Python, whose name ends in .py")
    module = module_from_spec(spec)
    sys.modules[path] = module  # where dataclasses look for the names in annotations
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path]
        raise
    return module
