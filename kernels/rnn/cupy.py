"""Recurrent networks on CuPy arrays: cuDNN called directly, and step by step with a pointwise kernel of ours."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

from primbench.errors import PrimbenchError, UnsupportedCase
from primbench.kernels.rnn.problem import CUDNN_ALGORITHMS
from primbench.problem import Step, described, description_of, kernel
from primbench.registry import setup_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.kernels.rnn._operands import Operands
    from primbench.kernels.rnn._stepwise import Bind, Pointwise
    from primbench.kernels.rnn.problem import Rnn

BLOCK = 128  # threads of a block
# persist_dynamic compiles for 1 to 7 s, and was the slowest on an H200 wherever the algorithm matters.
TRIED = ("standard", "persist_static")

# What was found the fastest, by problem and device: every set of inputs must get the same one.
_fastest: dict[tuple[Any, str], str] = {}


@kernel("rnn", "cupy")
def cupy_rnn(backend: Any, problem: Rnn, *inputs: Any) -> Step:
    """The step's ``algorithm`` names cuDNN's algorithm and, where it was chosen here, the times of all."""
    from primbench.cuda.cudnn import CudnnRefusal
    from primbench.kernels.rnn._cudnn import cudnn_step

    operands = problem.operands(inputs)
    if problem.algo == "stepwise":
        return _stepwise(backend, problem, operands)
    _refuse_approximations(problem)
    known = problem.algo if problem.algo in CUDNN_ALGORITHMS else _fastest.get((problem, backend.device))
    if known is None:
        return _try_all(backend, problem, operands)
    try:
        return cudnn_step(backend, problem, operands, known)
    except CudnnRefusal as refusal:
        raise UnsupportedCase(f"{refusal}: ask for algo=auto") from None


def _refuse_approximations(problem: Rnn) -> None:
    if problem.algo.startswith("persist") and problem.needs_exact_tanh:
        raise UnsupportedCase(
            f"cuDNN's persistent {problem.cell} kernels approximate tanh to 2^-11 in float32, too: "
            "ask for algo=standard, or math_mode=tf32"
        )


def _try_all(backend: Any, problem: Rnn, operands: Operands) -> Step:
    """The fastest of those that cuDNN has for this network. Raises UnsupportedCase where it has none."""
    from primbench.cuda import trial
    from primbench.kernels.rnn._cudnn import cudnn_step
    from primbench.units import format_time

    steps, refused = dict[str, Step](), []
    for name in TRIED[:1] if problem.needs_exact_tanh else TRIED:
        try:
            steps[name] = cudnn_step(backend, problem, operands, name)
        except PrimbenchError as refusal:
            refused.append(f"{name}: {refusal}")
    if not steps:
        raise UnsupportedCase(f"cuDNN has no such network: {'; '.join(refused)}")
    if len(steps) == 1:
        (best,) = steps
        told = "no other takes it"
    else:
        tried = dict[str, float]()
        for name, step in steps.items():
            tried[name] = trial.device_s(step, backend.stream_handle, min(tried.values(), default=math.inf))
        best = min(tried, key=tried.__getitem__)
        told = f"tried: {', '.join(f'{name} {format_time(time_s)}' for name, time_s in tried.items())}"
    _fastest[problem, backend.device] = best
    return described(steps[best], algorithm=f"{description_of(steps[best]).algorithm} ({told})")


def _stepwise(backend: Any, problem: Rnn, operands: Operands) -> Step:
    from primbench.kernels.rnn._stepwise import stepwise

    # cuBLASLt wants addresses that a slice need not have.
    own = operands._replace(h0=[state.copy() for state in operands.h0])
    step = stepwise(backend, problem, own, setup_of("gemm", "cupy"), _pointwise(problem))
    return described(step, algorithm="stepwise: 2 calls a step, cuBLASLt product and pointwise kernel")


def _pointwise(problem: Rnn) -> Bind:
    import numpy as np

    launch = _compiled(problem.dtype).get_function(problem.cell)
    blocks = -(-problem.batch_size * problem.hidden_size // BLOCK)
    sizes = [np.int32(n) for n in (problem.batch_size, problem.hidden_size, problem.ways * problem.hidden_size)]

    def bind(a: Pointwise) -> Callable[[], Any]:
        own = {"vanilla": (), "lstm": (a.c_before, a.c), "gru": (a.h_before,)}[problem.cell]
        arguments = (a.from_x, a.from_h, a.b_ih, a.b_hh, a.h, a.y, *sizes, *own)
        return functools.partial(launch, (blocks,), (BLOCK,), arguments)

    return bind


@functools.cache
def _compiled(dtype: str) -> Any:
    import cupy

    from primbench.cuda import kernels, rows

    source = kernels.text_of("rnn", "pointwise.cu")
    return cupy.RawModule(code=source, options=("-std=c++17", f"-DSTORED={rows.STORED[dtype]}"))
