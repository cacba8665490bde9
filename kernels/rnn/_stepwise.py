"""Recurrent networks step by step: of each step one product and one pointwise kernel, on any backend that has both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.errors import UnsupportedCase
from primbench.kernels.gemm.problem import Gemm

if TYPE_CHECKING:
    from primbench.kernels.rnn._operands import Operands
    from primbench.kernels.rnn.problem import Rnn
    from primbench.problem import Setup, Step


class Pointwise(NamedTuple):
    """What a pointwise kernel reads and writes in one step: arrays of the backend.

    from_x, from_h[N,gH]: the products with the input and with the state before. b_ih, b_hh[gH]: what is added to them.
    h, c[N,H] are written and may be h_before, c_before; y[N,H] gets h, too, and may have distant rows. c_before and c
    are None but for an lstm.
    """

    from_x: Any
    from_h: Any
    b_ih: Any
    b_hh: Any
    h_before: Any
    h: Any
    c_before: Any
    c: Any
    y: Any


Bind = Callable[[Pointwise], Callable[[], Any]]
"""Prepares one launch of the pointwise kernel."""


def stepwise(backend: Any, problem: Rnn, operands: Operands, gemm: Setup, bind: Bind) -> Step:
    """In every layer and direction one product with the input for all steps, then two calls for each.

    gemm: the backend's setup of a product. bind: its pointwise kernel of this cell.
    """
    if problem.direction != "forward_inference":
        raise UnsupportedCase(f"{backend.name} stepwise computes forward_inference only: ask for that direction")
    x, hidden = operands.x, problem.hidden_size
    calls: list[Callable[[], Any]] = []
    for layer in range(problem.layers):
        y = backend.empty((problem.seq_len, problem.batch_size, problem.ways * hidden), problem.dtype)
        for way, order in enumerate((1, -1)[: problem.ways]):
            part = y[:, :, way * hidden : (way + 1) * hidden]
            chain = layer * problem.ways + way
            for call in _chain(backend, problem, operands, chain, x=x, y=part, order=order, gemm=gemm, bind=bind):
                call()  # what the next is made from is then there, and no later call compiles
                calls.append(call)
        x = y

    def step() -> Any:
        for call in calls:
            call()
        return x

    return step


def _chain(
    backend: Any, problem: Rnn, operands: Operands, i: int, *, x: Any, y: Any, order: int, gemm: Setup, bind: Bind
) -> Iterator[Callable[[], Any]]:
    """The calls of one direction of one layer: the i-th of the states and of the weights, from x to y."""
    w_ih, w_hh, b_ih, b_hh = operands.weights[4 * i : 4 * i + 4]
    steps, rows, features = x.shape

    def product(a: Any, w: Any) -> tuple[Step, Any]:
        (m, k), n = a.shape, len(w)
        size = Gemm(m, n, k, problem.dtype, trans_b=True, math_mode=problem.math_mode)
        made = gemm(backend, size, a, w)
        return made, made()

    h = backend.empty((rows, problem.hidden_size), problem.dtype)
    c = None if operands.c0 is None else backend.empty(h.shape, problem.dtype)
    multiply, from_x = product(x.reshape(steps * rows, features), w_ih)
    yield multiply
    from_x = from_x.reshape(steps, rows, len(w_hh))
    h_before, c_before = operands.h0[i], None if operands.c0 is None else operands.c0[i]
    multiply, from_h = product(h_before, w_hh)
    for number, t in enumerate(range(steps)[::order]):
        if number == 1:
            h_before, c_before = h, c
            multiply, from_h = product(h, w_hh)
        yield multiply
        yield bind(Pointwise(from_x[t], from_h, b_ih, b_hh, h_before, h, c_before, c, y[t]))
