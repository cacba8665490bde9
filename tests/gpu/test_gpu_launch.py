"""Launches that leave something behind, by every caller; what a graph and a trace of them hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np
import pytest

from primbench import Method, measure
from primbench.backends import Backend, GpuBackend, missing, open_backend
from primbench.environment.devices import has_gpu_node
from primbench.errors import UnsupportedCase
from primbench.gpu.nvidia import driver
from primbench.kernels.launch import Launch
from primbench.registry import setup_of
from primbench.timing.verify import check_output

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu_node(), reason="needs an NVIDIA GPU: no /dev/nvidia* here"),
]
QUICK = Method(min_time_s=0.005, max_time_s=0.05)


@pytest.fixture(scope="module", params=["torch", "cupy", "numba"])
def backend(request: pytest.FixtureRequest) -> Iterator[GpuBackend]:
    if (reason := missing(request.param)) is not None:
        pytest.skip(reason)
    opened = cast("GpuBackend", open_backend(request.param, "cuda:0"))
    yield opened
    opened.close()


def test_a_visit_to_a_second_context_leaves_the_frameworks_own_current(backend: GpuBackend) -> None:
    host, free_bytes = np.arange(100, dtype=np.float32), driver.free_memory_bytes()
    backend.second_context.visit()
    held_bytes = free_bytes - driver.free_memory_bytes()
    assert held_bytes > 0
    backend.second_context.visit()
    assert (backend.get(backend.put(host)) == host).all()
    backend.second_context.close()
    assert driver.free_memory_bytes() > free_bytes - held_bytes
    assert (backend.get(backend.put(host)) == host).all()


def test_kernels_of_two_streams_stand_beside_each_other_in_a_graph() -> None:
    if (reason := missing("torch")) is not None:
        pytest.skip(reason)
    import torch

    opened, array = cast("GpuBackend", open_backend("torch", "cuda:0")), torch.zeros(4, device="cuda:0")
    main, side = torch.cuda.current_stream(), torch.cuda.Stream()

    def forked() -> None:
        array.add_(1)
        side.wait_stream(main)
        array.add_(1)
        with torch.cuda.stream(side):
            array.add_(1).add_(1)
        main.wait_stream(side)

    try:
        graph = opened.capture(forked)
    finally:
        opened.close()
    if graph.longest_path is None:
        pytest.skip("needs a driver of CUDA 12.3 and torch 2.8 to know the edges of a graph")
    assert (4, 3) == (graph.nodes, graph.longest_path)


@pytest.mark.parametrize("call", ["kernel", "driver", "ctypes"])
@pytest.mark.parametrize("nodes", [0, 1, 100])
@pytest.mark.parametrize("parameter_bytes", [16, 1024, 4096])
def test_every_kernel_gets_its_parameters_to_the_last_byte(
    backend: Backend, call: str, parameter_bytes: int, nodes: int
) -> None:
    problem, setup = Launch(call, parameter_bytes=parameter_bytes, nodes=nodes), setup_of("launch", backend.name)
    if call == "kernel" and backend.name != "cupy":
        with pytest.raises(UnsupportedCase, match="ask for call=driver"):
            setup(backend, problem)
        return
    assert 0 == check_output(backend, problem, setup(backend, problem), problem.reference(np.random.default_rng(0)))


@pytest.mark.parametrize("call", ["kernel", "dispatch", "driver", "ctypes"])
def test_a_launch_has_its_times_with_the_queue_short_and_full(backend: Backend, call: str) -> None:
    measured = measure(Launch(call), backend=backend.name, device="cuda:0", method=QUICK)
    assert {"first_s", "full_queue_s"} == set(measured.others)
    assert 1 == measured.nodes_per_call
    assert measured.enqueue_single_s is not None


@pytest.mark.parametrize("call", ["kernel", "dispatch", "driver", "ctypes"])
def test_launches_in_steady_state_need_no_ioctl(backend: Backend, call: str) -> None:
    method = Method(min_time_s=0.005, max_time_s=2)
    measured = measure(Launch(call, seal="ioctl"), backend=backend.name, device="cuda:0", method=method)
    assert {} == measured.refused_calls
    assert {"first_s", "full_queue_s", "unsealed_s", "sealed_s"} == set(measured.others)
    assert 10_000 == Launch(call, seal="ioctl").figures(measured)["sealed_calls"]


@pytest.mark.parametrize("call", ["driver", "ctypes"])
def test_a_graph_is_timed_behind_a_blocking_kernel_and_its_instantiation_too(backend: Backend, call: str) -> None:
    measured = measure(Launch(call, nodes=10), backend=backend.name, device="cuda:0", method=QUICK)
    assert {"first_s", "instantiate_s"} == set(measured.others)
    assert measured.device_s is not None
    assert "blocking kernel" == measured.device_s.taken_by


@pytest.mark.parametrize("graph", ["set_parameters", "update", "if", "while"])
@pytest.mark.parametrize("nodes", [1, 100])
def test_a_graph_that_is_changed_or_branches_writes_what_it_is_told(backend: Backend, graph: str, nodes: int) -> None:
    problem = Launch("ctypes", graph=graph, nodes=nodes, parameter_bytes=24)
    measured = measure(problem, backend=backend.name, device="cuda:0", method=QUICK)
    assert measured.verified
    assert measured.enqueue_s is not None
    assert {"first_s"} | ({"instantiate_s"} if graph in ("set_parameters", "update") else set()) == set(measured.others)
