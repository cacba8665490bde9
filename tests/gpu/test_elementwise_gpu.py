"""Element by element by a real GPU: every op, at sizes that leave some elements over."""

from __future__ import annotations

import pytest

from primbench import Method, measure
from primbench.backends import missing
from primbench.environment.devices import has_gpu_node
from primbench.kernels.elementwise import Elementwise
from primbench.kernels.elementwise.problem import ACTIVATIONS, READS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu_node(), reason="needs an NVIDIA GPU: no /dev/nvidia* here"),
    pytest.mark.usefixtures("one_second_context"),
]
QUICK = Method(min_time_s=0.002, max_time_s=0.02)
CASES = [*((op, "forward") for op in READS), *((op, "backward") for op in ACTIVATIONS)]


@pytest.mark.parametrize("backend", ["torch", "cupy"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("op", "direction"), CASES)
def test_every_op_is_right_and_can_be_a_graph(op: str, direction: str, dtype: str, backend: str) -> None:
    if (reason := missing(backend)) is not None:
        pytest.skip(reason)
    elements = 1000 * 3 * 100 if op == "rope" else 1_048_583
    problem = Elementwise(elements, op, direction, heads=3, head_dim=100, dtype=dtype)
    measured = measure(problem, backend, "cuda:0", method=QUICK)
    assert measured.verified
    assert measured.device_s is not None
    assert "graph" == measured.device_s.taken_by
    if backend == "cupy":
        assert 1 == measured.nodes_per_call
