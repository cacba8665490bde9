"""The few CUDA driver calls that timing needs, by ctypes on libcuda: they work beside any framework.

All functions act on the context that is current in the calling thread, which is the framework's primary one.
Every handle is a plain int. The functions are those of the CUDA Driver API reference, same names.
"""

from __future__ import annotations

import ctypes
import functools
from contextlib import contextmanager, suppress
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Any

from primbench.errors import BackendUnavailable, PrimbenchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_HOST_ALLOC_DEVICEMAP = 2
_STREAM_NON_BLOCKING = 1
_CAPTURE_THREAD_LOCAL = 1
_CAPTURE_ACTIVE = 1
_EVENT_BLOCKING_SYNC = 1
_LIMIT_PERSISTING_L2_CACHE_SIZE = 6  # CU_LIMIT_, of cuda.h
MULTIPROCESSORS, _L2_CACHE_SIZE, _COMPUTE_CAPABILITY = 16, 38, (75, 76)  # CU_DEVICE_ATTRIBUTE_


class CudaError(PrimbenchError):
    """A driver call failed; the message is ``function: NAME``."""


@functools.cache
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise BackendUnavailable(f"no CUDA driver: {error}") from None
    return library


def call(function: str, *arguments: Any) -> None:
    """Call a driver function. Raises CudaError with the name of the error it returns."""
    status = getattr(_library(), function)(*arguments)
    if status:
        raise failure(function, status)


def function(name: str) -> Callable[..., int]:
    """A driver function as it is, for calls that are to cost no more than a foreign call."""
    found: Callable[..., int] = getattr(_library(), name)
    return found


def failure(function: str, status: int) -> CudaError:
    """The error that a status other than 0 stands for."""
    name = c_char_p()
    _library().cuGetErrorName(status, byref(name))
    return CudaError(f"{function}: {name.value.decode() if name.value else status}")


def current_context() -> int:
    """The handle of the calling thread's context; 0 where it has none."""
    context = c_void_p()
    call("cuCtxGetCurrent", byref(context))
    return context.value or 0


def create_stream() -> int:
    """A stream that does not wait for the legacy default stream."""
    stream = c_void_p()
    call("cuStreamCreate", byref(stream), c_uint(_STREAM_NON_BLOCKING))
    return _address(stream)


def synchronize(stream: int) -> None:
    call("cuStreamSynchronize", c_void_p(stream))


def finish() -> None:
    """Wait for all streams of the current context."""
    call("cuCtxSynchronize")


def l2_set_aside_bytes() -> int:
    """How much of the L2 cache the current context keeps for lines marked as persisting: 0 of a GPU that has none."""
    kept = c_size_t()
    with suppress(CudaError):  # below compute capability 8.0
        call("cuCtxGetLimit", byref(kept), c_int(_LIMIT_PERSISTING_L2_CACHE_SIZE))
    return kept.value


def free_memory_bytes() -> int:
    """Free memory of the current context's device."""
    free, total = c_size_t(), c_size_t()
    call("cuMemGetInfo_v2", byref(free), byref(total))
    return free.value


def l2_cache_bytes() -> int:
    """Size of the current context's device's L2 cache."""
    return device_attribute(_L2_CACHE_SIZE)


def compute_capability() -> int:
    """Of the current context's device: 90 is 9.0."""
    major, minor = map(device_attribute, _COMPUTE_CAPABILITY)
    return 10 * major + minor


def device_attribute(number: int) -> int:
    """number: a CUdevice_attribute of cuda.h, of the current context's device."""
    device, value = c_int(), c_int()
    call("cuCtxGetDevice", byref(device))
    call("cuDeviceGetAttribute", byref(value), c_int(number), device)
    return value.value


class Event:
    """A timing event; its resolution is about 0.5 us. sleeps: who waits for it gives the CPU to others meanwhile."""

    def __init__(self, *, sleeps: bool = False) -> None:
        self._handle = c_void_p()
        call("cuEventCreate", byref(self._handle), c_uint(_EVENT_BLOCKING_SYNC if sleeps else 0))

    def __del__(self) -> None:
        if self._handle:
            _library().cuEventDestroy_v2(self._handle)

    def record(self, stream: int) -> None:
        call("cuEventRecord", self._handle, c_void_p(stream))

    def wait(self) -> None:
        call("cuEventSynchronize", self._handle)

    def seconds_until(self, later: Event) -> float:
        """Time from this event to ``later``, both of them reached."""
        milliseconds = c_float()
        call("cuEventElapsedTime", byref(milliseconds), self._handle, later._handle)
        return milliseconds.value / 1e3


class DriverGraph:
    """A graph on the stream it was captured from, instantiated.

    nodes: how many operations it holds, a child graph counted as one. longest_path: how many of them are on the
    longest path, where each waits for the one before; None where the driver does not say.
    """

    def __init__(self, graph: c_void_p, stream: int) -> None:
        self._stream, self._instance = c_void_p(stream), c_void_p()
        self.nodes = _count_nodes(graph)
        self.longest_path = _longest_path(graph, self.nodes)
        self._instance = instantiate(graph)
        call("cuGraphUpload", self._instance, self._stream)

    def __del__(self) -> None:
        if self._instance:
            _library().cuGraphExecDestroy(self._instance)

    @property
    def handle(self) -> int:
        """Of the instance, valid as long as this object lives."""
        return _address(self._instance)

    def launch(self) -> None:
        call("cuGraphLaunch", self._instance, self._stream)


