"""Attention by FlashInfer: of one sequence, or of a cache in pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.backends._packages import launched, need_package
from primbench.errors import UnsupportedCase
from primbench.kernels.attention._torch_cache import TorchCache
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.attention.problem import Attention

WORKSPACE_BYTES = 2**27  # as its own examples have it


@kernel("attention", "torch", name="flashinfer")
def flashinfer_attention(backend: Any, problem: Attention, *inputs: Any) -> Step:
    """FlashInfer 0.6.18, which chooses its own backend: single_prefill_with_kv_cache, or its wrappers for pages.

    Pages are untried as yet. Plans are made before anything is timed, as an engine makes one for all layers of a step.
    """
    need_package(backend, "flashinfer", "https://github.com/flashinfer-ai/flashinfer")
    is_whole = problem.mode == "forward" and (problem.batch_size, problem.layout) == (1, "bshd")
    if problem.dtype == "float32" or problem.latent_dim or not (is_whole or problem.page_size):
        said = "forward of one sequence in layout=bshd, or a cache in pages without latents"
        raise UnsupportedCase(f"flashinfer: {said}, in float16 or bfloat16")
    if problem.page_size:
        return launched("flashinfer", _with_pages(backend, problem, inputs))
    from flashinfer import single_prefill_with_kv_cache

    q, k, v = (each[0] for each in inputs)
    options = {"causal": problem.causal, "window_left": problem.flash_window[0]}
    return launched("flashinfer", lambda: single_prefill_with_kv_cache(q, k, v, **options)[None])


def _with_pages(backend: Any, problem: Attention, inputs: tuple[Any, ...]) -> Step:
    import flashinfer
    import numpy as np

    cache = TorchCache(backend, problem, inputs)
    table, lengths = backend.get(cache.given.table), backend.get(cache.given.lengths)
    counts = -(-lengths // problem.page_size)
    pages = np.concatenate([row[:count] for row, count in zip(table, counts, strict=True)])
    ends, in_last = np.append(0, np.cumsum(counts)), lengths - (counts - 1) * problem.page_size
    of_pages = [backend.put(each.astype(np.int32)) for each in (ends, pages, in_last)]
    sizes = problem.heads, problem.kv_heads, problem.head_dim, problem.page_size
    options = {"window_left": problem.flash_window[0], "q_data_type": cache.q.dtype, "kv_data_type": cache.q.dtype}
    workspace = backend.empty((WORKSPACE_BYTES,), "int8").view(backend.dtype("uint8"))
    if problem.seq_len == 1:
        wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD")
        wrapper.plan(*of_pages, *sizes, **options)
    else:
        wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspace, "NHD")
        queries = np.arange(problem.batch_size + 1, dtype=np.int32) * problem.seq_len
        wrapper.plan(backend.put(queries), *of_pages, *sizes, causal=True, **options)
    q, pair = cache.q.view(-1, problem.heads, problem.head_dim), (cache.given.k, cache.given.v)

    def step() -> Any:
        cache.write()
        return wrapper.run(q, pair).view(problem.output_shape)

    return step
