"""For which GPUs the libraries of a process bring code, by what their own files say.

A library of CUDA has its kernels in a section of containers, as nvcc writes them. Each has code for GPU architectures
(SASS), or PTX, of which the driver makes code as it is first used. What is compiled while a program runs, as by NVRTC,
Numba and Triton, is in no file.
"""

from __future__ import annotations

import os
import struct
from functools import partial
from typing import TYPE_CHECKING

from primbench.environment.libraries import mapped
from primbench.system import elf
from primbench.system.files import attempt, utf8
from primbench.system.processes import root_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import BinaryIO

AS_IT_IS, BY_COMPILING, NOT_AT_ALL = "as it is", "compiled at first use", "not at all"
SECTION = ".nv_fatbin"
MOST_CONTAINERS = 64  # of a library: one is of one source file, and all of them are compiled alike
_MOST_ENTRIES = 64  # of a container
_MAGIC = 0xBA55ED50
_CONTAINER = struct.Struct("<IHHQ")  # magic, version, size of this header, of what follows
_ENTRY = struct.Struct("<HHIQ12xI8xQ")  # kind, version, size of this header, of the code, architecture, flags
_KINDS = {1: "compute", 2: "sm"}
_ALONE, _FAMILY = 1 << 20, 1 << 21  # flags of code for one architecture alone (sm_90a), or for its family (sm_100f)


def gpu_code(root: Path, pid: int = 0) -> dict[str, list[str]]:
    """File name of each library with kernels that is mapped -> what these are for: "sm_90", "sm_90a", "compute_90"."""
    found: dict[str, list[str]] = {}
    for path in mapped(root, pid):
        file = root_of(root, pid) / path.lstrip("/")
        if code := attempt({}, "", partial(architectures, file)):
            found[utf8(os.path.basename(path))] = code
    return found


def architectures(path: Path) -> list[str]:
    """Those that kernels of a library are for, [] of one without. Raises OSError, and ValueError for no library."""
    with path.open("rb") as file:
        place = elf.section(file, SECTION)
        return sorted(set(_containers(file, *place)), key=_parts) if place else []


def _containers(file: BinaryIO, offset: int, size: int) -> Iterator[str]:
    at, end = offset, offset + size
    for _ in range(MOST_CONTAINERS):
        header = _at(file, at, _CONTAINER)
        if at + _CONTAINER.size > end or header is None or header[0] != _MAGIC:
            return
        _, _, header_bytes, content_bytes = header
        yield from _entries(file, at + header_bytes, at + header_bytes + content_bytes)
        at += -(-(header_bytes + content_bytes) // 8) * 8


def _entries(file: BinaryIO, at: int, end: int) -> Iterator[str]:
    for _ in range(_MOST_ENTRIES):
        entry = _at(file, at, _ENTRY) if at + _ENTRY.size <= end else None
        if entry is None or not entry[2]:
            return
        kind, _, header_bytes, code_bytes, architecture, flags = entry
        if kind in _KINDS:
            only = "a" if flags & _ALONE else "f" if flags & _FAMILY else ""
            yield f"{_KINDS[kind]}_{architecture}{only}"
        at += header_bytes + code_bytes


def _at(file: BinaryIO, offset: int, layout: struct.Struct) -> tuple[int, ...] | None:
    file.seek(offset)
    read = file.read(layout.size)
    return layout.unpack(read) if len(read) == layout.size else None


def how_it_runs(code: list[str], capability: str) -> str:
    """On a GPU of a compute capability such as "9.0": AS_IT_IS, BY_COMPILING or NOT_AT_ALL.

    NVIDIA, CUDA C++ Programming Guide, "Binary Compatibility", "PTX Compatibility": code runs on the same major
    architecture from its minor one on, PTX on all that are newer, what ends in "a" on that one alone.
    """
    major, _, minor = capability.partition(".")
    gpu = (int(major), int(minor or 0))
    parts = [(kind, divmod(number, 10), only) for kind, number, only in map(_parts, code)]
    if any(_runs(kind, own, only, gpu) for kind, own, only in parts):
        return AS_IT_IS
    return BY_COMPILING if any(_is_compiled(*each, gpu) for each in parts) else NOT_AT_ALL


def _parts(name: str) -> tuple[str, int, str]:
    kind, _, number = name.partition("_")
    digits = number.rstrip("af")
    return kind, int(digits), number[len(digits) :]


def _runs(kind: str, own: tuple[int, int], only: str, gpu: tuple[int, int]) -> bool:
    return kind == "sm" and (own == gpu if only == "a" else own[0] == gpu[0] and own[1] <= gpu[1])


def _is_compiled(kind: str, own: tuple[int, int], only: str, gpu: tuple[int, int]) -> bool:
    return kind == "compute" and (own == gpu if only == "a" else own <= gpu)


def lacking(found: Mapping[str, list[str]], capability: str) -> dict[str, str]:
    """Those of the libraries whose code does not run as it is on such a GPU -> how it does."""
    ways = {name: how_it_runs(code, capability) for name, code in found.items()}
    return {name: how for name, how in ways.items() if how != AS_IT_IS}
