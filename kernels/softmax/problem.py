"""Softmax: sizes, counts, inputs, reference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from primbench.dtypes import SMALLEST_NORMAL, UNIT_ROUNDOFF, itemsize_bytes
from primbench.problem import MEMORY, Bound, Problem, Reference, option, size
from primbench.random import random_array, sample

if TYPE_CHECKING:
    import numpy as np

    from primbench.problem import Array

KINDS = ("softmax", "log_softmax", "cross_entropy")
TARGET_BYTES = 8  # int64, which torch asks for
FULL_CHECK = 2**22  # elements
CHECKED_ROWS = 32
LANES = 64  # of vectors, or threads, among which a row's sum is shared out: its rounding errors are fewer for that


@dataclass(frozen=True)
class Softmax(Problem, name="softmax"):
    """Softmax, its logarithm and cross entropy over the classes of each row, and their gradients, which memory bounds.

    softmax is y = exp(x) over its sum, log_softmax its logarithm, of x[rows,classes]. cross_entropy is the loss[rows],
    less the logarithm at target[rows], before any mean is taken. backward is dx, from dy[rows,classes] or dloss[rows]
    and what the forward pass kept.
    """

    example_sizes = ((12, 64), (5, 77), (1, 1))

    rows: int = size("of x: tokens, or images")
    classes: int = size("of a row: words, or what attention weighs")
    kind: str = option("softmax", "what is computed", KINDS)
    direction: str = option("forward", "y or loss, or the gradient of x", ("forward", "backward"))
    dtype: str = option("float32", "storage type", ("float32", "float16", "bfloat16"))

    @property
    def is_loss(self) -> bool:
        return self.kind == "cross_entropy"

    @property
    def output_shape(self) -> tuple[int, ...]:
        return (self.rows,) if self.is_loss and self.direction == "forward" else (self.rows, self.classes)

    def bytes_moved(self) -> int:
        """x and y, or y, dy and dx; of cross_entropy x and loss, or x, dloss and dx, and the targets."""
        backward = self.direction == "backward"
        whole, single = (1 + backward, 1) if self.is_loss else (2 + backward, 0)
        elements = whole * self.rows * self.classes + single * self.rows
        return elements * itemsize_bytes(self.dtype) + self.is_loss * TARGET_BYTES * self.rows

    def bound(self) -> Bound:
        return MEMORY

    def memory_bytes(self) -> int:
        """Beside what is moved, what the forward pass keeps, which of cross_entropy is the logarithm of all classes."""
        return self.bytes_moved() + self.rows * self.classes * itemsize_bytes(self.dtype)

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """x, for cross_entropy the targets, for backward dy or dloss."""
        arrays = [random_array(rng, (self.rows, self.classes), self.dtype)]
        if self.is_loss:
            arrays.append(rng.integers(0, self.classes, self.rows))
        if self.direction == "backward":
            shape = (self.rows,) if self.is_loss else (self.rows, self.classes)
            arrays.append(random_array(rng, shape, self.dtype))
        return tuple(arrays)

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference:
        """All rows, or 32 of them. The scale is the rounding of what is stored, a logarithm as well that is kept."""
        import numpy as np

        whole = self.rows * self.classes <= FULL_CHECK
        rows = sample(rng, self.rows, self.rows if whole else CHECKED_ROWS)
        x, *others = (array[rows].astype(np.float64) for array in inputs)
        x = x - x.max(axis=1, keepdims=True)
        logarithm = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
        target = others.pop(0).astype(int) if self.is_loss else None
        if self.direction == "forward":
            expected, terms = self._forward(logarithm, target)
        else:
            expected, terms = self._backward(logarithm, target, others[0])
        return Reference(rows, expected, self._roundoff * np.maximum(terms, SMALLEST_NORMAL[self.dtype]))

    @property
    def _roundoff(self) -> float:
        """Of what is stored, and of softmax also of what it is divided by: u sqrt(n) of n positive terms, in float32.

        Higham & Mary 2020, SIAM J. Sci. Comput. 42(5) A3427. A logarithm has the sum's errors beside its own size.
        """
        of_sum = UNIT_ROUNDOFF["float32"] * math.sqrt(self.classes) / LANES if self.kind == "softmax" else 0.0
        return UNIT_ROUNDOFF[self.dtype] + of_sum

    def _forward(self, logarithm: Array, target: Array | None) -> tuple[Array, Array]:
        import numpy as np

        if target is not None:
            loss = -logarithm[np.arange(len(target)), target]
            return loss, np.abs(loss) + 1
        if self.kind == "log_softmax":
            return logarithm, np.abs(logarithm) + 1
        y = np.exp(logarithm)
        return y, y

    def _backward(self, logarithm: Array, target: Array | None, dy: Array) -> tuple[Array, Array]:
        """dx, and the size of the terms that it is the difference of."""
        import numpy as np

        y = np.exp(logarithm)
        if target is not None:
            of_target = np.zeros_like(y)
            of_target[np.arange(len(target)), target] = 1
            terms = np.abs(dy)[:, None] * (y * (1 + np.abs(logarithm)) + of_target)
            return dy[:, None] * (y - of_target), terms
        if self.kind == "log_softmax":
            total, largest = dy.sum(axis=1, keepdims=True), np.abs(dy).sum(axis=1, keepdims=True)
            rounded = np.abs(total) + UNIT_ROUNDOFF["float32"] / UNIT_ROUNDOFF[self.dtype] * largest
            return dy - y * total, np.abs(dy) + y * (1 + np.abs(logarithm)) * rounded
        mean, largest = ((y * each).sum(axis=1, keepdims=True) for each in (dy, np.abs(dy)))
        return y * (dy - mean), y * (np.abs(dy) + largest)

    def tolerance(self) -> float:
        """8 natural sizes, for the largest of many errors."""
        return 8.0


def named_inputs(problem: Softmax, inputs: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    """x, the targets or None, and dy, dloss or None."""
    x, *others = inputs
    target = others.pop(0) if problem.is_loss else None
    return x, target, others[0] if others else None
