"""Which operators of torch are copies, byte for byte."""

from __future__ import annotations

from primbench.kernels.memcpy.problem import Memcpy
from primbench.problem.operands import Operand, contiguous, numpy_dtype
from primbench.problem.operators import Call, NotThere, OperatorCase, Settings, operator


@operator("copy_", "clone", "_to_copy")
def copy(call: Call, settings: Settings) -> list[OperatorCase]:
    """Copies of whole memory: between host and GPU, or within either."""
    if call.name == "copy_":
        target, source = (call.tensor(number, anywhere=True) for number in range(2))
    else:
        source = call.tensor(0, anywhere=True)
        target = _copied(call, source, settings)
    is_plain = all(each.strides == contiguous(each.shape) for each in (source, target))
    if not is_plain or target.dtype != source.dtype or target.shape != source.shape:
        raise NotThere("not byte for byte")
    copied = {"bytes": source.elements * numpy_dtype(source.dtype).itemsize}
    return [OperatorCase(Memcpy.primitive, copied | _way(call, source, target, settings))]


def _way(call: Call, source: Operand, target: Operand, settings: Settings) -> dict[str, str]:
    if source.on_host == target.on_host:
        return {"direction": "d2d" if settings.on_gpu and not source.on_host else "h2h"}
    is_async = call.argument(2, "non_blocking", False) is True  # noqa: FBT003 - as torch has it
    return {"direction": "h2d" if source.on_host else "d2h", "memory": "pinned" if is_async else "pageable"}


def _copied(call: Call, source: Operand, settings: Settings) -> Operand:
    """What clone and _to_copy make of it. Raises NotThere where that is another order in memory."""
    dtype, device = call.named.get("dtype"), call.named.get("device")
    order = call.named.get("memory_format") or {"memory_format": "preserve_format"}
    if order["memory_format"] not in ("preserve_format", "contiguous_format"):
        raise NotThere(f"into {order['memory_format']}")
    found = source._replace(dtype=dtype["dtype"]) if dtype else source
    return found._replace(on_host=settings.on_gpu and device["device"] == "cpu") if device else found


@operator("_local_scalar_dense")
def scalar(call: Call, settings: Settings) -> list[OperatorCase]:
    """The host waits for one number of a tensor."""
    source = call.tensor(0, anywhere=True)
    if not settings.on_gpu or source.on_host:
        raise NotThere("a number that the host has")
    fields = {"bytes": numpy_dtype(source.dtype).itemsize, "direction": "d2h", "memory": "pageable"}
    return [OperatorCase(Memcpy.primitive, fields)]
