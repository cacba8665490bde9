"""An all-reduce with the residual and the RMS normalisation that follow it: what ranks bring and receive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from primbench.dtypes import itemsize_bytes
from primbench.errors import InvalidField
from primbench.kernels.norm import Norm
from primbench.problem import Reference, option, size
from primbench.problem.ranked import Ranked, SummedPart
from primbench.random import generator_of, random_array

if TYPE_CHECKING:
    import numpy as np

    from primbench.problem import Array


@dataclass(frozen=True)
class AllreduceNorm(Ranked, name="allreduce_norm"):
    """h = x_0 + x_1 + ... + residual on every rank, and its RMS normalisation, as between layers that ranks share out.

    y = h / sqrt(mean of h^2 + 1e-5) weight, of each row. This follows each half of a layer where a model is shared out
    by tensor parallelism: x are the ranks' parts of a product, [tokens,features], residual and weight are the same on
    all ranks (Zhang & Sennrich 2019, arXiv 1910.07467). Both h and y are outputs. Elements of x and of the residual are
    integers whose sums are exact.
    """

    example_sizes = ((4096, 1, 64), (1008, 1, 7), (8, 1, 1))

    dtype: str = option("bfloat16", "of all elements; sums are float32", ("float32", "float16", "bfloat16"))
    features: int = size("elements of a row: a token's", default=4096)

    def settle(self) -> None:
        super().settle()
        if self.count % self.features:
            row_bytes = self.features * itemsize_bytes(self.dtype)
            raise InvalidField(
                f"allreduce_norm bytes={self.bytes}: a row of features={self.features} takes {row_bytes}"
            )

    @property
    def rows(self) -> int:
        return self.count // self.features

    @property
    def norm(self) -> Norm:
        """What h is normalised by."""
        return Norm(self.rows, self.features, kind="rms", dtype=self.dtype)

    def stretches(self, rank: int) -> list[SummedPart]:
        """h, to which the residual is brought as by one rank more."""
        return [SummedPart(range(self.ranks + 1), 0, self.count)]

    def busbw_factor(self) -> float:
        return 2 * (self.ranks - 1) / self.ranks

    def memory_bytes(self) -> int:
        """x, a buffer of it, residual, h and y; weight."""
        return 5 * self.bytes + self.features * itemsize_bytes(self.dtype)

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """x and residual [rows,features], weight [features]."""
        return self._inputs(rng, rng)

    def inputs_of(self, rank: int, seed: int) -> tuple[Array, ...]:
        """The residual and the weight are the same on all ranks."""
        return self._inputs(generator_of(rank, seed), generator_of(self.ranks, seed))

    def _inputs(self, own: np.random.Generator, shared: np.random.Generator) -> tuple[Array, ...]:
        x, residual = (super(AllreduceNorm, self).inputs(rng)[0] for rng in (own, shared))
        shape = (self.rows, self.features)
        return x.reshape(shape), residual.reshape(shape), random_array(shared, (self.features,), self.dtype)

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference:
        """Of one rank alone: h, to the last bit, and behind it y."""
        import numpy as np

        x, residual, weight = inputs
        h = x + residual
        places, of_y = self._normalised(rng, h, weight)
        expected = np.concatenate([h.ravel().astype(np.float64), of_y.expected.ravel()])
        scale = np.concatenate([np.zeros(h.size), of_y.scale.ravel()])
        return Reference(np.concatenate([np.arange(h.size), h.size + places]), expected, scale)

    def tolerance(self) -> float:
        """That of y."""
        return self.norm.tolerance()

    def told_of(self, output: Array, rank: int, seed: int) -> list[float]:
        """How many elements are wrong, of h and of those of y that are compared, of how many."""
        import numpy as np

        h, y = output[: self.count], output[self.count :]
        brought = [self.inputs_of(each, seed) for each in range(self.ranks)]
        exact = sum((x.astype(np.float64) for x, _, _ in brought), start=brought[0][1].astype(np.float64))
        places, of_y = self._normalised(np.random.default_rng(seed), exact, brought[0][2])
        apart = abs(y[places].astype(np.float64) - of_y.expected.ravel())
        wrong = ~(apart <= self.tolerance() * of_y.scale.ravel())  # what is no number is wrong, too
        return [self.count_wrong(h, rank, seed) + int(wrong.sum()), h.size + places.size]

    def _normalised(self, rng: np.random.Generator, h: Array, weight: Array) -> tuple[Array, Reference]:
        """Where in y, flat, and what is there."""
        import numpy as np

        found = self.norm.reference(rng, h, weight)
        return np.ravel_multi_index(found.index, self.norm.shape).ravel(), found
