"""Element by element: sizes, counts, inputs, reference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from primbench.dtypes import itemsize_bytes, rounding
from primbench.errors import InvalidField
from primbench.problem import MEMORY, Bound, Problem, Reference, option, size
from primbench.random import random_array, sample

if TYPE_CHECKING:
    import numpy as np

    from primbench.problem import Array

READS = {"copy": 1, "add": 2, "mul": 2, "relu": 1, "gelu": 1, "gelu_tanh": 1, "silu": 1, "swiglu": 2, "rope": 1}
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")
ROPE_BASE = 10_000.0  # Su et al. 2021, arXiv 2104.09864, section 3.2.2
CHECKED = 2**18


@dataclass(frozen=True)
class Elementwise(Problem, name="elementwise"):
    """y = f(x), element by element: copies, sums, activations, SwiGLU and rotary embeddings, which memory bounds.

    add and mul take two arrays. gelu is x times the normal distribution's function, gelu_tanh its approximation by
    tanh (Hendrycks & Gimpel 2016, arXiv 1606.08415). swiglu is silu(gate) up, of two arrays (Shazeer 2020, arXiv
    2002.05202). rope rotates x[tokens,heads,head_dim] by an angle for each token and pair, whose first stands in the
    first half of a head and whose second in the other (Su et al. 2021, arXiv 2104.09864); cos and
    sin[tokens,head_dim/2] are given.

    backward, for activations alone, is dx from dy and x. Arithmetic is in float32 whatever the dtype.
    """

    example_sizes = ((4096,), (77 * 1024,), (2048,))

    elements: int = size("of the output")
    op: str = option("add", "what is computed", tuple(READS))
    direction: str = option("forward", "y of x, or of an activation dx of dy", ("forward", "backward"))
    heads: int = option(8, "heads of a token, for rope", least=1)
    head_dim: int = option(128, "elements of a head, for rope", least=2)
    dtype: str = option("float32", "storage type", ("float32", "float16", "bfloat16"))

    def settle(self) -> None:
        if self.direction == "backward" and self.op not in ACTIVATIONS:
            raise InvalidField(
                f"elementwise direction='backward' with op={self.op!r}: {', '.join(ACTIVATIONS)} have one"
            )
        if self.op == "rope" and (self.head_dim % 2 or self.elements % self.token):
            raise InvalidField(
                f"elementwise elements={self.elements} op='rope': a multiple of heads times head_dim, {self.token}, "
                f"and head_dim={self.head_dim} even"
            )

    @property
    def token(self) -> int:
        """Elements of a token, for rope."""
        return self.heads * self.head_dim

    @property
    def tokens(self) -> int:
        return self.elements // self.token

    @property
    def reads(self) -> int:
        """Arrays of as many elements as the output that are read."""
        return READS[self.op] + (self.direction == "backward")

    def bytes_moved(self) -> int:
        tables = self.tokens * self.head_dim if self.op == "rope" else 0
        return ((self.reads + 1) * self.elements + tables) * itemsize_bytes(self.dtype)

    def bound(self) -> Bound:
        return MEMORY

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """One or two arrays[elements]: x, a and b, gate and up, or dy and x; for rope x, then cos and sin."""
        arrays = tuple(random_array(rng, (self.elements,), self.dtype) for _ in range(self.reads))
        return arrays + self._tables() if self.op == "rope" else arrays

    def _tables(self) -> tuple[Array, Array]:
        import numpy as np

        from primbench.dtypes import numpy_dtype

        half = self.head_dim // 2
        angles = np.outer(np.arange(self.tokens), ROPE_BASE ** (-np.arange(half) / half))
        return np.cos(angles).astype(numpy_dtype(self.dtype)), np.sin(angles).astype(numpy_dtype(self.dtype))

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference:
        """Of all elements, or of 2^18 where there are more.

        The scale is a rounding of the terms that are added up: u |x| of an activation, whose derivative is about 1.
        """
        import numpy as np

        at = sample(rng, self.elements, CHECKED)
        if self.op == "rope":
            expected, terms = self._rotated(at, *inputs)
        else:
            of = [array[at].astype(np.float64) for array in inputs]
            expected, terms = _BACKWARD[self.op](*of) if self.direction == "backward" else _FORWARD[self.op](*of)
        return Reference(at, expected, rounding(self.dtype, terms))

    def _rotated(self, at: Array, x: Array, cos: Array, sin: Array) -> tuple[Array, Array]:
        import numpy as np

        half, token, inside = self.head_dim // 2, at // self.token, at % self.head_dim
        is_first = inside < half
        other = x[np.where(is_first, at + half, at - half)].astype(np.float64) * sin[token, inside % half]
        own = x[at].astype(np.float64) * cos[token, inside % half]
        return own + np.where(is_first, -other, other), np.abs(own) + np.abs(other)

    def tolerance(self) -> float:
        """8 roundings: of what is stored in between, too, where there are several kernels."""
        return 8.0


def _sigmoid(x: Array) -> Array:
    import numpy as np

    found: Array = 1 / (1 + np.exp(-x))
    return found


def _normal(x: Array) -> Array:
    from scipy.special import ndtr

    found: Array = ndtr(x)
    return found


def _tanh_gate(x: Array) -> Array:
    """What x is multiplied by in gelu_tanh: (1 + tanh(u)) / 2, the sigmoid of 2 u."""
    return _sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def _tanh_gate_slope(x: Array) -> Array:
    gate = _tanh_gate(x)
    slope: Array = gate * (1 - gate) * 2 * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)
    return slope


# Of each the result and the size of what it is added up from.
_FORWARD: dict[str, Any] = {
    "copy": lambda x: (x, abs(x)),
    "add": lambda a, b: (a + b, abs(a) + abs(b)),
    "mul": lambda a, b: (a * b, abs(a * b)),
    "relu": lambda x: (x.clip(0), abs(x)),
    "gelu": lambda x: (x * _normal(x), abs(x)),
    "gelu_tanh": lambda x: (x * _tanh_gate(x), abs(x)),
    "silu": lambda x: (x * _sigmoid(x), abs(x)),
    "swiglu": lambda gate, up: (gate * _sigmoid(gate) * up, abs(gate * up)),
}
_BACKWARD: dict[str, Any] = {
    "relu": lambda dy, x: (dy * (x > 0), abs(dy)),
    "gelu": lambda dy, x: (dy * (_normal(x) + x * math.e ** (-(x**2) / 2) / math.sqrt(2 * math.pi)), abs(dy)),
    "gelu_tanh": lambda dy, x: (dy * (_tanh_gate(x) + x * _tanh_gate_slope(x)), abs(dy)),
    "silu": lambda dy, x: (dy * _sigmoid(x) * (1 + x * (1 - _sigmoid(x))), abs(dy)),
}
