"""The convolutions that Numba compiles for the CPU, channels last: X[n,h,w,g,c], Y[n,p,q,g,k].

The filters are taps[g,r,s,c,k] for Y, taps[g,r,s,k,c] for dX and dW[g,k,r,s,c]. A thread owns rows of the output, or
filters of dW, so that no two write to one place. Arguments: (along h, along w).

Numba is imported at the top: import this file only where a kernel is set up. Nothing is cached on disk: the
time to compile is no part of any result, and a place that cannot write its installation runs the same way.
"""

# mypy: disallow-untyped-decorators=False

from __future__ import annotations

from typing import Any

from numba import int64, njit, prange

# A row number is unsigned in prange, where a difference below 0 would be a large number: hence int64 of it.
FASTMATH = {"contract"}  # multiply-add in one rounding, as BLAS does; the order of the sums stays as written
CALLED = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # by compiled code alone: a sixth less to compile


@njit(parallel=True, fastmath=FASTMATH)
def forward(x: Any, taps: Any, y: Any, strides: Any, pads: Any, dilations: Any) -> None:
    """Y from X."""
    r, s = taps.shape[1:3]
    for row in prange(y.shape[0] * y.shape[1]):
        image, p = divmod(int64(row), y.shape[1])
        y[image, p] = 0
        for a in range(r):
            h = p * strides[0] + a * dilations[0] - pads[0]
            if not 0 <= h < x.shape[1]:
                continue
            for b in range(s):
                offset = b * dilations[1] - pads[1]
                first, last = _joined(offset, strides[1], x.shape[2], y.shape[2])
                pixel = first * strides[1] + offset
                _add_line(y[image, p], first, 1, x[image, h], pixel, strides[1], last - first, taps, a, b)


@njit(parallel=True, fastmath=FASTMATH)
def bwd_data(dy: Any, taps: Any, dx: Any, strides: Any, pads: Any, dilations: Any) -> None:
    """dX from dY."""
    r, s = taps.shape[1:3]
    for row in prange(dx.shape[0] * dx.shape[1]):
        image, h = divmod(int64(row), dx.shape[1])
        dx[image, h] = 0
        for a in range(r):
            p, rest = divmod(h + pads[0] - a * dilations[0], strides[0])
            if rest or not 0 <= p < dy.shape[1]:
                continue
            for b in range(s):
                offset = b * dilations[1] - pads[1]
                first, last = _joined(offset, strides[1], dx.shape[2], dy.shape[2])
                pixel = first * strides[1] + offset
                _add_line(dx[image, h], pixel, strides[1], dy[image, p], first, 1, last - first, taps, a, b)


@njit(parallel=True, fastmath=FASTMATH)
def bwd_weights(dy: Any, x: Any, dw: Any, strides: Any, pads: Any, dilations: Any) -> None:
    """dW from dY and X."""
    groups, filters, r, s, channels = dw.shape
    pairs = (filters + 1) // 2
    for task in prange(groups * pairs * r):
        rest, a = divmod(int64(task), r)
        g, k = rest // pairs, rest % pairs * 2
        dw[g, k : k + 2, a] = 0
        for image in range(dy.shape[0]):
            for p in range(dy.shape[1]):
                h = p * strides[0] + a * dilations[0] - pads[0]
                if not 0 <= h < x.shape[1]:
                    continue
                pixels, errors = x[image, h].reshape(-1, channels), dy[image, p]
                for b in range(s):
                    offset = b * dilations[1] - pads[1]
                    first, last = _joined(offset, strides[1], x.shape[2], dy.shape[2])
                    start, apart = (first * strides[1] + offset) * groups + g, strides[1] * groups
                    if k + 1 < filters:
                        dy0, dy1 = errors[first:last, g, k], errors[first:last, g, k + 1]
                        _add_to_two(dw[g, k, a, b], dw[g, k + 1, a, b], dy0, dy1, pixels, start, apart)
                    else:
                        _add_to_one(dw[g, k, a, b], errors[first:last, g, k], pixels, start, apart, 0)


@njit(**CALLED)
def _joined(offset: Any, stride: Any, pixels: Any, outputs: Any) -> Any:
    """The first output, and the one after the last, that a tap at ``offset`` joins with a pixel of the image."""
    first = max(0, -(offset // stride))
    return first, max(first, min(outputs, (pixels - 1 - offset) // stride + 1))


@njit(fastmath=FASTMATH, **CALLED)
def _add_line(
    targets: Any, target: Any, target_step: Any, sources: Any, source: Any, source_step: Any, count: Any,
    taps: Any, a: Any, b: Any,
) -> None:  # fmt: skip
    """targets[target + i target_step] += sources[source + i source_step] times the tap, i < count, every group."""
    for g in range(targets.shape[1]):
        rows = taps[g, a, b]
        for i in range(0, count - 1, 2):
            t, u = target + i * target_step, source + i * source_step
            c0, c1 = targets[t, g], targets[t + target_step, g]
            _add_to_two(c0, c1, sources[u, g], sources[u + source_step, g], rows, 0, 1)
        if count % 2:
            t, u = target + (count - 1) * target_step, source + (count - 1) * source_step
            _add_to_one(targets[t, g], sources[u, g], rows, 0, 1, 0)


@njit(fastmath=FASTMATH, **CALLED)
def _add_to_two(c0: Any, c1: Any, a0: Any, a1: Any, rows: Any, first: Any, apart: Any) -> None:
    """_add_to_one() for two rows at once, four terms at a time: 8 multiply-adds for 8 loads and stores."""
    in_fours = a0.shape[0] // 4 * 4
    for t in range(0, in_fours, 4):
        x0, x1, x2, x3 = a0[t], a0[t + 1], a0[t + 2], a0[t + 3]
        y0, y1, y2, y3 = a1[t], a1[t + 1], a1[t + 2], a1[t + 3]
        at = first + t * apart
        b0, b1, b2, b3 = rows[at], rows[at + apart], rows[at + 2 * apart], rows[at + 3 * apart]
        for j in range(c0.shape[0]):
            c0[j] += x0 * b0[j] + x1 * b1[j] + x2 * b2[j] + x3 * b3[j]
            c1[j] += y0 * b0[j] + y1 * b1[j] + y2 * b2[j] + y3 * b3[j]
    _add_to_one(c0, a0, rows, first, apart, in_fours)
    _add_to_one(c1, a1, rows, first, apart, in_fours)


@njit(fastmath=FASTMATH, **CALLED)
def _add_to_one(c: Any, a: Any, rows: Any, first: Any, apart: Any, begin: Any) -> None:
    """c += a[begin:] times every apart-th of the rows, a[0] meeting rows[first]."""
    for t in range(begin, a.shape[0]):
        x, b = a[t], rows[first + t * apart]
        for j in range(c.shape[0]):
            c[j] += x * b[j]
