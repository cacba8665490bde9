"""Which operators of torch are convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.kernels.conv.problem import Conv
from primbench.problem.operands import Operand, contiguous
from primbench.problem.operators import Call, NotThere, OperatorCase, Settings, again, operator, said

if TYPE_CHECKING:
    from collections.abc import Sequence

DTYPES = ("float32", "float16", "bfloat16")


@operator("convolution")
def conv(call: Call, settings: Settings) -> list[OperatorCase]:
    """A bias is added by a kernel of its own on a GPU; oneDNN on a CPU adds it as it writes."""
    x, w, bias = call.tensor(0), call.tensor(1), call.argument(2)
    fields = _conv_fields(x, w, call.positional[3:9], settings)
    found = [OperatorCase(Conv.primitive, fields | {"direction": "forward"}, (x, w))]
    if isinstance(bias, Operand) and settings.on_gpu:
        y = _response(x, w, call.positional[3:6])
        if fields.get("layout") == "nhwc":
            y = y._replace(strides=_channels_last(y.shape))
        column = Operand(bias.dtype, (1, bias.shape[0], 1, 1), (bias.shape[0], 1, 1, 1))
        found.append(again(Call("aten.add_.Tensor", [y, column], {})))
    return found


@operator("convolution_backward")
def conv_backward(call: Call, settings: Settings) -> list[OperatorCase]:
    dy, x, w = call.tensor(0), call.tensor(1), call.tensor(2)
    fields = _conv_fields(x, w, call.positional[4:10], settings)
    expected = _channels_last(dy.shape) if fields.get("layout") == "nhwc" else contiguous(dy.shape)
    if dy.strides != expected:
        raise NotThere("a gradient with strides of its own")
    mask = call.argument(10)
    gradients = {"bwd_data": (dy, w), "bwd_weights": (dy, x)}
    found = [
        OperatorCase(Conv.primitive, fields | {"direction": direction}, inputs)
        for (direction, inputs), is_wanted in zip(gradients.items(), mask[:2], strict=True)
        if is_wanted
    ]
    sums = [again(Call("aten.sum.dim_IntList", [dy, [0, 2, 3]], {}))] if mask[2] and settings.on_gpu else []
    return [*found, *sums]


def _conv_fields(x: Operand, w: Operand, geometry: Sequence[Any], settings: Settings) -> dict[str, Any]:
    stride, padding, dilation, is_transposed, _, groups = geometry
    if len(x.shape) != 4 or is_transposed or x.dtype not in DTYPES or w.dtype != x.dtype:
        raise NotThere("no plain convolution of images")
    n, c, h, width = x.shape
    fields: dict[str, Any] = {"n": n, "c": c, "h": h, "w": width, "k": w.shape[0], "r": w.shape[2], "s": w.shape[3]}
    for name, (along_h, along_w) in (("pad", _two(padding)), ("stride", _two(stride)), ("dilation", _two(dilation))):
        fields |= {f"{name}_h": along_h, f"{name}_w": along_w}
    fields |= {"groups": groups, "dtype": x.dtype, "layout": _layout(x, w), "math_mode": "ieee"}
    if settings.tf32_conv and x.dtype == "float32":
        fields["math_mode"] = "tf32"
    fields["algo"] = "heuristic" if settings.on_gpu and not settings.cudnn_benchmark else "auto"
    plain = dict.fromkeys(("stride_h", "stride_w", "dilation_h", "dilation_w", "groups"), 1)
    return said(fields, pad_h=0, pad_w=0, layout="nchw", math_mode="ieee", algo="auto", **plain)


def _two(numbers: Sequence[int]) -> tuple[int, int]:
    return numbers[0], numbers[-1]


def _channels_last(shape: tuple[int, ...]) -> tuple[int, ...]:
    _, c, h, w = shape
    return (h * w * c, 1, w * c, c)


def _layout(x: Operand, w: Operand) -> str:
    if x.strides == contiguous(x.shape) and w.strides == contiguous(w.shape):
        return "nchw"
    if x.strides == _channels_last(x.shape):
        return "nhwc"  # torch brings the weights into the order of the images
    raise NotThere("images with strides of their own")


def _response(x: Operand, w: Operand, geometry: Sequence[Any]) -> Operand:
    stride, padding, dilation = map(_two, geometry)
    sides = [
        (x.shape[axis + 2] + 2 * padding[axis] - dilation[axis] * (w.shape[axis + 2] - 1) - 1) // stride[axis] + 1
        for axis in (0, 1)
    ]
    shape = (x.shape[0], w.shape[0], *sides)
    return Operand(x.dtype, shape, contiguous(shape))
