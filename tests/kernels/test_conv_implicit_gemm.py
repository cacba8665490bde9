"""The implicit GEMM without a GPU: its source compiled for the host, where a block's threads take turns."""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from primbench.errors import UnsupportedCase
from primbench.kernels.conv import Conv
from primbench.kernels.conv import _implicit_gemm as kernel

DIRECTIONS = ("forward", "bwd_data", "bwd_weights")

HOST = """
#include <csetjmp>
#include <cstddef>
#include <ucontext.h>
#define __device__
#define __global__
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(n)
using std::size_t;
struct Index { unsigned x; };
struct float4 { float x, y, z, w; };
struct int4 { int x, y, z, w; };
static Index threadIdx, blockIdx, blockDim;
static unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
static void __syncthreads();
"""
# One after the other, each runs to its next barrier: what one reads before another has written it, or writes before
# another has read it, for want of a barrier, makes sums wrong every time.
LAUNCH = """
static ucontext_t starts[THREADS];
static char stacks[THREADS][1 << 16];
static jmp_buf barriers[THREADS], launched;
static bool has_started[THREADS];

static void go_on(unsigned thread) {
    if (thread == THREADS) _longjmp(launched, 1);
    threadIdx.x = thread;
    if (has_started[thread]) _longjmp(barriers[thread], 1);
    has_started[thread] = true;
    setcontext(&starts[thread]);
}
static void __syncthreads() {
    if (!_setjmp(barriers[threadIdx.x])) go_on((threadIdx.x + 1) % THREADS);
}

using Product = void(const STORED*, const STORED*, Output*, Sum*);
static Product* product_of;
static unsigned blocks_of;
static const STORED *a_of, *b_of;
static Output* c_of;
static Sum* parts_of;

static void run() {
    for (unsigned block = 0; block < blocks_of; ++block) {
        blockIdx.x = block;
        product_of(a_of, b_of, c_of, parts_of);
        __syncthreads();
    }
    go_on(threadIdx.x + 1);
}
extern "C" void launch(Product* product, unsigned blocks, const STORED* a, const STORED* b, Output* c, Sum* parts,
                       unsigned elements) {
    product_of = product, blocks_of = blocks, a_of = a, b_of = b, c_of = c, parts_of = parts;
    for (unsigned thread = 0; thread < THREADS; ++thread) {
        has_started[thread] = false;
        getcontext(&starts[thread]);
        starts[thread].uc_stack.ss_sp = stacks[thread];
        starts[thread].uc_stack.ss_size = sizeof stacks[thread];
        makecontext(&starts[thread], run, 0);
    }
    if (!_setjmp(launched)) go_on(0);
    blockDim.x = 1;
    threadIdx.x = 0;
    for (blockIdx.x = 0; SLICES > 1 && blockIdx.x < elements; ++blockIdx.x) add_slices(parts, c, elements);
}
"""


