"""Attention by FlashAttention 3, written for H100 and H200."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.backends._packages import launched, need_package
from primbench.errors import UnsupportedCase
from primbench.kernels.attention._cache import CACHED, by_heads
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.attention.problem import Attention


@kernel("attention", "torch", name="flash_attn3")
def flash_attn3(backend: Any, problem: Attention, *inputs: Any) -> Step:
    """hopper/flash_attn_interface.py of 15 August 2026; causal from the last key, as here. A cache is untried."""
    need_package(backend, "flash_attn_interface", "https://github.com/Dao-AILab/flash-attention, in hopper/,")
    if problem.has_gradients or problem.latent_dim or problem.dtype == "float32":
        raise UnsupportedCase("flash_attn3: forward, prefill and decode, without latents, in float16 or bfloat16")
    if problem.mode in CACHED:
        return launched("flash_attn3", _with_cache(backend, problem, inputs))
    from flash_attn_interface import flash_attn_func

    q, k, v = (_in_order(problem, each) for each in inputs)
    options = {"causal": problem.causal, "window_size": problem.flash_window}
    return launched("flash_attn3", lambda: _in_order(problem, flash_attn_func(q, k, v, **options)))


def _with_cache(backend: Any, problem: Attention, inputs: tuple[Any, ...]) -> Step:
    """flash_attn_with_kvcache, which writes the new tokens, too."""
    import numpy as np
    from flash_attn_interface import flash_attn_with_kvcache

    cache = problem.cached(inputs)
    if cache.lengths is None:
        old = backend.put(np.full(problem.batch_size, problem.kv_len - problem.seq_len, np.int32))
    else:
        old = cache.lengths - problem.seq_len
    q, new_k, new_v, k, v = (_in_order(problem, each) for each in cache[:5])
    options: dict[str, Any] = {"page_table": cache.table, "causal": True, "window_size": problem.flash_window}
    options |= {"k": new_k, "v": new_v, "cache_seqlens": old}
    return lambda: _in_order(problem, flash_attn_with_kvcache(q, k, v, **options))


def _in_order(problem: Attention, array: Any) -> Any:
    """[batch, sequence, heads, elements], and back."""
    return array if problem.layout == "bshd" else by_heads("bshd", array)
