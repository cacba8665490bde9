"""The direct convolutions that Numba compiles for a GPU: a thread an element of the output, in the order of memory.

So neighbouring threads write, and read X, Y or W, side by side, and share what they multiply it with. The sums of
dW are long: SLICES threads share one, and add up their parts in a fixed order.

Numba is imported at the top, because its simulator replaces ``cuda`` among the globals of a kernel's file:
import this file only where a kernel is set up.

Coordinates are unsigned, as a signed index is tested for negative values at every access; so nothing is subtracted
before it is known to be large enough, and a coordinate that there is not is NOWHERE.
"""

# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

from numba import cuda, types
from numba import uint32 as u32
from numba import uint64 as u64

if TYPE_CHECKING:
    from primbench.kernels.conv._geometry import Axis
    from primbench.kernels.conv.problem import Conv

THREADS = 128
ELEMENTS, SLICES = 32, 8  # each block computes so many elements of dW, their sums cut into so many slices
NOWHERE = u64(2**64 - 1)


@functools.cache
def compiled(problem: Conv) -> tuple[Any, tuple[int, Any]]:
    """The kernel of the problem's direction, taking X, W, Y, and its blocks and threads a block.

    Everything that a size or an option says is a constant in it.
    """
    elements = math.prod(problem.output_shape)
    if problem.direction == "bwd_weights":
        return _bwd_weights(problem), (-(-elements // ELEMENTS), (ELEMENTS, SLICES))
    make = _forward if problem.direction == "forward" else _bwd_data
    return make(problem), (-(-elements // THREADS), THREADS)


@functools.cache
def gather(problem: Conv) -> tuple[Any, tuple[int, int]]:
    """The kernel ``(w, taps)`` that makes taps[r,s,c,k] of W[k,r,s,c], and its blocks and threads a block.

    The threads of an nhwc ``forward`` are neighbours along k, and so are the filters that they read in taps.
    """
    k, c = u32(problem.k), u32(problem.c // problem.groups)
    s, elements = u32(problem.s), math.prod(problem.filter_shape)

    @cuda.jit
    def kernel(w: Any, taps: Any) -> None:
        element = _element()
        if element < elements:
            filter_, rest = element % k, element // k
            channel, tap = rest % c, rest // c
            a, b = tap // s, tap % s
            taps[a, b, channel, filter_] = w[filter_, a, b, channel]

    return kernel, (-(-elements // THREADS), THREADS)


@cuda.jit(device=True)
def _element() -> Any:
    return u64(cuda.blockIdx.x) * u64(cuda.blockDim.x) + u64(cuda.threadIdx.x)


def _forward(problem: Conv) -> Any:
    coordinates, at, put = _array(problem, problem.k, problem.p, problem.q)
    pixel_h, pixel_w = (_pixel(axis) for axis in problem.axes)
    elements, r, s, channels = math.prod(problem.output_shape), problem.r, problem.s, problem.c // problem.groups
    filters, nchw = u32(problem.k // problem.groups), problem.layout == "nchw"
    summed = getattr(types, problem.sum_dtype)

    @cuda.jit
    def kernel(x: Any, w: Any, y: Any) -> None:
        element = _element()
        if element >= elements:
            return
        n, k, p, q = coordinates(element)
        first = k // filters * u32(channels)
        total = summed(0)
        for a in range(r):
            h = pixel_h(p, u32(a))
            for b in range(s):
                column = pixel_w(q, u32(b))
                if h != NOWHERE and column != NOWHERE:
                    for c in range(channels):
                        weight = w[k, u32(c), u32(a), u32(b)] if nchw else w[u32(a), u32(b), u32(c), k]
                        # Numba sums int32 in int64; cut back to 32 bits, four steps become one dp4a instruction.
                        total = summed(total + summed(at(x, n, first + u32(c), h, column)) * summed(weight))
        put(y, n, k, p, q, total)

    return kernel


def _bwd_data(problem: Conv) -> Any:
    coordinates, at, put = _array(problem, problem.c, problem.h, problem.w)
    output_h, output_w = (_output(axis) for axis in problem.axes)
    elements, r, s, filters = math.prod(problem.output_shape), problem.r, problem.s, problem.k // problem.groups
    channels = u32(problem.c // problem.groups)

    @cuda.jit
    def kernel(x: Any, w: Any, y: Any) -> None:
        element = _element()
        if element >= elements:
            return
        n, c, h, column = coordinates(element)
        first, own = c // channels * u32(filters), c % channels
        total = types.float32(0)
        for a in range(r):
            p = output_h(h, u32(a))
            for b in range(s):
                q = output_w(column, u32(b))
                if p != NOWHERE and q != NOWHERE:
                    for i in range(filters):
                        k = first + u32(i)
                        weight = types.float32(at(w, k, own, u32(a), u32(b)))
                        total += types.float32(at(y, n, k, p, q)) * weight
        put(x, n, c, h, column, total)

    return kernel


def _bwd_weights(problem: Conv) -> Any:
    channels, filters = u32(problem.c // problem.groups), u32(problem.k // problem.groups)
    coordinates, at, put = _array(problem, problem.c // problem.groups, problem.r, problem.s)
    pixel_h, pixel_w = (_pixel(axis) for axis in problem.axes)
    elements, rows, outputs = math.prod(problem.output_shape), problem.n * problem.p, problem.q
    p_end = u32(problem.p)

    @cuda.jit(device=True)
    def part(x: Any, y: Any, element: Any, begin: Any) -> Any:
        """The sum over every SLICES-th row of Y."""
        k, own, a, b = coordinates(element)
        c = k // filters * channels + own
        total = types.float32(0)
        for row in range(begin, rows, SLICES):
            n, p = u32(row) // p_end, u32(row) % p_end
            h = pixel_h(p, a)
            if h != NOWHERE:
                for q in range(outputs):
                    column = pixel_w(u32(q), b)
                    if column != NOWHERE:
                        total += types.float32(at(x, n, c, h, column)) * types.float32(at(y, n, k, p, u32(q)))
        return total

    @cuda.jit
    def kernel(x: Any, w: Any, y: Any) -> None:
        parts = cuda.shared.array((SLICES, ELEMENTS), types.float32)
        own, slice_ = cuda.threadIdx.x, cuda.threadIdx.y
        element = u64(cuda.blockIdx.x) * u64(ELEMENTS) + u64(own)
        if element < elements:
            parts[slice_, own] = part(x, y, element, slice_)
        cuda.syncthreads()
        if slice_ == 0 and element < elements:
            total = types.float32(0)
            for each in range(SLICES):
                total += parts[each, own]
            k, c, a, b = coordinates(element)
            put(w, k, c, a, b, total)

    return kernel


def _array(problem: Conv, channels: int, height: int, width: int) -> tuple[Any, Any, Any]:
    """For arrays of the problem's layout: coordinates n c h w of a place in an output so large, reading, writing."""
    nchw, stored = problem.layout == "nchw", getattr(types, problem.out_dtype)
    c_end, h_end, w_end = u32(channels), u32(height), u32(width)

    @cuda.jit(device=True)
    def coordinates(element: Any) -> Any:
        if nchw:
            line = element // w_end
            plane = line // h_end
            return plane // c_end, plane % c_end, line % h_end, element % w_end
        pixel = element // c_end
        line = pixel // w_end
        return line // h_end, element % c_end, line % h_end, pixel % w_end

    @cuda.jit(device=True)
    def at(x: Any, n: Any, c: Any, h: Any, w: Any) -> Any:
        return x[n, c, h, w] if nchw else x[n, h, w, c]

    @cuda.jit(device=True)
    def put(x: Any, n: Any, c: Any, h: Any, w: Any, value: Any) -> None:
        if nchw:
            x[n, c, h, w] = stored(value)
        else:
            x[n, h, w, c] = stored(value)

    return coordinates, at, put


def _pixel(axis: Axis) -> Any:
    """The pixel that a tap joins with an output."""
    image, pad, stride, dilation = map(u32, (axis.image, axis.pad, axis.stride, axis.dilation))

    @cuda.jit(device=True)
    def pixel(output: Any, tap: Any) -> Any:
        place = u64(output) * stride + u64(tap) * dilation
        return place - pad if place >= pad and place - pad < image else NOWHERE

    return pixel


def _output(axis: Axis) -> Any:
    """The output that a tap joins with a pixel."""
    outputs, pad, stride, dilation = map(u32, (axis.outputs, axis.pad, axis.stride, axis.dilation))

    @cuda.jit(device=True)
    def output(pixel: Any, tap: Any) -> Any:
        place, shift = u64(pixel) + pad, u64(tap) * dilation
        if place < shift or (place - shift) % stride != 0 or (place - shift) // stride >= outputs:
            return NOWHERE
        return (place - shift) // stride

    return output
