"""Convolution in Numba: direct sums of our own, on the CPU and on a GPU."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.kernels.conv.problem import refuse_choices
from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from primbench.kernels.conv.problem import Conv
    from primbench.problem import Array


@kernel("conv", "numba")
def numba_conv(backend: Any, problem: Conv, first: Any, second: Any) -> Step:
    """One call is made here, so that no later one compiles."""
    on_cpu = backend.device == "cpu"
    _refuse(problem, on_cpu=on_cpu)
    output = backend.empty(problem.output_shape, problem.out_dtype)
    arrays = problem.roles(first, second, output)
    step = _cpu_step(problem, *arrays) if on_cpu else _cuda_step(backend, problem, *arrays)
    step()
    backend.synchronize()
    return step


def _refuse(problem: Conv, *, on_cpu: bool) -> None:
    refuse_choices(problem, "Numba")
    if problem.math_mode != "ieee":
        raise UnsupportedCase(f"Numba has no {problem.math_mode} mode")
    if problem.dtype == "bfloat16":
        raise UnsupportedCase("Numba has no bfloat16 arrays")
    if problem.dtype == "float16" and on_cpu:
        raise UnsupportedCase("Numba has no float16 on a CPU")


@dataclass(frozen=True)
class _ChannelsLast:
    """Images as array[n,h,w,g,c]; of those stored otherwise, each one as it is stored, [c,hw], and here, [hw,c]."""

    array: Array
    copies: list[tuple[Array, Array]]

    def load(self) -> None:
        from primbench.kernels.gemm._numba_cpu import transpose

        for stored, here in self.copies:
            transpose(stored, here)

    def store(self) -> None:
        from primbench.kernels.gemm._numba_cpu import transpose

        for stored, here in self.copies:
            transpose(here, stored)


def _channels_last(problem: Conv, array: Array) -> _ChannelsLast:
    import numpy as np

    n, channels, height, width = problem.as_nchw(array).shape
    split = (n, height, width, problem.groups, channels // problem.groups)
    if problem.layout == "nhwc":
        return _ChannelsLast(array.reshape(split), [])
    here = np.empty((n, height * width, channels), array.dtype)
    stored = array.reshape(n, channels, height * width)
    return _ChannelsLast(here.reshape(split), list(zip(stored, here, strict=True)))


def _cpu_step(problem: Conv, x: Array, w: Array, y: Array) -> Step:
    """The kernels want the channels last and the filters tap by tap: what is stored otherwise is copied in the step."""
    import numpy as np

    from primbench.kernels.conv import _numba_cpu as compiled

    groups, direction = problem.groups, problem.direction
    x_last, y_last = _channels_last(problem, x), _channels_last(problem, y)
    stored = problem.as_nchw(w).reshape(groups, -1, *problem.as_nchw(w).shape[1:])  # [g,k,c,r,s]
    order = {"forward": (0, 3, 4, 2, 1), "bwd_data": (0, 3, 4, 1, 2), "bwd_weights": (0, 1, 3, 4, 2)}[direction]
    stored = stored.transpose(order)
    filters = np.empty(stored.shape, stored.dtype)
    geometry = tuple(tuple(getattr(axis, name) for axis in problem.axes) for name in ("stride", "pad", "dilation"))

    def forward() -> Array:
        x_last.load()
        np.copyto(filters, stored)
        compiled.forward(x_last.array, filters, y_last.array, *geometry)
        y_last.store()
        return y

    def bwd_data() -> Array:
        y_last.load()
        np.copyto(filters, stored)
        compiled.bwd_data(y_last.array, filters, x_last.array, *geometry)
        x_last.store()
        return x

    def bwd_weights() -> Array:
        x_last.load()
        y_last.load()
        compiled.bwd_weights(y_last.array, x_last.array, filters, *geometry)
        np.copyto(stored, filters)
        return w

    return described(
        {"forward": forward, "bwd_data": bwd_data, "bwd_weights": bwd_weights}[direction],
        algorithm="direct, 2 elements by 4 terms",
    )


def _cuda_step(backend: Any, problem: Conv, x: Any, w: Any, y: Any) -> Step:
    from primbench.kernels.conv import _numba_cuda as cuda_kernels

    calls: list[tuple[Any, tuple[Any, ...]]] = []
    filters = w
    if problem.direction == "forward" and problem.layout == "nhwc":
        filters = backend.empty((problem.r, problem.s, problem.c // problem.groups, problem.k), problem.dtype)
        calls.append((cuda_kernels.gather(problem), (w, filters)))
    calls.append((cuda_kernels.compiled(problem), (x, filters, y)))
    with warnings.catch_warnings():
        # Of fewer than 128 blocks; but this size is what was asked for.
        warnings.filterwarnings("ignore", message=".*under-utilization")
        launches = [(kernel[*grid, backend.stream], arrays) for (kernel, grid), arrays in calls]
    output = {"forward": y, "bwd_data": x, "bwd_weights": w}[problem.direction]

    def step() -> Any:
        for launch, arrays in launches:
            launch(*arrays)
        return output

    return described(step, algorithm="direct, a thread an element")
