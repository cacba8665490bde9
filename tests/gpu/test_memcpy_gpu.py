"""Copies by a real driver: how they are timed, and several GPUs where there are several."""

from __future__ import annotations

import pytest

from primbench import Measurement, Method, measure
from primbench.backends import missing
from primbench.environment.devices import has_gpu_node
from primbench.kernels.memcpy import Memcpy

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu_node(), reason="needs an NVIDIA GPU: no /dev/nvidia* here"),
    pytest.mark.usefixtures("one_second_context"),
]
QUICK = Method(min_time_s=0.005, max_time_s=0.05)


def measured_on(backend: str, problem: Memcpy) -> Measurement:
    if (reason := missing(backend)) is not None:
        pytest.skip(reason)
    return measure(problem, backend=backend, device="cuda:0", method=QUICK)


@pytest.mark.parametrize("backend", ["torch", "cupy", "numba"])
@pytest.mark.parametrize("direction", ["h2d", "d2h", "d2d", "bidirectional"])
def test_copies_are_timed_behind_a_blocking_kernel(backend: str, direction: str) -> None:
    measured = measured_on(backend, Memcpy(1 << 20, direction))
    assert measured.verified
    assert measured.device_s is not None
    assert "blocking kernel" == measured.device_s.taken_by
    assert measured.device_s.calls_per_sample >= 4


@pytest.mark.parametrize("backend", ["torch", "cupy", "numba"])
def test_a_pageable_copy_waits_for_the_gpu_itself(backend: str) -> None:
    measured = measured_on(backend, Memcpy(1 << 20, "d2h", "pageable"))
    assert measured.verified
    assert measured.device_s is None
    assert measured.main is measured.stream_s


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize("backend", ["torch", "cupy", "numba"])
def test_two_gpus_copy_to_each_other_and_at_once(backend: str) -> None:
    for problem in (Memcpy(1 << 20, "p2p", peer=1), *(Memcpy(1 << 20, d, gpus=2) for d in ("h2d", "d2h", "d2d"))):
        assert measured_on(backend, problem).verified
