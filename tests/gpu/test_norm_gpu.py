"""Normalisation by a real GPU: every kind, and rows of every length that the kernel shares out another way."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from primbench import Method, measure
from primbench.backends import missing
from primbench.environment.devices import has_gpu_node
from primbench.kernels.norm import Norm
from primbench.kernels.norm._row_gradients import plan_of

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu_node(), reason="needs an NVIDIA GPU: no /dev/nvidia* here"),
    pytest.mark.usefixtures("one_second_context"),
]
QUICK = Method(min_time_s=0.002, max_time_s=0.02)


@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("rows", "features"), [(3, 1), (1000, 77), (4097, 1024), (501, 4096), (65, 16_384), (3, 32_767)]
)
def test_rows_of_every_length_by_our_kernel(rows: int, features: int, dtype: str, kind: str) -> None:
    if (reason := missing("cupy")) is not None:
        pytest.skip(reason)
    measured = measure(Norm(rows, features, kind=kind, dtype=dtype), "cupy", "cuda:0", method=QUICK)
    assert measured.verified
    assert measured.device_s is not None
    assert 1 == measured.nodes_per_call


@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("rows", "features"),
    [
        (1, 1),
        (5000, 1),
        (999, 77),
        (9001, 512),
        (4099, 1024),
        (501, 4096),
        (70, 4097),
        (33, 8192),
        (40, 8191),
        (2, 40_004),
    ],
)
def test_gradients_of_rows_of_every_length_by_our_kernels(rows: int, features: int, dtype: str, kind: str) -> None:
    if (reason := missing("cupy")) is not None:
        pytest.skip(reason)
    problem = Norm(rows, features, kind=kind, direction="backward", dtype=dtype)
    measured = measure(problem, "cupy", "cuda:0", method=QUICK)
    assert measured.verified
    assert (2 if plan_of(features, dtype).held else 3) == measured.nodes_per_call


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize(
    ("rows", "features", "side"), [(2, 1, 1), (64, 64, 56), (33, 250, 7), (5, 2048, 7), (2, 3, 224), (700, 1, 28)]
)
def test_images_by_our_kernels(rows: int, features: int, side: int, layout: str, dtype: str) -> None:
    if (reason := missing("cupy")) is not None:
        pytest.skip(reason)
    for direction, is_running in itertools.product(("forward", "backward"), (False, True)):
        problem = Norm(rows, features, side, side, "batch", direction, is_running, layout, dtype)
        measured = measure(problem, "cupy", "cuda:0", method=QUICK)
        assert measured.verified
        assert (2 if (direction, is_running) == ("forward", True) else 3) == measured.nodes_per_call


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "options",
    [
        {"kind": "layer"},
        {"kind": "rms"},
        {"kind": "batch", "h": 28, "w": 27},
        {"kind": "batch", "h": 28, "w": 27, "layout": "nhwc"},
        {"kind": "batch", "h": 28, "w": 27, "running_statistics": True},
    ],
    ids=str,
)
def test_every_kind_on_torch_can_be_a_graph(options: dict[str, Any], dtype: str, direction: str) -> None:
    if (reason := missing("torch")) is not None:
        pytest.skip(reason)
    problem = Norm(32, 256, direction=direction, dtype=dtype, **options)
    measured = measure(problem, "torch", "cuda:0", method=QUICK)
    assert measured.verified
    assert measured.device_s is not None
    assert "graph" == measured.device_s.taken_by
