"""One call of torch's scaled_dot_product_attention, by one of its backends."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from primbench.kernels.attention._cache import by_heads

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.kernels.attention.problem import Attention

    Attend = Callable[[Any, Any, Any], Any]

BACKENDS = {"flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "math": "MATH"}


def attention(backend: Any, problem: Attention, name: str, inputs: tuple[Any, Any, Any], lengths: Any = None) -> Attend:
    """O of Q, K and V, all in the order in memory; inputs are such.

    lengths: of a cache, how many of its keys are those of each sequence, the last ones.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    asked = getattr(SDPBackend, BACKENDS[name])
    options = _options(backend, problem, name, inputs[1], lengths)
    is_asked_for = problem.algo != "auto" or _own_choice(problem, inputs, options) != asked.value

    def attend(*arrays: Any) -> Any:
        q, k, v = (by_heads(problem.layout, array) for array in _folded(problem, *arrays))
        with sdpa_kernel(asked) if is_asked_for else nullcontext():
            found = by_heads(problem.layout, scaled_dot_product_attention(q, k, v, **options))
        return found.view(problem.output_shape) if problem.latent_dim else found

    return attend


def _folded(problem: Attention, q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """Of latents the heads as further queries of one head, so that nothing repeats their only key for each."""
    return (q.reshape(len(q), -1, 1, problem.head_dim) if problem.latent_dim else q), k, v


def _own_choice(problem: Attention, inputs: tuple[Any, Any, Any], options: dict[str, Any]) -> int | None:
    """The number of the backend that torch would take; None where a mask makes it depend on more."""
    import torch

    if "attn_mask" in options:
        return None
    arrays = [by_heads(problem.layout, array).detach() for array in _folded(problem, *inputs)]
    for array in arrays:
        array.requires_grad_(requires_grad=problem.has_gradients)
    choice: int = torch._fused_sdp_choice(*arrays, **options)  # noqa: SLF001 - nothing public tells it
    return choice


def _options(backend: Any, problem: Attention, name: str, k: Any, lengths: Any) -> dict[str, Any]:
    is_grouped = problem.kv_heads != problem.heads and not problem.latent_dim
    return ({"enable_gqa": True} if is_grouped else {}) | _masked(backend, problem, name, k, lengths)


def _masked(backend: Any, problem: Attention, name: str, k: Any, lengths: Any) -> dict[str, Any]:
    """The simplest that says what is seen, as torch has kernels for that."""
    kv_len = by_heads(problem.layout, k).shape[2]
    is_ragged = lengths is not None or 0 < problem.window < kv_len
    if not problem.causal or (problem.seq_len == 1 and not is_ragged):
        return {}
    if is_ragged or problem.latent_dim:
        seen = _seen(problem, kv_len, lengths, str(backend.device))
    elif problem.seq_len == kv_len:
        return {"is_causal": True}
    else:
        from torch.nn.attention.bias import causal_lower_right

        mask = causal_lower_right(problem.seq_len, kv_len)
        if name in ("flash", "efficient") and backend.device.is_gpu:
            return {"attn_mask": mask}  # which their kernels know without an array of it
        seen = mask._materialize(str(backend.device))  # noqa: SLF001 - else torch makes it anew at every call
    added = backend.empty(seen.shape, problem.dtype).fill_(-math.inf).masked_fill_(seen, 0)
    return {"attn_mask": added}


def _seen(problem: Attention, kv_len: int, lengths: Any, device: str) -> Any:
    """Whether each query sees each key: bool[seq_len,kv_len], or [batch_size,1,seq_len,kv_len] where it depends on it.

    The last query is at the last key. Of latents there is a query for each head.
    """
    import torch

    key = torch.arange(kv_len, device=device)
    own = torch.arange(kv_len - problem.seq_len, kv_len, device=device)[:, None]
    if problem.latent_dim:
        own = own.repeat_interleave(problem.heads, 0)
    seen = key <= own
    if problem.window:
        seen &= key > own - problem.window
    return seen if lengths is None else seen & (key >= kv_len - lengths[:, None, None, None])
