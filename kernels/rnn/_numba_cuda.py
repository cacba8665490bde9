"""The pointwise part of a recurrent network's step, compiled by Numba for a GPU: a thread has one unit of one sequence.

Numba is imported at the top, because its simulator replaces ``cuda`` among the globals of a kernel's file: import this
file only where a kernel is set up. Arguments: kernels/rnn/_stepwise.py.
"""

# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import functools
import math
from typing import Any

from numba import cuda, types


@functools.cache
def compiled(cell: str, dtype: str) -> Any:
    """The kernel of a cell, for arrays of ``dtype``; it computes in float32."""
    stored, single = getattr(types, dtype), types.float32
    one = single(1)

    @cuda.jit(device=True)
    def sigmoid(x: Any) -> Any:
        return one / (one + math.exp(-x))

    @cuda.jit(device=True)
    def gate(product: Any, bias: Any, row: Any, column: Any) -> Any:
        return single(product[row, column]) + single(bias[column])

    def vanilla(from_x: Any, from_h: Any, b_ih: Any, b_hh: Any, h: Any, y: Any) -> None:
        row, j = cuda.grid(1) // h.shape[1], cuda.grid(1) % h.shape[1]
        if row < h.shape[0]:
            value = gate(from_x, b_ih, row, j) + gate(from_h, b_hh, row, j)
            h[row, j] = y[row, j] = stored(max(value, single(0)))

    def lstm(from_x: Any, from_h: Any, b_ih: Any, b_hh: Any, h: Any, y: Any, c_before: Any, c: Any) -> None:
        hidden = h.shape[1]
        row, j = cuda.grid(1) // hidden, cuda.grid(1) % hidden
        if row < h.shape[0]:
            i = sigmoid(gate(from_x, b_ih, row, j) + gate(from_h, b_hh, row, j))
            j_f, j_g, j_o = j + hidden, j + 2 * hidden, j + 3 * hidden
            f = sigmoid(gate(from_x, b_ih, row, j_f) + gate(from_h, b_hh, row, j_f))
            g = math.tanh(gate(from_x, b_ih, row, j_g) + gate(from_h, b_hh, row, j_g))
            o = sigmoid(gate(from_x, b_ih, row, j_o) + gate(from_h, b_hh, row, j_o))
            state = f * single(c_before[row, j]) + i * g
            c[row, j] = stored(state)
            h[row, j] = y[row, j] = stored(o * math.tanh(state))

    def gru(from_x: Any, from_h: Any, b_ih: Any, b_hh: Any, h: Any, y: Any, h_before: Any) -> None:
        hidden = h.shape[1]
        row, j = cuda.grid(1) // hidden, cuda.grid(1) % hidden
        if row < h.shape[0]:
            r = sigmoid(gate(from_x, b_ih, row, j) + gate(from_h, b_hh, row, j))
            j_z, j_n = j + hidden, j + 2 * hidden
            z = sigmoid(gate(from_x, b_ih, row, j_z) + gate(from_h, b_hh, row, j_z))
            n = math.tanh(gate(from_x, b_ih, row, j_n) + r * gate(from_h, b_hh, row, j_n))
            h[row, j] = y[row, j] = stored(n + z * (single(h_before[row, j]) - n))

    return cuda.jit({"vanilla": vanilla, "lstm": lstm, "gru": gru}[cell])
