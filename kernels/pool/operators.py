"""Which operators of torch are pooling of images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.kernels.pool.problem import Pool
from primbench.problem.operands import contiguous
from primbench.problem.operators import Call, NotThere, OperatorCase, Settings, operator, said

if TYPE_CHECKING:
    from primbench.problem.operands import Operand


@operator("max_pool2d_with_indices")
def largest(call: Call, settings: Settings) -> list[OperatorCase]:
    if call.argument(4) not in (None, [1, 1], [1]) or call.argument(5):
        raise NotThere("dilated, or rounded up")
    return _part(call.tensor(0), [call.argument(each) for each in (1, 2, 3)], "max", [])


@operator("max_pool2d_with_indices_backward")
def gradient_of_largest(call: Call, settings: Settings) -> list[OperatorCase]:
    if call.argument(5) not in ([1, 1], [1]) or call.argument(6):
        raise NotThere("dilated, or rounded up")
    return _part(call.tensor(1), call.positional[2:5], "max", [call.tensor(0)])


@operator("avg_pool2d")
def mean(call: Call, settings: Settings) -> list[OperatorCase]:
    if call.argument(4) or call.argument(5) is False or call.argument(6):
        raise NotThere("rounded up, or over what is inside of the image")
    return _part(call.tensor(0), [call.argument(each) for each in (1, 2, 3)], "average", [])


@operator("avg_pool2d_backward")
def gradient_of_mean(call: Call, settings: Settings) -> list[OperatorCase]:
    if call.argument(5) or not call.argument(6) or call.argument(7):
        raise NotThere("rounded up, or over what is inside of the image")
    return _part(call.tensor(1), call.positional[2:5], "average", [call.tensor(0)])


def _part(x: Operand, geometry: list[Any], kind: str, gradients: list[Operand]) -> list[OperatorCase]:
    n, c, h, w = x.shape
    (r, s), stride, pad = (_two(each, 0) for each in geometry)
    if x.strides == contiguous(x.shape):
        layout = "nchw"
    elif x.strides == (h * w * c, 1, w * c, c):
        layout = "nhwc"
    else:
        raise NotThere("images with strides of their own")
    fields: dict[str, Any] = {"n": n, "c": c, "h": h, "w": w, "r": r, "s": s, "pad_h": pad[0], "pad_w": pad[1]}
    fields |= {"stride_h": stride[0], "stride_w": stride[1], "kind": kind, "layout": layout, "dtype": x.dtype}
    fields["direction"] = "backward" if gradients else "forward"
    ordinary = {"pad_h": 0, "pad_w": 0, "stride_h": 0, "stride_w": 0, "kind": "max", "layout": "nchw"}
    return [OperatorCase(Pool.primitive, said(fields, direction="forward", **ordinary), (x, *gradients))]


def _two(numbers: list[int] | None, missing: int) -> tuple[int, int]:
    return (numbers[0], numbers[-1]) if numbers else (missing, missing)
