"""Matrix products by cuBLASLt through ctypes: everything is prepared once, a call is one C call.

CuPy's own products refuse to run while a stream is captured; cublasLtMatmul with a workspace of the caller's
neither allocates nor waits, so that it can be captured.

Values, signatures and structures are those of cublasLt.h, cublas_api.h and library_types.h, CUDA 13.0.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import weakref
from ctypes import byref, c_int, c_int32, c_int64, c_size_t, c_uint16, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from primbench.cuda import libraries
from primbench.cuda.product import ALIGNMENT_BYTES, column_major
from primbench.errors import PrimbenchError, UnsupportedCase

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.cuda.product import Addresses, Product, ProductOperand, Scales
    from primbench.devices import Device

# What the cuBLAS manual recommends for Hopper (cublasSetWorkspace); other GPUs need less.
WORKSPACE_BYTES = 32 * 2**20

_DATA_TYPE = {
    "float32": 0,
    "float64": 1,
    "float16": 2,
    "int8": 3,
    "int32": 10,
    "bfloat16": 14,
    "float8_e4m3": 28,
}
# Plain COMPUTE_32F never rounds its inputs to TF32; COMPUTE_32F_FAST_TF32 may.
_COMPUTE_TYPE = {
    ("float16", "ieee"): 64,
    ("float32", "ieee"): 68,
    ("float64", "ieee"): 70,
    ("int32", "ieee"): 72,
    ("float32", "tf32"): 77,
}
_DESC_TRANSA, _DESC_TRANSB = 3, 4
_DESC_EPILOGUE, _DESC_BIAS_POINTER, _EPILOGUE_BIAS = 7, 8, 4
_DESC_SCALE_POINTERS, _DESC_SCALE_MODES = (17, 18), (31, 32)  # of A and B each
_SCALE_MODES = {"row": (3, 3), "block": (5, 4)}  # left 128x128, right 1x128
_SCALES_BY_PARTS = 120900
_LAYOUT_BATCH_COUNT, _LAYOUT_BATCH_STRIDE = 5, 6
_OP_N, _OP_T = 0, 1
_PREF_MAX_WORKSPACE_BYTES, _PREF_REDUCTION_SCHEMES, _PREF_MIN_ALIGNMENTS = 1, 3, (5, 6, 7, 8)
_SUM_IN_COMPUTE_TYPE = 2  # CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
_ALGO_CONFIG: dict[str, tuple[int, Callable[[], Any]]] = {
    "algo": (0, c_int32),
    "tile": (1, c_uint32),
    "stages": (6, c_uint32),
    "splitk": (2, c_int32),
    "cluster": (8, c_uint16),
}
_STATUS_REFUSED = (7, 15)  # CUBLAS_STATUS_INVALID_VALUE, CUBLAS_STATUS_NOT_SUPPORTED

# cuBLAS manual, cublasLtMatmul: the tables of data types and the notes on IMMA and FP8 kernels.
_NEEDS = {
    "int8": ": it needs trans_b without trans_a, and n and k multiples of 4",
    "float8_e4m3": ": it needs an Ada GPU or later, trans_b without trans_a, and n and k multiples of 16",
}


class _Opaque(ctypes.Structure):
    """An object whose contents are the library's business."""


class _Algorithm(ctypes.Structure):
    _fields_ = (("data", c_uint64 * 8),)


class _HeuristicResult(ctypes.Structure):
    _fields_ = (
        ("algorithm", _Algorithm),
        ("workspace_bytes", c_size_t),
        ("state", c_int),
        ("waves", ctypes.c_float),
        ("reserved", c_int * 4),
    )


@dataclass(frozen=True)
class ProductPlan:
    """``call(*arguments)`` enqueues the product."""

    call: Callable[..., int]
    """Returns 0, or a status for ``failure``."""
    arguments: tuple[Any, ...]
    """What it is called with."""
    algorithm: str
    """Identifiers of cublasLt.h, which name the chosen kernel within one build of the library."""


