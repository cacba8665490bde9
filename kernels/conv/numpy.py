"""Convolution on NumPy: one matrix product a tap of the filters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.kernels.conv.problem import refuse_choices
from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from primbench.kernels.conv.problem import Conv
    from primbench.problem import Array


@dataclass(frozen=True)
class _Tap:
    """One tap: the part of X[n,g,c,h,w] and of Y[n,g,k,p,q] that it joins, copies of both, and its part of W[g,k,c].

    The copies are contiguous in the order of the problem's layout, and the same memory for every tap. The
    matrices, [n,g,c,pq] and [n,g,k,pq], are views of them.
    """

    x: Array
    x_copy: Array
    x_matrix: Array
    y: Array
    y_copy: Array
    y_matrix: Array
    w: Array


@kernel("conv", "numpy")
def numpy_conv(backend: Any, problem: Conv, first: Array, second: Array) -> Step:
    """numpy.matmul on copies of the pixels that a tap meets: faster than one product of all taps' copies at once.

    BLAS for float32. The copies of int8 are int32, whose products are exact, and NumPy's own loops.
    """
    import numpy as np

    refuse_choices(problem, "NumPy")
    if problem.math_mode != "ieee":
        raise UnsupportedCase(f"NumPy has no {problem.math_mode} mode")
    if problem.dtype not in ("float32", "int8"):
        raise UnsupportedCase(f"NumPy has no {problem.dtype} product with float32 sums: ask for dtype=float32")
    output = backend.empty(problem.output_shape, problem.out_dtype)
    x, w, y = problem.roles(first, second, output)
    groups, filters, channels = problem.groups, problem.k // problem.groups, problem.c // problem.groups
    stored = problem.as_nchw(w).reshape(groups, filters, channels, problem.r, problem.s).transpose(3, 4, 0, 1, 2)
    weights = np.empty(stored.shape, output.dtype)  # a tap's filters lie apart in W: a product takes them together
    products = np.empty((problem.n, groups, filters, channels), weights.dtype)
    taps = _taps(problem, x, y, weights)

    def forward() -> Any:
        np.copyto(weights, stored)
        y.fill(0)
        for tap in taps:
            np.copyto(tap.x_copy, tap.x)
            np.matmul(tap.w, tap.x_matrix, out=tap.y_matrix)
            np.add(tap.y, tap.y_copy, out=tap.y)
        return y

    def bwd_data() -> Any:
        np.copyto(weights, stored)
        x.fill(0)
        for tap in taps:
            np.copyto(tap.y_copy, tap.y)
            np.matmul(tap.w.swapaxes(-1, -2), tap.y_matrix, out=tap.x_matrix)
            np.add(tap.x, tap.x_copy, out=tap.x)
        return x

    def bwd_weights() -> Any:
        for tap in taps:
            np.copyto(tap.x_copy, tap.x)
            np.copyto(tap.y_copy, tap.y)
            np.matmul(tap.y_matrix, tap.x_matrix.swapaxes(-1, -2), out=products)
            np.add.reduce(products, axis=0, out=tap.w)
        np.copyto(stored, weights)
        return w

    return described(
        {"forward": forward, "bwd_data": bwd_data, "bwd_weights": bwd_weights}[problem.direction],
        algorithm="a product a tap",
    )


def _taps(problem: Conv, x: Array, y: Array, weights: Array) -> list[_Tap]:
    import numpy as np

    joined = [[axis.joined(tap) for tap in range(axis.taps)] for axis in problem.axes]
    x, y = (_grouped(problem, array) for array in (x, y))
    outputs = problem.n * problem.p * problem.q
    x_memory, y_memory = (np.empty(channels * outputs, weights.dtype) for channels in (problem.c, problem.k))
    taps = []
    for a, (outputs_h, rows) in enumerate(joined[0]):
        for b, (outputs_w, columns) in enumerate(joined[1]):
            x_part, y_part = x[..., rows, columns], y[..., outputs_h, outputs_w]
            x_copy, y_copy = _like(problem, x_part, x_memory), _like(problem, y_part, y_memory)
            x_matrix, y_matrix = (copy.reshape(*copy.shape[:3], -1) for copy in (x_copy, y_copy))
            taps.append(_Tap(x_part, x_copy, x_matrix, y_part, y_copy, y_matrix, weights[a, b]))
    return taps


def _grouped(problem: Conv, array: Array) -> Array:
    """A view of images with their channels split: [n,g,channel,row,column]."""
    nchw = problem.as_nchw(array)
    return nchw.reshape(problem.n, problem.groups, -1, *nchw.shape[2:])


def _like(problem: Conv, part: Array, memory: Array) -> Array:
    """The start of ``memory`` as an array of the shape of ``part``, its channels last where the problem's are."""
    if problem.layout == "nchw":
        return memory[: part.size].reshape(part.shape)
    n, groups, channels, rows, columns = part.shape
    return memory[: part.size].reshape(n, groups, rows, columns, channels).transpose(0, 1, 4, 2, 3)
