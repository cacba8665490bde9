"""Recurrent networks on NumPy: calls for each step."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from primbench.problem import Array


@kernel("rnn", "numpy")
def numpy_rnn(backend: Any, problem: Any, *inputs: Array) -> Step:
    """One product with the input for all steps, one with the state and the pointwise work for each; float32 only.

    The forward directions are the same program: it keeps what a backward pass needs either way.
    """
    from primbench.kernels.rnn._network import Network

    if problem.algo not in ("auto", "stepwise"):
        raise UnsupportedCase("NumPy has no call for a whole sequence: ask for algo=stepwise")
    if problem.dtype != "float32" or problem.math_mode != "ieee":
        raise UnsupportedCase(f"NumPy has no fast {problem.dtype} {problem.math_mode} product: ask for float32 ieee")
    step = functools.partial(  # a bound method cannot be given a description
        Network(problem.cell, problem.direction, problem.ways, problem.operands(inputs)).step()
    )
    return described(step, algorithm="stepwise: BLAS and NumPy calls for each step")
