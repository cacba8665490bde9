"""Loading into the memory of the process: from a map, or by read(2)."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.kernels.files._reader import fill
from primbench.kernels.weights._file import read_header

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.kernels.weights._step import Load
    from primbench.kernels.weights.problem import Weights
    from primbench.problem import Array

    Copy = Callable[[slice, Array], object]
    """Brings the bytes of a host array to a place in the output."""


def host_load(problem: Weights, place: Array, copy: Copy) -> Load:
    """place: the output, as NumPy sees it. Raises UnsupportedCase for what is a GPU's."""
    if problem.how == "pinned":
        raise UnsupportedCase("pinned memory is for copies to a GPU: ask for how=read, or for a GPU")
    return _read_to(place.data.cast("B")) if problem.how == "read" else mapped(copy)


def _read_to(place: memoryview) -> Load:
    def load(path: str) -> None:
        with open(path, "rb", buffering=0) as file:
            start, tensors = read_header(file)
            for each in tensors:
                fill(file.fileno(), place[each.begin : each.end], start + each.begin)

    return load


def mapped(copy: Copy, wait: Callable[[], object] = lambda: None) -> Load:
    """Maps the file anew in every call, as a process does that has just begun. wait: until copies are done."""
    import numpy as np

    def load(path: str) -> None:
        with open(path, "rb", buffering=0) as file:
            start, tensors = read_header(file)
            # A map of one's own, which may be written to: torch warns of others.
            pages: Any = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), np.int8)
        for each in tensors:
            copy(slice(each.begin, each.end), pages[start + each.begin : start + each.end])
        wait()  # before the map goes

    return load
