"""The CUDA runtime by ctypes: a module of PTX, and the two calls that are timed. Names are those of its API reference.

It shares the primary context with every framework, and its streams and graphs are the driver's.
"""

from __future__ import annotations

import ctypes
import functools
from ctypes import byref, c_uint, c_void_p
from typing import Any

from primbench.cuda.libraries import first_loadable
from primbench.errors import PrimbenchError, UnsupportedCase

NAMES = ("libcudart.so.13", "libcudart.so.12")


class Extent(ctypes.Structure):
    """dim3, which is given by value."""

    _fields_ = (("x", c_uint), ("y", c_uint), ("z", c_uint))


@functools.cache
def library() -> ctypes.CDLL:
    """Raises UnsupportedCase where it is not found, or is older than the calls that load a module."""
    found = first_loadable("cudart", NAMES)
    if found is None:
        raise UnsupportedCase("call=runtime needs libcudart: pip install nvidia-cuda-runtime, or ask for call=driver")
    if not hasattr(found, "cudaLibraryGetKernel"):
        raise UnsupportedCase("call=runtime needs a libcudart of CUDA 12.8 or later: ask for call=driver")
    return found


def failure(function: str, status: int) -> PrimbenchError:
    """The error that a status other than 0 stands for."""
    name_of = library().cudaGetErrorName
    name_of.restype = ctypes.c_char_p
    name = name_of(status)
    return PrimbenchError(f"{function}: {name.decode() if name else status}")


def _call(function: str, *arguments: Any) -> None:
    if status := getattr(library(), function)(*arguments):
        raise failure(function, status)


class Module:
    """Kernels of PTX, unloaded with the object."""

    def __init__(self, ptx: bytes) -> None:
        handle = c_void_p()
        options = (None, None, c_uint(0))  # of the compiler; then of the library
        _call("cudaLibraryLoadData", byref(handle), ptx, *options, *options)
        self._handle = handle

    def __del__(self) -> None:
        if hasattr(self, "_handle"):
            library().cudaLibraryUnload(self._handle)

    def function(self, name: str) -> int:
        """A kernel's handle, which stands for the function of a program's own."""
        kernel = c_void_p()
        _call("cudaLibraryGetKernel", byref(kernel), self._handle, name.encode())
        return kernel.value or 0