def plan(
    product: Product,
    addresses: Addresses,
    stream_handle: int,
    device: Device,
    *,
    batch: int = 1,
    alignment_bytes: int = ALIGNMENT_BYTES,
    scales: Scales | None = None,
    bias: int = 0,
) -> ProductPlan:
    """Prepare a product on a stream of ``device``, which must be the current CUDA device.

    batch: products, whose matrices lie one behind the other. alignment_bytes: of all addresses. bias:
    the address of n numbers, which are added to each row of C. The algorithm is the first that the library's heuristic
    proposes. Raises UnsupportedCase where it proposes none or where there is no library.
    """
    library = load()
    handle = _handle(device)
    operands = column_major(product)
    operation = _operation(library, product, operands)
    if scales:
        _scale(library, operation, scales)
    if bias:  # one for each row of column-major C
        _set(library, "cublasLtMatmulDesc", operation, _DESC_EPILOGUE, c_uint32(_EPILOGUE_BIAS))
        _set(library, "cublasLtMatmulDesc", operation, _DESC_BIAS_POINTER, c_void_p(bias))
    left, right, result = (_layout(library, operand, batch) for operand in operands)
    chosen = _choose(library, (handle, operation, left, right, result, result), product, alignment_bytes)
    scalar = _SCALAR[product.accumulate]
    # Converted beforehand: ctypes objects as arguments add 0.3 us to a call. byref keeps its object alive.
    address = c_void_p.from_param
    arguments = (
        handle,
        operation,
        byref(scalar(product.alpha)),
        address(addresses.b),
        left,
        address(addresses.a),
        right,
        byref(scalar(product.beta)),
        address(addresses.d),
        result,
        address(addresses.c),
        result,
        byref(chosen.algorithm),
        address(addresses.workspace),
        c_size_t.from_param(WORKSPACE_BYTES),
        address(stream_handle),
    )
    return ProductPlan(library.cublasLtMatmul, arguments, _describe(library, chosen.algorithm))


def failure(status: int, function: str = "cublasLtMatmul") -> PrimbenchError:
    """The error that a status other than 0 stands for."""
    name: bytes = load().cublasLtGetStatusName(status)
    return PrimbenchError(f"{function} returned {name.decode()}")


def version() -> str:
    """The library's version, such as "13.0.2". Raises UnsupportedCase where there is no library."""
    number = load().cublasLtGetVersion()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


@functools.cache
def load() -> Any:
    """Raises UnsupportedCase where there is no library."""
    library: Any = libraries.first_loadable("cublasLt", ("libcublasLt.so.13", "libcublasLt.so.12"))
    if library is None:
        raise UnsupportedCase("cuBLASLt: no libcublasLt.so.13 or .12 was found: pip install nvidia-cublas")
    library.cublasLtGetVersion.restype = c_size_t
    library.cublasLtGetStatusName.restype = ctypes.c_char_p
    return library


@functools.cache
def _handle(device: Device) -> Any:
    """The handle of a device, one in each process: it belongs to the device that is current when it is made."""
    return _create(load(), "cublasLt")


def _half(value: float) -> c_uint16:
    return c_uint16.from_buffer_copy(struct.pack("<e", value))


# alpha and beta have the type of the sums.
_SCALAR: dict[str, Callable[[float], Any]] = {
    "float64": ctypes.c_double,
    "float32": ctypes.c_float,
    "float16": _half,
    "int32": lambda value: c_int32(int(value)),
}


def _operation(library: Any, product: Product, operands: tuple[ProductOperand, ProductOperand, ProductOperand]) -> Any:
    compute_type = _COMPUTE_TYPE[product.accumulate, product.math_mode]
    operation = _create(library, "cublasLtMatmulDesc", compute_type, _DATA_TYPE[product.accumulate])
    for attribute, operand in zip((_DESC_TRANSA, _DESC_TRANSB), operands, strict=False):
        transposition = c_int32(_OP_T if operand.transposed else _OP_N)
        _set(library, "cublasLtMatmulDesc", operation, attribute, transposition)
    return operation


