"""Elements of a convolution and of its gradients, each summed by itself in float64 from the definition."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from primbench.random import sample

if TYPE_CHECKING:
    from primbench.kernels.conv._geometry import Axis, Geometry
    from primbench.problem import Array

MAX_PRODUCTS = 2**22  # about 0.06 s of one CPU
MIN_ELEMENTS = 32
PART_PRODUCTS = 2**16  # half a MiB in float64, of which a few are alive at a time: what a core's cache holds


def sampled(
    conv: Geometry, rng: np.random.Generator, first: Array, second: Array
) -> tuple[tuple[Array, ...], Array, Array]:
    """Index (axes n c h w), sum, and root of the summed squares of all elements or of a sample; inputs as n c h w."""
    shape = conv.computed
    count = max(MIN_ELEMENTS, MAX_PRODUCTS // conv.terms)
    total = math.prod(shape)
    flat = sample(rng, total, count)
    products = {"forward": _forward, "bwd_data": _bwd_data, "bwd_weights": _bwd_weights}[conv.direction]

    def summed(part: Array) -> tuple[Array, Array]:
        each = products(conv, first, second, np.unravel_index(part, shape)).reshape(len(part), -1)
        return each.sum(axis=1), np.sqrt(np.einsum("et,et->e", each, each))

    parts = np.array_split(flat, max(1, min(len(flat), len(flat) * conv.terms // PART_PRODUCTS)))
    with ThreadPoolExecutor() as threads:
        sums, norms = zip(*threads.map(summed, parts), strict=True)
    return np.unravel_index(flat, shape), np.concatenate(sums), np.concatenate(norms)


def _forward(conv: Geometry, x: Array, w: Array, index: tuple[Array, ...]) -> Array:
    """The products that are summed to Y[index]: [elements, c/groups, r, s]."""
    n, k, p, q = index
    down, across = conv.axes
    channels = conv.c // conv.groups
    c = k[:, None] // (conv.k // conv.groups) * channels + np.arange(channels)
    rows, columns = _pixels(down, p[:, None], _taps(down)), _pixels(across, q[:, None], _taps(across))
    return _picked(x, n[:, None], c, rows, columns) * w[k].astype(np.float64)


def _bwd_data(conv: Geometry, dy: Array, w: Array, index: tuple[Array, ...]) -> Array:
    """The products that are summed to dX[index]: [elements, k/groups, r, s]."""
    n, c, h, col = index
    down, across = conv.axes
    filters, channels = conv.k // conv.groups, conv.c // conv.groups
    k = c[:, None] // channels * filters + np.arange(filters)
    rows, columns = _outputs(down, h[:, None], _taps(down)), _outputs(across, col[:, None], _taps(across))
    weights: Array = w[k, c[:, None] % channels].astype(np.float64)
    return _picked(dy, n[:, None], k, rows, columns) * weights


def _bwd_weights(conv: Geometry, dy: Array, x: Array, index: tuple[Array, ...]) -> Array:
    """The products that are summed to dW[index]: [elements, n, p, q]."""
    k, c, r, s = index
    down, across = conv.axes
    channel = k // (conv.k // conv.groups) * (conv.c // conv.groups) + c
    rows = _pixels(down, np.arange(down.outputs), r[:, None])
    columns = _pixels(across, np.arange(across.outputs), s[:, None])
    images = np.arange(conv.n)[None]
    return _picked(x, images, channel[:, None], rows, columns) * dy[images, k[:, None]].astype(np.float64)


def _taps(axis: Axis) -> Array:
    return np.arange(axis.taps)


def _pixels(axis: Axis, output: Array, tap: Array) -> Array:
    """The pixel that a tap joins with an output; -1 where it is padding."""
    pixel = output * axis.stride + tap * axis.dilation - axis.pad
    return np.where((pixel >= 0) & (pixel < axis.image), pixel, -1)


def _outputs(axis: Axis, pixel: Array, tap: Array) -> Array:
    """The output that a tap joins with a pixel; -1 where there is none."""
    output, rest = np.divmod(pixel + axis.pad - tap * axis.dilation, axis.stride)
    return np.where((rest == 0) & (output >= 0) & (output < axis.outputs), output, -1)


def _picked(array: Array, i: Array, j: Array, rows: Array, columns: Array) -> Array:
    """[elements, i or j, rows, columns] in float64, 0 where a row or a column is -1."""
    # One index into memory: four into the array would be added up element by element.
    steps = [stride // array.itemsize for stride in array.strides]
    memory = np.lib.stride_tricks.as_strided(array, (array.size,), (array.itemsize,))
    rows, columns = rows[:, None, :, None], columns[:, None, None, :]
    inside = (rows >= 0) & (columns >= 0)
    places = np.where(inside, rows * steps[2] + columns * steps[3], 0)
    values = memory.take((i * steps[0] + j * steps[1])[..., None, None] + places).astype(np.float64)
    picked: Array = values * inside
    return picked
