"""Normalisation: sizes, counts, inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from primbench.dtypes import itemsize_bytes
from primbench.errors import InvalidField
from primbench.problem import MEMORY, Bound, Problem, Reference, option, size
from primbench.random import random_array

if TYPE_CHECKING:
    import numpy as np

    from primbench.problem import Array

VECTORS = {"batch": 2, "layer": 2, "rms": 1}  # weight, and bias where there is one


@dataclass(frozen=True)
class Norm(Problem, name="norm"):
    """Batch, layer and RMS normalisation, and their gradients, which memory bounds.

    layer and rms normalise x[rows,features] over the features: y = (x - mean) / sqrt(var + 1e-5) weight + bias (Ba et
    al. 2016, arXiv 1607.06450), and y = x / sqrt(mean of squares + 1e-5) weight (Zhang & Sennrich 2019, arXiv
    1910.07467). batch normalises x[rows,features,h,w], or x[rows,h,w,features] with layout=nhwc, over all but the
    features, which are the channels of as many images as there are rows (Ioffe & Szegedy 2015, arXiv 1502.03167), and
    keeps running means and variances; with running_statistics it normalises by these, as inference does.

    backward is the gradients of x, weight and bias, from dy and what the forward pass kept. Weights and biases are of
    the same type as x, those of batch float32, as mixed precision has them.
    """

    example_sizes = ((12, 64, 1, 1), (5, 77, 3, 2), (1, 3, 1, 1))

    rows: int = size("of x: tokens, or images of a batch")
    features: int = size("of a row, or channels of an image")
    h: int = size("height of an image, for batch", default=1)
    w: int = size("width of an image, for batch", default=1)
    kind: str = option("layer", "what is normalised over what", tuple(VECTORS))
    direction: str = option("forward", "y, or the gradients", ("forward", "backward"))
    running_statistics: bool = option(False, "batch normalises by given means and variances")
    layout: str = option("nchw", "order in memory, for batch", ("nchw", "nhwc"))
    dtype: str = option("float32", "storage type of x and y", ("float32", "float16", "bfloat16"))

    def settle(self) -> None:
        if self.kind == "batch":
            self._check_batch()
        elif (self.h, self.w, self.layout, self.running_statistics) != (1, 1, "nchw", False):
            raise InvalidField(f"norm kind={self.kind!r}: h, w, layout and running_statistics are of kind='batch'")

    def _check_batch(self) -> None:
        if self.members == 1 and not self.running_statistics:
            raise InvalidField("norm kind='batch' with one value a channel: more rows, h or w, or running_statistics")

    @property
    def shape(self) -> tuple[int, ...]:
        """Of x and y, in the order in memory."""
        if self.kind != "batch":
            return self.rows, self.features
        n, c, h, w = self.rows, self.features, self.h, self.w
        return (n, c, h, w) if self.layout == "nchw" else (n, h, w, c)

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def groups(self) -> int:
        """Sets of elements that have a mean and a variance: rows, or a batch's channels."""
        return self.features if self.kind == "batch" else self.rows

    @property
    def members(self) -> int:
        """Elements of a group."""
        return self.elements // self.groups

    @property
    def vector_dtype(self) -> str:
        return "float32" if self.kind == "batch" else self.dtype

    def bytes_moved(self) -> int:
        """x and y, or x, dy and dx; of weight and bias also the gradients; means and variances where they are given."""
        arrays, vectors = (2, VECTORS[self.kind]) if self.direction == "forward" else (3, 1 + VECTORS[self.kind])
        vectors += 2 * self.running_statistics
        return arrays * self.elements * itemsize_bytes(self.dtype) + vectors * self._vector_bytes

    @property
    def _vector_bytes(self) -> int:
        return self.features * itemsize_bytes(self.vector_dtype)

    def memory_bytes(self) -> int:
        """For a backward pass, also y of the forward pass before it."""
        y_bytes = self.elements * itemsize_bytes(self.dtype) if self.direction == "backward" else 0
        return self.bytes_moved() + y_bytes

    def bound(self) -> Bound:
        return MEMORY

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """x, weight, then a bias but for rms, the running mean and variance for batch, dy for backward."""
        vectors = [random_array(rng, (self.features,), self.vector_dtype) for _ in range(VECTORS[self.kind])]
        if self.kind == "batch":
            mean, variance = (random_array(rng, (self.features,), "float32") for _ in range(2))
            vectors += [mean, variance + 1.5]  # from 0.5 on
        arrays = [random_array(rng, self.shape, self.dtype) for _ in range(1 + (self.direction == "backward"))]
        return (arrays[0], *vectors, *arrays[1:])

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference:
        """All of the output, or some rows or channels of it, and for backward some elements of each vector."""
        from primbench.kernels.norm._reference import reference_of

        return reference_of(self, rng, *inputs)

    def tolerance(self) -> float:
        """8 natural sizes, for the largest of many errors."""
        return 8.0
