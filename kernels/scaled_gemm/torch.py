"""Scaled GEMM on torch: cuBLASLt and CUTLASS on a GPU, oneDNN and torch's own kernels on a CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.kernels.gemm.torch import check_int8
from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from primbench.kernels.scaled_gemm.problem import ScaledGemm

INNER_K_TILES = 8  # of int4 on a GPU: pieces of 16 along k that lie together, at most eight, which k is a multiple of


@kernel("scaled_gemm", "torch")
def torch_scaled_gemm(backend: Any, problem: ScaledGemm, a: Any, b: Any, *scales: Any) -> Step:
    """The step, which has been called once: what torch has of scales depends on its version, CUDA's, and the GPU.

    A CPU has no product of blocks and of mx and nv: there both factors are made float32 at each call, as a program does
    that has no such product; the step's ``algorithm`` says so. Raises UnsupportedCase with what torch says.
    """
    import torch

    try:
        step: Step = _setup(problem, on_gpu=backend.device.is_gpu)(backend, problem, a, b, *scales)
        step()
        backend.synchronize()
    except (RuntimeError, ValueError, AttributeError, ImportError) as refused:
        what = f"torch {torch.__version__} has no {problem.dtype} with scaling={problem.scaling} here"
        raise UnsupportedCase(f"{what}: {str(refused).splitlines()[0]}") from None
    return step


def _setup(problem: ScaledGemm, *, on_gpu: bool) -> Any:
    if problem.dtype == "int8":
        return _of_int8
    if problem.dtype == "int4":
        return _of_int4
    if problem.scaling in ("mx", "nv"):
        return _of_microscales if on_gpu else _by_float32
    return _by_float32 if problem.scaling == "block" and not on_gpu else _scaled_mm


def _scaled_mm(backend: Any, problem: ScaledGemm, a: Any, b: Any, *scales: Any) -> Step:
    import torch

    c = backend.empty((problem.m, problem.n), "bfloat16")
    scale_a, scale_b = scales
    if problem.scaling == "row":
        scale_a = scale_a.view(problem.m, 1)
    if problem.scaling == "block":
        scale_a, scale_b = scale_a.t(), scale_b.t()  # of which torch asks that they lie in memory like this
    options = {"scale_a": scale_a, "scale_b": scale_b, "out_dtype": torch.bfloat16, "out": c}
    return lambda: torch._scaled_mm(a, b.t(), **options)  # noqa: SLF001 - the only one


def _of_int8(backend: Any, problem: ScaledGemm, a: Any, b: Any, *scales: Any) -> Step:
    """Sums in int32, then by the scales of their row and column."""
    import torch

    check_int8(problem, on_gpu=backend.device.is_gpu)
    sums = backend.empty((problem.m, problem.n), "int32")
    scaled, c = (backend.empty(sums.shape, dtype) for dtype in ("float32", "bfloat16"))
    of_a, of_b = scales[0].view(-1, 1), scales[1].view(1, -1)

    def step() -> Any:
        torch._int_mm(a, b.t(), out=sums)  # noqa: SLF001 - the only one for int8
        torch.mul(sums, of_a, out=scaled)
        return torch.mul(scaled, of_b, out=c)

    return described(step, algorithm="torch._int_mm, then both scales")


def _of_int4(backend: Any, problem: ScaledGemm, a: Any, b: Any, *scales: Any) -> Step:
    """Weights are packed beforehand, as a program does once, and made bfloat16 again within the product."""
    import torch

    from primbench.kernels.scaled_gemm.problem import BLOCK

    aten = torch.ops.aten
    if backend.device.is_gpu:
        packed = aten._convert_weight_to_int4pack(b << 4 | b >> 4, INNER_K_TILES)  # noqa: SLF001 - first element on top
        multiply, name = aten._weight_int4pack_mm, "torch._weight_int4pack_mm"  # noqa: SLF001 - the only one for int4
    else:
        packed = aten._convert_weight_to_int4pack_for_cpu(_halves(b).int(), 1)  # noqa: SLF001
        multiply, name = aten._weight_int4pack_mm_for_cpu, "torch._weight_int4pack_mm_for_cpu"  # noqa: SLF001
    return described(lambda: multiply(a, packed, BLOCK, scales[0]), algorithm=name)


def _of_microscales(backend: Any, problem: ScaledGemm, a: Any, b: Any, *scales: Any) -> Step:
    """scaled_mm of torch 2.10, untried as yet: it needs a GPU of compute capability 10.0."""
    import torch
    from torch.nn.functional import ScalingType, SwizzleType, scaled_mm

    found = torch.cuda.get_device_capability()
    if found < (10, 0):
        said = f"dtype={problem.dtype} with scaling={problem.scaling} needs compute capability 10.0, as of a B200"
        raise UnsupportedCase(f"{said}: this GPU has {'.'.join(map(str, found))}")
    if problem.dtype == "float4_e2m1":
        a, b = (each.view(torch.float4_e2m1fn_x2) for each in (a, b))
    of = torch.float8_e8m0fnu if problem.scaling == "mx" else torch.float8_e4m3fn
    recipe = ScalingType.BlockWise1x32 if problem.scaling == "mx" else ScalingType.BlockWise1x16
    scale_a, scale_b = (_swizzled(scale.view(torch.uint8)).view(of) for scale in scales)
    swizzle = SwizzleType.SWIZZLE_32_4_4
    options: dict[str, Any] = {"swizzle_a": swizzle, "swizzle_b": swizzle, "output_dtype": torch.bfloat16}
    return lambda: scaled_mm(a, b.t(), scale_a, recipe, scale_b, recipe, **options)


def _swizzled(scales: Any) -> Any:
    """[rows,columns] as tiles of 128 rows and 4 columns, filled up with 0, of which each has 32 rows of 4 by 4.

    As cuBLAS has them (manual, "1D block scaling factors layout"): element 16 (row % 32) + 4 (row / 32) + column.
    """
    from torch.nn.functional import pad

    rows, columns = (-(-count // each) for count, each in zip(scales.shape, (128, 4), strict=True))
    filled = pad(scales, (0, 4 * columns - scales.shape[1], 0, 128 * rows - scales.shape[0]))
    return filled.view(rows, 4, 32, columns, 4).permute(0, 3, 2, 1, 4).contiguous().flatten()


def _by_float32(backend: Any, problem: ScaledGemm, a: Any, b: Any, *scales: Any) -> Step:
    import torch

    c = backend.empty((problem.m, problem.n), "bfloat16")
    scale_a, scale_b = scales
    if problem.scaling == "block":
        scale_a, scale_b = scale_a.t(), scale_b.repeat_interleave(problem.n // len(scale_b), 0)
    elif problem.scaling == "mx":
        scale_a, scale_b = (torch.exp2(scale.float() - 127) for scale in (scale_a, scale_b))

    def factor(stored: Any, scale: Any) -> Any:
        elements = _of_float4(stored) if problem.dtype == "float4_e2m1" else stored.float()
        return elements.view(len(stored), scale.shape[1], -1) * scale.float().unsqueeze(-1)

    def step() -> Any:
        of_a, of_b = (factor(*each).view(-1, problem.k) for each in ((a, scale_a), (b, scale_b)))
        return c.copy_(of_a @ of_b.t())

    return described(step, algorithm="made float32, then a product")


def _halves(packed: Any) -> Any:
    """Two elements of each byte, the lower four bits first."""
    import torch

    return torch.stack((packed & 15, packed >> 4), -1).view(len(packed), -1)


def _of_float4(packed: Any) -> Any:
    import torch

    from primbench.kernels.scaled_gemm._quantised import E2M1

    table = torch.tensor((*E2M1, *(-each for each in E2M1)), device=packed.device)
    return table[_halves(packed).int()]
