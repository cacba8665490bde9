"""Copies between the host and GPUs: which memory, on which GPU, for each direction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.cuda import copies, pinned
from primbench.cuda.copies import Copy, DeviceMemory, HostMemory
from primbench.errors import UnsupportedCase
from primbench.kernels.memcpy._multiprocessors import Multiprocessors
from primbench.kernels.memcpy._while_other import while_other_goes
from primbench.numa.buffers import host_buffer
from primbench.problem import described, description_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from primbench.problem import Array, Step


def cuda_step(backend: Any, problem: Any, x: Any) -> Step:
    """problem: a Memcpy. The step says its ``algorithm``, ``host_buffers`` and ``stream_only``.

    The last: what is asked is how the copy engines do when a stream feeds them, as it does in a program, and as
    nvbandwidth measures it; nodes of a graph may be sent to them another way.
    """
    if problem.direction == "h2h":
        raise UnsupportedCase("h2h copies within the host: ask for device=cpu")
    device, host = backend.device.index, backend.get(x)
    planned = [copy for number in range(problem.gpus) for copy in _copies(backend, problem, device + number)]
    for copy in planned:
        copy.source.put(host)
    step = _step(planned, backend.stream_handle, problem)
    on_host = [end for copy in planned for end in (copy.source, copy.destination) if isinstance(end, HostMemory)]
    pins = dict.fromkeys(end.how for end in on_host)
    return described(
        step,
        algorithm=", ".join([str(description_of(step).algorithm), *pins]),
        stream_only=True,
        host_buffers=[(end.array, end.node) for end in on_host],
    )


def _step(planned: Sequence[Copy], stream: int, problem: Any) -> Step:
    """By the multiprocessors; or by the engines, with its ``others`` where both ways go."""
    if problem.engine == "sm":
        enqueue = Multiprocessors()
        return described(copies.step_of(planned, stream, enqueue), algorithm=enqueue.name)
    step = copies.step_of(planned, stream)
    if not problem.has_each_way:
        return step
    to_gpu, to_host = planned
    ways = {"h2d_s": while_other_goes(to_gpu, to_host, stream), "d2h_s": while_other_goes(to_host, to_gpu, stream)}
    return described(step, others=ways)


def _copies(backend: Any, problem: Any, device: int) -> Iterator[Copy]:
    """The copies of one GPU: two for bidirectional, else one."""

    def on_gpu(number: int = device) -> DeviceMemory:
        return DeviceMemory(number, problem.bytes)

    def on_host(node: int) -> HostMemory:
        return _host_memory(backend, problem, None if node < 0 else node)

    if problem.direction in ("h2d", "bidirectional"):
        yield Copy(device, on_host(problem.src_node), on_gpu())
    if problem.direction in ("d2h", "bidirectional"):
        yield Copy(device, on_gpu(), on_host(problem.dst_node))
    if problem.direction == "d2d":
        yield Copy(device, on_gpu(), on_gpu())
    if problem.direction == "p2p":
        copies.enable_peer_access(device, problem.peer)
        yield Copy(device, on_gpu(), on_gpu(problem.peer))


def _host_memory(backend: Any, problem: Any, node: int | None) -> HostMemory:
    if problem.memory == "write_combined":
        return HostMemory(pinned.allocated(problem.bytes, write_combined=True), "cuMemHostAlloc write-combined")
    if problem.memory == "framework":
        return HostMemory(_PINNED_BY[backend.name](problem.bytes), f"pinned by {backend.name}")
    if problem.memory == "pageable":
        return HostMemory(host_buffer(problem.bytes, node), "pageable", node)
    return copies.pinned_on(problem.bytes, node)


def _torch_pinned(size_bytes: int) -> Array:
    import torch

    array: Array = torch.empty(size_bytes, dtype=torch.int8, pin_memory=True).numpy()
    return array


def _cupy_pinned(size_bytes: int) -> Array:
    import cupyx
    import numpy as np

    array: Array = cupyx.empty_pinned((size_bytes,), np.int8)
    return array


def _numba_pinned(size_bytes: int) -> Array:
    import numpy as np
    from numba import cuda

    array: Array = cuda.pinned_array(size_bytes, np.int8)
    return array


_PINNED_BY: dict[str, Callable[[int], Array]] = {"torch": _torch_pinned, "cupy": _cupy_pinned, "numba": _numba_pinned}
