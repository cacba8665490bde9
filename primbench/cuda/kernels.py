"""Our own CUDA C++ on any backend: compiled by NVRTC for the current GPU, launched through the driver.

Signatures are those of nvrtc.h and cuda.h, CUDA 13.0.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.resources
import re
from collections.abc import Callable, Sequence
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from pathlib import Path
from typing import Any

from primbench.cuda import libraries
from primbench.errors import PrimbenchError, UnsupportedCase
from primbench.gpu.nvidia import driver

PreparedKernel = tuple[Callable[..., int], tuple[Any, ...]]
"""A foreign function and its arguments, converted beforehand: that would cost time in every call."""


_INCLUDED = re.compile(r'^#include "(\w+\.cuh)"$', re.MULTILINE)


def text_of(primitive: str, name: str) -> str:
    """A CUDA source in a primitive's folder, with headers of primbench.cuda put in: NVRTC is given one text."""
    return _whole(importlib.resources.files(f"primbench.kernels.{primitive}").joinpath(name).read_text())


def _whole(text: str) -> str:
    headers = importlib.resources.files("primbench.cuda")
    return _INCLUDED.sub(lambda found: _whole(headers.joinpath(found[1]).read_text()), text)


def module(source: str, options: Sequence[str] = ()) -> driver.Module:
    """The kernels of a source, for the device of the current context.

    Raises UnsupportedCase where there is no NVRTC, PrimbenchError with what it says where it refuses the source.
    """
    return driver.Module(image(source, driver.compute_capability(), options))


def launch(kernel: int, blocks: int, threads: int, stream: int, values: Sequence[Any]) -> PreparedKernel:
    """cuLaunchKernel of a module's function. values: of its parameters, each of the ctypes that it has."""
    pointers = (c_void_p * len(values))(*map(ctypes.addressof, values))
    pointers.kept = values  # type: ignore[attr-defined]  # it has their addresses only
    handle, of_stream = c_void_p.from_param(kernel), c_void_p.from_param(stream)
    return driver.function("cuLaunchKernel"), (handle, blocks, 1, 1, threads, 1, 1, 0, of_stream, pointers, None)


def image(source: str, capability: int, options: Sequence[str] = ()) -> bytes:
    """Machine code for a compute capability, such as 90; PTX for the nearest below where NVRTC knows it not."""
    library = _nvrtc()
    known = [each for each in _capabilities() if each <= capability]
    if not known:
        raise UnsupportedCase(f"NVRTC compiles for no GPU of compute capability {capability / 10}: it is too old")
    kind, name = ("sm", "CUBIN") if known[-1] == capability else ("compute", "PTX")
    program = c_void_p()
    _call("nvrtcCreateProgram", byref(program), source.encode(), b"source.cu", 0, None, None)
    try:
        given = [each.encode() for each in (f"--gpu-architecture={kind}_{known[-1]}", "-std=c++17", *options)]
        if library.nvrtcCompileProgram(program, len(given), (c_char_p * len(given))(*given)):
            said = _text("ProgramLog", program).rstrip(b"\0").decode()
            raise PrimbenchError(f"NVRTC refuses a source: {' '.join(said.split())}")
        return _text(name, program)
    finally:
        library.nvrtcDestroyProgram(byref(program))


@functools.cache
def _nvrtc() -> ctypes.CDLL:
    library = libraries.first_loadable("nvrtc", ("libnvrtc.so.13", "libnvrtc.so.12"))
    if library is None:
        raise UnsupportedCase(
            "no libnvrtc.so.13 or .12 was found, which compiles our kernel: pip install nvidia-cuda-nvrtc"
        )
    where = libraries.loaded_path("nvrtc", libraries.own_maps())
    # It opens its builtins by name: they are found where they are loaded already.
    for each in Path(where).parent.glob("libnvrtc-builtins.so.*") if where else ():
        ctypes.CDLL(str(each))
    return library


@functools.cache
def _capabilities() -> list[int]:
    count = c_int()
    _call("nvrtcGetNumSupportedArchs", byref(count))
    found = (c_int * count.value)()
    _call("nvrtcGetSupportedArchs", found)
    return sorted(found)


def _text(what: str, program: c_void_p) -> bytes:
    size_bytes = c_size_t()
    _call(f"nvrtcGet{what}Size", program, byref(size_bytes))
    buffer = ctypes.create_string_buffer(size_bytes.value)
    _call(f"nvrtcGet{what}", program, buffer)
    return buffer.raw


def _call(function: str, *arguments: Any) -> None:
    if status := getattr(_nvrtc(), function)(*arguments):
        raise PrimbenchError(f"{function} returned {status}")
