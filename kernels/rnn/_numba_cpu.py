"""The pointwise part of a recurrent network's step, compiled by Numba for the CPU, in one thread.

Threads of Numba's own would wait for a CPU beside those of the BLAS, which spin after every product: on 2 cores a
step then took 8 ms, and in one thread 0.05 ms.

Numba is imported at the top: import this file only where a kernel is set up. Arguments: kernels/rnn/_stepwise.py.
"""

# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numba import njit, types

HALF = np.float32(0.5)
MATRIX, VECTOR, ROWS = types.float32[:, ::1], types.float32[::1], types.float32[:, :]


@functools.cache
def compiled(cell: str) -> Any:
    """The function of a cell, for rows of y that may lie apart: compiled once, whatever its layout."""
    function, own = {"vanilla": (vanilla, 0), "lstm": (lstm, 2), "gru": (gru, 1)}[cell]
    signature = types.void(MATRIX, MATRIX, VECTOR, VECTOR, MATRIX, ROWS, *[MATRIX] * own)
    return njit(signature)(function)


@njit(inline="always")
def _sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)) = (1 + tanh(x / 2)) / 2, which cannot overflow."""
    return HALF + HALF * math.tanh(HALF * x)


def vanilla(from_x: Any, from_h: Any, b_ih: Any, b_hh: Any, h: Any, y: Any) -> None:
    """h = max(0, gate)."""
    rows, hidden = h.shape
    for n in range(rows):
        for j in range(hidden):
            h[n, j] = y[n, j] = max(from_x[n, j] + from_h[n, j] + b_ih[j] + b_hh[j], np.float32(0))


def lstm(from_x: Any, from_h: Any, b_ih: Any, b_hh: Any, h: Any, y: Any, c_before: Any, c: Any) -> None:
    """c = f c + i g; h = o tanh(c)."""
    rows, hidden = h.shape
    for n in range(rows):
        for j in range(hidden):
            jf, jg, jo = j + hidden, j + 2 * hidden, j + 3 * hidden
            i = _sigmoid(from_x[n, j] + from_h[n, j] + b_ih[j] + b_hh[j])
            f = _sigmoid(from_x[n, jf] + from_h[n, jf] + b_ih[jf] + b_hh[jf])
            g = math.tanh(from_x[n, jg] + from_h[n, jg] + b_ih[jg] + b_hh[jg])
            o = _sigmoid(from_x[n, jo] + from_h[n, jo] + b_ih[jo] + b_hh[jo])
            cell = f * c_before[n, j] + i * g
            c[n, j] = cell
            h[n, j] = y[n, j] = o * math.tanh(cell)


def gru(from_x: Any, from_h: Any, b_ih: Any, b_hh: Any, h: Any, y: Any, h_before: Any) -> None:
    """n = tanh(n + r (w h + b)); h = n + z (h - n)."""
    rows, hidden = h.shape
    for row in range(rows):
        for j in range(hidden):
            jz, jn = j + hidden, j + 2 * hidden
            r = _sigmoid(from_x[row, j] + from_h[row, j] + b_ih[j] + b_hh[j])
            z = _sigmoid(from_x[row, jz] + from_h[row, jz] + b_ih[jz] + b_hh[jz])
            n = math.tanh(from_x[row, jn] + b_ih[jn] + r * (from_h[row, jn] + b_hh[jn]))
            h[row, j] = y[row, j] = n + z * (h_before[row, j] - n)
