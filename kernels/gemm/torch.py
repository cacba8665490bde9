"""GEMM on torch: cuBLAS and cuBLASLt on a GPU, oneDNN and MKL on a CPU."""

from __future__ import annotations

from typing import Any

from primbench.backends._packages import launched
from primbench.backends._triton import is_interpreted, need_triton
from primbench.errors import UnsupportedCase
from primbench.kernels.gemm.problem import Gemm, oriented
from primbench.problem import Step, kernel


@kernel("gemm", "torch")
def torch_gemm(backend: Any, problem: Gemm, a: Any, b: Any, d: Any = None) -> Step:
    """torch.mm, addmm where alpha, beta or a bias ask for it, _int_mm for int8 and _scaled_mm for float8."""
    import torch

    on_gpu = backend.device.is_gpu
    set_precision(torch, problem, on_gpu=on_gpu)
    a, b = oriented(problem, a, b)
    c = backend.empty((problem.m, problem.n), problem.out_dtype)
    if problem.dtype == "int8":
        check_int8(problem, on_gpu=on_gpu)
        return lambda: torch._int_mm(a, b, out=c)  # noqa: SLF001 - the only one for int8
    if problem.dtype == "float8_e4m3":
        return _scaled_mm(backend, problem, a, b, c)
    if problem.bias:
        return lambda: torch.addmm(d, a, b, out=c)
    if problem.alpha == 1 and problem.beta == 0:
        return lambda: torch.mm(a, b, out=c)
    alpha, beta, added = problem.alpha, problem.beta, c if d is None else d
    return lambda: torch.addmm(added, a, b, alpha=alpha, beta=beta, out=c)


@kernel("gemm", "torch", name="triton")
def triton_gemm(backend: Any, problem: Gemm, a: Any, b: Any, *_: Any) -> Step:
    """A tile of C a program of Triton, of the size that is fastest here; the step's ``algorithm`` names it."""
    need_triton(backend)
    if problem.dtype not in ("float32", "float16", "bfloat16") or problem.accumulate != "float32":
        raise UnsupportedCase("triton: float32, float16 and bfloat16 alone, summed in float32")
    if problem.dtype == "bfloat16" and is_interpreted():
        raise UnsupportedCase("triton: its interpreter takes the bits of bfloat16 for integers")
    if (problem.alpha, problem.beta, problem.bias) != (1.0, 0.0, False):
        raise UnsupportedCase("triton: alpha=1 and beta=0 alone, without a bias")
    from primbench.kernels.gemm._triton import product, tiled

    a, b = oriented(problem, a, b)
    c = backend.empty((problem.m, problem.n), problem.out_dtype)
    return launched("triton", lambda: product(a, b, c, problem.math_mode), lambda: f"triton, {tiled.best_config}")


def set_precision(torch: Any, problem: Gemm, *, on_gpu: bool) -> None:
    """Say explicitly what torch would otherwise take from the process: tf32, and float16 sums."""
    if not on_gpu:
        if problem.math_mode == "tf32" or problem.accumulate == "float16":
            raise UnsupportedCase("torch on a CPU has no tf32 mode and no float16 sums")
        return
    flags = torch.backends.cuda.matmul
    flags.allow_tf32 = problem.math_mode == "tf32"
    flags.allow_fp16_reduced_precision_reduction = problem.accumulate == "float16"
    flags.allow_bf16_reduced_precision_reduction = False
    if hasattr(flags, "allow_fp16_accumulation"):
        flags.allow_fp16_accumulation = problem.accumulate == "float16"
    elif problem.accumulate == "float16":
        raise UnsupportedCase(f"torch {torch.__version__} cannot sum float16 in float16: 2.7 can")


def check_int8(problem: Any, *, on_gpu: bool) -> None:
    """torch._int_mm's limits on a GPU, from its own checks."""
    if on_gpu and (problem.m <= 16 or problem.k % 8 or problem.n % 8):
        raise UnsupportedCase("torch int8 on a GPU needs m > 16 and n, k multiples of 8")


def _scaled_mm(backend: Any, problem: Gemm, a: Any, b: Any, c: Any) -> Step:
    """float8 with scales of 1; cuBLASLt takes it only with the summed dimension contiguous in A and B."""
    import torch

    if problem.trans_a or not problem.trans_b or problem.n % 16 or problem.k % 16:
        raise UnsupportedCase("torch float8_e4m3 needs trans_b=True without trans_a, and n, k multiples of 16")
    if (problem.alpha, problem.beta) != (1.0, 0.0):
        raise UnsupportedCase("torch float8_e4m3: only alpha=1 and beta=0")
    one = torch.ones((), device=str(backend.device))
    return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, out=c)  # noqa: SLF001 - the only one for float8
