"""The chase in Numba: one compiled loop on a CPU, our own kernel on a GPU."""

from __future__ import annotations

from typing import Any

from primbench.kernels.chase.problem import STRIDE_BYTES, WORD_BYTES, Chase
from primbench.problem import Step, described, kernel

_WORDS = STRIDE_BYTES // WORD_BYTES


@kernel("chase", "numba")
def numba_chase(backend: Any, problem: Chase, following: Any) -> Step:
    """A compiled loop: NumPy has none in which a load waits for the one before it. One call compiles it here."""
    if backend.device.is_gpu:
        from primbench.kernels.chase._cuda import cuda_step

        return cuda_step(backend, problem, following)
    import numpy as np

    from primbench.kernels.chase._numba_cpu import walk
    from primbench.numa.buffers import host_buffer

    node = None if problem.node < 0 else problem.node
    buffer = host_buffer(problem.bytes, node)
    chain = buffer.view(np.uint64)
    chain[::_WORDS] = backend.get(following) * _WORDS
    end = np.empty(1, np.int64)
    walk(chain, 1, end)

    def step() -> Any:
        walk(chain, problem.loads, end)
        end[0] //= _WORDS
        return end

    return described(step, algorithm="compiled loop, 1 thread", host_buffers=[(buffer, node)])
