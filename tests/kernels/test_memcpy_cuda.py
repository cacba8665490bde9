"""Copies on GPUs, against a stand-in for the driver: right data, right order, right context, nothing kept.

The stand-in is called through ctypes with the signatures of cuda.h, copies within host memory at once, and refuses
what the driver would: memory that is not its own, another GPU's memory without leave, a stream of no context.
"""

# ruff: noqa: N802 - the driver's names

from __future__ import annotations

import ctypes
import gc
import itertools
from collections.abc import Callable, Iterator
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_ulonglong, c_void_p
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from primbench.cuda import copies, driver, kernels
from primbench.errors import UnsupportedCase, VerificationError
from primbench.kernels.chase import Chase
from primbench.kernels.memcpy import Memcpy
from primbench.kernels.memcpy._while_other import while_other_goes
from primbench.numa import mempolicy
from primbench.numa.scan import memory_nodes
from primbench.problem import Step, description_of
from primbench.registry import setup_of
from primbench.spec.method import Method
from primbench.timing.sampling import Pace
from primbench.timing.verify import check_output

NODE = next(node.id for node in memory_nodes() if node.has_memory and node.allowed)

_OUT, _DEVICE_OUT, _INT_OUT = POINTER(c_void_p), POINTER(c_ulonglong), POINTER(c_int)
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuDeviceGetCount": (_INT_OUT,),
    "cuDevicePrimaryCtxRetain": (_OUT, c_int),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (_OUT,),
    "cuCtxSynchronize": (),
    "cuDeviceCanAccessPeer": (_INT_OUT, c_int, c_int),
    "cuCtxEnablePeerAccess": (c_void_p, c_uint),
    "cuMemAlloc_v2": (_DEVICE_OUT, c_size_t),
    "cuMemFree_v2": (c_ulonglong,),
    "cuMemHostAlloc": (_OUT, c_size_t, c_uint),
    "cuMemFreeHost": (c_void_p,),
    "cuMemHostRegister_v2": (c_void_p, c_size_t, c_uint),
    "cuMemHostUnregister": (c_void_p,),
    "cuMemcpyHtoD_v2": (c_ulonglong, c_void_p, c_size_t),
    "cuMemcpyDtoH_v2": (c_void_p, c_ulonglong, c_size_t),
    "cuMemcpyHtoDAsync_v2": (c_ulonglong, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_ulonglong, c_size_t, c_void_p),
    "cuMemcpyDtoDAsync_v2": (c_ulonglong, c_ulonglong, c_size_t, c_void_p),
    "cuMemcpyPeerAsync": (c_ulonglong, c_void_p, c_ulonglong, c_void_p, c_size_t, c_void_p),
    "cuMemsetD8_v2": (c_ulonglong, c_ubyte, c_size_t),
    "cuStreamCreate": (_OUT, c_uint),
    "cuStreamDestroy_v2": (c_void_p,),
    "cuEventCreate": (_OUT, c_uint),
    "cuEventDestroy_v2": (c_void_p,),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "cuCtxGetDevice": (_INT_OUT,),
    "cuDeviceGetAttribute": (_INT_OUT, c_int, c_int),
    "cuMemHostGetDevicePointer_v2": (_DEVICE_OUT, c_void_p, c_uint),
    "cuLaunchKernel": (c_void_p, *[c_uint] * 7, c_void_p, POINTER(c_void_p), c_void_p),
}
ERRORS = {
    1: b"CUDA_ERROR_INVALID_VALUE",
    704: b"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
    801: b"CUDA_ERROR_NOT_SUPPORTED",
}
INVALID, ALREADY_ENABLED, NOT_SUPPORTED = 1, 704, 801
MAIN_STREAM = 0x51
KERNELS = {0x4E: "_copy_by_kernel", 0x4F: "_walk"}
NUMBERS = {"copy": 0x4E, "walk": 0x4F}