def _scale(library: Any, operation: Any, scales: Scales) -> None:
    """B is the left factor, see column_major()."""
    for attribute, address in zip(_DESC_SCALE_POINTERS, (scales.b, scales.a), strict=True):
        _set(library, "cublasLtMatmulDesc", operation, attribute, c_void_p(address))
    if scales.kind != "tensor":
        if library.cublasLtGetVersion() < _SCALES_BY_PARTS:
            raise UnsupportedCase(f"cuBLASLt {version()} scales float8 as a whole only: 12.9 can by {scales.kind}")
        for attribute, mode in zip(_DESC_SCALE_MODES, _SCALE_MODES[scales.kind], strict=True):
            _set(library, "cublasLtMatmulDesc", operation, attribute, c_int32(mode))


def _layout(library: Any, operand: ProductOperand, batch: int) -> Any:
    sizes = (c_uint64(operand.rows), c_uint64(operand.columns), c_int64(operand.rows))
    layout = _create(library, "cublasLtMatrixLayout", _DATA_TYPE[operand.dtype], *sizes)
    if batch > 1:
        _set(library, "cublasLtMatrixLayout", layout, _LAYOUT_BATCH_COUNT, c_int32(batch))
        _set(library, "cublasLtMatrixLayout", layout, _LAYOUT_BATCH_STRIDE, c_int64(operand.rows * operand.columns))
    return layout


def _choose(library: Any, described: tuple[Any, ...], product: Product, alignment_bytes: int) -> _HeuristicResult:
    preference = _create(library, "cublasLtMatmulPreference")
    for attribute in _PREF_MIN_ALIGNMENTS if alignment_bytes < ALIGNMENT_BYTES else ():
        _set(library, "cublasLtMatmulPreference", preference, attribute, c_uint32(alignment_bytes))
    limit = c_size_t(WORKSPACE_BYTES)
    _set(library, "cublasLtMatmulPreference", preference, _PREF_MAX_WORKSPACE_BYTES, limit)
    # The other schemes add the parts of a cut sum in the type of C: in 16 bits, 100 times the error.
    _set(library, "cublasLtMatmulPreference", preference, _PREF_REDUCTION_SCHEMES, c_uint32(_SUM_IN_COMPUTE_TYPE))
    chosen, found = _HeuristicResult(), c_int()
    status = library.cublasLtMatmulAlgoGetHeuristic(*described, preference, 1, byref(chosen), byref(found))
    if status in _STATUS_REFUSED or (not status and not found.value):
        raise UnsupportedCase(
            f"cuBLASLt has no {product.dtype} product with m={product.m} n={product.n} k={product.k} "
            f"trans_a={product.trans_a} trans_b={product.trans_b} accumulate={product.accumulate}"
            f"{_NEEDS.get(product.dtype, '')}"
        )
    if status or chosen.state:
        raise failure(status or chosen.state, "cublasLtMatmulAlgoGetHeuristic")
    return chosen


def _describe(library: Any, algorithm: _Algorithm) -> str:
    words = ["cublasLt"]
    for name, (attribute, ctype) in _ALGO_CONFIG.items():
        value, written = ctype(), c_size_t()
        size_bytes = c_size_t(ctypes.sizeof(value))
        read = "cublasLtMatmulAlgoConfigGetAttribute"
        _call(library, read, byref(algorithm), attribute, byref(value), size_bytes, byref(written))
        words.append(f"{name} {value.value}")
    return " ".join(words)


def _create(library: Any, kind: str, *arguments: Any) -> Any:
    """A reference to a new opaque object, which is destroyed when the last such reference is gone."""
    pointer = c_void_p()
    _call(library, f"{kind}Create", byref(pointer), *arguments)
    made = _Opaque.from_address(pointer.value or 0)
    weakref.finalize(made, getattr(library, f"{kind}Destroy"), pointer)
    return byref(made)


def _set(library: Any, kind: str, target: Any, attribute: int, value: Any) -> None:
    _call(library, f"{kind}SetAttribute", target, attribute, byref(value), c_size_t(ctypes.sizeof(value)))


def _call(library: Any, function: str, *arguments: Any) -> None:
    """Enumerations go as plain ints, which ctypes makes C ints; anything wider must come with its type."""
    status = getattr(library, function)(*arguments)
    if status:
        raise failure(status, function)
