"""One call of torch's scaled_dot_product_attention, by one of its backends."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from primbench.kernels.attention.problem import CACHED, by_heads

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.kernels.attention.problem import Attention

BACKENDS = {"flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "math": "MATH"}


def attention(backend: Any, problem: Attention, name: str, inputs: tuple[Any, ...]) -> Callable[[Any, Any, Any], Any]:
    """O of Q, K and V, all in the order in memory."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    asked = getattr(SDPBackend, BACKENDS[name])
    options = _options(backend, problem, name)
    is_asked_for = problem.algo != "auto" or _own_choice(problem, inputs, options) != asked.value

    def attend(*arrays: Any) -> Any:
        q, k, v = (by_heads(problem.layout, array) for array in arrays)
        with sdpa_kernel(asked) if is_asked_for else nullcontext():
            return by_heads(problem.layout, scaled_dot_product_attention(q, k, v, **options))

    return attend


def _own_choice(problem: Attention, inputs: tuple[Any, ...], options: dict[str, Any]) -> int | None:
    """The number of the backend that torch would take; None where a mask makes it depend on more."""
    import torch

    if "attn_mask" in options:
        return None
    q, *_, k, v = inputs if problem.mode in CACHED else inputs[:3]
    arrays = [by_heads(problem.layout, array).detach() for array in (q, k, v)]
    for array in arrays:
        array.requires_grad_(requires_grad=problem.has_gradients)
    choice: int = torch._fused_sdp_choice(*arrays, **options)  # noqa: SLF001 - nothing public tells it
    return choice


def _options(backend: Any, problem: Attention, name: str) -> dict[str, Any]:
    options: dict[str, Any] = {"enable_gqa": True} if problem.kv_heads != problem.heads else {}
    if not problem.causal or problem.seq_len == 1:
        return options
    if problem.seq_len == problem.kv_len:
        return options | {"is_causal": True}
    from torch.nn.attention.bias import causal_lower_right

    mask = causal_lower_right(problem.seq_len, problem.kv_len)
    if name in ("flash", "efficient") and backend.device.is_gpu:
        return options | {"attn_mask": mask}  # which their kernels know without an array of it
    seen = mask._materialize(str(backend.device))  # noqa: SLF001 - else torch makes it anew at every call
    added = backend.empty(seen.shape, problem.dtype).fill_(-math.inf).masked_fill_(seen, 0)
    return options | {"attn_mask": added}
