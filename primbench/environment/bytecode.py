"""Whether modules come compiled: a .pyc beside each, or else every process that cannot write one compiles again."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.util import cache_from_source
from pathlib import Path

# Name -> the package that is looked at. Of the standard library some modules are part of the interpreter.
_PACKAGES = {"standard library": "json"} | {name: name for name in ("numpy", "torch", "cupy", "numba", "scipy")}
_HASHED = 1  # of the flags of a .pyc: its source is not asked for a time (PEP 552)
KEPT = "kept once it is compiled"


def uncompiled(root: Path) -> dict[str, str]:
    """Packages whose first module has no .pyc that is up to date -> KEPT, or why the next one will not be kept.

    Raises LookupError where this Python has no such files.
    """
    if sys.implementation.cache_tag is None:
        raise LookupError("this Python keeps no .pyc files")
    return {name: _keeping(path) for name, path in sources().items() if not _is_compiled(path)}


def sources() -> dict[str, Path]:
    """Package -> its first file, of those that are there."""
    return {name: path for name, package in _PACKAGES.items() if (path := _source(package))}


def _source(package: str) -> Path | None:
    """The file that an import would take, without importing."""
    files = (Path(folder or ".", package, "__init__.py") for folder in sys.path)
    return next((path for path in files if path.is_file()), None)


def _is_compiled(source: Path) -> bool:
    try:
        with open(cache_from_source(source), "rb") as file:
            head = file.read(16)
    except OSError:
        return False
    number, flags, time_s, size = head[:4], *(int.from_bytes(head[at : at + 4], "little") for at in (4, 8, 12))
    found = source.stat()
    of_source = (int(found.st_mtime) & 0xFFFFFFFF, found.st_size & 0xFFFFFFFF)
    return number == importlib.util.MAGIC_NUMBER and (flags & _HASHED == _HASHED or (time_s, size) == of_source)


def _keeping(source: Path) -> str:
    if sys.dont_write_bytecode:
        return "PYTHONDONTWRITEBYTECODE or -B"
    folder = Path(cache_from_source(source)).parent
    nearest = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not nearest.is_dir():
        return "its folder cannot be made: a file is in the way, or a link to nowhere"
    return KEPT if os.access(nearest, os.W_OK | os.X_OK) else "its folder may not be written to"
