"""Attention to latents by FlashMLA, written for H100 and H200."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.backends._packages import launched, need_package
from primbench.errors import UnsupportedCase
from primbench.kernels.attention._torch_cache import TorchCache
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.attention.problem import Attention

PAGE_SIZE, HEAD_DIM, LATENT_DIM = 64, 576, 512  # the ones that its kernels are compiled for


@kernel("attention", "torch", name="flash_mla")
def flash_mla(backend: Any, problem: Attention, *inputs: Any) -> Step:
    """flash_mla_with_kvcache, by a plan that is made before anything is timed. It is untried as yet: it needs a GPU."""
    need_package(backend, "flash_mla", "https://github.com/deepseek-ai/FlashMLA")
    found = problem.page_size, problem.head_dim, problem.latent_dim, problem.window
    if found != (PAGE_SIZE, HEAD_DIM, LATENT_DIM, 0) or problem.dtype != "bfloat16":
        fields = f"page_size={PAGE_SIZE}, head_dim={HEAD_DIM}, latent_dim={LATENT_DIM}"
        raise UnsupportedCase(f"flash_mla: {fields} alone, in bfloat16, without a window")
    from flash_mla import flash_mla_with_kvcache, get_mla_metadata

    cache = TorchCache(backend, problem, inputs)
    plan = get_mla_metadata(cache.given.lengths, problem.seq_len * problem.heads, 1)
    of_pages = cache.given.k, cache.given.table, cache.given.lengths, LATENT_DIM

    def step() -> Any:
        cache.write()
        return flash_mla_with_kvcache(cache.q, *of_pages, *plan, causal=True)[0]

    return launched("flash_mla", step)
