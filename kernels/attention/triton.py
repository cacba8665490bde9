"""Attention by a kernel of ours in Triton."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.backends._packages import launched
from primbench.backends._triton import is_interpreted, need_triton
from primbench.errors import UnsupportedCase
from primbench.kernels.attention._cache import by_heads
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.attention.problem import Attention


@kernel("attention", "torch", name="triton")
def triton_attention(backend: Any, problem: Attention, *inputs: Any) -> Step:
    """Softmax as it goes along the keys, in blocks of the sizes that are fastest here, which ``algorithm`` names.

    As FlashAttention-2 has it (Dao 2023, arXiv 2307.08691, section 3.1). Not tried on a GPU yet.
    """
    need_triton(backend)
    if problem.mode != "forward" or problem.window or problem.dtype == "float32":
        raise UnsupportedCase("triton: forward without a window, in float16 or bfloat16, alone")
    if problem.dtype == "bfloat16" and is_interpreted():
        raise UnsupportedCase("triton: its interpreter takes the bits of bfloat16 for integers")
    from primbench.kernels.attention._triton import attention, blocks_of_queries

    output = backend.empty(tuple(inputs[0].shape), problem.dtype)
    q, k, v, o = (by_heads(problem.layout, each) for each in (*inputs, output))

    def step() -> Any:
        attention(q, k, v, o, causal=problem.causal)
        return output

    return launched("triton", step, lambda: f"triton, {blocks_of_queries.best_config}")
