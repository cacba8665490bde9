"""Elements of a convolution and of its gradients, each summed by itself in float64 from the definition."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from primbench.random import sample

if TYPE_CHECKING:
    from primbench.kernels.conv._geometry import Axis, Geometry
    from primbench.problem import Array

    Product = tuple[tuple[Array, ...], Array, Array]  # index, and the rows and columns whose products are summed

MAX_PRODUCTS = 2**22  # about 0.06 s
MIN_ELEMENTS = 32
SIDE, MIN_SIDE, MAX_SIDE_TERMS = 64, 6, 2**20  # of the part of a matrix product that is summed
PART_PRODUCTS = 2**16  # half a MiB in float64, of which a few are alive at a time: what a core's cache holds


def sampled(
    conv: Geometry, rng: np.random.Generator, first: Array, second: Array
) -> tuple[tuple[Array, ...], Array, Array]:
    """Index (axes n c h w), sum, and root of the summed squares of all elements or of a sample; inputs as n c h w."""
    shape = conv.computed
    total = math.prod(shape)
    if conv.groups == 1 and total * conv.terms > MAX_PRODUCTS:
        return _in_part(conv, rng, first, second)
    flat = sample(rng, total, max(MIN_ELEMENTS, MAX_PRODUCTS // conv.terms))
    products = {"forward": _forward, "bwd_data": _bwd_data, "bwd_weights": _bwd_weights}[conv.direction]
    sums, norms = [], []
    for part in np.array_split(flat, max(1, min(len(flat), len(flat) * conv.terms // PART_PRODUCTS))):
        each = products(conv, first, second, np.unravel_index(part, shape)).reshape(len(part), -1)
        sums.append(each.sum(axis=1))
        norms.append(np.sqrt(np.einsum("et,et->e", each, each)))
    return np.unravel_index(flat, shape), np.concatenate(sums), np.concatenate(norms)


def _in_part(
    conv: Geometry, rng: np.random.Generator, first: Array, second: Array
) -> tuple[tuple[Array, ...], Array, Array]:
    """The same of some rows times some columns of the matrix product that a convolution without groups amounts to.

    Rows are places in the output, or filters; columns are its channels, or taps of the filters.
    """
    side = min(SIDE, max(MIN_SIDE, MAX_SIDE_TERMS // conv.terms))
    operands = {"forward": _rows_forward, "bwd_data": _rows_bwd_data, "bwd_weights": _rows_bwd_weights}
    index, rows, columns = operands[conv.direction](conv, rng, side, first, second)
    return index, rows @ columns.T, np.sqrt(rows**2 @ (columns**2).T)


def _rows_forward(conv: Geometry, rng: np.random.Generator, side: int, x: Array, w: Array) -> Product:
    down, across = conv.axes
    n, p, q = _drawn(rng, side, conv.n, down.outputs, across.outputs)
    k = sample(rng, conv.k, side)
    rows, columns = _pixels(down, p[:, None], _taps(down)), _pixels(across, q[:, None], _taps(across))
    patches = _picked(x, n[:, None], np.arange(conv.c), rows, columns)
    return (n[:, None], k, p[:, None], q[:, None]), _matrix(patches), _matrix(w[k])


def _rows_bwd_data(conv: Geometry, rng: np.random.Generator, side: int, dy: Array, w: Array) -> Product:
    down, across = conv.axes
    n, h, col = _drawn(rng, side, conv.n, down.image, across.image)
    c = sample(rng, conv.c, side)
    rows, columns = _outputs(down, h[:, None], _taps(down)), _outputs(across, col[:, None], _taps(across))
    patches = _picked(dy, n[:, None], np.arange(conv.k), rows, columns)
    return (n[:, None], c, h[:, None], col[:, None]), _matrix(patches), _matrix(w[:, c].swapaxes(0, 1))


def _rows_bwd_weights(conv: Geometry, rng: np.random.Generator, side: int, dy: Array, x: Array) -> Product:
    down, across = conv.axes
    k = sample(rng, conv.k, side)
    c, r, s = _drawn(rng, side, conv.c, down.taps, across.taps)
    rows, columns = (
        _pixels(down, np.arange(down.outputs), r[:, None]),
        _pixels(across, np.arange(across.outputs), s[:, None]),
    )
    shifted = _picked(x, np.arange(conv.n)[None], c[:, None], rows, columns)
    return (k[:, None], c, r, s), _matrix(dy[:, k].swapaxes(0, 1)), _matrix(shifted)


def _drawn(rng: np.random.Generator, count: int, *shape: int) -> tuple[Array, ...]:
    return np.unravel_index(sample(rng, math.prod(shape), count), shape)


def _matrix(array: Array) -> Array:
    return array.reshape(len(array), -1).astype(np.float64, copy=False)


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
    values = memory[(i * steps[0] + j * steps[1])[..., None, None] + places].astype(np.float64)
    picked: Array = values * inside
    return picked
