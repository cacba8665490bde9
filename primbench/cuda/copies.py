"""Copies between the host and GPUs as driver calls: prepared once, a copy is one foreign call on a stream.

Several go at once, each on a stream of its GPU, forked from the caller's stream and joined to it by events: what
holds the caller's stream holds them all. Signatures are those of cuda.h, CUDA 13.0. The header wants an event and the
stream it is recorded on to share a context, but neither that nor a stream waited on to be current.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import byref, c_int, c_size_t, c_ubyte, c_uint, c_ulonglong, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from primbench.cuda import pinned
from primbench.cuda.kernels import PreparedKernel
from primbench.devices import nth_gpu
from primbench.dtypes import poison_host
from primbench.errors import UnsupportedCase
from primbench.gpu.nvidia import driver
from primbench.numa.buffers import host_buffer
from primbench.problem import described

if TYPE_CHECKING:
    from primbench.problem import Array, Step

_LOWEST_INT8 = 0x80  # the value that poison() fills int8 arrays with
_EVENT_DISABLE_TIMING = 2
_ALREADY_ENABLED = "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"


def device_count() -> int:
    count = c_int()
    driver.call("cuDeviceGetCount", byref(count))
    return count.value


@functools.cache
def primary_context(device: int) -> int:
    """The context of a GPU that all frameworks share; kept as long as the process, as theirs are.

    Raises UnsupportedCase where the driver shows no such GPU.
    """
    if not 0 <= device < device_count():
        raise UnsupportedCase(f"{nth_gpu(device)}: the driver shows {device_count()} GPU, counted from 0")
    context = c_void_p()
    driver.call("cuDevicePrimaryCtxRetain", byref(context), c_int(device))
    return context.value or 0


@contextmanager
def current(device: int) -> Iterator[None]:
    """The GPU's primary context is current inside; the one that was before is again after."""
    driver.call("cuCtxPushCurrent_v2", c_void_p(primary_context(device)))
    try:
        yield
    finally:
        driver.call("cuCtxPopCurrent_v2", byref(c_void_p()))


def enable_peer_access(device: int, peer: int) -> None:
    """Let a GPU reach another's memory. Raises UnsupportedCase where it cannot, or the two are one."""
    if peer == device:
        raise UnsupportedCase(f"{nth_gpu(device)} is no peer of itself: name another GPU, or ask for direction=d2d")
    primary_context(peer)
    can = c_int()
    driver.call("cuDeviceCanAccessPeer", byref(can), c_int(device), c_int(peer))
    if not can.value:
        raise UnsupportedCase(
            f"{nth_gpu(device)} does not reach the memory of {nth_gpu(peer)}: copy by way of the host"
        )
    with current(device):
        try:
            driver.call("cuCtxEnablePeerAccess", c_void_p(primary_context(peer)), c_uint())
        except driver.CudaError as error:
            if _ALREADY_ENABLED not in str(error):
                raise


@dataclass(frozen=True)
class HostMemory:
    """int8 on the host."""

    array: Array
    """The bytes."""
    how: str
    """How they are pinned, in words."""
    node: int | None = None
    """The memory node that they were asked for on; None where none was asked for."""

    @property
    def address(self) -> int:
        return int(self.array.ctypes.data)

    @property
    def size_bytes(self) -> int:
        return self.array.nbytes

    def put(self, host: Array) -> None:
        self.array[:] = host

    def get(self) -> Array:
        return self.array

    def poison(self) -> None:
        poison_host(self.array)


def pinned_on(size_bytes: int, node: int | None) -> HostMemory:
    """Pages of their own, on that node or where the process allocates, registered with the driver; else the driver's.

    Raises UnsupportedCase where those of a node cannot be pinned.
    """
    array = pinned.registered(host_buffer(size_bytes, node))
    if array is not None:
        return HostMemory(array, "cuMemHostRegister", node)
    if node is not None:
        raise UnsupportedCase(f"memory on node {node} cannot be pinned: the driver refuses to register pages here")
    return HostMemory(pinned.allocated(size_bytes), "cuMemHostAlloc, as registering is not supported here")


class DeviceMemory:
    """int8 on a GPU, given back with the object."""

    def __init__(self, device: int, size_bytes: int) -> None:
        """Raises UnsupportedCase where there is no such GPU, CudaError where its memory does not suffice."""
        self.device, self.size_bytes = device, size_bytes
        pointer = c_ulonglong()
        with current(device):
            driver.call("cuMemAlloc_v2", byref(pointer), c_size_t(size_bytes))
        self.address = pointer.value
        weakref.finalize(self, _free, device, pointer)

    def put(self, host: Array) -> None:
        with current(self.device):
            source, size = c_void_p(host.ctypes.data), c_size_t(self.size_bytes)
            driver.call("cuMemcpyHtoD_v2", c_ulonglong(self.address), source, size)
            driver.call("cuCtxSynchronize")  # a small copy returns once it is staged

    def get(self) -> Array:
        import numpy as np

        host = np.empty(self.size_bytes, np.int8)
        with current(self.device):
            target, size = c_void_p(host.ctypes.data), c_size_t(self.size_bytes)
            driver.call("cuMemcpyDtoH_v2", target, c_ulonglong(self.address), size)
        return host

    def poison(self) -> None:
        with current(self.device):
            driver.call("cuMemsetD8_v2", c_ulonglong(self.address), c_ubyte(_LOWEST_INT8), c_size_t(self.size_bytes))
            driver.call("cuCtxSynchronize")  # a fill returns before it is done


