"""Which operators of torch are attention: each of its backends has two, forward and backward."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.kernels.attention.problem import Attention
from primbench.problem.operands import contiguous
from primbench.problem.operators import Call, NotThere, OperatorCase, Settings, operator, said

if TYPE_CHECKING:
    from primbench.problem.operands import Operand

DTYPES = ("float32", "float16", "bfloat16")


class _Places(NamedTuple):
    """Of the arguments: dropout, whether it is causal, and a bias or mask where there can be one."""

    algo: str
    dropout: int
    causal: int
    bias: int | None = None


# Their schemas in aten/src/ATen/native/native_functions.yaml.
FORWARD = {
    "_scaled_dot_product_flash_attention": _Places("flash", 3, 4),
    "_scaled_dot_product_efficient_attention": _Places("efficient", 5, 6, 3),
    "_scaled_dot_product_cudnn_attention": _Places("cudnn", 5, 6, 3),
    "_scaled_dot_product_flash_attention_for_cpu": _Places("auto", 3, 4),
}
BACKWARD = {
    "_scaled_dot_product_flash_attention_backward": _Places("flash", 10, 11),
    "_scaled_dot_product_efficient_attention_backward": _Places("efficient", 9, 11, 4),
    "_scaled_dot_product_cudnn_attention_backward": _Places("cudnn", 13, 14, 8),
    "_scaled_dot_product_flash_attention_for_cpu_backward": _Places("auto", 6, 7),
}


@operator(*FORWARD)
def forward(call: Call, settings: Settings) -> list[OperatorCase]:
    return _part(call, FORWARD[call.name], 0, [])


@operator(*BACKWARD)
def backward(call: Call, settings: Settings) -> list[OperatorCase]:
    return _part(call, BACKWARD[call.name], 1, [call.tensor(0)])


def _part(call: Call, places: _Places, first: int, gradients: list[Operand]) -> list[OperatorCase]:
    q, k, v = (call.tensor(first + number) for number in range(3))
    batch, heads, queries, head_dim = q.shape
    scale = call.named.get("scale")
    has_bias = places.bias is not None and call.argument(places.bias) is not None
    has_bias = has_bias or call.named.get("attn_mask") is not None
    if call.argument(places.dropout, "dropout_p") or has_bias or q.dtype not in DTYPES:
        raise NotThere("dropout, a mask or another type")
    if scale is not None and not math.isclose(scale, head_dim**-0.5, rel_tol=1e-6):
        raise NotThere("a scale of its own")
    fields: dict[str, Any] = {"batch_size": batch, "heads": heads, "seq_len": queries, "head_dim": head_dim}
    fields |= {"kv_heads": k.shape[1], "kv_len": k.shape[2], "layout": _layout(q), "algo": places.algo}
    fields |= {"causal": call.argument(places.causal, "is_causal") is True, "dtype": q.dtype}
    fields["mode"] = "backward" if gradients else "forward"
    ordinary = {"kv_heads": heads, "kv_len": queries, "mode": "forward", "layout": "bshd", "algo": "auto"}
    return [OperatorCase(Attention.primitive, said(fields, causal=False, **ordinary), (q, k, v, *gradients))]


def _layout(q: Operand) -> str:
    """Heads side by side, as projections leave them, be it with keys and values between; or one behind the other."""
    if q.strides[3] == 1 and (q.strides[1] == q.shape[3] or q.shape[1] == 1):
        return "bshd"
    if q.strides == contiguous(q.shape):
        return "bhsd"
    raise NotThere("strides of its own")
