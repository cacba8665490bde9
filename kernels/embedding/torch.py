"""Embedding on torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.embedding.problem import Embedding


@kernel("embedding", "torch")
def torch_embedding(backend: Any, problem: Embedding, array: Any, indices: Any) -> Step:
    """torch.embedding, and what goes back through it; both allocate what they return."""
    import torch

    if problem.direction == "forward":
        return lambda: torch.embedding(array, indices)
    backward, rows = torch.ops.aten.embedding_dense_backward, problem.num_embeddings
    no_padding, by_frequency = -1, False
    return lambda: backward(array, indices, rows, no_padding, by_frequency)
