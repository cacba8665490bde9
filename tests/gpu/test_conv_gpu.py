"""Convolutions by a real GPU, cuDNN trying its algorithms or not: alone, in a model, and as parts of its step."""

from __future__ import annotations

import pytest

from primbench import Method, measure
from primbench.backends import missing
from primbench.decompose.as_cases import cases
from primbench.decompose.model import captured
from primbench.environment.devices import has_gpu_node
from primbench.kernels.conv import Conv
from primbench.kernels.model import Model
from primbench.registry import build

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu_node(), reason="needs an NVIDIA GPU: no /dev/nvidia* here"),
    pytest.mark.usefixtures("one_second_context"),
]
QUICK = Method(min_time_s=0.002, max_time_s=0.02)


@pytest.fixture(params=["torch", "cupy"])
def backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if (reason := missing(name)) is not None:
        pytest.skip(reason)
    return name


@pytest.mark.parametrize("algo", ["auto", "heuristic"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("direction", ["forward", "bwd_data", "bwd_weights"])
def test_each_choice_is_right(backend: str, direction: str, dtype: str, algo: str) -> None:
    problem = Conv(4, 24, 29, 27, 40, 3, 3, pad_h=1, pad_w=1, stride_h=2, direction=direction, dtype=dtype, algo=algo)
    measured = measure(problem, backend, "cuda:0", method=QUICK)
    assert measured.verified
    assert measured.device_s is not None


@pytest.mark.parametrize("tries", [False, True])
def test_a_model_is_right_either_way_and_its_parts_are_as_its_step(*, tries: bool) -> None:
    if (reason := missing("torch")) is not None:
        pytest.skip(reason)
    measured = measure(Model("mnist_cnn", batch_size=4, cudnn_benchmark=tries), "torch", "cuda:0", method=QUICK)
    assert measured.verified
    step = captured(build("model", {"network": "mnist_cnn", "batch_size": 4, "cudnn_benchmark": tries}), "cuda:0")
    parts = [part for call in step.calls for part in cases(call, step.settings) if part.primitive == Conv.primitive]
    assert {part.fields.get("algo", "auto") for part in parts} == {"auto" if tries else "heuristic"}
