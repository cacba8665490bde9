"""Copies by the multiprocessors, one way while the other goes, and loads over the bus, on a real GPU."""

from __future__ import annotations

import pytest

from primbench import Measurement, Method, measure
from primbench.backends import missing
from primbench.environment.devices import has_gpu_node
from primbench.kernels.chase import Chase
from primbench.kernels.memcpy import Memcpy
from primbench.problem import Problem

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu_node(), reason="needs an NVIDIA GPU: no /dev/nvidia* here"),
    pytest.mark.usefixtures("one_second_context"),
]
QUICK = Method(min_time_s=0.005, max_time_s=0.05)


def measured_on(backend: str, problem: Problem) -> Measurement:
    if (reason := missing(backend)) is not None:
        pytest.skip(reason)
    return measure(problem, backend=backend, device="cuda:0", method=QUICK)


@pytest.mark.parametrize("backend", ["torch", "cupy", "numba"])
@pytest.mark.parametrize("direction", ["h2d", "d2h", "d2d", "bidirectional"])
def test_multiprocessors_copy_every_byte(backend: str, direction: str) -> None:
    for size_bytes in (1, (1 << 22) + 13):
        measured = measured_on(backend, Memcpy(size_bytes, direction, engine="sm"))
        assert measured.verified
        assert measured.device_s is not None
        assert str(measured.algorithm).startswith("copy.cu, ")


def test_either_way_is_timed_while_the_other_goes() -> None:
    measured = measured_on("cupy", Memcpy(1 << 24, "bidirectional"))
    assert measured.verified
    assert {"h2d_s", "d2h_s"} == set(measured.others)


@pytest.mark.parametrize("backend", ["cupy", "numba"])
@pytest.mark.parametrize("order", ["random", "rising"])
def test_a_chain_over_the_bus_is_walked_to_its_end(backend: str, order: str) -> None:
    measured = measured_on(backend, Chase(1 << 20, order=order))
    assert measured.verified
    assert measured.device_s is not None
