"""Attention by torch's flex_attention, compiled for the mask at hand, which reads pages where they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.backends._packages import launched
from primbench.errors import UnsupportedCase
from primbench.kernels.attention._cache import CACHED, by_heads
from primbench.kernels.attention._torch_cache import TorchCache
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.kernels.attention.problem import Attention

MOST_FORMS = 1000  # that one process may compile it in: a case each, of which torch would refuse the ninth
BLOCK = 128  # queries, and keys that are not in pages, of a block of the mask: what flex_attention takes by itself


@kernel("attention", "torch", name="flex")
def flex(backend: Any, problem: Attention, *inputs: Any) -> Step:
    """Forward, prefill and decode; blocks that no query sees are left out. It has run on CPUs alone as yet."""
    if problem.has_gradients:
        raise UnsupportedCase("flex: forward, prefill and decode alone")
    import torch
    from torch.nn.attention.flex_attention import flex_attention

    if backend.device.is_gpu:
        torch.backends.cuda.matmul.allow_tf32 = False
    cache = TorchCache(backend, problem, inputs) if problem.mode in CACHED else None
    attend = torch.compile(flex_attention, fullgraph=True, dynamic=False)
    options = {"block_mask": _mask(backend, problem, cache), "enable_gqa": problem.kv_heads != problem.heads}

    def step() -> Any:
        if cache is None:
            arrays = inputs
        else:
            cache.write()
            arrays = (cache.q, *(_in_place(problem, cache) if problem.page_size else cache.read()))
        q, k, v = (by_heads(problem.layout, array) for array in arrays)
        return by_heads(problem.layout, attend(q, k, v, **options))

    with torch._dynamo.config.patch(recompile_limit=MOST_FORMS):  # noqa: SLF001 - nothing public sets it for a while
        return launched("flex", step)


def _in_place(problem: Attention, cache: TorchCache) -> tuple[Any, Any]:
    """All pages as the keys of one sequence, which all others have, too."""
    of_all = (problem.batch_size, -1, problem.kv_heads, problem.head_dim)
    k, v = (each.view(1, *of_all[1:]).expand(of_all) for each in (cache.given.k, cache.given.v))
    return k, v[..., : problem.value_dim]


def _mask(backend: Any, problem: Attention, cache: TorchCache | None) -> Any:
    """None where every query sees every key."""
    if not problem.causal:
        return None
    import torch
    from torch.nn.attention.flex_attention import create_block_mask

    lengths = torch.full((problem.batch_size,), problem.kv_len, dtype=torch.int32, device=str(backend.device))
    if cache is not None and problem.page_size:
        lengths, keys = cache.given.lengths, cache.given.k.shape[0] * problem.page_size
        place = _places_of_pages(problem, cache)
    else:
        keys = problem.kv_len if cache is None else cache.kv_len
        first = problem.kv_len - keys

        def place(_: Any, key: Any) -> Any:
            return key + first

    def seen(sequence: Any, _: Any, query: Any, key: Any) -> Any:
        own, of_key = lengths[sequence] - problem.seq_len + query, place(sequence, key)
        is_seen = (of_key >= 0) & (of_key <= own)
        return is_seen & (of_key > own - problem.window) if problem.window else is_seen

    blocks = (BLOCK, problem.page_size or BLOCK)
    sizes = problem.batch_size, None, problem.seq_len, keys
    return create_block_mask(seen, *sizes, device=str(backend.device), BLOCK_SIZE=blocks)


def _places_of_pages(problem: Attention, cache: TorchCache) -> Callable[[Any, Any], Any]:
    """What gives the place in a sequence of a token of all pages; below 0 where the page is not the sequence's."""
    import torch

    given: Any = cache.given
    page_size = problem.page_size
    order = torch.arange(problem.table_pages, device=given.table.device).expand_as(given.table)
    is_own = order * page_size < given.lengths[:, None]
    of_page = torch.full((problem.batch_size, given.k.shape[0]), -1, device=given.table.device)
    of_page.scatter_reduce_(1, given.table.long(), torch.where(is_own, order, -1), "amax")

    def place(sequence: Any, key: Any) -> Any:
        return of_page[sequence, key // page_size] * page_size + key % page_size

    return place
