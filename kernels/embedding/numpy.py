"""Embedding on NumPy, in one thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.embedding.problem import Embedding
    from primbench.problem import Array


@kernel("embedding", "numpy")
def numpy_embedding(backend: Any, problem: Embedding, array: Array, indices: Array) -> Step:
    """numpy.take, forward."""
    import numpy as np

    if problem.direction == "backward":
        raise UnsupportedCase("embedding on numpy: direction=forward: ask for that, or backend=torch")
    y = backend.empty((problem.tokens, problem.embedding_dim), problem.dtype)
    return lambda: np.take(array, indices, axis=0, out=y, mode="clip")  # any other mode writes to a copy first
