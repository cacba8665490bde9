"""Which operators of torch are normalisations."""

from __future__ import annotations

import math
from typing import Any

from primbench.kernels.norm.problem import Norm
from primbench.problem.operands import Operand, contiguous
from primbench.problem.operators import Call, NotThere, OperatorCase, Settings, operator, said

DTYPES = ("float32", "float16", "bfloat16")
KINDS = {"native_layer_norm": "layer", "_fused_rms_norm": "rms"}


@operator("native_layer_norm", "_fused_rms_norm")
def of_rows(call: Call, settings: Settings) -> list[OperatorCase]:
    kind = KINDS[call.name]
    return _of_rows(call.tensor(0), call.argument(1), kind, [call.argument(2), call.argument(3)], [])


@operator("native_layer_norm_backward", "_fused_rms_norm_backward")
def gradients_of_rows(call: Call, settings: Settings) -> list[OperatorCase]:
    kind = KINDS[call.name.removesuffix("_backward")]
    if not all(call.positional[-1]):
        raise NotThere("not all gradients are asked for")
    weights = [call.argument(5), call.argument(6)] if kind == "layer" else [call.argument(4)]
    return _of_rows(call.tensor(1), call.argument(2), kind, weights, [call.tensor(0)])


def _of_rows(
    x: Operand, shape: list[int], kind: str, weights: list[Any], gradients: list[Operand]
) -> list[OperatorCase]:
    features = math.prod(shape)
    vectors = weights[: 1 if kind == "rms" else 2]
    if x.strides != contiguous(x.shape) or not all(isinstance(e, Operand) and e.dtype == x.dtype for e in vectors):
        raise NotThere("with gaps, or weights that are left away or of another type")
    fields = {"rows": x.elements // features, "features": features, "kind": kind, "dtype": x.dtype}
    fields["direction"] = "backward" if gradients else "forward"
    return [OperatorCase(Norm.primitive, said(fields, direction="forward"), (x, *vectors, *gradients))]


@operator("native_batch_norm", "cudnn_batch_norm", "_native_batch_norm_legit")
def of_batch(call: Call, settings: Settings) -> list[OperatorCase]:
    return _of_batch(call.tensor(0), call.tensor(1), "forward", is_training=call.argument(5) is True)


@operator("native_batch_norm_backward")
def gradients_of_batch(call: Call, settings: Settings) -> list[OperatorCase]:
    return _of_batch(call.tensor(1), call.tensor(2), "backward", is_training=call.argument(7) is True)


@operator("cudnn_batch_norm_backward")
def cudnn_gradients_of_batch(call: Call, settings: Settings) -> list[OperatorCase]:
    """Of cuDNN's, which is for training alone."""
    return _of_batch(call.tensor(0), call.tensor(2), "backward", is_training=True)


def _of_batch(x: Operand, weight: Operand, direction: str, *, is_training: bool) -> list[OperatorCase]:
    n, c, *area = x.shape
    h, w = (math.prod(area[:-1]), area[-1]) if area else (1, 1)
    if x.strides == contiguous(x.shape):
        layout = "nchw"
    elif len(area) == 2 and x.strides == (h * w * c, 1, w * c, c):
        layout = "nhwc"
    else:
        raise NotThere("images with strides of their own")
    if weight.dtype != "float32" or x.dtype not in DTYPES:
        raise NotThere("weights of another type")
    fields = {"rows": n, "features": c, "h": h, "w": w, "kind": "batch", "direction": direction}
    fields |= {"running_statistics": not is_training, "layout": layout, "dtype": x.dtype}
    return [
        OperatorCase(
            Norm.primitive, said(fields, h=1, w=1, direction="forward", running_statistics=False, layout="nchw")
        )
    ]
