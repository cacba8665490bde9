"""Attention by FlashAttention 3, written for H100 and H200."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.backends._packages import launched, need_package
from primbench.errors import UnsupportedCase
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.attention.problem import Attention


@kernel("attention", "torch", name="flash_attn3")
def flash_attn3(backend: Any, problem: Attention, *inputs: Any) -> Step:
    """flash_attn_func of hopper/flash_attn_interface.py, of 15 August 2026; causal from the last key, as here."""
    need_package(backend, "flash_attn_interface", "https://github.com/Dao-AILab/flash-attention, in hopper/,")
    if problem.mode != "forward" or problem.dtype == "float32":
        raise UnsupportedCase("flash_attn3: forward alone, in float16 or bfloat16")
    from flash_attn_interface import flash_attn_func

    def in_order(array: Any) -> Any:
        """[batch, sequence, heads, elements], and back."""
        return array if problem.layout == "bshd" else array.swapaxes(1, 2)

    q, k, v = map(in_order, inputs)
    return launched("flash_attn3", lambda: in_order(flash_attn_func(q, k, v, causal=problem.causal)))
