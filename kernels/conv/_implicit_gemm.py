"""Convolution by primbench's own CUDA kernel, implicit_gemm.cu, on CuPy arrays."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from primbench.cuda import kernels, rows
from primbench.errors import UnsupportedCase
from primbench.problem import described

if TYPE_CHECKING:
    from primbench.kernels.conv.problem import Conv
    from primbench.problem import Step

STORED = {**rows.STORED, "int8": "int8"}
GEOMETRY = ("n", "c", "h", "w", "k", "r", "s", "p", "q", "pad_h", "pad_w", "stride_h", "stride_w", "dilation_h",
            "dilation_w", "groups")  # fmt: skip
BLOCK, THREADS = 64, 256  # as in implicit_gemm.cu
LIMIT = 2**31  # the kernel counts elements and pixels in 32 bits
BLOCKS_A_MULTIPROCESSOR = 2
TERMS_A_SLICE = 256  # fewer, and writing the slices' sums takes longer than making them


def implicit_gemm(backend: Any, problem: Conv, first: Any, second: Any) -> Step:
    """Sums in float32, or int32 of int8, in tiles of 64 x 64 x 16, in one fixed order; without tensor cores.

    A group is a product by itself, so that groups of few channels leave most of a tile unused. Raises UnsupportedCase
    where an array has 2^31 elements or more.
    """
    import cupy
    import numpy as np

    check_limit(problem)
    slices = slices_of(problem, cupy.cuda.Device().attributes["MultiProcessorCount"])
    module = cupy.RawModule(code=source(), options=options(problem, slices))
    output = backend.empty(problem.output_shape, problem.out_dtype)
    elements = math.prod(problem.output_shape)
    parts = backend.empty((slices * elements if slices > 1 else 1,), problem.sum_dtype)
    product, add_slices = module.get_function(problem.direction), module.get_function("add_slices")
    grid, added = (tiles_of(problem) * slices,), (-(-elements // THREADS),)
    block, arguments, to_add = (THREADS,), (first, second, output, parts), (parts, output, np.uint32(elements))

    def whole() -> Any:
        product(grid, block, arguments)
        return output

    def sliced() -> Any:
        product(grid, block, arguments)
        add_slices(added, block, to_add)
        return output

    return described(
        sliced if slices > 1 else whole,
        algorithm=f"implicit GEMM, terms in {slices} slices" if slices > 1 else "implicit GEMM",
    )


def source() -> str:
    return kernels.text_of("conv", "implicit_gemm.cu")


def options(problem: Conv, slices: int) -> tuple[str, ...]:
    """The compiler's options: sizes are constants, so that a module is for one problem alone."""
    geometry = ",".join(str(getattr(problem, name)) for name in GEOMETRY)
    return (
        "-std=c++17",
        f"-DSTORED={STORED[problem.dtype]}",
        f"-DNHWC={int(problem.layout == 'nhwc')}",
        f"-DSLICES={slices}",
        f"-DGEOMETRY={{{geometry}}}",
    )


def tiles_of(problem: Conv) -> int:
    """Tiles of all groups' products."""
    filters, channels = problem.k // problem.groups, problem.c // problem.groups
    rows, columns = {
        "forward": (filters, problem.n * problem.p * problem.q),
        "bwd_data": (channels, problem.n * problem.h * problem.w),
        "bwd_weights": (filters, channels * problem.r * problem.s),
    }[problem.direction]
    return problem.groups * -(-rows // BLOCK) * -(-columns // BLOCK)


def slices_of(problem: Conv, multiprocessors: int) -> int:
    """Into how many slices the terms are cut: as many as occupy the GPU, but none of them a short one."""
    wanted = BLOCKS_A_MULTIPROCESSOR * multiprocessors // tiles_of(problem)
    return max(1, min(wanted, problem.terms // TERMS_A_SLICE))


def check_limit(problem: Conv) -> None:
    elements = max(math.prod(shape) for shape in (problem.image_shape, problem.filter_shape, problem.response_shape))
    if elements >= LIMIT:
        raise UnsupportedCase(
            f"conv algo='implicit_gemm' counts elements in 32 bits, and an array has {elements}: ask for fewer images"
        )
    reach = max(max(axis.image + 2 * axis.pad, axis.stride, axis.dilation) for axis in problem.axes)
    if reach >= LIMIT:
        raise UnsupportedCase(f"conv algo='implicit_gemm' counts pixels in 32 bits, and a step or pad reaches {reach}")
