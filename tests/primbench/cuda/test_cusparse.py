"""What is asked of cuSPARSE; a recorder stands in for the library."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from primbench.cuda import cusparse, libraries
from primbench.devices import nth_gpu
from primbench.errors import PrimbenchError, UnsupportedCase
from primbench.kernels.sparse_gemm import SparseGemm

WORKSPACE_BYTES, WORKSPACE = 100, 0xB000
ADDRESSES = cusparse.SparseAddresses(values=0x1000, columns=0x2000, row_starts=0x3000, b=0x4000, c=0x5000)


class Recorder:
    """Every function returns ``statuses[name]`` or 0, and is in ``calls`` with its arguments; handles count from 1."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.statuses: dict[str, int] = {}
        self._handles = itertools.count(1)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def function(*arguments: Any) -> Any:
            self.calls.append((name, tuple(plain(argument) for argument in arguments)))
            if name.startswith("cusparseCreate"):
                arguments[0]._obj.value = next(self._handles)
            if name.endswith("_bufferSize"):
                arguments[-1]._obj.value = WORKSPACE_BYTES
            return b"WHY" if name == "cusparseGetErrorName" else self.statuses.get(name, 0)

        return function

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [arguments for called, arguments in self.calls if called == name]


def plain(argument: Any) -> Any:
    """The number in a ctypes object; a byref() as (type, value)."""
    if isinstance(argument, int):
        return argument
    if isinstance(argument, ctypes._SimpleCData):
        return argument.value
    if argument._obj is not None:
        return type(argument._obj), argument._obj.value
    return int(repr(argument).split("(")[1].rstrip(">)"), 16)  # an address by from_param(): <cparam 'P' (0xb000)>


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr(cusparse, "load", lambda: recorder)
    monkeypatch.setattr(cusparse, "_handle", lambda stream, device: ctypes.c_void_p(0xA000 + stream))
    return recorder


def planned(problem: SparseGemm) -> tuple[cusparse.SparsePlan, list[int]]:
    asked: list[int] = []

    def allocate(size_bytes: int) -> int:
        asked.append(size_bytes)
        return WORKSPACE

    return cusparse.plan(problem, ADDRESSES, 7, nth_gpu(0), allocate), asked


def test_a_product_is_described_sized_preprocessed_and_called_with_the_same_operands(library: Recorder) -> None:
    problem = SparseGemm(7, 5, 11)
    plan, asked = planned(problem)
    plan.call(*plan.arguments)
    one, zero = (ctypes.c_float, 1.0), (ctypes.c_float, 0.0)
    operands = (0xA007, 0, 0, one, 1, 2, zero, 3, 0, 6)
    csr = (7, 11, problem.nonzeros, 0x3000, 0x2000, 0x1000, 2, 2, 0, 0)
    assert [csr] == [arguments[1:] for arguments in library.named("cusparseCreateCsr")]
    dense = [(11, 5, 5, 0x4000, 0, 2), (7, 5, 5, 0x5000, 0, 2)]
    assert dense == [arguments[1:] for arguments in library.named("cusparseCreateDnMat")]
    assert [WORKSPACE_BYTES] == asked
    assert [(*operands, WORKSPACE)] == library.named("cusparseSpMM_preprocess") == library.named("cusparseSpMM")
    assert "cuSPARSE 0.0.0 SpMM CSR_ALG2" == plan.algorithm


@pytest.mark.parametrize(
    ("dtype", "stored", "summed", "algorithm"),
    [
        ("float64", 1, 1, "SpMM CSR_ALG2"),
        ("float16", 2, 0, "SpMM CSR_ALG3"),
        ("bfloat16", 14, 0, "SpMM CSR_ALG3"),
    ],
)
def test_16_bit_types_are_summed_in_float32_by_an_algorithm_of_their_own(
    dtype: str, stored: int, summed: int, algorithm: str, library: Recorder
) -> None:
    plan, _ = planned(SparseGemm(7, 5, 11, dtype=dtype))
    scalar = {0: ctypes.c_float, 1: ctypes.c_double}[summed]
    assert algorithm in plan.algorithm
    assert summed == plan.arguments[8]
    assert [scalar, scalar] == [plain(plan.arguments[place])[0] for place in (3, 6)]
    assert [stored] * 2 == [arguments[-2] for arguments in library.named("cusparseCreateDnMat")]


def test_one_column_is_a_vector(library: Recorder) -> None:
    plan, _ = planned(SparseGemm(7, 1, 11))
    assert [(11, 0x4000, 0), (7, 0x5000, 0)] == [arguments[1:] for arguments in library.named("cusparseCreateDnVec")]
    assert "SpMV CSR_ALG1" in plan.algorithm
    assert 10 == len(plan.arguments)  # one operation fewer


def test_descriptors_live_as_long_as_the_plan(library: Recorder) -> None:
    plan, _ = planned(SparseGemm(7, 5, 11))
    assert [] == library.named("cusparseDestroySpMat")
    del plan
    assert [(1,)] == library.named("cusparseDestroySpMat")
    assert [(2,), (3,)] == sorted(library.named("cusparseDestroyDnMat"))


@pytest.mark.parametrize(("status", "error"), [(10, UnsupportedCase), (6, PrimbenchError)])
def test_a_status_is_an_error_and_not_supported_a_skipped_case(
    status: int, error: type[Exception], library: Recorder
) -> None:
    library.statuses["cusparseSpMM_bufferSize"] = status
    with pytest.raises(PrimbenchError, match="cusparseSpMM_bufferSize: WHY") as raised:
        planned(SparseGemm(7, 5, 11))
    assert error is raised.type


def test_without_the_library_the_case_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "first_loadable", lambda stem, names: None)
    with pytest.raises(UnsupportedCase, match="pip install nvidia-cusparse"):
        cusparse.load.__wrapped__()
