"""Attention by FlashInfer, of one sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.backends._packages import launched, need_package
from primbench.errors import UnsupportedCase
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.attention.problem import Attention


@kernel("attention", "torch", name="flashinfer")
def flashinfer_attention(backend: Any, problem: Attention, *inputs: Any) -> Step:
    """single_prefill_with_kv_cache of FlashInfer 0.6.18, which chooses its own backend."""
    need_package(backend, "flashinfer", "https://github.com/flashinfer-ai/flashinfer")
    if problem.mode != "forward" or problem.dtype == "float32" or (problem.batch_size, problem.layout) != (1, "bshd"):
        raise UnsupportedCase("flashinfer: forward alone, of one sequence in layout=bshd, in float16 or bfloat16")
    from flashinfer import single_prefill_with_kv_cache

    q, k, v = (each[0] for each in inputs)
    return launched("flashinfer", lambda: single_prefill_with_kv_cache(q, k, v, causal=problem.causal)[None])