def _free(device: int, pointer: c_ulonglong) -> None:
    """A context that a fault has broken refuses this, too, and its memory is gone."""
    with current(device):
        driver.function("cuMemFree_v2")(pointer)


@dataclass(frozen=True)
class Copy:
    """All of one piece of memory to another, which is as large."""

    device: int
    """The GPU whose stream it goes to."""
    source: HostMemory | DeviceMemory
    """What is copied."""
    destination: HostMemory | DeviceMemory
    """Where it is copied to."""

    @property
    def call(self) -> tuple[str, tuple[int, ...]]:
        """The driver's function, by where the two ends are, and what it takes ahead of size and stream."""
        addresses = (self.destination.address, self.source.address)
        match self.destination, self.source:
            case DeviceMemory(), HostMemory():
                return "cuMemcpyHtoDAsync_v2", addresses
            case HostMemory(), DeviceMemory():
                return "cuMemcpyDtoHAsync_v2", addresses
            case DeviceMemory(device=to), DeviceMemory(device=of) if to != of:
                return "cuMemcpyPeerAsync", (addresses[0], primary_context(to), addresses[1], primary_context(of))
        return "cuMemcpyDtoDAsync_v2", addresses


@dataclass(frozen=True)
class Copies:
    """What a step of copies returns: their destinations, one behind the other."""

    copies: Sequence[Copy]
    """The copies, in their order."""
    held: Sequence[object]
    """What the calls of the step know by plain handles, and must live as long as it."""

    def poison(self) -> None:
        for copy in self.copies:
            copy.destination.poison()

    def get(self) -> Array:
        """int8. The caller has waited for the copies."""
        import numpy as np

        return np.concatenate([copy.destination.get() for copy in self.copies])


Enqueue = Callable[[Copy, int], PreparedKernel]
"""What puts a copy on a stream."""


def by_engine(copy: Copy, stream: int) -> PreparedKernel:
    """The driver's own copy, which goes to a copy engine."""
    name, ends = copy.call
    return _prepared(name, *ends, copy.source.size_bytes, stream)


def step_of(copies: Sequence[Copy], stream: int, enqueue: Enqueue = by_engine) -> Step:
    """A call enqueues all copies at once, the first on ``stream``, of its device, which goes on when all are done.

    The step returns a Copies; its ``algorithm`` names the driver's functions.
    """
    begun, branches = _Event(copies[0].device), [Branch(copy.device) for copy in copies[1:]]
    operations = [
        *([_prepared("cuEventRecord", begun.handle, stream)] if branches else []),
        *(_wait(branch.stream, begun) for branch in branches),
        *map(enqueue, copies, [stream, *(branch.stream for branch in branches)]),
        *(_prepared("cuEventRecord", branch.done.handle, branch.stream) for branch in branches),
        *(_wait(stream, branch.done) for branch in branches),
    ]
    ends = Copies(copies, (begun, enqueue, *branches))

    def step() -> Any:
        for function, arguments in operations:
            if status := function(*arguments):
                raise driver.failure(function.__name__, status)
        return ends

    return described(step, algorithm=" and ".join(dict.fromkeys(copy.call[0] for copy in copies)))


def _prepared(name: str, *arguments: int) -> PreparedKernel:
    """Arguments of the size of a pointer."""
    return driver.function(name), tuple(map(c_void_p.from_param, arguments))


def _wait(stream: int, event: _Event) -> PreparedKernel:
    function, handles = _prepared("cuStreamWaitEvent", stream, event.handle)
    return function, (*handles, c_uint.from_param(0))


class _Event:
    """An event that orders streams and takes no time stamp. It is destroyed with the object."""

    def __init__(self, device: int) -> None:
        handle = c_void_p()
        with current(device):
            driver.call("cuEventCreate", byref(handle), c_uint(_EVENT_DISABLE_TIMING))
        self.handle = handle.value or 0
        weakref.finalize(self, driver.function("cuEventDestroy_v2"), handle)


class Branch:
    """A stream of a GPU, and the event at its end. They are destroyed with the object."""

    def __init__(self, device: int) -> None:
        with current(device):
            self.stream = driver.create_stream()
        weakref.finalize(self, driver.function("cuStreamDestroy_v2"), c_void_p(self.stream))
        self.done = _Event(device)

    def begin_after(self, stream: int) -> None:
        """Wait for what another stream of the GPU holds by now."""
        driver.call("cuEventRecord", c_void_p(self.done.handle), c_void_p(stream))
        driver.call("cuStreamWaitEvent", c_void_p(self.stream), c_void_p(self.done.handle), c_uint())
