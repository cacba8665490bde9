"""Convolution in Numba: direct sums of our own, on the CPU and on a GPU."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from primbench.backends import lacks
from primbench.errors import UnsupportedCase
from primbench.kernels.conv.problem import refuse_choices
from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.devices import Device
    from primbench.kernels.conv.problem import Conv
    from primbench.problem import Array


@kernel("conv", "numba")
def numba_conv(backend: Any, problem: Conv, first: Any, second: Any) -> Step:
    """The step, which has been called once, so that no later call compiles."""
    _refuse(problem, backend.device)
    output = backend.empty(problem.output_shape, problem.out_dtype)
    arrays = problem.roles(first, second, output)
    step = _cuda_step(backend, problem, *arrays) if backend.device.is_gpu else _cpu_step(problem, *arrays)
    step()
    backend.synchronize()
    return step


def _refuse(problem: Conv, device: Device) -> None:
    refuse_choices(problem, "Numba")
    if problem.math_mode != "ieee":
        raise UnsupportedCase(f"Numba has no {problem.math_mode} mode")
    if lacks("numba", device, problem.dtype):
        raise UnsupportedCase(f"Numba has no {problem.dtype}{' arrays' if device.is_gpu else ' on a CPU'}")


@dataclass(frozen=True)
class _Rearranged:
    """An array as the kernels want it."""

    array: Array
    """The array."""
    copies: list[tuple[Array, Array]]
    """Its parts as they are stored, and here; none where it is used as it is."""
    copy: Callable[[Array, Array], None]
    """Copies one into the other: (source, target)."""

    def load(self) -> None:
        for stored, here in self.copies:
            self.copy(stored, here)

    def store(self) -> None:
        for stored, here in self.copies:
            self.copy(here, stored)


def _channels_last(problem: Conv, array: Array) -> _Rearranged:
    """Images as array[n,h,w,g,c]; of those stored otherwise, each one as it is stored, [c,hw], and here, [hw,c]."""
    import numpy as np

    from primbench.kernels.gemm._numba_cpu import transpose

    n, channels, height, width = problem.as_nchw(array).shape
    split = (n, height, width, problem.groups, channels // problem.groups)
    if problem.layout == "nhwc":
        return _Rearranged(array.reshape(split), [], transpose)
    here = np.empty((n, height * width, channels), array.dtype)
    stored = array.reshape(n, channels, height * width)
    return _Rearranged(here.reshape(split), list(zip(stored, here, strict=True)), transpose)


def _tap_by_tap(problem: Conv, array: Array) -> _Rearranged:
    """Filters as array[g,r,s,c,k], [g,r,s,k,c] or, for their own gradient, [g,k,r,s,c]."""
    import numpy as np

    filters = problem.as_nchw(array)
    order = {"forward": (0, 3, 4, 2, 1), "bwd_data": (0, 3, 4, 1, 2), "bwd_weights": (0, 1, 3, 4, 2)}
    stored = filters.reshape(problem.groups, -1, *filters.shape[1:]).transpose(order[problem.direction])
    here = np.empty(stored.shape, stored.dtype)
    return _Rearranged(here, [(stored, here)], lambda source, target: np.copyto(target, source))


def _cpu_step(problem: Conv, x: Array, w: Array, y: Array) -> Step:
    """The kernels want the channels last and the filters tap by tap: what is stored otherwise is copied in the step."""
    from primbench.kernels.conv import _numba_cpu as compiled

    images, responses, filters = _channels_last(problem, x), _channels_last(problem, y), _tap_by_tap(problem, w)
    direct, arguments, result = {
        "forward": (compiled.forward, (images, filters, responses), y),
        "bwd_data": (compiled.bwd_data, (responses, filters, images), x),
        "bwd_weights": (compiled.bwd_weights, (responses, images, filters), w),
    }[problem.direction]
    output = arguments[-1]
    inputs = [each for each in (images, responses, filters) if each is not output]
    arrays = [each.array for each in arguments]
    geometry = [tuple(getattr(axis, name) for axis in problem.axes) for name in ("stride", "pad", "dilation")]

    def step() -> Array:
        for each in inputs:
            each.load()
        direct(*arrays, *geometry)
        output.store()
        return result

    return described(step, algorithm="direct, 2 elements by 4 terms")


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
