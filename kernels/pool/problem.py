"""Pooling: sizes, counts, inputs, reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from primbench.dtypes import itemsize_bytes, rounding
from primbench.errors import InvalidField
from primbench.problem import MEMORY, Bound, Problem, Reference, option, size
from primbench.random import random_array, sample

if TYPE_CHECKING:
    import numpy as np

    from primbench.problem import Array

FULL_CHECK = 2**20  # elements that windows hold
CHECKED_PLANES = 32
PLACE_BYTES = 8  # int64, in which torch keeps where the largest was


@dataclass(frozen=True)
class Pool(Problem, name="pool"):
    """The largest or the mean of each window of an image, and their gradients, which memory bounds.

    nchw: x[n,c,h,w], y[n,c,p,q]; nhwc: x[n,h,w,c], y[n,p,q,c]. p is (h + 2 pad_h - r) / stride_h + 1, rounded down; q
    likewise. The mean counts the zeros around the image, as torch's does unless told otherwise. backward is dx from dy:
    of max to the first largest of each window, whose place the forward pass kept.
    """

    example_sizes = ((2, 6, 12, 12, 3, 2), (3, 5, 13, 7, 4, 3), (1, 1, 1, 1, 1, 1))

    n: int = size("images")
    c: int = size("channels of an image")
    h: int = size("height of an image")
    w: int = size("width of an image")
    r: int = size("height of a window")
    s: int = size("width of a window")
    pad_h: int = option(0, "rows around the image, above and below", least=0)
    pad_w: int = option(0, "columns around the image, left and right", least=0)
    stride_h: int = option(0, "rows from one window to the next; 0 is r", least=0)
    stride_w: int = option(0, "columns from one window to the next; 0 is s", least=0)
    kind: str = option("max", "what is taken of a window", ("max", "average"))
    direction: str = option("forward", "y, or the gradient of x", ("forward", "backward"))
    layout: str = option("nchw", "order in memory", ("nchw", "nhwc"))
    dtype: str = option("float32", "storage type", ("float32", "float16", "bfloat16"))

    def settle(self) -> None:
        for side, window in (("h", "r"), ("w", "s")):
            taps, pad, image = getattr(self, window), getattr(self, f"pad_{side}"), getattr(self, side)
            if not getattr(self, f"stride_{side}"):
                object.__setattr__(self, f"stride_{side}", taps)
            if 2 * pad > taps or taps > image + 2 * pad:
                raise InvalidField(
                    f"pool {window}={taps}: at least twice pad_{side}={pad}, and no more than {side}={image} with it"
                )

    @property
    def p(self) -> int:
        return (self.h + 2 * self.pad_h - self.r) // self.stride_h + 1

    @property
    def q(self) -> int:
        return (self.w + 2 * self.pad_w - self.s) // self.stride_w + 1

    def stored(self, h: int, w: int) -> tuple[int, ...]:
        """Shape in memory of images of this size."""
        return (self.n, self.c, h, w) if self.layout == "nchw" else (self.n, h, w, self.c)

    def bytes_moved(self) -> int:
        """x and y, or dy and dx; of the gradient of max also the places, as torch keeps them."""
        outputs = self.n * self.c * self.p * self.q
        places = outputs * PLACE_BYTES if (self.kind, self.direction) == ("max", "backward") else 0
        return (self.n * self.c * self.h * self.w + outputs) * itemsize_bytes(self.dtype) + places

    def bound(self) -> Bound:
        return MEMORY

    def memory_bytes(self) -> int:
        """x, y, their gradients and the places."""
        each = 2 * itemsize_bytes(self.dtype)
        return self.n * self.c * (self.h * self.w * each + self.p * self.q * (each + PLACE_BYTES))

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """x, and for backward dy."""
        x = random_array(rng, self.stored(self.h, self.w), self.dtype)
        return (x,) if self.direction == "forward" else (x, random_array(rng, self.stored(self.p, self.q), self.dtype))

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference:
        """All planes, of an image and a channel, or 32 of them. A sum may be rounded at each of its terms."""
        import numpy as np

        planes, held = self.n * self.c, self.n * self.c * self.p * self.q * self.r * self.s
        picked = sample(rng, planes, planes if held <= FULL_CHECK else CHECKED_PLANES)
        image, channel = np.divmod(picked, self.c)
        index = (image, channel) if self.layout == "nchw" else (image, slice(None), slice(None), channel)
        x, *dy = (array[index].astype(np.float64) for array in inputs)
        expected, terms = self._backward(x, dy[0]) if dy else self._forward(x)
        return Reference(index, expected, rounding(self.dtype, terms))

    def _windows(self, x: Array, outside: float) -> Array:
        """[planes, p, q, r s], of x[planes, h, w]."""
        import numpy as np

        pads = ((0, 0), (self.pad_h, self.pad_h), (self.pad_w, self.pad_w))
        padded = np.pad(x, pads, constant_values=outside)
        every = np.lib.stride_tricks.sliding_window_view(padded, (self.r, self.s), axis=(1, 2))
        return every[:, :: self.stride_h, :: self.stride_w].reshape(len(x), self.p, self.q, self.r * self.s)

    def _forward(self, x: Array) -> tuple[Array, Array]:
        import numpy as np

        if self.kind == "max":
            y = self._windows(x, -np.inf).max(axis=3)
            return y, np.abs(y)
        windows = self._windows(x, 0.0)
        return windows.mean(axis=3), np.abs(windows).mean(axis=3)

    def _backward(self, x: Array, dy: Array) -> tuple[Array, Array]:
        """dx, and the sum of what is added up in each of its elements, without signs."""
        import numpy as np

        share = np.full((*dy.shape, self.r * self.s), 1 / (self.r * self.s))
        if self.kind == "max":
            largest = self._windows(x, -np.inf).argmax(axis=3)
            share = np.equal(np.arange(self.r * self.s), largest[..., None]).astype(np.float64)
        found = []
        for given in (dy, np.abs(dy)):
            padded = np.zeros((len(x), self.h + 2 * self.pad_h, self.w + 2 * self.pad_w))
            for tap in range(self.r * self.s):
                down, along = divmod(tap, self.s)
                rows, columns = (
                    slice(first, first + stride * (count - 1) + 1, stride)
                    for first, stride, count in ((down, self.stride_h, self.p), (along, self.stride_w, self.q))
                )
                padded[:, rows, columns] += given * share[..., tap]
            found.append(padded[:, self.pad_h : self.pad_h + self.h, self.pad_w : self.pad_w + self.w])
        return found[0], found[1]

    def tolerance(self) -> float:
        """8 natural sizes, for the largest of many errors."""
        return 8.0


def as_nchw(problem: Pool, array: Any) -> Any:
    """A view of a torch tensor whose axes are in the order n c h w."""
    return array if problem.layout == "nchw" else array.permute(0, 3, 1, 2)
