"""Kernels launched without a framework, on the stream of any: by the driver or the CUDA runtime."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.gpu.nvidia import driver
from primbench.kernels.launch import _runtime
from primbench.kernels.launch._cuda import Replay, cuda_step, parameters

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.kernels.launch.problem import Launch
    from primbench.problem import Step

# PTX of an old target runs on every later GPU.
_PTX = """
.version 6.0
.target sm_60
.address_size 64
.visible .entry empty()
{{
    ret;
}}
.visible .entry last_word(.param .align 8 .b8 parameters[{size}])
{{
    .reg .u32 %word;
    .reg .u64 %address;
    ld.param.u64 %address, [parameters];
    ld.param.u32 %word, [parameters+{last}];
    cvta.to.global.u64 %address, %address;
    st.global.u32 [%address], %word;
    ret;
}}
"""
_ONE_THREAD = (1, 1, 1, 1, 1, 1)


def ptx(parameter_bytes: int) -> bytes:
    """A kernel that is empty, and one that writes the last of its words where the first two say."""
    size = max(16, parameter_bytes)
    return _PTX.format(size=size, last=size - 4).encode()


def driver_step(backend: Any, problem: Launch) -> Step:
    """The step of the calls driver, runtime and ctypes. Raises UnsupportedCase without what these need."""
    module_of, launch, replay = _BY[problem.call]
    module, stream, count = module_of(ptx(problem.parameter_bytes)), backend.stream_handle, max(1, problem.nodes)
    if problem.parameter_bytes:
        kernel, output = module.function("last_word"), backend.empty((count,), "int32")
        words = parameters(problem, output)
        launches = [launch(kernel, stream, each.ctypes.data, (output, module, words)) for each in words]
    else:
        kernel, output = module.function("empty"), None
        launches = [launch(kernel, stream, None, (None, module))] * count

    def capture(enqueue: Callable[[], None]) -> Replay:
        graph = driver.capture(stream, enqueue)
        return graph.nodes, replay(graph.handle, stream, (output, graph, launches))

    return cuda_step(backend, problem, launches, capture)


def _launch_by_ctypes(kernel: int, stream: int, words: int | None, kept: tuple[Any, ...]) -> Step:
    """kept: what the call returns, and what must live as long as it."""
    pointers = None if words is None else (ctypes.c_void_p * 1)(words)
    pointed = None if pointers is None else _handle(ctypes.addressof(pointers))
    arguments = (_handle(kernel), *_ONE_THREAD, 0, _handle(stream), pointed, None)
    return _by_ctypes("cuLaunchKernel", arguments, (*kept, pointers))


def _replay_by_ctypes(graph: int, stream: int, kept: tuple[Any, ...]) -> Step:
    return _by_ctypes("cuGraphLaunch", (_handle(graph), _handle(stream)), kept)


# Converted beforehand: ctypes objects as arguments add 0.3 us to a call.
_handle = ctypes.c_void_p.from_param


def _by_ctypes(name: str, arguments: tuple[Any, ...], kept: tuple[Any, ...]) -> Step:
    function = driver.function(name)

    def step() -> Any:
        if status := function(*arguments):
            raise driver.failure(name, status)
        return kept[0]

    return step


def _launch_by_bindings(kernel: int, stream: int, words: int | None, kept: tuple[Any, ...]) -> Step:
    bindings = _bindings()
    pointers = None if words is None else (ctypes.c_void_p * 1)(words)
    pointed = 0 if pointers is None else ctypes.addressof(pointers)
    arguments = (bindings.CUfunction(kernel), *_ONE_THREAD, 0, bindings.CUstream(stream), pointed, 0)
    return _by_bindings("cuLaunchKernel", arguments, (*kept, pointers))


def _replay_by_bindings(graph: int, stream: int, kept: tuple[Any, ...]) -> Step:
    bindings = _bindings()
    return _by_bindings("cuGraphLaunch", (bindings.CUgraphExec(graph), bindings.CUstream(stream)), kept)


def _by_bindings(name: str, arguments: tuple[Any, ...], kept: tuple[Any, ...]) -> Step:
    function = getattr(_bindings(), name)

    def step() -> Any:
        if status := function(*arguments)[0]:
            raise driver.failure(name, int(status))
        return kept[0]

    return step


def _bindings() -> Any:
    try:
        from cuda.bindings import driver as bindings
    except ImportError:
        raise UnsupportedCase(
            "call=driver goes through cuda.bindings: pip install cuda-bindings of the driver's CUDA major version, "
            "or ask for call=ctypes"
        ) from None
    return bindings


def _launch_by_runtime(kernel: int, stream: int, words: int | None, kept: tuple[Any, ...]) -> Step:
    pointers = None if words is None else (ctypes.c_void_p * 1)(words)
    pointed = None if pointers is None else _handle(ctypes.addressof(pointers))
    one = _runtime.Extent(1, 1, 1)
    arguments = (_handle(kernel), one, one, pointed, ctypes.c_size_t(0), _handle(stream))
    return _by_runtime("cudaLaunchKernel", arguments, (*kept, pointers))


def _replay_by_runtime(graph: int, stream: int, kept: tuple[Any, ...]) -> Step:
    return _by_runtime("cudaGraphLaunch", (_handle(graph), _handle(stream)), kept)


def _by_runtime(name: str, arguments: tuple[Any, ...], kept: tuple[Any, ...]) -> Step:
    function = getattr(_runtime.library(), name)

    def step() -> Any:
        if status := function(*arguments):
            raise _runtime.failure(name, status)
        return kept[0]

    return step


_BY: dict[str, tuple[Callable[[bytes], Any], Callable[..., Step], Callable[..., Step]]] = {
    "ctypes": (driver.Module, _launch_by_ctypes, _replay_by_ctypes),
    "driver": (driver.Module, _launch_by_bindings, _replay_by_bindings),
    "runtime": (_runtime.Module, _launch_by_runtime, _replay_by_runtime),
}
