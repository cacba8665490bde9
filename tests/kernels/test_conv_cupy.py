"""Convolution on CuPy arrays by cuDNN: what surrounds the library's calls, on stand-ins for the library and CuPy."""

from __future__ import annotations

import gc
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from primbench.cuda import cudnn, cudnn_conv, cudnn_graph
from primbench.devices import nth_gpu
from primbench.errors import UnsupportedCase
from primbench.gpu.nvidia import driver
from primbench.kernels.conv import Conv, _implicit_gemm
from primbench.kernels.conv import cupy as conv_cupy
from primbench.problem import description_of
from primbench.registry import setup_of

PROBLEM = Conv(2, 4, 8, 8, 4, 3, 3)


class Backend:
    """Arrays that are addresses."""

    name, device, stream_handle = "cupy", nth_gpu(0), 0x70

    def __init__(self) -> None:
        self.sizes: list[tuple[int, ...]] = []

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        self.sizes.append(shape)
        return SimpleNamespace(shape=shape, data=SimpleNamespace(ptr=0x1000 * len(self.sizes)))


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, int]]:
    """The problem and the workspace limit of every search; of two plans, the second is the fastest."""
    made: list[tuple[Any, int]] = []
    found: Any = [
        cudnn_graph.EnginePlan(None, "eng1", (), 3 * 2**20),  # type: ignore[arg-type]
        cudnn_graph.EnginePlan(None, "eng2 k1=5", ("tensor cores", "sums in any order"), 2**20),  # type: ignore[arg-type]
    ]

    def plans(problem: Any, _: Any, limit_bytes: int) -> Any:
        made.append((problem, limit_bytes))
        return found

    def bound(plan: Any, handle: Any, addresses: dict[int, int], workspace: int) -> Any:
        return cudnn_graph.EngineCall(lambda: 5000 if plan is found[0] else 0, (), (addresses, workspace))  # type: ignore[arg-type]

    conv_cupy._CHOICES.clear()
    monkeypatch.setattr(cudnn_conv, "plans", plans)
    monkeypatch.setattr(cudnn_conv, "fastest", lambda found, bind, _: [plan for plan in found if bind(plan)][1])
    monkeypatch.setattr(cudnn_graph, "bound", bound)
    monkeypatch.setattr(cudnn, "handle", lambda *_: None)
    monkeypatch.setattr(cudnn, "failure", lambda status, what: UnsupportedCase(f"{what} {status}"))
    monkeypatch.setattr(driver, "free_memory_bytes", lambda: 2**30)
    return made


def set_up(backend: Backend, problem: Conv = PROBLEM) -> Any:
    first, second = (backend.empty(shape, problem.dtype) for shape in (problem.image_shape, problem.filter_shape))
    return setup_of("conv", "cupy")(backend, problem, first, second)


def test_a_step_returns_the_output_and_names_its_plan(searches: Any) -> None:
    step = set_up(Backend())
    assert PROBLEM.output_shape == step().shape
    assert "cuDNN eng2 k1=5 (tensor cores, sums in any order), workspace 1 MiB" == description_of(step).algorithm


def test_without_trying_the_plan_proposed_first_is_taken(searches: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cudnn_conv, "fastest", lambda found, *_: found[-1])
    monkeypatch.setattr(cudnn_conv, "device_s", lambda *_: 1e-6)
    plans = [description_of(set_up(Backend(), replace(PROBLEM, algo=algo))).algorithm for algo in ("heuristic", "auto")]
    assert ["cuDNN eng1", "cuDNN eng2"] == [str(each)[:10] for each in plans]


def test_sets_of_inputs_share_a_search_and_a_workspace(searches: Any) -> None:
    backend = Backend()
    steps = [set_up(backend) for _ in range(3)]
    assert 1 == len(searches)
    assert [(3 * 2**20,), (2**20,)] == [shape for shape in backend.sizes if len(shape) == 1]
    assert 3 == len({id(step()) for step in steps})


def test_a_choice_is_forgotten_with_its_steps(searches: Any) -> None:
    backend = Backend()
    step = set_up(backend)
    del step
    gc.collect()
    set_up(backend)
    assert 2 == len(searches)


@pytest.mark.parametrize(("asked_bytes", "limit_bytes"), [(0, 2**30), (4096, 4096)])
def test_the_workspace_is_limited_by_the_request_or_what_is_free(
    searches: list[tuple[Any, int]], asked_bytes: int, limit_bytes: int
) -> None:
    set_up(Backend(), Conv(2, 4, 8, 8, 4, 3, 3, workspace_bytes=asked_bytes))
    assert limit_bytes == searches[0][1]


def test_no_request_and_much_memory_means_the_limit_of_primbench(
    searches: list[tuple[Any, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "free_memory_bytes", lambda: 2**40)
    set_up(Backend())
    assert conv_cupy.MAX_WORKSPACE_BYTES == searches[0][1]


def test_a_call_that_fails_raises_what_the_library_says(searches: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cudnn_conv, "fastest", lambda found, *_: found[0])
    with pytest.raises(UnsupportedCase, match="cudnnBackendExecute 5000"):
        set_up(Backend())()


def test_the_kernel_of_primbench_is_used_where_it_is_asked_for(searches: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_implicit_gemm, "implicit_gemm", lambda *_: "implicit GEMM")
    assert "implicit GEMM" == set_up(Backend(), Conv(2, 4, 8, 8, 4, 3, 3, algo="implicit_gemm"))
    assert [] == searches
