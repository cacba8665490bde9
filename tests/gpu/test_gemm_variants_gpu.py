"""Batched, grouped and scaled products on a real GPU: right, and by the kernels that are meant."""

from __future__ import annotations

import pytest

from primbench import Measurement, Method, measure
from primbench.backends import missing
from primbench.environment.devices import has_gpu_node
from primbench.errors import UnsupportedCase
from primbench.gpu.nvidia import driver
from primbench.kernels.batched_gemm import BatchedGemm
from primbench.kernels.collective import Collective
from primbench.kernels.gemm import Gemm
from primbench.kernels.grouped_gemm import GroupedGemm
from primbench.kernels.scaled_gemm import ScaledGemm
from primbench.problem import Problem

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu_node(), reason="needs an NVIDIA GPU: no /dev/nvidia* here"),
    pytest.mark.usefixtures("one_second_context"),
]
QUICK = Method(min_time_s=0.005, max_time_s=0.05)
BACKENDS = pytest.mark.parametrize("backend", ["torch", "cupy"])


def measured_on(backend: str, problem: Problem) -> Measurement:
    if (reason := missing(backend)) is not None:
        pytest.skip(reason)
    measured = measure(problem, backend=backend, device="cuda:0", method=QUICK)
    assert measured.verified
    assert measured.device_s is not None
    return measured


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_the_largest_tile_of_numba_is_right_inside_and_at_its_edges(dtype: str) -> None:
    for sizes in ((4096, 2304, 64), (4090, 2300, 61)):
        measured = measured_on("numba", Gemm(*sizes, dtype))
        assert "tiled 128x128x8, 8x16 a thread" == measured.algorithm


@BACKENDS
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_biases_are_added_on_the_way_out(backend: str, dtype: str) -> None:
    for sizes in ((512, 1024, 256), (2048, 4096, 512)):
        measured = measured_on(backend, Gemm(*sizes, dtype, trans_b=True, bias=True))
        assert measured.nodes_per_call is not None
        assert measured.nodes_per_call <= 2, "the terms may be cut, and added up by a kernel more"


@BACKENDS
@pytest.mark.parametrize("trans_b", [False, True])
def test_a_batch_is_one_call(backend: str, trans_b: bool) -> None:
    for dtype in ("float32", "bfloat16"):
        measured = measured_on(backend, BatchedGemm(24, 128, 96, 64, dtype, trans_b=trans_b))
        assert measured.nodes_per_call is not None
        assert measured.nodes_per_call <= 3, "the terms may be cut, and added up by a kernel more"


@BACKENDS
@pytest.mark.parametrize("split", ["even", "random", "zipf"])
def test_groups_of_bfloat16_are_right(backend: str, split: str) -> None:
    measured = measured_on(backend, GroupedGemm(16, 1000, 512, 256, "bfloat16", split))
    expected = "torch._grouped_mm" if backend == "torch" else "a product for each group"
    assert expected == measured.algorithm


@BACKENDS
@pytest.mark.parametrize("scaling", ["tensor", "row", "block"])
def test_every_scaling_is_right_or_refused_with_the_librarys_reason(backend: str, scaling: str) -> None:
    try:
        measured_on(backend, ScaledGemm(512, 512, 1024, scaling=scaling))
    except UnsupportedCase as refused:
        if driver.compute_capability() == 90 and scaling == "tensor":
            raise
        pytest.skip(f"not supported on this GPU and stack: {refused}")


@pytest.mark.parametrize(("dtype", "scaling"), [("int8", "row"), ("int4", "group")])
def test_weights_of_few_bits_are_multiplied_on_every_gpu(dtype: str, scaling: str) -> None:
    for m in (32, 512):
        assert measured_on("torch", ScaledGemm(m, 512, 1024, dtype, scaling)).algorithm


@pytest.mark.parametrize(("dtype", "scaling"), [("float8_e4m3", "mx"), ("float4_e2m1", "mx"), ("float4_e2m1", "nv")])
def test_microscales_are_right_or_refused_with_what_the_gpu_lacks(dtype: str, scaling: str) -> None:
    problem = ScaledGemm(512, 512, 1024, dtype, scaling)
    if driver.compute_capability() < 100:
        with pytest.raises(UnsupportedCase, match=r"needs compute capability 10.0, .*: this GPU has \d"):
            measured_on("torch", problem)
    else:
        measured_on("torch", problem)


@BACKENDS
@pytest.mark.parametrize("operation", ["all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv"])
def test_a_collective_of_one_rank_is_captured(backend: str, operation: str) -> None:
    if (backend, operation) in {("torch", "send_recv"), ("torch", "broadcast")}:
        pytest.skip("torch sends to another GPU only, and a broadcast in place to nobody leaves nothing to time")
    measured = measured_on(backend, Collective(1 << 20, 1, operation=operation, in_place=False))
    assert measured.device_s is not None
    assert "graph" == measured.device_s.taken_by
