"""Loading into a GPU's memory by the driver's copies: from a map, from ordinary memory, from pinned memory."""

from __future__ import annotations

from ctypes import c_size_t, c_void_p
from typing import TYPE_CHECKING, Any

from primbench.cuda import pinned
from primbench.gpu.nvidia import driver
from primbench.kernels.files._reader import fill
from primbench.kernels.weights._file import read_header
from primbench.kernels.weights._host import mapped
from primbench.kernels.weights.problem import STAGED_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.kernels.weights._file import Tensor
    from primbench.kernels.weights._step import Load
    from primbench.kernels.weights.problem import Weights
    from primbench.problem import Array

COPY = "cuMemcpyHtoDAsync_v2"


def cuda_load(problem: Weights, stream: int, output: Any) -> Load:
    """output: int8, an array of any framework's on the GPU. A call ends when all of it is there."""
    import numpy as np

    to = _Device(int(output.__cuda_array_interface__["data"][0]), stream)
    if problem.how == "pinned":
        size_bytes = min(STAGED_BYTES, problem.bytes)
        return _staged([pinned.allocated(size_bytes) for _ in range(2)], to)
    if problem.how == "read":
        return _staged([np.empty(problem.bytes, np.int8)], to)
    return mapped(to.copy, to.wait)


class _Device:
    """Memory on the GPU, and the stream of copies to it."""

    def __init__(self, address: int, stream: int) -> None:
        self._address, self._stream = address, c_void_p(stream)
        self._function = driver.function(COPY)

    def copy(self, place: slice, host: Array) -> None:
        """Raises CudaError."""
        to, source = c_void_p(self._address + place.start), c_void_p(host.ctypes.data)
        if status := self._function(to, source, c_size_t(host.nbytes), self._stream):
            raise driver.failure(COPY, status)

    def wait(self) -> None:
        driver.call("cuStreamSynchronize", self._stream)


def _staged(pieces: Sequence[Array], to: _Device) -> Load:
    """By pieces of host memory in turn: of two, one is filled while the other is copied."""
    views = [piece.data.cast("B") for piece in pieces]

    def load(path: str) -> None:
        with open(path, "rb", buffering=0) as file:
            start, tensors = read_header(file)
            for number, (begin, end) in enumerate(_parts(tensors, len(views[0]))):
                turn = number % len(pieces)
                if len(pieces) == 1:
                    to.wait()  # the piece is free again
                fill(file.fileno(), views[turn][: end - begin], start + begin)
                if len(pieces) > 1:
                    to.wait()  # the other piece is free for the next part, and was copied while this one was filled
                to.copy(slice(begin, end), pieces[turn][: end - begin])
        to.wait()

    return load


def _parts(tensors: Sequence[Tensor], most: int) -> Iterator[tuple[int, int]]:
    """Each tensor in parts of at most so many bytes: where they begin and end."""
    for each in tensors:
        for begin in range(each.begin, each.end, most):
            yield begin, min(begin + most, each.end)
