"""A call of an operator of torch, described so that it can be made again without what it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.problem.generated import GENERATED
from primbench.problem.operands import DTYPES, WHOLE, Operand, contiguous
from primbench.problem.operators import Call, Phase

if TYPE_CHECKING:
    from collections.abc import Iterator

FEW = 128  # whole numbers that are kept one by one, as where groups of tokens begin
ALLOCATIONS = (
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted", "_unsafe_view",
    "_reshape_alias", "detach", "lift_fresh", "alias", "set", "resize", "is_pinned", "record_stream",
)  # fmt: skip
DEVICES = ("cpu", "cuda")
_COLLECTIVES = ("c10d", "_c10d_functional")
OF_GROUPS = ("_c10d_functional.", "symm_mem.")
"""Namespaces whose operators are given a group of processes by its name, which another process has not."""
HIGHER_ORDER = "higher_order"
"""Namespace of operators that are given functions, such as flex_attention, cond and scan."""
OF_TORCH = ("aten.", f"{GENERATED}.")
"""Namespaces of which any process has all operators."""


def foreign(call: Call) -> str:
    """Why no other process can make the call; "" where nothing is known to keep it from that."""
    if call.operator.startswith(f"{HIGHER_ORDER}."):
        return "it is given functions of the script"
    if call.group is not None:
        return f"it needs the script's own group of {call.group} rank{'s' * (call.group != 1)}"
    for kind in _objects([*call.positional, *call.named.values()]):
        return f"an argument is a {kind}"
    is_of_group = call.operator.startswith(OF_GROUPS) and '{"str"' in call.key()[1]
    return "an argument names a group of processes" if is_of_group else ""


def _objects(tree: Any) -> Iterator[str]:
    """What belongs to a process and is no tensor or number, such as a group of processes."""
    if isinstance(tree, list):
        for each in tree:
            yield from _objects(each)
    elif isinstance(tree, dict) and "object" in tree:
        yield tree["object"]


def is_of_torch(call: Call) -> bool:
    """Whether any process with torch can make the call."""
    return call.operator.startswith(OF_TORCH) and not foreign(call)


def described(func: Any, args: Any, kwargs: Any, phase: Phase) -> Call:
    tensors: list[Any] = []
    positional = [tree(each, tensors) for each in args]
    named = {name: tree(each, tensors) for name, each in kwargs.items()}
    if func.namespace == HIGHER_ORDER:
        return Call(f"{HIGHER_ORDER}.{func.name()}.default", positional, named, phase)
    func = _out_of_place(func)
    operator = f"{func.namespace}.{func._schema.name.partition('::')[2]}.{func._overloadname}"  # noqa: SLF001
    group = _group(func, args, kwargs) if func.namespace in _COLLECTIVES else None
    return Call(operator, positional, named, phase, _is_host_only(func, tensors), group=group)


def _group(func: Any, args: Any, kwargs: Any) -> int | None:
    """How many processes are in the group that an operator is given, or the name of."""
    from torch import ScriptObject, distributed

    names = [each.name for each in func._schema.arguments]  # noqa: SLF001
    given = dict(zip(names, args, strict=False)) | kwargs
    group, name = given.get("process_group"), given.get("group_name")
    try:
        if isinstance(group, ScriptObject):
            return int(distributed.ProcessGroup.unbox(group).size())
        if isinstance(name, str):
            return int(distributed.distributed_c10d._resolve_process_group(name).size())  # noqa: SLF001
    except (AttributeError, RuntimeError):  # of another torch, or of a group that is gone
        return None
    return None


def _out_of_place(func: Any) -> Any:
    """A view in place, such as squeeze_, would find another shape when it is called again: the view that it makes."""
    import torch

    if torch.Tag.inplace_view not in func.tags:
        return func
    name = func._schema.name.partition("::")[2].removesuffix("_")  # noqa: SLF001
    views = getattr(torch.ops.aten, name, None)
    only = views.overloads()[0] if views and len(views.overloads()) == 1 else ""  # transpose_ is transpose.int
    return getattr(views, only or func._overloadname, func)  # noqa: SLF001


def _is_host_only(func: Any, tensors: list[Any]) -> bool:
    """A view, as its schema says; an allocation; or what is given nothing and gives nothing."""
    schema = func._schema  # noqa: SLF001
    if schema.name.partition("::")[2].removesuffix("_") in ALLOCATIONS:
        return True
    if tensors and not any(each.numel() for each in tensors):
        return True
    aliases = [each.alias_info for each in schema.returns]
    return bool(aliases) and all(each is not None and not each.is_write for each in aliases)


def tree(value: Any, tensors: list[Any]) -> Any:
    """The argument as text would have it. tensors: those that came before, to which it is added."""
    import torch

    if isinstance(value, torch.Tensor):
        return _tensor(value, tensors)
    if isinstance(value, list | tuple):
        return [tree(each, tensors) for each in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, torch.Generator):
        return None  # torch's own, which draws as quickly
    if isinstance(value, int | torch.SymInt):
        return int(value)
    if isinstance(value, float | torch.SymFloat):
        found = float(value)
        return found if abs(found) < float("inf") else {"float": str(found)}
    return _object(value)


def _object(value: Any) -> dict[str, Any]:
    import torch

    if isinstance(value, str):
        return {"str": value}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, torch.device):
        return {"device": "cpu" if value.type == "cpu" and torch.cuda.is_initialized() else "here"}
    for kind, key in ((torch.dtype, "dtype"), (torch.layout, "layout"), (torch.memory_format, "memory_format")):
        if isinstance(value, kind):
            return {key: str(value).removeprefix("torch.")}
    return {"object": type(value).__name__}


def _tensor(tensor: Any, tensors: list[Any]) -> Any:
    import torch

    for number, each in enumerate(tensors):
        if each is tensor:
            return {"same": number}
    dtype = str(tensor.dtype).removeprefix("torch.")
    if tensor.is_nested or tensor.layout != torch.strided or dtype not in DTYPES or tensor.device.type not in DEVICES:
        kind = "nested" if tensor.is_nested else str(tensor.layout)
        return {"object": f"{kind} tensor of {dtype} on {tensor.device.type}"}
    tensors.append(tensor)
    shape, strides = tuple(map(int, tensor.shape)), tuple(map(int, tensor.stride()))
    on_host = tensor.device.type == "cpu" and torch.cuda.is_initialized()
    if tensor.is_contiguous():  # an axis of one element has whatever stride
        strides = contiguous(shape)
    with torch.no_grad():
        return Operand(dtype, shape, strides, _values(tensor, dtype), on_host)


def _values(tensor: Any, dtype: str) -> str:
    if not tensor.numel():
        return ""
    try:
        if dtype == "bool":
            return f":{int(tensor.count_nonzero()) / tensor.numel():.12g}"
        if dtype in WHOLE:
            return _whole_numbers(tensor)
        return "+" if bool(tensor.min() >= 0) else ""
    except RuntimeError:  # of which torch has no minimum, such as 8-bit floats
        return ""


def _whole_numbers(tensor: Any) -> str:
    if tensor.numel() <= FEW:
        return "=" + ",".join(str(each) for each in tensor.reshape(-1).tolist())
    flat = tensor.reshape(-1)
    ascending = tensor.is_contiguous() and bool((flat[:-1] <= flat[1:]).all())
    return f":{int(flat.min())}..{int(flat.max())}~{flat.unique().numel()}{'<' * ascending}"
