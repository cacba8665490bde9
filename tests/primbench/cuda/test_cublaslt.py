"""cuBLASLt against a stand-in for the library that computes with NumPy on host memory."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_int, c_int64, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from primbench.cuda import cublaslt, libraries
from primbench.cuda.product import Addresses, Scales
from primbench.devices import nth_gpu
from primbench.errors import PrimbenchError, UnsupportedCase

if TYPE_CHECKING:
    from collections.abc import Iterator

M, N, K = 3, 4, 5
NUMPY_TYPE = {0: np.float32, 1: np.float64, 2: np.float16, 3: np.int8, 10: np.int32}


@dataclass(frozen=True)
class Product:
    dtype: str = "float64"
    out_dtype: str = "float64"
    accumulate: str = "float64"
    math_mode: str = "ieee"
    trans_a: bool = False
    trans_b: bool = False
    alpha: float = 1.0
    beta: float = 0.0
    m: int = M
    n: int = N
    k: int = K


class Library:
    """The functions of cublasLt.h that are used, with its prototypes; ``alive``: made and not destroyed."""

    def __init__(self) -> None:
        self.alive: dict[int, dict[Any, Any]] = {}
        self.callbacks: list[Any] = []
        self.made = 0
        self.heuristic_status = 0
        self.heuristic_count = 1
        self.matmul_status = 0
        self.preference: dict[Any, Any] = {}
        self.functions = SimpleNamespace(
            cublasLtCreate=self._creator(),
            cublasLtMatmulDescCreate=self._creator(c_int, c_int),
            cublasLtMatrixLayoutCreate=self._creator(c_int, c_uint64, c_uint64, c_int64),
            cublasLtMatmulPreferenceCreate=self._creator(),
            cublasLtMatmulDescSetAttribute=self._setter(),
            cublasLtMatrixLayoutSetAttribute=self._setter(),
            cublasLtMatmulPreferenceSetAttribute=self._setter(),
            cublasLtMatmulAlgoGetHeuristic=self._function(
                self._heuristic, *[c_void_p] * 7, c_int, c_void_p, POINTER(c_int)
            ),
            cublasLtMatmulAlgoConfigGetAttribute=self._function(
                self._read_config, c_void_p, c_int, c_void_p, c_size_t, POINTER(c_size_t)
            ),
            cublasLtMatmul=self._function(self._matmul, *[c_void_p] * 14, c_size_t, c_void_p),
            cublasLtGetStatusName=lambda status: b"CUBLAS_STATUS_%d" % status,
            cublasLtGetVersion=lambda: 130002,
        )
        for kind in ("", "MatmulDesc", "MatrixLayout", "MatmulPreference"):
            setattr(self.functions, f"cublasLt{kind}Destroy", self._function(self._destroy, c_void_p))

    def _function(self, python: Any, *types: Any) -> Any:
        """A C function called as one of a ctypes.CDLL is: nothing is known of its argument types."""
        callback = CFUNCTYPE(c_int, *types)(python)
        self.callbacks.append(callback)
        return CFUNCTYPE(c_int)(ctypes.cast(callback, c_void_p).value or 0)

    def _creator(self, *types: Any) -> Any:
        def create(out: Any, *arguments: int) -> int:
            self.made += 0x1000
            self.alive[self.made] = {"created with": arguments}
            out[0] = self.made
            return 0

        return self._function(create, POINTER(c_void_p), *types)

    def _setter(self) -> Any:
        def put(target: int, attribute: int, value: int, size_bytes: int) -> int:
            self.alive[target][attribute] = int.from_bytes(ctypes.string_at(value, size_bytes), "little")
            return 0

        return self._function(put, c_void_p, c_int, c_void_p, c_size_t)

    def _destroy(self, target: int) -> int:
        del self.alive[target]
        return 0

    def _heuristic(self, *arguments: Any) -> int:
        self.preference = dict(self.alive[arguments[6]])
        ctypes.memmove(arguments[8], b"A" * 64 + bytes(32), 96)
        arguments[9][0] = self.heuristic_count
        return self.heuristic_status

    def _read_config(self, algorithm: int, attribute: int, value: int, size_bytes: int, written: Any) -> int:
        assert ctypes.string_at(algorithm, 64) == b"A" * 64
        ctypes.memmove(value, (20 + attribute).to_bytes(size_bytes, "little"), size_bytes)
        written[0] = size_bytes
        return 0

    def _matrix(self, address: int, layout: int) -> Any:
        """[batch, rows, columns], each column-major."""
        kind, rows, columns, leading = self.alive[layout]["created with"]
        batch, stride = self.alive[layout].get(5, 1), self.alive[layout].get(6, rows * columns)
        assert leading == rows
        dtype = np.dtype(NUMPY_TYPE[kind])
        buffer = (ctypes.c_char * (batch * stride * dtype.itemsize)).from_address(address)
        return np.frombuffer(buffer, dtype).reshape((batch, columns, rows)).swapaxes(1, 2)

    def _matmul(self, handle: int, operation: int, alpha: int, *rest: int) -> int:
        left, left_layout, right, right_layout, beta, added, added_layout, out, out_layout = rest[:9]
        assert handle in self.alive
        assert rest[9:] == (rest[9], 0x77000, cublaslt.WORKSPACE_BYTES, 0x99)
        assert ctypes.string_at(rest[9], 64) == b"A" * 64
        transposed = self.alive[operation]
        scalar = NUMPY_TYPE[transposed["created with"][1]]
        factor, share = (
            np.frombuffer(ctypes.string_at(at, np.dtype(scalar).itemsize), scalar)[0] for at in (alpha, beta)
        )
        x, y = (
            self._matrix(left, left_layout).astype(scalar),
            self._matrix(right, right_layout).astype(scalar),
        )
        product = (x.swapaxes(1, 2) if transposed[3] else x) @ (y.swapaxes(1, 2) if transposed[4] else y)
        whole = factor * product + share * self._matrix(added, added_layout)
        if transposed.get(7) == 4:  # CUBLASLT_EPILOGUE_BIAS: one for each row
            length_bytes = whole.shape[1] * np.dtype(scalar).itemsize
            whole += np.frombuffer(ctypes.string_at(transposed[8], length_bytes), scalar)[:, None]
        self._matrix(out, out_layout)[...] = whole
        return self.matmul_status


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    stand_in = Library()
    monkeypatch.setattr(cublaslt, "load", lambda: stand_in.functions)
    cublaslt._handle.cache_clear()
    yield stand_in
    cublaslt._handle.cache_clear()


def _plan(product: Product, *arrays: Any, **options: Any) -> cublaslt.ProductPlan:
    a, b, d, c = (array.ctypes.data for array in arrays)
    return cublaslt.plan(product, Addresses(a, b, d, c, 0x77000), 0x99, nth_gpu(0), **options)


def _operands(product: Product) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(0)
    a = rng.integers(-9, 9, (K, M) if product.trans_a else (M, K)).astype(product.dtype)
    b = rng.integers(-9, 9, (N, K) if product.trans_b else (K, N)).astype(product.dtype)
    d = rng.integers(-9, 9, (M, N)).astype(product.out_dtype)
    return a, b, d, np.zeros((M, N), product.out_dtype)


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize(
    ("dtype", "out_dtype", "accumulate", "alpha", "beta"),
    [
        ("float64", "float64", "float64", 1.0, 0.0),
        ("float32", "float32", "float32", 0.5, 2.0),
        ("float16", "float16", "float16", 0.5, 2.0),
        ("float16", "float16", "float32", 0.5, 2.0),
        ("int8", "int32", "int32", 1.0, 0.0),
    ],
)
def test_row_major_product_comes_out_for_every_transposition(
    library: Library,
    trans_a: bool,
    trans_b: bool,
    dtype: str,
    out_dtype: str,
    accumulate: str,
    alpha: float,
    beta: float,
) -> None:
    product = Product(dtype, out_dtype, accumulate, "ieee", trans_a, trans_b, alpha, beta)
    a, b, d, c = _operands(product)
    plan = _plan(product, a, b, d, c)
    assert plan.call(*plan.arguments) == 0
    left = (a.T if trans_a else a).astype(np.float64)
    right = (b.T if trans_b else b).astype(np.float64)
    np.testing.assert_array_equal(c, alpha * (left @ right) + beta * d)


def test_biases_are_added_to_each_row(library: Library) -> None:
    a, b, d, c = _operands(Product())
    biases = np.arange(N, dtype=np.float64)
    plan = _plan(Product(), a, b, d, c, bias=biases.ctypes.data)
    assert plan.call(*plan.arguments) == 0
    np.testing.assert_array_equal(c, a @ b + biases)


@pytest.mark.parametrize("trans_b", [False, True])
def test_products_of_a_batch_lie_one_behind_the_other(library: Library, trans_b: bool) -> None:
    product = Product(trans_b=trans_b)
    a, b, d, c = (np.stack([each, 2 * each, each - 1]) for each in _operands(product))
    plan = _plan(product, a, b, d, c, batch=3)
    assert plan.call(*plan.arguments) == 0
    np.testing.assert_array_equal(c, a @ (b.swapaxes(1, 2) if trans_b else b))


def test_addresses_that_are_aligned_less_are_said_to_be(library: Library) -> None:
    _plan(Product(), *_operands(Product()), alignment_bytes=16)
    assert [16] * 4 == [library.preference[attribute] for attribute in (5, 6, 7, 8)]


@pytest.mark.parametrize(("kind", "modes"), [("tensor", [None, None]), ("row", [3, 3]), ("block", [5, 4])])
def test_scales_are_those_of_the_left_and_the_right_factor(library: Library, kind: str, modes: list[int]) -> None:
    plan = _plan(Product(), *_operands(Product()), scales=Scales(kind, a=0x5A0, b=0x5B0))
    (operation,) = [entry for entry in library.alive.values() if 3 in entry]
    assert [0x5B0, 0x5A0, *modes] == [operation.get(attribute) for attribute in (17, 18, 31, 32)]
    assert plan


def test_scales_of_parts_take_a_library_that_has_them(library: Library) -> None:
    library.functions.cublasLtGetVersion = lambda: 120800
    with pytest.raises(UnsupportedCase, match=r"cuBLASLt 12.8.0 scales float8 as a whole only: 12.9 can by row"):
        _plan(Product(), *_operands(Product()), scales=Scales("row", 1, 2))


@pytest.mark.parametrize(
    ("dtype", "accumulate", "math_mode", "compute_type"),
    [
        ("float64", "float64", "ieee", 70),
        ("float32", "float32", "ieee", 68),
        ("float32", "float32", "tf32", 77),
        ("float16", "float16", "ieee", 64),
        ("bfloat16", "float32", "ieee", 68),
        ("int8", "int32", "ieee", 72),
    ],
)
def test_compute_type_is_tf32_only_when_asked_for(
    library: Library, dtype: str, accumulate: str, math_mode: str, compute_type: int
) -> None:
    arrays = [np.zeros(M * N * K)] * 4
    plan = _plan(Product(dtype, dtype, accumulate, math_mode), *arrays)
    made = [entry["created with"] for entry in library.alive.values()]
    assert [arguments[0] for arguments in made if len(arguments) == 2] == [compute_type]
    assert plan.algorithm


def test_algorithm_names_tile_stages_split_and_cluster(library: Library) -> None:
    plan = _plan(Product(), *_operands(Product()))
    assert plan.algorithm == "cublasLt algo 20 tile 21 stages 26 splitk 22 cluster 28"
    assert library.preference[1] == cublaslt.WORKSPACE_BYTES


def test_only_the_handle_outlives_a_plan(library: Library) -> None:
    plan = _plan(Product(), *_operands(Product()))
    assert len(library.alive) == 5
    del plan
    assert len(library.alive) == 1


@pytest.mark.parametrize(("status", "count"), [(15, 0), (7, 0), (0, 0)])
def test_a_product_without_algorithm_is_unsupported_and_says_what_is_needed(
    library: Library, status: int, count: int
) -> None:
    library.heuristic_status, library.heuristic_count = status, count
    product = Product("int8", "int32", "int32")
    with pytest.raises(UnsupportedCase, match=r"int8 product with m=3 n=4 k=5 .* needs trans_b without trans_a"):
        _plan(product, *_operands(product))


def test_another_status_is_an_error_with_its_name(library: Library) -> None:
    library.heuristic_status = 14
    with pytest.raises(PrimbenchError, match="cublasLtMatmulAlgoGetHeuristic returned CUBLAS_STATUS_14"):
        _plan(Product(), *_operands(Product()))


def test_failure_names_function_and_status(library: Library) -> None:
    assert str(cublaslt.failure(13)) == "cublasLtMatmul returned CUBLAS_STATUS_13"


def test_version_is_read_from_its_number(library: Library) -> None:
    assert cublaslt.version() == "13.0.2"


def test_a_library_that_cannot_be_found_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "first_loadable", lambda *_: None)
    cublaslt.load.cache_clear()
    with pytest.raises(UnsupportedCase, match="pip install nvidia-cublas"):
        cublaslt.load()