class StandIn:
    """Two GPUs, the first one's context current."""

    def __init__(self) -> None:
        self.registers = self.peers = True
        self.leaves_out = 0  # bytes at the end of every copy on a stream of the second GPU
        self.contexts = {0: 0xC0, 1: 0xC1}
        self.current = [0xC0]
        self.device_memory: dict[int, tuple[int, Any]] = {}
        self.pinned: dict[int, Any] = {}
        self.streams = {MAIN_STREAM: 0xC0}
        self.events: dict[int, int] = {}
        self.enabled: set[tuple[int, int]] = set()
        self.log: list[tuple[Any, ...]] = []
        self._handles = itertools.count(0x1000)
        self._callbacks = []
        for name, types in SIGNATURES.items():
            callback = ctypes.CFUNCTYPE(c_int, *types)(self._refusing(getattr(self, f"_{name}")))
            self._callbacks.append(callback)
            plain = ctypes.CFUNCTYPE(c_int)(ctypes.cast(callback, c_void_p).value or 0)
            plain.__name__ = name  # type: ignore[attr-defined]
            setattr(self, name, plain)

    def _refusing(self, act: Callable[..., int | None]) -> Callable[..., int]:
        """The function, with 0 for no status, and the driver's error for what it may not be given."""

        def function(*arguments: Any) -> int:
            try:
                return act(*arguments) or 0
            except (KeyError, AssertionError):
                return INVALID

        return function

    def _cuGetErrorName(self, status: int, name: Any) -> None:
        name[0] = ERRORS[status]

    def _cuDeviceGetCount(self, count: Any) -> None:
        count[0] = len(self.contexts)

    def _cuDevicePrimaryCtxRetain(self, context: Any, device: int) -> None:
        context[0] = self.contexts[device]

    def _cuCtxPushCurrent_v2(self, context: int) -> None:
        assert context in self.contexts.values()
        self.current.append(context)

    def _cuCtxPopCurrent_v2(self, context: Any) -> None:
        context[0] = self.current.pop()

    def _cuCtxSynchronize(self) -> None:
        pass

    def _cuDeviceCanAccessPeer(self, can: Any, device: int, peer: int) -> None:
        can[0] = int(self.peers and device != peer)

    def _cuCtxEnablePeerAccess(self, peer: int, flags: int) -> int:
        pair = (self.current[-1], peer)
        there = pair in self.enabled
        self.enabled.add(pair)
        return ALREADY_ENABLED if there else 0

    def _cuMemAlloc_v2(self, pointer: Any, size: int) -> None:
        memory = (ctypes.c_byte * size)()
        pointer[0] = ctypes.addressof(memory)
        self.device_memory[pointer[0]] = (self.current[-1], memory)

    def _cuMemFree_v2(self, pointer: int) -> None:
        assert self.device_memory[pointer][0] == self.current[-1]
        del self.device_memory[pointer]

    def _cuMemHostAlloc(self, pointer: Any, size: int, flags: int) -> None:
        memory = (ctypes.c_byte * size)()
        pointer[0] = ctypes.addressof(memory)
        self.pinned[pointer[0]] = memory
        self.log.append(("cuMemHostAlloc", flags))

    def _cuMemFreeHost(self, pointer: int) -> None:
        del self.pinned[pointer]

    def _cuMemHostRegister_v2(self, pointer: int, size: int, flags: int) -> int:
        if not self.registers:
            return NOT_SUPPORTED
        assert all(ctypes.string_at(pointer, size))  # touched
        self.pinned[pointer] = size
        return 0

    def _cuMemHostUnregister(self, pointer: int) -> None:
        ctypes.string_at(pointer, self.pinned.pop(pointer))  # still mapped

    def _cuMemcpyHtoD_v2(self, to: int, of: int, size: int) -> None:
        assert self.device_memory[to][0] == self.current[-1]
        ctypes.memmove(to, of, size)

    def _cuMemcpyDtoH_v2(self, to: int, of: int, size: int) -> None:
        assert self.device_memory[of][0] == self.current[-1]
        ctypes.memmove(to, of, size)

    def _cuMemcpyHtoDAsync_v2(self, to: int, of: int, size: int, stream: int) -> None:
        self._copy("h2d", self.device_memory[to][0], to, of, size, stream)

    def _cuMemcpyDtoHAsync_v2(self, to: int, of: int, size: int, stream: int) -> None:
        self._copy("d2h", self.device_memory[of][0], to, of, size, stream)

    def _cuMemcpyDtoDAsync_v2(self, to: int, of: int, size: int, stream: int) -> None:
        assert self.device_memory[to][0] == self.device_memory[of][0]
        self._copy("d2d", self.device_memory[of][0], to, of, size, stream)

    def _cuMemcpyPeerAsync(self, to: int, there: int, of: int, here: int, size: int, stream: int) -> None:
        assert (here, there) in self.enabled
        assert (self.device_memory[to][0], self.device_memory[of][0]) == (there, here)
        self._copy("p2p", here, to, of, size, stream)

    def _copy(self, kind: str, context: int, to: int, of: int, size: int, stream: int) -> None:
        assert self.streams[stream] == context
        self.log.append((kind, stream))
        ctypes.memmove(to, of, size - (self.leaves_out if context == self.contexts[1] else 0))

    def _cuMemsetD8_v2(self, pointer: int, value: int, size: int) -> None:
        assert self.device_memory[pointer][0] == self.current[-1]
        ctypes.memset(pointer, value, size)

    def _cuStreamCreate(self, stream: Any, flags: int) -> None:
        stream[0] = next(self._handles)
        self.streams[stream[0]] = self.current[-1]

    def _cuStreamDestroy_v2(self, stream: int) -> None:
        del self.streams[stream]

    def _cuEventCreate(self, event: Any, flags: int) -> None:
        event[0] = next(self._handles)
        self.events[event[0]] = self.current[-1]

    def _cuEventDestroy_v2(self, event: int) -> None:
        del self.events[event]

    def _cuEventRecord(self, event: int, stream: int) -> None:
        assert self.events[event] == self.streams[stream]
        self.log.append(("record", event, stream))

    def _cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> None:
        assert self.streams[stream] is not None
        self.log.append(("wait", event, stream))

    def _cuCtxGetDevice(self, device: Any) -> None:
        device[0] = list(self.contexts.values()).index(self.current[-1])

    def _cuDeviceGetAttribute(self, value: Any, attribute: int, device: int) -> None:
        value[0] = {16: 132}[attribute]

    def _cuMemHostGetDevicePointer_v2(self, pointer: Any, host: int, flags: int) -> None:
        assert host in self.pinned
        pointer[0] = host

    def _cuLaunchKernel(self, kernel: int, *rest: Any) -> None:
        """Our kernels, of which each has three parameters."""
        stream, parameters = rest[7:9]
        values = (c_ulonglong.from_address(parameters[number]).value for number in range(3))
        getattr(self, KERNELS[kernel])(rest[:7], stream, *values)

    def _walk(self, shape: Any, stream: int, place: int, loads: int, end: int) -> None:
        assert (1, 1, 1, 1, 1, 1, 0) == shape
        assert place in self.pinned
        for _ in range(loads):
            place = c_ulonglong.from_address(place).value
        assert self.device_memory[end][0] == self.streams[stream]
        c_ulonglong.from_address(end).value = place

    def _copy_by_kernel(self, shape: Any, stream: int, to: int, of: int, size: int) -> None:
        assert (132, 1, 1, 512, 1, 1, 0) == shape
        on_device, on_host = self.device_memory.keys() & {to, of}, self.pinned.keys() & {to, of}
        assert {to, of} == on_device | on_host
        self._copy("sm", self.contexts[0], to, of, size, stream)