def capture(stream: int, enqueue: Callable[[], None]) -> DriverGraph:
    """Capture what ``enqueue`` puts on the stream. Its exception passes through, with the capture ended."""
    with captured(stream, enqueue) as graph:
        return DriverGraph(graph, stream)


@contextmanager
def captured(stream: int, enqueue: Callable[[], None]) -> Iterator[c_void_p]:
    """The graph that capture() would instantiate; it is destroyed at the end."""
    handle, graph = c_void_p(stream), c_void_p()
    call("cuStreamBeginCapture_v2", handle, c_int(_CAPTURE_THREAD_LOCAL))
    try:
        enqueue()
    except BaseException:
        _library().cuStreamEndCapture(handle, byref(graph))
        raise
    call("cuStreamEndCapture", handle, byref(graph))
    try:
        yield graph
    finally:
        call("cuGraphDestroy", graph)


def instantiate(graph: c_void_p) -> c_void_p:
    """A new instance, which the caller destroys: cuGraphExecDestroy."""
    instance = c_void_p()
    call("cuGraphInstantiateWithFlags", byref(instance), graph, c_ulonglong(0))
    return instance


def nodes_being_captured(stream: int) -> int:
    """How many nodes the running capture of a stream holds so far."""
    status, identity = c_int(), c_ulonglong()
    graph, dependencies, count = c_void_p(), c_void_p(), c_size_t()
    call(
        "cuStreamGetCaptureInfo_v2",
        c_void_p(stream), byref(status), byref(identity), byref(graph), byref(dependencies), byref(count),
    )  # fmt: skip
    return _count_nodes(graph) if status.value == _CAPTURE_ACTIVE else 0


def _count_nodes(graph: c_void_p) -> int:
    count = c_size_t()
    call("cuGraphGetNodes", graph, None, byref(count))
    return count.value


def _longest_path(graph: c_void_p, nodes: int) -> int | None:
    """None before CUDA 12.3, whose call is the first that returns programmatic edges, too: these count as the others.

    None also where the call is refused: no measurement is to fail for that.
    """
    try:
        edges = _edges(graph) if hasattr(_library(), "cuGraphGetEdges_v2") else None
    except CudaError:
        return None
    if not edges:
        return None if edges is None else min(1, nodes)
    in_a_row = len(edges) == nodes - 1 == len({first for first, _ in edges}) == len({then for _, then in edges})
    return nodes if in_a_row else _depth(edges)  # sorting takes a while where there are thousands


def _depth(edges: list[tuple[int, int]]) -> int:
    """Nodes on the longest path."""
    before: dict[int, list[int]] = {}
    for first, then in edges:
        before.setdefault(then, []).append(first)
    length: dict[int, int] = {}
    for node in TopologicalSorter(before).static_order():
        length[node] = 1 + max((length[each] for each in before.get(node, ())), default=0)
    return max(length.values())


def _edges(graph: c_void_p) -> list[tuple[int, int]]:
    count = c_size_t()
    call("cuGraphGetEdges_v2", graph, None, None, None, byref(count))
    first, then, data = (c_void_p * count.value)(), (c_void_p * count.value)(), (c_ulonglong * count.value)()
    if count.value:
        call("cuGraphGetEdges_v2", graph, first, then, data, byref(count))
    return list(zip(first, then, strict=True))


def _address(pointer: c_void_p) -> int:
    if pointer.value is None:
        raise CudaError("the driver returned a null handle")
    return pointer.value


class Module:
    """Code in PTX, compiled by the driver for the current context's device."""

    def __init__(self, ptx: bytes) -> None:
        self._handle = c_void_p()
        call("cuModuleLoadData", byref(self._handle), c_char_p(ptx))

    def __del__(self) -> None:
        if self._handle:
            _library().cuModuleUnload(self._handle)

    def function(self, name: str) -> int:
        """A kernel, which lives as long as this object."""
        found = c_void_p()
        call("cuModuleGetFunction", byref(found), self._handle, c_char_p(name.encode()))
        return _address(found)


class MappedMemory:
    """Memory of the host that kernels of the current context read and write, and find at ``device``.

    Nothing may use it once this has gone.
    """

    def __init__(self, size_bytes: int) -> None:
        self._host, self.device = c_void_p(), c_ulonglong()
        call("cuMemHostAlloc", byref(self._host), c_size_t(size_bytes), c_uint(_HOST_ALLOC_DEVICEMAP))
        call("cuMemHostGetDevicePointer_v2", byref(self.device), self._host, c_uint(0))

    @property
    def host(self) -> int:
        """Where the host finds it."""
        return _address(self._host)

    def __del__(self) -> None:
        if self._host:
            _library().cuMemFreeHost(self._host)
