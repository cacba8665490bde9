"""A stand-in for the driver of two GPUs, and as much of a backend on it as copies need.

It is called through ctypes with the signatures of cuda.h, copies within host memory at once, and refuses what the
driver would: memory that is not its own, another GPU's memory without leave, a stream of no context.
"""

# ruff: noqa: N802 - the driver's names

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_ulonglong, c_void_p
from typing import Any

from primbench.devices import nth_gpu

_OUT, _DEVICE_OUT, _INT_OUT = POINTER(c_void_p), POINTER(c_ulonglong), POINTER(c_int)
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuDeviceGetCount": (_INT_OUT,),
    "cuDevicePrimaryCtxRetain": (_OUT, c_int),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (_OUT,),
    "cuCtxSynchronize": (),
    "cuCtxCreate_v2": (_OUT, c_uint, c_int),
    "cuCtxDestroy_v2": (c_void_p,),
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
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "cuCtxGetDevice": (_INT_OUT,),
    "cuDeviceGetAttribute": (_INT_OUT, c_int, c_int),
    "cuMemHostGetDevicePointer_v2": (_DEVICE_OUT, c_void_p, c_uint),
    "cuLaunchKernel": (c_void_p, *[c_uint] * 7, c_void_p, POINTER(c_void_p), c_void_p),
}
ERRORS = {
    1: b"CUDA_ERROR_INVALID_VALUE",
    2: b"CUDA_ERROR_OUT_OF_MEMORY",
    704: b"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
    801: b"CUDA_ERROR_NOT_SUPPORTED",
}
INVALID, OUT_OF_MEMORY, ALREADY_ENABLED, NOT_SUPPORTED = 1, 2, 704, 801
MAIN_STREAM = 0x51
KERNELS = {0x4E: "_copy_by_kernel", 0x4F: "_walk"}
NUMBERS = {"copy": 0x4E, "walk": 0x4F}


class StandIn:
    """Two GPUs, the first one's context current."""

    def __init__(self) -> None:
        self.registers = self.peers = self.has_room = True
        self.leaves_out = 0  # bytes at the end of every copy on a stream of the second GPU
        self.contexts = {0: 0xC0, 1: 0xC1}
        self.made: dict[int, int] = {}  # more contexts -> the GPU of each
        self.current = [0xC0]
        self.device_memory: dict[int, tuple[int, Any]] = {}
        self.pinned: dict[int, Any] = {}
        self.streams = {MAIN_STREAM: 0xC0}
        self.events: dict[int, int] = {}
        self.enabled: set[tuple[int, int]] = set()
        self.log: list[tuple[Any, ...]] = []
        self.waited_for: list[int] = []  # contexts
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
        assert context in self.contexts.values() or context in self.made
        self.current.append(context)

    def _cuCtxPopCurrent_v2(self, context: Any) -> None:
        context[0] = self.current.pop()

    def _cuCtxSynchronize(self) -> None:
        self.waited_for.append(self.current[-1])

    def _cuCtxCreate_v2(self, context: Any, flags: int, device: int) -> int:
        if not self.has_room:
            return OUT_OF_MEMORY
        assert device in self.contexts
        context[0] = next(self._handles)
        self.made[context[0]] = device
        self.current.append(context[0])
        return 0

    def _cuCtxDestroy_v2(self, context: int) -> None:
        del self.made[context]
        self.device_memory = {at: found for at, found in self.device_memory.items() if found[0] != context}

    def _cuDeviceCanAccessPeer(self, can: Any, device: int, peer: int) -> None:
        can[0] = int(self.peers and device != peer)

    def _cuCtxEnablePeerAccess(self, peer: int, flags: int) -> int:
        pair = (self.current[-1], peer)
        there = pair in self.enabled
        self.enabled.add(pair)
        return ALREADY_ENABLED if there else 0

    def _cuMemAlloc_v2(self, pointer: Any, size: int) -> int:
        if not self.has_room:
            return OUT_OF_MEMORY
        memory = (ctypes.c_byte * size)()
        pointer[0] = ctypes.addressof(memory)
        self.device_memory[pointer[0]] = (self.current[-1], memory)
        return 0

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
        self.log.append(("fill", self.current[-1]))
        ctypes.memset(pointer, value, size)

    def _cuStreamCreate(self, stream: Any, flags: int) -> None:
        stream[0] = next(self._handles)
        self.streams[stream[0]] = self.current[-1]

    def _cuStreamDestroy_v2(self, stream: int) -> None:
        del self.streams[stream]

    def _cuStreamSynchronize(self, stream: int) -> None:
        self.log.append(("waited", stream))

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


class Late(StandIn):
    """A driver whose copies take place no sooner than they are waited for: memory used again too early shows."""

    def __init__(self) -> None:
        super().__init__()
        self.pending: list[tuple[int, int, int]] = []

    def _cuMemcpyHtoDAsync_v2(self, to: int, of: int, size: int, stream: int) -> None:
        self.log.append(("copy", size))
        self.pending.append((to, of, size))

    def _cuStreamSynchronize(self, stream: int) -> None:
        for copy in self.pending:
            ctypes.memmove(*copy)
        self.pending.clear()


class OnCuda:
    """As much of a backend as a copy needs."""

    name = "cupy"
    device = nth_gpu(0)
    stream_handle = MAIN_STREAM

    def put(self, host: Any) -> Any:
        return host

    def get(self, array: Any) -> Any:
        return array

    def synchronize(self) -> None:
        pass
