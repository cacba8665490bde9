"""Attention to a cache in pages by torch's varlen_attn, which is FlashAttention's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.backends._packages import launched
from primbench.errors import KernelUnavailable, UnsupportedCase
from primbench.kernels.attention._torch_cache import TorchCache
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.attention.problem import Attention


@kernel("attention", "torch", name="varlen")
def varlen(backend: Any, problem: Attention, *inputs: Any) -> Step:
    """varlen_attn of torch 2.13, the first with a table of pages. It is untried as yet: it needs a GPU."""
    if not backend.device.is_gpu:
        raise KernelUnavailable("torch's varlen_attn needs a GPU")
    if not problem.page_size or problem.latent_dim or problem.dtype == "float32":
        raise UnsupportedCase("varlen: a cache in pages without latents alone, in float16 or bfloat16")
    import numpy as np
    from torch.nn.attention.varlen import varlen_attn

    cache = TorchCache(backend, problem, inputs)
    starts = backend.put(np.arange(problem.batch_size + 1, dtype=np.int32) * problem.seq_len)
    sizes = starts, None, problem.seq_len, max(problem.kv_lens)
    options = {"window_size": (problem.flash_window[0], 0), "enable_gqa": problem.kv_heads != problem.heads}
    options |= {"seqused_k": cache.given.lengths, "block_table": cache.given.table}
    q = cache.q.view(-1, problem.heads, problem.head_dim)

    def step() -> Any:
        cache.write()
        return varlen_attn(q, cache.given.k, cache.given.v, *sizes, **options).view(problem.output_shape)

    return launched("varlen", step)