class OnCuda:
    """As much of a backend as a copy needs."""

    name = "cupy"
    device = "cuda:0"
    stream_handle = MAIN_STREAM

    def put(self, host: Any) -> Any:
        return host

    def get(self, array: Any) -> Any:
        return array

    def synchronize(self) -> None:
        pass


@pytest.fixture(scope="module", autouse=True)
def only_what_is_made_here_is_collected() -> Iterator[None]:
    """Every test collects garbage, which with all that the tests before have loaded takes half a second."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    found = StandIn()
    monkeypatch.setattr(driver, "_library", lambda: found)
    monkeypatch.setattr(kernels, "module", lambda source: SimpleNamespace(function=NUMBERS.__getitem__))
    copies.primary_context.cache_clear()
    yield found
    copies.primary_context.cache_clear()
    gc.collect()


def may_bind() -> bool:
    try:
        mempolicy.probe("mbind")
    except OSError:
        return False
    return True


def step_of(problem: Memcpy) -> tuple[Step, Any]:
    backend, inputs = OnCuda(), problem.inputs(np.random.default_rng(0))
    return setup_of("memcpy", "cupy")(backend, problem, *inputs), inputs


def error_of(problem: Memcpy) -> float:
    step, inputs = step_of(problem)
    return check_output(OnCuda(), problem, step, problem.reference(np.random.default_rng(1), *inputs))  # type: ignore[arg-type]


EVERY = [
    Memcpy(1000, "h2d"),
    Memcpy(1000, "h2d", "pageable"),
    Memcpy(1000, "h2d", "write_combined"),
    Memcpy(1000, "d2h"),
    Memcpy(1000, "d2h", "pageable"),
    Memcpy(1000, "d2d"),
    Memcpy(1000, "bidirectional"),
    Memcpy(1000, "p2p", peer=1),
    Memcpy(1000, "h2d", gpus=2),
    Memcpy(1000, "d2h", gpus=2),
    Memcpy(1000, "d2d", gpus=2),
    Memcpy(1000, "bidirectional", gpus=2),
    *(Memcpy(1000, direction, engine="sm") for direction in ("h2d", "d2h", "d2d", "bidirectional")),
    Memcpy(1000, "p2p", peer=1, engine="sm"),
]


@pytest.mark.parametrize("problem", EVERY, ids=str)
def test_every_copy_arrives_and_leaves_the_context_as_it_was(cuda: StandIn, problem: Memcpy) -> None:
    assert 0 == error_of(problem)
    assert [0xC0] == cuda.current


@pytest.mark.parametrize("problem", EVERY, ids=str)
def test_everything_is_given_back_with_the_step(cuda: StandIn, problem: Memcpy) -> None:
    step, _ = step_of(problem)
    assert cuda.device_memory
    step()
    del step
    gc.collect()
    assert ({}, {}, {}, {MAIN_STREAM: 0xC0}) == (cuda.device_memory, cuda.pinned, cuda.events, cuda.streams)


def test_one_copy_is_one_call_on_the_stream_of_the_backend(cuda: StandIn) -> None:
    step, _ = step_of(Memcpy(8, "d2h"))
    cuda.log.clear()
    step()
    assert [("d2h", MAIN_STREAM)] == cuda.log


def test_copies_at_once_begin_and_end_on_the_stream_of_the_backend(cuda: StandIn) -> None:
    step, _ = step_of(Memcpy(8, "bidirectional"))
    cuda.log.clear()
    step()
    begun, wait, first, second, done, joined = cuda.log
    other = second[1]
    assert (("h2d", MAIN_STREAM), "d2h") == (first, second[0])
    assert (("record", begun[1], MAIN_STREAM), ("wait", begun[1], other)) == (begun, wait)
    assert (("record", done[1], other), ("wait", done[1], MAIN_STREAM)) == (done, joined)
    assert other != MAIN_STREAM


def test_each_of_several_gpus_copies_on_a_stream_of_its_own(cuda: StandIn) -> None:
    step, _ = step_of(Memcpy(8, "bidirectional", gpus=2))
    cuda.log.clear()
    step()
    streams = [entry[1] for entry in cuda.log if entry[0] in ("h2d", "d2h")]
    assert 4 == len(set(streams))
    assert [0xC0, 0xC0, 0xC1, 0xC1] == [cuda.streams[stream] for stream in streams]


@pytest.mark.parametrize("direction", ["h2d", "d2h", "d2d", "bidirectional"])
def test_a_byte_that_the_second_gpu_leaves_out_is_found(cuda: StandIn, direction: str) -> None:
    cuda.leaves_out = 1
    with pytest.raises(VerificationError):
        error_of(Memcpy(1000, direction, gpus=2))


def test_how_memory_is_pinned_is_told(cuda: StandIn) -> None:
    steps = {memory: step_of(Memcpy(8, "h2d", memory))[0] for memory in ("pinned", "pageable")}
    algorithms = {memory: description_of(step).algorithm for memory, step in steps.items()}
    assert "cuMemcpyHtoDAsync_v2, cuMemHostRegister" == algorithms["pinned"]
    assert "cuMemcpyHtoDAsync_v2, pageable" == algorithms["pageable"]


def test_multiprocessors_copy_by_our_kernel(cuda: StandIn) -> None:
    step, _ = step_of(Memcpy(1000, "d2h", engine="sm"))
    cuda.log.clear()
    step()
    assert [("sm", MAIN_STREAM)] == cuda.log
    assert "copy.cu, 132 blocks of 512 threads, cuMemHostRegister" == description_of(step).algorithm


@pytest.mark.parametrize("order", ["random", "rising"])
def test_a_chain_in_host_memory_is_walked_to_its_end(cuda: StandIn, order: str) -> None:
    problem, backend = Chase(128 * 300, order=order), OnCuda()
    inputs = problem.inputs(np.random.default_rng(0))
    step = setup_of("chase", "cupy")(backend, problem, *inputs)
    reference = problem.reference(np.random.default_rng(1), *inputs)
    assert 0 == check_output(backend, problem, step, reference)  # type: ignore[arg-type]
    another = setup_of("chase", "cupy")(backend, problem, *Chase(128 * 300).inputs(np.random.default_rng(2)))
    with pytest.raises(VerificationError):
        check_output(backend, problem, another, reference)  # type: ignore[arg-type]
    del step, another
    gc.collect()
    assert ({}, {}) == (cuda.device_memory, cuda.pinned)


def test_either_way_is_timed_by_itself_where_both_go(cuda: StandIn) -> None:
    ways = [Memcpy(8, "bidirectional"), Memcpy(8, "h2d"), Memcpy(8, "bidirectional", engine="sm")]
    assert [["h2d_s", "d2h_s"], [], []] == [list(description_of(step_of(each)[0]).others) for each in ways]


@pytest.mark.parametrize(("size_bytes", "count"), [(8, 16), (1 << 28, 4)])
def test_a_way_is_timed_from_the_moment_that_both_begin(
    cuda: StandIn, monkeypatch: pytest.MonkeyPatch, size_bytes: int, count: int
) -> None:
    def event() -> Any:
        mark = object()
        return SimpleNamespace(
            mark=mark,
            record=lambda stream: cuda.log.append(("mark", mark)),
            wait=lambda: None,
            seconds_until=lambda later: 8.0 if later.mark is not mark else 0.0,
        )

    said = ("hold", "release")
    blocker = SimpleNamespace(**{word: lambda word=word: cuda.log.append((word,)) for word in said})
    for name, made in (("Blocker", lambda stream: blocker), ("Event", event), ("synchronize", lambda stream: None)):
        monkeypatch.setattr(driver, name, made)
    to_gpu, to_host = (SimpleNamespace(device=0, source=SimpleNamespace(size_bytes=size_bytes)) for _ in range(2))
    ways = {id(to_gpu): "h2d", id(to_host): "d2h"}

    def enqueue(copy: Any, stream: int) -> Any:
        def copied(way: str, on: int) -> int:
            cuda.log.append((way, on))
            return 0

        return copied, (ways[id(copy)], stream)

    monkeypatch.setattr("primbench.kernels.memcpy._while_other.by_engine", enqueue)
    times = while_other_goes(to_gpu, to_host, MAIN_STREAM)  # type: ignore[arg-type]
    samples = times(Method(min_time_s=0.001, max_time_s=0.002), Pace())
    assert {8.0 / count} == set(samples.samples_s)
    first = cuda.log[: cuda.log.index(("release",)) + 1]
    assert ["hold", "record", "wait", "mark", *["h2d", "d2h"] * count, "mark", "release"] == [each[0] for each in first]
    assert 2 == len({each[1] for each in first if each[0] in ("h2d", "d2h")})


def test_write_combined_memory_is_allocated_so(cuda: StandIn) -> None:
    step_of(Memcpy(8, "h2d", "write_combined"))
    assert [("cuMemHostAlloc", 0x01 | 0x04)] == cuda.log


def test_where_registering_is_not_supported_the_driver_allocates(cuda: StandIn) -> None:
    cuda.registers = False
    step, _ = step_of(Memcpy(8, "d2h"))
    assert [("cuMemHostAlloc", 0x01)] == cuda.log
    assert "registering is not supported" in str(description_of(step).algorithm)
    assert 0 == error_of(Memcpy(8, "d2h"))


def test_memory_of_a_node_that_cannot_be_pinned_is_skipped(cuda: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda.registers = False
    monkeypatch.setattr("primbench.cuda.copies.host_buffer", lambda size, node: np.ones(size, np.int8))
    with pytest.raises(UnsupportedCase, match="memory on node 0 cannot be pinned"):
        step_of(Memcpy(8, "h2d", src_node=0))


def test_peer_access_that_is_there_already_is_no_error(cuda: StandIn) -> None:
    cuda.enabled.add((0xC0, 0xC1))
    assert 0 == error_of(Memcpy(8, "p2p", peer=1))


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (Memcpy(8, "p2p", peer=0), "no peer of itself: name another GPU, or ask for direction=d2d"),
        (Memcpy(8, "p2p", peer=2), "cuda:2: the driver shows 2 GPU"),
        (Memcpy(8, "h2d", gpus=3), "cuda:2: the driver shows 2 GPU"),
        (Memcpy(8, "h2h"), "ask for device=cpu"),
    ],
    ids=str,
)
def test_what_these_gpus_cannot_do_is_skipped(cuda: StandIn, problem: Memcpy, reason: str) -> None:
    with pytest.raises(UnsupportedCase, match=reason):
        step_of(problem)


def test_gpus_that_do_not_reach_each_other_are_skipped(cuda: StandIn) -> None:
    cuda.peers = False
    with pytest.raises(UnsupportedCase, match="cuda:0 does not reach the memory of cuda:1"):
        step_of(Memcpy(8, "p2p", peer=1))


def test_a_call_that_the_driver_refuses_is_named(cuda: StandIn) -> None:
    step, _ = step_of(Memcpy(8, "d2h"))
    cuda.streams.clear()
    with pytest.raises(driver.CudaError, match="cuMemcpyDtoHAsync_v2: CUDA_ERROR_INVALID_VALUE"):
        step()


@pytest.mark.parametrize(
    ("problem", "nodes"),
    [
        (Memcpy(8, "h2d"), [None]),
        (Memcpy(8, "d2h", "pageable"), [None]),
        (Memcpy(8, "bidirectional", gpus=2), [None] * 4),
        (Memcpy(8, "h2d", src_node=NODE), [NODE]),
        (Memcpy(8, "bidirectional", dst_node=NODE), [None, NODE]),
        (Memcpy(8, "d2d"), []),
        (Memcpy(8, "p2p", peer=1), []),
    ],
    ids=str,
)
def test_its_host_memory_is_named_with_the_node_it_is_to_be_on(
    cuda: StandIn, problem: Memcpy, nodes: list[int | None]
) -> None:
    if NODE in nodes and not may_bind():
        pytest.skip("mbind is denied here: needs root outside of containers")
    step, inputs = step_of(problem)
    step()
    buffers = description_of(step).host_buffers or []
    assert nodes == [node for _, node in buffers]
    for array, _ in buffers:
        np.testing.assert_array_equal(inputs[0], array)


def test_its_time_is_taken_on_a_stream(cuda: StandIn) -> None:
    assert description_of(step_of(Memcpy(8, "d2h"))[0]).stream_only
