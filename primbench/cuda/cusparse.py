"""Products of a CSR matrix by cuSPARSE through ctypes: everything is prepared once, a call is one C call.

CuPy's binding refuses to run while a stream is captured and has no preprocessing. Values and signatures are those of
cusparse.h and library_types.h, CUDA 13.0; enumerations go as plain ints, anything wider comes with its type.
"""

from __future__ import annotations

import ctypes
import functools
from ctypes import byref, c_char_p, c_int, c_int64, c_size_t, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from primbench.cuda import libraries
from primbench.cuda.product import Sizes
from primbench.errors import PrimbenchError, UnsupportedCase

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.devices import Device

_DATA_TYPE = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
_SCALAR: dict[str, Callable[[float], Any]] = {"float32": ctypes.c_float, "float64": ctypes.c_double}
_INDEX_32I, _INDEX_BASE_ZERO, _ORDER_ROW, _NON_TRANSPOSE = 2, 0, 2, 0
# cusparseSpMMAlg_t and cusparseSpMVAlg_t, for 16-bit types or not: what is made for row-major B and C, or what gives
# the same bits at every call. The others may add parts of a row to C itself, where 16 bits round every part.
_ALGORITHM = {
    ("cusparseSpMM", False): ("CSR_ALG2", 6),
    ("cusparseSpMM", True): ("CSR_ALG3", 12),
    ("cusparseSpMV", False): ("CSR_ALG1", 2),
    ("cusparseSpMV", True): ("CSR_ALG2", 3),
}
_STATUS_NOT_SUPPORTED = 10


class SparseProduct(Sizes, Protocol):
    """C[m,n] = A[m,k] B[k,n]; A in CSR with 32-bit indices, B and C row-major and contiguous."""

    @property
    def nonzeros(self) -> int: ...


@dataclass(frozen=True)
class SparseAddresses:
    """Device addresses of memory that the caller keeps alive."""

    values: int
    columns: int
    row_starts: int
    b: int
    c: int


@dataclass(frozen=True)
class SparsePlan:
    """``call(*arguments)`` enqueues the product."""

    call: Callable[..., int]
    """Returns 0, or a status for ``failure``."""
    arguments: tuple[Any, ...]
    """What it is called with."""
    algorithm: str
    """The name of the chosen one."""
    kept: tuple[Any, ...]
    """What the arguments point to, and must live as long as they."""


def plan(
    product: SparseProduct,
    addresses: SparseAddresses,
    stream_handle: int,
    device: Device,
    allocate: Callable[[int], int],
) -> SparsePlan:
    """Prepare a product on a stream of ``device``, which must be the current CUDA device: SpMM, SpMV where n is 1.

    Sums are float32, float64 for float64. ``allocate`` gives the address of so many bytes of scratch, which the caller
    keeps alive. Raises UnsupportedCase where the library has no such product or is not there.
    """
    function = "cusparseSpMV" if product.n == 1 else "cusparseSpMM"
    algorithm, number = _ALGORITHM[function, product.dtype in ("float16", "bfloat16")]
    sums = "float64" if product.dtype == "float64" else "float32"
    a = _csr(product, addresses)
    b, c = (_dense(product, rows, at) for rows, at in ((product.k, addresses.b), (product.m, addresses.c)))
    operations = (_NON_TRANSPOSE,) * (1 if product.n == 1 else 2)
    one, zero = byref(_SCALAR[sums](1)), byref(_SCALAR[sums](0))
    # Converted beforehand, which saves a call the time of it.
    address = c_void_p.from_param
    operands = (one, address(a.pointer.value), address(b.pointer.value), zero, address(c.pointer.value))
    handle = address(_handle(stream_handle, device).value)
    arguments = (handle, *operations, *operands, _DATA_TYPE[sums], number)
    workspace_bytes = c_size_t()
    _call(f"{function}_bufferSize", *arguments, byref(workspace_bytes))
    arguments = (*arguments, address(allocate(max(1, workspace_bytes.value))))
    if hasattr(load(), f"{function}_preprocess"):  # of SpMV: since CUDA 12.4
        _call(f"{function}_preprocess", *arguments)
    words = f"cuSPARSE {version()} {function.removeprefix('cusparse')} {algorithm}"
    return SparsePlan(getattr(load(), function), arguments, words, (a, b, c))


def failure(status: int, function: str) -> PrimbenchError:
    """The error that a status other than 0 stands for."""
    name: bytes = load().cusparseGetErrorName(status)
    message = f"{function}: {name.decode()}"
    return UnsupportedCase(message) if status == _STATUS_NOT_SUPPORTED else PrimbenchError(message)


def version() -> str:
    """The library's version, such as "12.6.3". Raises UnsupportedCase where there is no library."""
    parts = [c_int() for _ in range(3)]  # libraryPropertyType: major, minor, patch
    for number, part in enumerate(parts):
        _call("cusparseGetProperty", number, byref(part))
    return ".".join(str(part.value) for part in parts)


@functools.cache
def load() -> Any:
    """Raises UnsupportedCase where there is no library."""
    library: Any = libraries.first_loadable("cusparse", ("libcusparse.so.12",))
    if library is None:
        raise UnsupportedCase("cuSPARSE: no libcusparse.so.12 was found: pip install nvidia-cusparse")
    library.cusparseGetErrorName.restype = c_char_p
    return library


class _Descriptor:
    """An object of the library, destroyed with this one."""

    def __init__(self, kind: str, destroy: str, *arguments: Any) -> None:
        self._destroy = getattr(load(), f"cusparseDestroy{destroy}")
        self.pointer = c_void_p()
        _call(f"cusparseCreate{kind}", byref(self.pointer), *arguments)

    def __del__(self) -> None:
        if self.pointer:
            self._destroy(self.pointer)


def _csr(product: SparseProduct, addresses: SparseAddresses) -> _Descriptor:
    sizes = (c_int64(product.m), c_int64(product.k), c_int64(product.nonzeros))
    arrays = (c_void_p(addresses.row_starts), c_void_p(addresses.columns), c_void_p(addresses.values))
    types = (_INDEX_32I, _INDEX_32I, _INDEX_BASE_ZERO, _DATA_TYPE[product.dtype])
    return _Descriptor("Csr", "SpMat", *sizes, *arrays, *types)


def _dense(product: SparseProduct, rows: int, at: int) -> _Descriptor:
    stored = _DATA_TYPE[product.dtype]
    if product.n == 1:
        return _Descriptor("DnVec", "DnVec", c_int64(rows), c_void_p(at), stored)
    sizes = (c_int64(rows), c_int64(product.n), c_int64(product.n))
    return _Descriptor("DnMat", "DnMat", *sizes, c_void_p(at), stored, _ORDER_ROW)


@functools.cache
def _handle(stream_handle: int, device: Device) -> c_void_p:
    """The one of a stream and process. It is never destroyed: at the end of a process the driver may be gone."""
    made = c_void_p()
    _call("cusparseCreate", byref(made))
    _call("cusparseSetStream", made, c_void_p(stream_handle))
    return made


def _call(function: str, *arguments: Any) -> None:
    status = getattr(load(), function)(*arguments)
    if status:
        raise failure(status, function)
