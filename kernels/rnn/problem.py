"""Recurrent networks: sizes, counts, inputs, float64 reference."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from primbench.dtypes import TF32_ROUNDOFF, UNIT_ROUNDOFF, itemsize_bytes, numpy_dtype
from primbench.errors import InvalidField
from primbench.kernels.rnn._operands import Operands
from primbench.problem import Problem, Reference, option, size
from primbench.random import POOL_SIZE, random_array, repeated, sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from primbench.problem import Array

GATES = {"vanilla": 1, "lstm": 4, "gru": 3}
DIRECTIONS = ("forward_inference", "forward_training", "bwd_data", "bwd_weights")
CUDNN_ALGORITHMS = ("standard", "persist_static", "persist_dynamic")  # numbered in primbench.cuda.cudnn_rnn
FULL_CHECK_FLOP = 2**30
CHECKED_ROWS, CHECKED_UNITS = 8, 64
# What a step leaves of a difference between two states or two gradients: measured from 32 units on, rounded up.
FADING = {"vanilla": 0.25, "lstm": 0.2, "gru": 0.35}
FORGOTTEN = 0.01  # part of the tolerance at which what was before is forgotten
CONVERTED_PARTS = 32
# A gradient's rounding beside what is stored once: measured on an H200, cuDNN 9.19, of an odd number of units.
SUMMED_IN_BFLOAT16 = 2
VANILLA_GAIN = 0.25
KEEPING_BIAS = -3.0  # of the gate that carries the old state on: an lstm's f, a gru's z


@dataclass(frozen=True)
class Rnn(Problem, name="rnn"):
    """y = a recurrent network over x[T,N,H]: seq_len steps T, batch_size sequences N, hidden_size units H.

    As many input features as units, biases on both products, gates in the order i f g o (lstm) and r z n (gru).
    vanilla is max(0, .); gru applies the reset gate after the recurrent product, as cuDNN and torch do. The forward
    directions give y[T,N,H] (2H where bidirectional), bwd_data dx[T,N,H], bwd_weights the gradients of the recurrent
    weights [layers (times 2), gates H, H], each by itself: the forward pass before them is not timed.
    """

    example_sizes = ((224, 8, 6), (65, 5, 7), (1, 1, 1))  # more units than torch's small kernel on GPUs takes, and few

    hidden_size: int = size("units of a layer, and input features")
    batch_size: int = size("sequences")
    seq_len: int = size("steps")
    cell: str = option("vanilla", "vanilla (ReLU), lstm or gru", tuple(GATES))
    direction: str = option("forward_inference", "what is computed", DIRECTIONS)
    layers: int = option(1, "layers, each reading the one below", least=1)
    bidirectional: bool = option(False, "a second network from the last step to the first in every layer")
    dtype: str = option("float32", "storage type", ("float32", "float16", "bfloat16"))
    math_mode: str = option("ieee", "tf32 rounds float32 inputs to 10 bits for the tensor cores", ("ieee", "tf32"))
    algo: str = option(
        "auto",
        "fused: the library's call for all steps; stepwise: calls for each; auto: fused where there is one; "
        "the others: cuDNN's algorithms",
        ("auto", "fused", "stepwise", *CUDNN_ALGORITHMS),
    )

    def settle(self) -> None:
        if self.math_mode == "tf32" and self.dtype != "float32":
            raise InvalidField(f"rnn math_mode='tf32' with dtype={self.dtype!r}: tf32 is a mode of float32")

    @property
    def _states(self) -> tuple[str, ...]:
        return ("h0", "c0") if self.cell == "lstm" else ("h0",)

    @property
    def is_backward(self) -> bool:
        return self.direction.startswith("bwd")

    @property
    def needs_exact_tanh(self) -> bool:
        """Whether the hardware's tanh, good to 2^-11 (PTX ISA, tanh.approx.f32), is beyond the tolerance."""
        return self.cell != "vanilla" and self.dtype == "float32" and self.math_mode == "ieee"

    @property
    def ways(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def input_sizes(self) -> list[int]:
        """Features that each layer reads."""
        return [self.hidden_size] + [self.ways * self.hidden_size] * (self.layers - 1)

    def flop(self) -> int:
        """2 g T N H (I + H) for each layer and direction, g = 1, 4, 3 gates and I features read; pointwise left out.

        Both products of a step; each of the two gradients costs the same again (the products: Appleyard, Kocisky &
        Blunsom 2016, arXiv 1604.01946).
        """
        return self._product_flop(sum(self.input_sizes)) + self.recurrent_flop()

    def recurrent_flop(self) -> int:
        """2 g T N H^2 for each layer and direction: what DeepBench counts, without the products with the input."""
        return self._product_flop(self.layers * self.hidden_size)

    def _product_flop(self, terms: int) -> int:
        return 2 * self.ways * GATES[self.cell] * self.seq_len * self.batch_size * self.hidden_size * terms

    def bytes_moved(self) -> int:
        """Input, output and weights; where gradients are involved, also a value kept for each gate and step."""
        gates = self.ways * GATES[self.cell] * self.hidden_size
        weights = gates * (sum(self.input_sizes) + self.layers * (self.hidden_size + 2))
        sequences = self.seq_len * self.batch_size * self.hidden_size * (1 + self.ways)
        kept = 0 if self.direction == "forward_inference" else self.layers * self.seq_len * self.batch_size * gates
        return (weights + sequences + kept) * itemsize_bytes(self.dtype)

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """x, h0, for an lstm c0, for the backward directions dy, then the weights.

        Weights are uniform within 1/sqrt(H), torch's own choice: the spectral radius of w_hh is then about 0.58, so
        that neither values nor rounding errors grow with the steps. The gate that carries the old state on leans shut,
        so that few steps forget it and reference() can be short. Vanilla's weights are smaller, with biases of +1 and
        -1: the ReLU has no derivative at 0, and near it rounding would decide whether a gradient passes.
        """
        import numpy as np

        steps, rows, hidden = self.seq_len, self.batch_size, self.hidden_size
        states = [random_array(rng, (self.layers * self.ways, rows, hidden), self.dtype) for _ in self._states]
        dy = [random_array(rng, (steps, rows, self.ways * hidden), self.dtype)] if self.is_backward else []
        gates, weights = GATES[self.cell] * hidden, []
        for features in self.input_sizes:
            for _ in range(self.ways):
                w_ih, w_hh, b_ih, b_hh = (
                    self._weight(rng, *shape) for shape in ((gates, features), (gates, hidden), (gates,), (gates,))
                )
                if self.cell == "vanilla":
                    b_ih = np.copysign(np.ones_like(b_ih), b_ih)
                else:
                    b_ih[hidden : 2 * hidden] += b_ih.dtype.type(KEEPING_BIAS)
                weights += [w_ih, w_hh, b_ih, b_hh]
        return (random_array(rng, (steps, rows, hidden), self.dtype), *states, *dy, *weights)

    def _weight(self, rng: np.random.Generator, *shape: int) -> Array:
        """Scaled and rounded before it repeats, as random_array() does: that is most of the work."""
        bound = (VANILLA_GAIN if self.cell == "vanilla" else 1.0) / math.sqrt(self.hidden_size)
        drawn = bound * random_array(rng, (min(math.prod(shape), POOL_SIZE),), "float32")
        return repeated(drawn.astype(numpy_dtype(self.dtype)), shape)

    def operands(self, inputs: Sequence[Any]) -> Operands:
        """The inputs by name; None for those that this problem does not have."""
        rest = list(inputs)
        x, h0 = rest.pop(0), rest.pop(0)
        c0 = rest.pop(0) if self.cell == "lstm" else None
        dy = rest.pop(0) if self.is_backward else None
        return Operands(x, h0, c0, dy, rest)

    def check_inputs(self, rng: np.random.Generator, inputs: tuple[Array, ...]) -> tuple[Array, ...]:
        """For bwd_weights above 2^30 flop, a dy that is zero but for a step in each of 8 sequences.

        The gradients of weights are sums over every step and sequence, which no sample of the timed ones gives. They
        are linear in dy, and fade within a few steps before it.
        """
        import numpy as np

        if self.direction != "bwd_weights" or self.flop() <= FULL_CHECK_FLOP:
            return inputs
        at = len(self._states) + 1
        rows, steps = self._drawn(rng)
        dy = np.zeros_like(inputs[at])
        dy[steps, rows] = inputs[at][steps, rows]
        return (*inputs[:at], dy, *inputs[at + 1 :])

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference:
        """All of the output, or a step in each of 8 sequences where all of it costs more than 2^30 flop.

        Sequences do not meet, and a network with these weights forgets: some 10 steps (in float32) on every side from
        which something comes stand for all that lie beyond. Of bwd_weights, 64 rows of every matrix: what it costs
        depends on where dy is not zero.

        The scale is the root mean square of the output or of the row, whichever is larger, as a state mixes all the
        units before it and so do their errors; of an element beyond it, the element itself, which is rounded when it
        is stored.
        """
        import numpy as np

        from primbench.kernels.rnn._network import Network

        o = self.operands(inputs)
        rows, firsts, count = self._windows(rng, o)
        steps = self._around(firsts, count)
        here = (steps, rows)
        window = Operands(
            _float64(o.x[here]),
            _float64(o.h0[:, rows]),
            None if o.c0 is None else _float64(o.c0[:, rows]),
            None if o.dy is None else _float64(o.dy[here]),
            [_float64(w) for w in o.weights],
        )
        network = Network(self.cell, self.direction, self.ways, window)
        output = network.forward()
        if self.is_backward:
            output = network.bwd_data()
        index: tuple[Any, Array]
        if self.direction == "bwd_weights":
            gates = GATES[self.cell] * self.hidden_size
            units = sample(rng, gates, gates if self.flop() <= FULL_CHECK_FLOP else CHECKED_UNITS)
            index, expected = (slice(None), units), network.recurrent_gradients(units)
        else:
            compared = firsts + np.arange(count)[:, np.newaxis]
            index, expected = (compared, rows), output[compared - steps[0], np.arange(len(rows))]
        squares = expected**2
        usual = np.sqrt(np.maximum(squares.mean(), squares.mean(axis=-1, keepdims=True)))
        return Reference(index, expected, np.maximum(usual, np.abs(expected)))

    def _windows(self, rng: np.random.Generator, o: Operands) -> tuple[Array, Array, int]:
        """Sequences, and of each the first of ``count`` steps: what is compared, or where dy is not zero."""
        import numpy as np

        if self.flop() <= FULL_CHECK_FLOP:
            return np.arange(self.batch_size), np.zeros(self.batch_size, int), self.seq_len
        if self.direction != "bwd_weights":
            return *self._drawn(rng), 1
        some = o.dy[:, :, :CHECKED_UNITS].any(axis=2)
        rows = np.flatnonzero(some.any(axis=0))
        firsts, ends = some[:, rows].argmax(axis=0), self.seq_len - some[::-1, rows].argmax(axis=0)
        count = int((ends - firsts).max())
        return rows, np.minimum(firsts, self.seq_len - count), count

    def _drawn(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """Sequences and a step of each: another in every sequence where there are as many, the last step in one."""
        import numpy as np

        rows = sample(rng, self.batch_size, CHECKED_ROWS)
        return rows, np.resize(sample(rng, self.seq_len, len(rows))[::-1], len(rows))

    def _around(self, firsts: Array, count: int) -> Array:
        """The steps [L,R] to compute for those that are compared, as many for each sequence.

        A forward pass carries from the left, a second direction from the right, and each layer as far again. What a
        backward pass carries from the right comes from dy: of bwd_weights, it lies within the window.
        """
        import numpy as np

        forget = self.layers * math.ceil(math.log(self.tolerance() * FORGOTTEN, FADING[self.cell]))
        right = forget if self.bidirectional or self.direction == "bwd_data" else 0
        length = min(self.seq_len, forget + count + right)
        starts: Array = np.clip(firsts - forget, 0, self.seq_len - length)
        return starts + np.arange(length)[:, np.newaxis]

    def tolerance(self) -> float:
        """Rounding of products and of what is stored, relative to the root mean square of the output.

        A product sums 2H terms, that of the gradients of weights as many as there are steps of sequences, and errs by
        about the root of their number times u (Higham & Mary 2019, SIAM J. Sci. Comput. 41(5) A2815), in float32 for
        every dtype; stored gates, states and gradients err by u of theirs, and gradients in bfloat16 by twice as much,
        whose sums cuDNN rounds as they grow where the units are an odd number (3 u in the root mean square). Each step
        adds its error to FADING times the one before it: 1 / (1 - FADING) times one step's, whatever the length. Every
        layer adds as much. The factor 8 covers the largest of many elements.
        """
        of_weights = self.seq_len * self.batch_size if self.direction == "bwd_weights" else 0
        summed = math.sqrt(max(2 * self.hidden_size, of_weights)) * UNIT_ROUNDOFF["float32"]
        rounded = TF32_ROUNDOFF if self.math_mode == "tf32" else UNIT_ROUNDOFF[self.dtype]
        rounded *= SUMMED_IN_BFLOAT16 if self.is_backward and self.dtype == "bfloat16" else 1
        return 8 * (summed + rounded) / (1 - FADING[self.cell]) * self.layers

    def probe(self, flop: int) -> Rnn | None:
        """Fewer steps, which cost the same each; fewer sequences only where one step alone is more."""
        steps = self.seq_len * flop / self.flop()
        rows = self.batch_size * min(1.0, steps)
        small = replace(self, seq_len=max(1, round(steps)), batch_size=max(1, round(rows)))
        return small if 2 * small.flop() < self.flop() else None


def _float64(array: Array) -> Array:
    """A copy in float64, made by threads: weights have up to 10^8 elements, and touching new memory is half of it."""
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np

    wide = np.empty(array.shape, "float64")
    with ThreadPoolExecutor() as pool:
        list(pool.map(np.copyto, np.array_split(wide, CONVERTED_PARTS), np.array_split(array, CONVERTED_PARTS)))
    return wide