def on_host(folder: Path, options: tuple[str, ...]) -> ctypes.CDLL:
    for header in ("cuda_fp16.h", "cuda_bf16.h"):
        (folder / header).touch()
    (folder / "kernel.cpp").write_text(HOST + kernel.source() + LAUNCH)
    macros = [option for option in options if option.startswith("-D")]
    command = [
        "g++",
        "-std=c++20",
        "-O1",
        "-w",
        "-shared",
        "-fPIC",
        "-I.",
        *macros,
        "kernel.cpp",
        "-o",
        "k.so",
    ]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "k.so"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "slices", "fields"),
    [
        ("nchw", 1, {"c": 6, "k": 9, "groups": 3, "pad_h": 2, "stride_h": 2, "stride_w": 3, "dilation_h": 2}),
        ("nchw", 3, {"pad_h": 7, "stride_w": 2, "dilation_w": 3}),
        ("nhwc", 3, {"c": 6, "k": 9, "groups": 3, "pad_h": 2, "stride_h": 2, "stride_w": 3, "dilation_h": 2}),
        ("nhwc", 1, {"pad_h": 7, "stride_w": 2, "dilation_w": 3}),
        ("nchw", 3, {"dtype": "int8", "pad_h": 7, "stride_w": 2, "dilation_w": 3}),
        ("nhwc", 1, {"dtype": "int8", "c": 6, "k": 9, "groups": 3, "pad_h": 2, "stride_h": 2}),
    ],
)
def test_sums_are_right_in_every_direction(layout: str, slices: int, fields: dict[str, Any], tmp_path: Path) -> None:
    """With more than one tile each way, none of them full."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ here to compile a kernel's source for the host: apt-get install g++")
    sizes: dict[str, Any] = {"n": 3, "c": 19, "h": 13, "w": 10, "k": 70, "r": 3, "s": 2, "layout": layout}
    directions = ("forward",) if fields.get("dtype") == "int8" else DIRECTIONS
    problems = [Conv(**(sizes | fields), direction=direction) for direction in directions]
    host = on_host(tmp_path, kernel.options(problems[0], slices))
    for problem in problems:
        inputs = problem.inputs(np.random.default_rng(0))
        unwritten = -(2**31) if problem.out_dtype == "int32" else np.nan
        output = np.full(problem.output_shape, unwritten, problem.out_dtype)
        parts = np.full(slices * output.size, unwritten, problem.sum_dtype)
        addresses = [ctypes.c_void_p(array.ctypes.data) for array in (*inputs, output, parts)]
        blocks = kernel.tiles_of(problem) * slices
        host.launch(getattr(host, problem.direction), blocks, *addresses, output.size)
        reference = problem.reference(np.random.default_rng(1), *inputs)
        assert reference.expected.size == output.size
        error = np.abs(output[reference.index] - reference.expected)
        assert (error <= problem.tolerance() * reference.scale).all(), problem


def test_terms_are_sliced_where_tiles_are_few_and_terms_many() -> None:
    few, long = Conv(16, 64, 56, 56, 64, 3, 3, 1, 1, direction="bwd_weights"), Conv(16, 64, 56, 56, 64, 3, 3, 1, 1)
    assert (9, 16 * 56 * 56 // 64) == (kernel.tiles_of(few), kernel.tiles_of(long))
    assert (29, 1) == (kernel.slices_of(few, 132), kernel.slices_of(long, 132))
    assert 1 == kernel.slices_of(Conv(1, 1, 1, 1, 1, 1, 1), 132)


def test_tiles_are_counted_in_each_group() -> None:
    depthwise = Conv(1, 512, 14, 14, 512, 3, 3, 1, 1, groups=512)
    assert 512 * 4 == kernel.tiles_of(depthwise)


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"n": 2**21}, "2147483648: ask for fewer images"), ({"stride_h": 2**31}, "a step or pad reaches 2147483648")],
)
def test_what_32_bits_cannot_count_is_refused(fields: dict[str, int], message: str) -> None:
    sizes: dict[str, Any] = {"n": 1, "c": 1, "h": 32, "w": 32, "k": 1, "r": 1, "s": 1, "algo": "implicit_gemm"}
    with pytest.raises(UnsupportedCase, match=message):
        kernel.check_limit(Conv(**(sizes | fields)))


def test_options_differ_with_everything_that_the_kernel_depends_on() -> None:
    problem = Conv(2, 6, 9, 8, 4, 3, 2, 1, 1, 2, 2, 1, 2, 2)
    assert "-DGEOMETRY={2,6,9,8,4,3,2,5,4,1,1,2,2,1,2,2}" in kernel.options(problem, 2)
    others = itertools.product(("float32", "float16", "bfloat16", "int8"), ("nchw", "nhwc"), (1, 2))
    sizes = (2, 6, 9, 8, 4, 3, 2)
    assert 16 == len({kernel.options(Conv(*sizes, dtype=dtype, layout=layout), s) for dtype, layout, s in others})
