"""2-D convolution and its two gradients: sizes, counts, inputs, reference."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from primbench.dtypes import TF32_ROUNDOFF, UNIT_ROUNDOFF, itemsize_bytes, rounding
from primbench.errors import InvalidField, UnsupportedCase
from primbench.kernels.conv._geometry import Axis, Geometry
from primbench.problem import Problem, Reference, option, size
from primbench.random import random_array

if TYPE_CHECKING:
    import numpy as np

    from primbench.problem import Array


@dataclass(frozen=True)
class Conv(Problem, name="conv"):
    """Y = X * W: 2-D convolution as in deep learning (the filter is not flipped), or one of its gradients.

    nchw: X[n,c,h,w], W[k,c/groups,r,s], Y[n,k,p,q]. nhwc: X[n,h,w,c], W[k,r,s,c/groups], Y[n,p,q,k].

    forward: Y from X and W. bwd_data: dX from dY and W. bwd_weights: dW from dY and X. p is
    (h + 2 pad_h - dilation_h (r - 1) - 1) / stride_h + 1, rounded down; q likewise. 16-bit types sum in float32;
    int8, which is for forward alone, sums in int32 and gives an int32 Y.
    """

    # Even, ragged, and nothing but ones.
    example_sizes: ClassVar[tuple[tuple[int, ...], ...]] = (
        (2, 16, 12, 12, 8, 3, 3),
        (3, 10, 13, 7, 6, 5, 2),
        (1, 1, 1, 1, 1, 1, 1),
    )

    n: int = size("images")
    c: int = size("channels of an image")
    h: int = size("height of an image")
    w: int = size("width of an image")
    k: int = size("filters, the channels of the output")
    r: int = size("height of a filter")
    s: int = size("width of a filter")
    pad_h: int = option(0, "rows of zeros above and below", least=0)
    pad_w: int = option(0, "columns of zeros left and right", least=0)
    stride_h: int = option(1, "rows from one output to the next", least=1)
    stride_w: int = option(1, "columns from one output to the next", least=1)
    dilation_h: int = option(1, "rows from one tap of a filter to the next", least=1)
    dilation_w: int = option(1, "columns from one tap of a filter to the next", least=1)
    groups: int = option(1, "parts of the channels that are convolved each by itself", least=1)
    direction: str = option("forward", "what is computed", ("forward", "bwd_data", "bwd_weights"))
    dtype: str = option("float32", "storage type", ("float32", "float16", "bfloat16", "int8"))
    math_mode: str = option("ieee", "tf32 rounds float32 inputs to 10 bits for the tensor cores", ("ieee", "tf32"))
    layout: str = option("nchw", "order in memory", ("nchw", "nhwc"))
    algo: str = option(
        "auto",
        "the fastest that cuDNN finds by trying, what it takes untried, or primbench's own kernel",
        ("auto", "heuristic", "implicit_gemm"),
    )
    workspace_bytes: int = option(0, "most memory that a library may take beside the arrays; 0: its own limit", least=0)

    def settle(self) -> None:
        self._check_shape()
        self._check_modes()

    def _check_shape(self) -> None:
        for name, axis in zip(("h", "w"), self.axes, strict=True):
            if axis.reach > axis.image + 2 * axis.pad:
                raise InvalidField(
                    f"conv {'r' if name == 'h' else 's'}={axis.taps}: the filter reaches {axis.reach} pixels, the "
                    f"padded image has {axis.image + 2 * axis.pad}: a larger {name} or pad_{name}, or a smaller filter"
                )
        for name in ("c", "k"):
            if getattr(self, name) % self.groups:
                raise InvalidField(f"conv groups={self.groups}: {name}={getattr(self, name)} is no multiple of it")

    def _check_modes(self) -> None:
        if self.math_mode == "tf32" and self.dtype != "float32":
            raise InvalidField(f"conv math_mode='tf32' with dtype={self.dtype!r}: tf32 is a mode of float32")
        if self.dtype == "int8" and self.direction != "forward":
            raise InvalidField(f"conv direction={self.direction!r} with dtype='int8': int8 is for forward alone")
        if self.algo == "implicit_gemm" and (self.math_mode == "tf32" or self.workspace_bytes):
            raise InvalidField(
                "conv algo='implicit_gemm' has no tf32 mode and takes no workspace: leave both as they are"
            )

    @property
    def sum_dtype(self) -> str:
        return "int32" if self.dtype == "int8" else "float32"

    @property
    def out_dtype(self) -> str:
        return "int32" if self.dtype == "int8" else self.dtype

    @property
    def axes(self) -> tuple[Axis, Axis]:
        return (
            Axis(self.h, self.r, self.pad_h, self.stride_h, self.dilation_h),
            Axis(self.w, self.s, self.pad_w, self.stride_w, self.dilation_w),
        )

    @property
    def p(self) -> int:
        return self.axes[0].outputs

    @property
    def q(self) -> int:
        return self.axes[1].outputs

    @property
    def image_shape(self) -> tuple[int, ...]:
        return self.stored((self.n, self.c, self.h, self.w))

    @property
    def filter_shape(self) -> tuple[int, ...]:
        return self.stored((self.k, self.c // self.groups, self.r, self.s))

    @property
    def response_shape(self) -> tuple[int, ...]:
        """Shape of Y and dY in the order in memory."""
        return self.stored((self.n, self.k, self.p, self.q))

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of what the direction computes, Y, dX or dW, in the order in memory."""
        return self.stored(self.geometry.computed)

    def stored(self, nchw: tuple[Any, ...]) -> tuple[Any, ...]:
        """Four things in the order of the axes in memory."""
        n, c, h, w = nchw
        return nchw if self.layout == "nchw" else (n, h, w, c)

    def as_nchw(self, array: Array) -> Array:
        """A view of a NumPy array whose axes are in the order n c h w."""
        return array if self.layout == "nchw" else array.transpose(0, 3, 1, 2)

    def roles(self, first: Any, second: Any, output: Any) -> tuple[Any, Any, Any]:
        """The inputs and the output as X, W and Y."""
        return {
            "forward": (first, second, output),
            "bwd_data": (output, second, first),
            "bwd_weights": (second, output, first),
        }[self.direction]

    @property
    def geometry(self) -> Geometry:
        return Geometry(self.direction, self.n, self.c, self.k, self.groups, self.axes)

    @property
    def terms(self) -> int:
        """Products that are summed into an element, those with the padding included."""
        return self.geometry.terms

    def flop(self) -> int:
        """2 n k p q c r s / groups in every direction, products with the padding included.

        Multiply-adds, counted as two, of the [k, crs] by [crs, npq] matrix product that a convolution amounts to:
        Chetlur et al. (2014), arXiv 1410.0759. DeepBench counts so too.
        """
        return 2 * self.n * self.k * self.p * self.q * (self.c // self.groups) * self.r * self.s

    def bytes_moved(self) -> int:
        inputs = math.prod(self.image_shape) + math.prod(self.filter_shape)
        return itemsize_bytes(self.dtype) * inputs + itemsize_bytes(self.out_dtype) * math.prod(self.response_shape)

    def inputs(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """X and W; dY and W; or dY and X."""
        shapes = {
            "forward": (self.image_shape, self.filter_shape),
            "bwd_data": (self.response_shape, self.filter_shape),
            "bwd_weights": (self.response_shape, self.image_shape),
        }
        first, second = shapes[self.direction]
        return random_array(rng, first, self.dtype), random_array(rng, second, self.dtype)

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference:
        """Single elements summed in float64: all of them where that is quick, else as many as are, drawn with rng.

        The scale is the size that errors have. In units of the root of the sum of the squared products, which is
        what the result itself measures where the signs are random:

        - sqrt(t) u for a sum of t terms, Higham & Mary (2019), SIAM J. Sci. Comput. 41(5) A2815, and more where a
          library takes Winograd's F(4x4,3x3) (Lavin & Gray 2015, arXiv 1509.09308): written out in NumPy, its largest
          error was 336 u for 3 channels, 1028 u for 256, and 109 u with the transformed tiles kept in float16;
        - the rounding of 16-bit partial sums, and of tf32's inputs, by cutting off.

        Such transforms, and Fourier's, spread their errors over a tile (Higham, Accuracy and Stability of Numerical
        Algorithms, 2nd ed., section 23.2: their bounds are on norms only), so an element that the padding leaves few
        terms has the mean error. Last, the rounding of the output. Integers have no error: their scale is 0.
        """
        import numpy as np

        from primbench.kernels.conv import _reference

        index, expected, norm = _reference.sampled(self.geometry, rng, *map(self.as_nchw, inputs))
        summed = (4 * math.sqrt(self.terms) + 64) * UNIT_ROUNDOFF[self.sum_dtype]
        partial = {"float16": 16, "bfloat16": 2}.get(self.dtype, 0) * UNIT_ROUNDOFF[self.dtype]
        rounded_inputs = 2 * TF32_ROUNDOFF if self.math_mode == "tf32" else 0.0
        scale = (summed + partial + rounded_inputs) * np.maximum(norm, norm.mean())
        return Reference(self.stored(index), expected, scale + rounding(self.out_dtype, expected) / 4)

    def tolerance(self) -> float:
        """8 times the size that errors have, for the largest of many."""
        return 8.0

    def probe(self, flop: int) -> Conv | None:
        """Fewer outputs, and fewer images where one image is enough; channels and filters stay."""
        outputs = max(1, flop * self.groups // (2 * self.k * self.c * self.r * self.s))
        p = min(self.p, math.isqrt(outputs))
        q = min(self.q, outputs // p)
        height, width = (
            max(1, min(axis.image, axis.reach - 2 * axis.pad + (wanted - 1) * axis.stride))
            for axis, wanted in zip(self.axes, (p, q), strict=True)
        )
        small = replace(self, n=min(self.n, max(1, outputs // (p * q))), h=height, w=width)
        return small if 2 * small.flop() < self.flop() else None


def refuse_choices(problem: Conv, library: str) -> None:
    """Raise UnsupportedCase for the options that only some backends have."""
    if problem.algo == "implicit_gemm":
        raise UnsupportedCase(f"{library} has no conv algo={problem.algo!r}: ask for backend=cupy")
    if problem.workspace_bytes:
        raise UnsupportedCase(f"{library} has no limit on its workspace: ask for backend=cupy, or workspace_bytes=0")
