"""Recurrent networks in NumPy, in the type of their operands: the timed kernel in float32, the reference in float64.

NumPy is imported at the top: import this file only where a problem is computed. Every array stands in the order of
time; only the loop over the steps may go back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from primbench.kernels.rnn._operands import Operands
    from primbench.problem import Array, Step


class Network:
    """The chains of every layer, and the arrays that hold what they give."""

    def __init__(self, cell: str, direction: str, ways: int, operands: Operands) -> None:
        """cell, direction: as the fields of Rnn. ways: directions in time, 1 or 2."""
        self.direction, self.dy = direction, operands.dy
        self.layers: list[list[Chain]] = []
        self.outputs: list[Array] = []
        x = operands.x
        for layer in range(len(operands.weights) // (4 * ways)):
            chains = [
                Chain(
                    cell,
                    direction,
                    x,
                    operands.weights[4 * i : 4 * i + 4],
                    h0=operands.h0[i],
                    c0=_row(operands.c0, i),
                    order=order,
                )
                for i, order in enumerate((1, -1)[:ways], layer * ways)
            ]
            steps, rows, hidden = chains[0].after.shape
            x = np.empty((steps, rows, 2 * hidden), x.dtype) if ways == 2 else chains[0].after
            self.layers.append(chains)
            self.outputs.append(x)

    def step(self) -> Step:
        """What the problem's direction asks for, by itself: what comes before it is done here."""
        if not self.direction.startswith("bwd"):
            return self.forward
        self.forward()
        if self.direction == "bwd_data":
            return self.bwd_data
        self.bwd_data()
        chains = self.chains
        gradients = np.empty((len(chains), *chains[0].w_hh.shape), self.dy.dtype)
        return lambda: self.bwd_weights(chains, gradients)

    @property
    def chains(self) -> list[Chain]:
        return [chain for layer in self.layers for chain in layer]

    def forward(self) -> Array:
        """y[T,N,H], or 2H where there are two directions."""
        for chains, output in zip(self.layers, self.outputs, strict=True):
            for chain in chains:
                chain.forward()
            if len(chains) == 2:
                np.concatenate([chain.after for chain in chains], axis=2, out=output)
        return self.outputs[-1]

    def bwd_data(self) -> Array:
        """dx[T,N,H] of the forward pass before."""
        dy: Array = self.dy
        for chains in reversed(self.layers):
            for chain, part in zip(chains, np.split(dy, len(chains), axis=2), strict=True):
                chain.backward(part)
            if len(chains) == 2:
                np.add(chains[0].dx, chains[1].dx, out=chains[0].dx)
            dy = chains[0].dx
        return dy

    def bwd_weights(self, chains: Sequence[Chain], recurrent: Array) -> Array:
        """Gradients of all weights; returns those of w_hh, one after another."""
        for chain, gradient in zip(chains, recurrent, strict=True):
            chain.bwd_weights(gradient)
        return recurrent

    def recurrent_gradients(self, units: Array) -> Array:
        """Rows ``units`` of the gradient of every w_hh, after bwd_data()."""
        return np.stack([_flat(chain.dhidden[:, :, units]).T @ _flat(chain.before) for chain in self.chains])


class Chain:
    """One direction of one layer.

    before, after[T,N,H]: the state that a step starts from, and its own; for an lstm cell_before, cell likewise.
    gates[T,N,gH]: after their activations. candidate[T,N,H]: a gru's recurrent part of n. dgates, dhidden[T,N,gH]:
    gradients of what the input and the recurrent product add to the gates; a gru's reset makes them differ.
    """

    def __init__(
        self, cell: str, direction: str, x: Array, weights: Sequence[Array], *, h0: Array, c0: Array | None, order: int
    ) -> None:
        steps, rows, _ = x.shape
        self.x = x
        self.w_ih, self.w_hh, b_ih, b_hh = weights
        gates = len(b_ih)
        # The recurrent bias of a gru's n is reset with its product; the others are added once for all steps.
        folded = 2 * h0.shape[-1] if cell == "gru" else gates
        self.bias, self.b_n = np.concatenate((b_ih[:folded] + b_hh[:folded], b_ih[folded:])), b_hh[folded:]
        self.steps = range(steps)[::order]
        self.run, self.run_back = CELLS[cell]
        self.before, self.after = _states(h0, steps, order)
        self.gates = np.empty((steps, rows, gates), x.dtype)
        self.hidden = np.empty((rows, gates), x.dtype)
        if c0 is not None:
            self.cell_before, self.cell = _states(c0, steps, order)
        if cell == "gru":
            self.candidate = np.empty_like(self.after)
        if direction.startswith("bwd"):
            self.dgates, self.dx = np.empty_like(self.gates), np.empty(x.shape, x.dtype)
            self.dhidden = np.empty_like(self.gates) if cell == "gru" else self.dgates
        if direction == "bwd_weights":
            self.dw_ih, self.db_ih, self.db_hh = (np.empty_like(each) for each in (self.w_ih, b_ih, b_hh))

    def forward(self) -> None:
        np.matmul(_flat(self.x), self.w_ih.T, out=_flat(self.gates))
        np.add(self.gates, self.bias, out=self.gates)
        self.run(self)

    def backward(self, dy: Array) -> None:
        """dx and, on the way to it, dgates and dhidden."""
        self.run_back(self, dy)
        np.matmul(_flat(self.dgates), self.w_ih, out=_flat(self.dx))

    def bwd_weights(self, dw_hh: Array) -> None:
        np.matmul(_flat(self.dhidden).T, _flat(self.before), out=dw_hh)
        np.matmul(_flat(self.dgates).T, _flat(self.x), out=self.dw_ih)
        np.sum(_flat(self.dgates), axis=0, out=self.db_ih)
        np.sum(_flat(self.dhidden), axis=0, out=self.db_hh)


