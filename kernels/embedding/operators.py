"""Which operators of torch are embeddings whose rows come about as often as random ones do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.kernels.embedding.problem import Embedding
from primbench.problem.operands import contiguous
from primbench.problem.operators import Call, NotThere, OperatorCase, Settings, operator

if TYPE_CHECKING:
    from primbench.problem.operands import Operand

NEAR = 0.1  # of as many different rows as random indices name


@operator("embedding")
def forward(call: Call, settings: Settings) -> list[OperatorCase]:
    table = call.tensor(0)
    return _part(table, table.shape[0], call.tensor(1), "forward")


@operator("embedding_dense_backward")
def backward(call: Call, settings: Settings) -> list[OperatorCase]:
    if call.argument(4):
        raise NotThere("gradients over how often a row is taken")
    return _part(call.tensor(0), call.argument(2), call.tensor(1), "backward")


def _part(array: Operand, rows: int, indices: Operand, direction: str) -> list[OperatorCase]:
    tokens = indices.elements
    uniform = rows * (1 - (1 - 1 / rows) ** tokens)
    if array.strides != contiguous(array.shape) or indices.values.endswith("<"):
        raise NotThere("strides of its own, or rows one after the other")
    if abs(_kinds(indices) - uniform) > NEAR * uniform:
        raise NotThere("rows that come more often than by chance")
    fields = {"tokens": tokens, "num_embeddings": rows, "embedding_dim": array.shape[-1], "direction": direction}
    return [OperatorCase(Embedding.primitive, fields | {"dtype": array.dtype}, (array, indices))]


def _kinds(indices: Operand) -> int:
    """How many different ones there are."""
    if indices.values.startswith("="):
        return len(set(indices.values[1:].split(",")))
    return int(indices.values.rpartition("~")[2] or 0)
