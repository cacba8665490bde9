"""Optimizers: sizes, counts, inputs, reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from primbench.dtypes import UNIT_ROUNDOFF, itemsize_bytes
from primbench.problem import MEMORY, Bound, Problem, Reference, option, size
from primbench.random import random_array, sample

if TYPE_CHECKING:
    import numpy as np

    from primbench.problem import Array

MOMENTS = {"sgd": 1, "adam": 2, "adamw": 2}  # arrays beside parameters and gradients
LEARNING_RATE, WEIGHT_DECAY = 0.1, 1.0  # with which what they do is far larger than the rounding of a parameter
MOMENTUM, BETAS, EPSILON = 0.9, (0.9, 0.999), 1e-8  # torch's defaults, and the usual momentum
STEPS_BEFORE = 10  # by which Adam corrects its moments
CHECKED = 2**18


@dataclass(frozen=True)
class Optimizer(Problem, name="optimizer"):
    """An optimizer's update of all of a model's parameters: SGD with momentum, Adam and AdamW, which memory bounds.

    tensors of elements each, with a gradient and one moment (sgd) or two (adam: Kingma & Ba 2014, arXiv 1412.6980;
    adamw: Loshchilov & Hutter 2017, arXiv 1711.05101), all of the same type, are updated in place by torch.optim's
    step().
    foreach makes a call for each operation on all tensors, fused one call for all operations, for_loop calls for each
    tensor.
    """

    example_sizes = ((3, 1000), (2, 77), (1, 1))

    tensors: int = size("of parameters")
    elements: int = size("of a tensor")
    method: str = option("sgd", "how parameters are updated", tuple(MOMENTS))
    algo: str = option("foreach", "which of torch's implementations", ("foreach", "fused", "for_loop"))
    dtype: str = option("float32", "storage type", ("float32", "bfloat16"))

    @property
    def total(self) -> int:
        return self.tensors * self.elements

    def bytes_moved(self) -> int:
        """Parameters, gradients and moments are read, all but gradients written."""
        arrays = 3 + 2 * MOMENTS[self.method]
        return arrays * self.total * itemsize_bytes(self.dtype)

    def bound(self) -> Bound:
        return MEMORY

    def memory_bytes(self) -> int:
        """Twice all arrays: the check begins with the values that were given."""
        return 2 * (2 + MOMENTS[self.method]) * self.total * itemsize_bytes(self.dtype)

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """Parameters, gradients, and one or two moments[tensors,elements]; squares are positive."""
        import numpy as np

        arrays = [random_array(rng, (self.tensors, self.elements), self.dtype) for _ in range(2 + MOMENTS[self.method])]
        return (*arrays[:3], *map(np.abs, arrays[3:]))

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference:
        """Parameters, then the moments, after one step: all elements, or 2^18. Each operation may round its result."""
        import numpy as np

        at = sample(rng, self.total, CHECKED)
        values = [array.reshape(-1)[at].astype(np.float64) for array in inputs]
        found = self._sgd(*values) if self.method == "sgd" else self._adam(*values)
        index = np.concatenate([number * self.total + at for number in range(len(found))])
        expected, terms = (np.concatenate(each) for each in zip(*found, strict=True))
        return Reference(index, expected, UNIT_ROUNDOFF[self.dtype] * terms)

    def _sgd(self, p: Array, g: Array, m: Array) -> list[tuple[Array, Array]]:
        """Of each output the values and the size of what they are added up from."""
        after, size_of_m = MOMENTUM * m + g, abs(m) + abs(g)
        return [(p - LEARNING_RATE * after, abs(p) + LEARNING_RATE * size_of_m), (after, size_of_m)]

    def _adam(self, p: Array, g: Array, m: Array, v: Array) -> list[tuple[Array, Array]]:
        """Algorithm 1 of the paper, and of adamw algorithm 2 of the other.

        GPUs correct the moments in float32, in which beta is rounded: of 1 - beta^t that is t beta^t / (1 - beta^t)
        times as much, 1000 times of the second moment, which enters by its root.
        """
        import numpy as np

        (one, two), step = BETAS, STEPS_BEFORE + 1
        kept = p * (1 - LEARNING_RATE * WEIGHT_DECAY) if self.method == "adamw" else p
        after, squares = one * m + (1 - one) * g, two * v + (1 - two) * g**2
        by = LEARNING_RATE / (1 - one**step) / (np.sqrt(squares / (1 - two**step)) + EPSILON)
        size_of_m = abs(m) + abs(g)
        of_one, of_two = (step * beta**step / (1 - beta**step) for beta in BETAS)
        corrected = UNIT_ROUNDOFF["float32"] / UNIT_ROUNDOFF[self.dtype] * (of_one + of_two / 2)
        size_of_p = abs(p) + by * (size_of_m + corrected * abs(after))
        return [(kept - by * after, size_of_p), (after, size_of_m), (squares, v + g**2)]

    def tolerance(self) -> float:
        """8 natural sizes, for the largest of many errors."""
        return 8.0
