"""Recurrent networks in Numba, step by step: pointwise kernels of our own, products by ours (GPU) or BLAS (CPU)."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.problem import Step, described, kernel
from primbench.registry import setup_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.kernels.rnn._stepwise import Bind, Pointwise
    from primbench.kernels.rnn.problem import Rnn

BLOCK = 128  # threads of a block


@kernel("rnn", "numba")
def numba_rnn(backend: Any, problem: Rnn, *inputs: Any) -> Step:
    from primbench.kernels.rnn._stepwise import stepwise

    on_cpu = not backend.device.is_gpu
    _refuse(problem, on_cpu=on_cpu)
    gemm = setup_of("gemm", "numpy" if on_cpu else "numba")
    bind = _on_cpu(problem) if on_cpu else _on_gpu(backend, problem)
    step = stepwise(backend, problem, problem.operands(inputs), gemm, bind)
    backend.synchronize()
    products = "NumPy's BLAS" if on_cpu else "Numba's tiled kernel"
    return described(step, algorithm=f"stepwise: 2 calls a step, product by {products}, pointwise kernel")


def _refuse(problem: Rnn, *, on_cpu: bool) -> None:
    if problem.algo not in ("auto", "stepwise"):
        raise UnsupportedCase("Numba has no call for a whole sequence: ask for algo=stepwise")
    if on_cpu and (problem.dtype != "float32" or problem.math_mode != "ieee"):
        raise UnsupportedCase("Numba on a CPU computes float32 ieee only: ask for that dtype")


def _on_cpu(problem: Rnn) -> Bind:
    from primbench.kernels.rnn._numba_cpu import compiled

    call = compiled(problem.cell)

    def bind(arrays: Pointwise) -> Callable[[], Any]:
        return functools.partial(call, *_arguments(problem, arrays))

    return bind


def _on_gpu(backend: Any, problem: Rnn) -> Bind:
    from primbench.kernels.rnn._numba_cuda import compiled

    blocks = -(-problem.batch_size * problem.hidden_size // BLOCK)
    with warnings.catch_warnings():
        # Of fewer than 128 blocks; but this size is what was asked for.
        warnings.filterwarnings("ignore", message=".*under-utilization")
        launch = compiled(problem.cell, problem.dtype)[blocks, BLOCK, backend.stream]

    def bind(arrays: Pointwise) -> Callable[[], Any]:
        return functools.partial(launch, *_arguments(problem, arrays))

    return bind


def _arguments(problem: Rnn, a: Pointwise) -> tuple[Any, ...]:
    """What every cell reads and writes, and what only this one does."""
    own = {"vanilla": (), "lstm": (a.c_before, a.c), "gru": (a.h_before,)}[problem.cell]
    return (a.from_x, a.from_h, a.b_ih, a.b_hh, a.h, a.y, *own)
