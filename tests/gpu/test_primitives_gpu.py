"""Softmax, embedding, pooling and optimizers by a real GPU: as a graph, at sizes that tiles do not divide."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from primbench import Method, measure
from primbench.backends import missing
from primbench.environment.devices import has_gpu_node
from primbench.errors import UnsupportedCase
from primbench.kernels.aten import Aten
from primbench.kernels.embedding import Embedding
from primbench.kernels.optimizer import Optimizer
from primbench.kernels.pool import Pool
from primbench.kernels.softmax import Softmax
from primbench.problem import Problem

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu_node(), reason="needs an NVIDIA GPU: no /dev/nvidia* here"),
    pytest.mark.usefixtures("one_second_context"),
]
QUICK = Method(min_time_s=0.002, max_time_s=0.02)
DIRECTIONS, DTYPES = ("forward", "backward"), ("float32", "bfloat16")
WINDOWS: dict[str, Any] = {"n": 5, "c": 24, "h": 57, "w": 55, "r": 3, "s": 3, "pad_h": 1, "stride_h": 2, "stride_w": 2}
PROBLEMS: list[Problem] = [
    *(
        Softmax(rows, classes, kind, direction, dtype)
        for kind, direction, dtype in itertools.product(("softmax", "log_softmax", "cross_entropy"), DIRECTIONS, DTYPES)
        for rows, classes in ((1000, 333), (7, 128_256))
    ),
    *(
        Embedding(5001, 3001, 130, direction, distribution, dtype)
        for direction, distribution, dtype in itertools.product(DIRECTIONS, ("uniform", "zipf"), DTYPES)
    ),
    *(
        Pool(**WINDOWS, kind=kind, direction=direction, layout=layout, dtype=dtype)
        for kind, direction, layout, dtype in itertools.product(
            ("max", "average"), DIRECTIONS, ("nchw", "nhwc"), DTYPES
        )
        if (kind, direction, layout) != ("average", "backward", "nhwc")  # below
    ),
    *(
        Optimizer(37, 10_007, method, algo, dtype)
        for method, algo, dtype in itertools.product(("sgd", "adam", "adamw"), ("foreach", "fused", "for_loop"), DTYPES)
    ),
]


@pytest.mark.parametrize("kind", ["softmax", "log_softmax", "cross_entropy"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "classes"), [(3, 1), (1000, 77), (513, 1024), (17, 30_522), (2, 32_000)])
def test_softmax_by_our_kernel(rows: int, classes: int, dtype: str, kind: str) -> None:
    if (reason := missing("cupy")) is not None:
        pytest.skip(reason)
    measured = measure(Softmax(rows, classes, kind, dtype=dtype), "cupy", "cuda:0", method=QUICK)
    assert measured.verified
    assert measured.device_s is not None
    assert 1 == measured.nodes_per_call


def test_the_gradient_that_torch_computes_wrongly_is_refused_and_without_pads_it_is_right() -> None:
    if (reason := missing("torch")) is not None:
        pytest.skip(reason)
    wrong = Pool(**WINDOWS, kind="average", direction="backward", layout="nhwc")
    with pytest.raises(UnsupportedCase, match=r"wrong for layout=nhwc with pads: ask for nchw"):
        measure(wrong, "torch", "cuda:0", method=QUICK)
    assert measure(replace(wrong, pad_h=0), "torch", "cuda:0", method=QUICK).verified


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_it_is_right_and_has_a_device_time(problem: Problem) -> None:
    if (reason := missing("torch")) is not None:
        pytest.skip(reason)
    measured = measure(problem, "torch", "cuda:0", method=QUICK)
    assert measured.verified
    assert measured.device_s is not None
    if not (isinstance(problem, Embedding) and problem.direction == "backward"):  # which sorts, and may wait
        assert "graph" == measured.device_s.taken_by


def test_a_seed_that_lies_on_the_host_is_read_there() -> None:
    """In a graph torch's kernel would read it as if it lay on the GPU, and end all that the process does there."""
    operator, shape = "aten._scaled_dot_product_efficient_attention_backward.default", '"float32[4,2,128,64]"'
    seeds = '"cpu:int64[]=42", "cpu:int64[]=1503664036", 0.1, [true, true, true, false]'
    arguments = f'[{", ".join([shape] * 4)}, null, {shape}, "float32[4,2,128]+", {seeds}]'
    found = measure(Aten(operator=operator, arguments=arguments), "torch", "cuda:0", method=QUICK)
    assert "on a stream" in found.missing["nodes_per_call"]
    assert found.device_s is not None