def _row(array: Array | None, i: int) -> Array | None:
    return None if array is None else array[i]


def _states(initial: Array, steps: int, order: int) -> tuple[Array, Array]:
    """Views of one array: the state before each step, and after it."""
    states = np.empty((steps + 1, *initial.shape), initial.dtype)
    states[0 if order > 0 else -1] = initial
    return (states[:-1], states[1:]) if order > 0 else (states[1:], states[:-1])


def _flat(sequence: Array) -> Array:
    """[T,N,I] as the matrix [TN,I], a view."""
    return sequence.reshape(-1, sequence.shape[-1])


def _sigmoid(x: Array) -> None:
    """Sigmoid in place: 1 / (1 + exp(-x)) = (1 + tanh(x / 2)) / 2, which cannot overflow."""
    np.multiply(x, 0.5, out=x)
    np.tanh(x, out=x)
    np.multiply(x, 0.5, out=x)
    np.add(x, 0.5, out=x)


def _vanilla(c: Chain) -> None:
    """h = max(0, gate)."""
    for t in c.steps:
        h = c.after[t]
        np.matmul(c.before[t], c.w_hh.T, out=h)
        np.add(h, c.gates[t], out=h)
        np.maximum(h, 0, out=h)


def _lstm(c: Chain) -> None:
    """c = f c + i g; h = o tanh(c)."""
    for t in c.steps:
        gates, cell, h = c.gates[t], c.cell[t], c.after[t]
        np.matmul(c.before[t], c.w_hh.T, out=c.hidden)
        np.add(gates, c.hidden, out=gates)
        i, f, g, o = np.split(gates, 4, axis=1)
        for gate in (i, f, o):
            _sigmoid(gate)
        np.tanh(g, out=g)
        np.multiply(f, c.cell_before[t], out=cell)
        np.multiply(i, g, out=h)
        np.add(cell, h, out=cell)
        np.tanh(cell, out=h)
        np.multiply(o, h, out=h)


def _gru(c: Chain) -> None:
    """n = tanh(n + r (w h + b)); h = n + z (h - n)."""
    for t in c.steps:
        m, h = c.candidate[t], c.after[t]
        np.matmul(c.before[t], c.w_hh.T, out=c.hidden)
        (r, z, n), (hidden_r, hidden_z, hidden_n) = np.split(c.gates[t], 3, axis=1), np.split(c.hidden, 3, axis=1)
        for gate, hidden in ((r, hidden_r), (z, hidden_z)):
            np.add(gate, hidden, out=gate)
            _sigmoid(gate)
        np.add(hidden_n, c.b_n, out=m)
        np.multiply(r, m, out=h)
        np.add(n, h, out=n)
        np.tanh(n, out=n)
        np.subtract(c.before[t], n, out=h)
        np.multiply(z, h, out=h)
        np.add(n, h, out=h)


# Backward, plainly: the temporaries are [N,H] and [N,gH], which the allocator serves from its cache.


def _back_vanilla(c: Chain, dy: Array) -> None:
    dh: Any = 0
    for t in reversed(c.steps):
        np.multiply(dy[t] + dh, c.after[t] > 0, out=c.dgates[t])
        dh = c.dgates[t] @ c.w_hh


def _back_lstm(c: Chain, dy: Array) -> None:
    dh: Any = 0
    dc: Any = 0
    for t in reversed(c.steps):
        i, f, g, o = np.split(c.gates[t], 4, axis=1)
        tanh_c, dh = np.tanh(c.cell[t]), dy[t] + dh
        dc = dc + dh * o * (1 - tanh_c * tanh_c)
        di, df = dc * g * i * (1 - i), dc * c.cell_before[t] * f * (1 - f)
        dg, do = dc * i * (1 - g * g), dh * tanh_c * o * (1 - o)
        np.concatenate((di, df, dg, do), axis=1, out=c.dgates[t])
        dc, dh = dc * f, c.dgates[t] @ c.w_hh


def _back_gru(c: Chain, dy: Array) -> None:
    dh: Any = 0
    for t in reversed(c.steps):
        r, z, n = np.split(c.gates[t], 3, axis=1)
        dh = dy[t] + dh
        dn = dh * (1 - z) * (1 - n * n)
        dr, dz = dn * c.candidate[t] * r * (1 - r), dh * (c.before[t] - n) * z * (1 - z)
        np.concatenate((dr, dz, dn), axis=1, out=c.dgates[t])
        np.concatenate((dr, dz, dn * r), axis=1, out=c.dhidden[t])
        dh = c.dhidden[t] @ c.w_hh + dh * z


CELLS: dict[str, tuple[Callable[[Chain], None], Callable[[Chain, Array], None]]] = {
    "vanilla": (_vanilla, _back_vanilla),
    "lstm": (_lstm, _back_lstm),
    "gru": (_gru, _back_gru),
}
