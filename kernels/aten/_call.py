"""An operator with its arguments, ready to be called on a device, and what a call leaves behind."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.errors import UnsupportedCase
from primbench.kernels.aten._generated import kernel_of
from primbench.kernels.aten._quick import quickest
from primbench.problem import operands
from primbench.problem.generated import GENERATED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.problem import Array
    from primbench.problem.operands import Operand

OF_TORCH = ("dtype", "layout", "memory_format", "device")
OF_FILES, SEED = re.compile("file|path"), re.compile("seed|philox|rng")  # in the name of an argument
DEFINED_IN = {
    "_c10d_functional": "torch.distributed._functional_collectives", "fsdp": "torch.distributed.fsdp",
    "quantized_decomposed": "torch.ao.quantization.fx._decomposed", "torchaudio": "torchaudio",
    "torchvision": "torchvision",
}  # fmt: skip
"""Modules that define operators once they are imported, by the namespace of these."""
RESERVED = "uint8"  # what libraries keep between passes, of no known content
LONG = 2**20  # elements of all tensors, beside which the way to the operator takes nothing
NAN, INFINITE = 1e300, 1e301  # numbers that they are compared as


class Called(NamedTuple):
    """What is called: the operator's name, its arguments, and its tensors in their order."""

    operator: str
    positional: list[Any]
    named: dict[str, Any]
    operands: list[Operand]


class Call:
    """Calls return this object, which has the outputs of the last one. flat: memory of each tensor on the device.

    is_wide: whether floats are float64, whatever the arguments say. is_undone: whether inputs that it changes can be
    had back.
    """

    def __init__(
        self, called: Called, device: str, flat: Sequence[Any], *, is_wide: bool = False, is_undone: bool = False
    ) -> None:
        """Raises UnsupportedCase where torch has no such operator, or an argument is none that can be made."""
        self._device, self._is_wide = device, is_wide
        self._operator = operator_of(called.operator)
        tensors = [each.as_strided(one.shape, one.strides) for each, one in zip(flat, called.operands, strict=True)]
        self._tensors, waiting = tensors, iter(tensors)
        put = (lambda _: next(waiting), lambda key, value: self._object(tensors, key, value))
        self._arguments = operands.replaced(called.positional, *put)
        self._keywords = {name: operands.replaced(each, *put) for name, each in called.named.items()}
        is_short = sum(one.elements for one in called.operands) <= LONG
        self._initial = [(each, each.clone()) for each in self.changed()] if is_undone or is_short else []
        self._function = quickest(self._operator, self._arguments, self._keywords) if is_short else self._operator
        self.poison()
        self._initial = self._initial if is_undone else []
        self._results: Any = None

    def _object(self, tensors: Sequence[Any], key: str, value: Any) -> Any:
        if key == "same":
            return tensors[value]
        if key == "object":
            raise UnsupportedCase(f"an argument is a {value}, which belongs to its own process")
        if key in OF_TORCH:
            return self._of_torch(key, value)
        return complex(*value) if key == "complex" else float(value) if key == "float" else value

    def _of_torch(self, key: str, value: str) -> Any:
        import torch

        if key == "device":
            return torch.device(self._device if value == "here" else value)
        is_widened = key == "dtype" and self._is_wide and value in operands.FLOATS
        return torch.float64 if is_widened else getattr(torch, value)

    def __call__(self) -> Any:
        self._results = self._function(*self._arguments, **self._keywords)
        return self

    def touched_bytes(self) -> int:
        """Of its tensors and of what the last call returned."""
        found = [*self._tensors, *_tensors(self._results)]
        dense = [each for each in found if str(each.layout) == "torch.strided"]
        return sum({each.data_ptr(): min(each.nbytes, each.untyped_storage().nbytes()) for each in dense}.values())

    def poison(self) -> None:
        """Inputs that it has changed are as they were, in shape, too; the outputs are new ones at every call."""
        for each, initial in self._initial:
            if each.shape != initial.shape:  # as by transpose_()
                each.as_strided_(initial.shape, initial.stride())
            each.copy_(initial)

    def get(self) -> Array:
        """float64[elements of all outputs]."""
        import numpy as np

        return np.concatenate([np.zeros(0), *(each.reshape(-1) for each in self.outputs())])

    def outputs(self) -> list[Array]:
        """Each in float64: what it returns, and the inputs it has changed.

        Of floats and whole numbers the floats alone: where two are equal, either may be taken, and what else there is,
        such as which bag a row is of, an implementation may leave out.
        """
        import numpy as np
        import torch

        found = [*_tensors(self._results), *self.changed()]
        found = [each for each in found if each.is_floating_point()] or found
        wide = [
            each.detach().to("cpu", torch.float64).numpy()
            for each in found
            if each.numel() and str(each.dtype) != f"torch.{RESERVED}" and not each.is_complex()
        ]
        return [np.nan_to_num(each, nan=NAN, posinf=INFINITE, neginf=-INFINITE) for each in wide]

    def changed(self) -> list[Any]:
        """Inputs that a call writes to."""
        given = self._given()
        return [each for one, value in given if one.alias_info and one.alias_info.is_write for each in _tensors(value)]

    def has_seed_on_host(self) -> bool:
        """Whether it is given a random seed that lies there: while a graph is captured, torch takes all for the GPU's,
        whose kernels then read memory that is none of it.
        """
        return any(SEED.search(one.name) and each.is_cpu for one, value in self._given() for each in _tensors(value))

    def _given(self) -> Iterator[tuple[Any, Any]]:
        """Each argument by the operator's schema, and what it is."""
        schema = self._operator._schema.arguments  # noqa: SLF001
        return itertools.chain(
            zip(schema, self._arguments, strict=False),
            ((one, self._keywords[one.name]) for one in schema if one.name in self._keywords),
        )


def _tensors(found: Any) -> list[Any]:
    import torch

    if isinstance(found, torch.Tensor):
        return [found]
    return [each for one in found for each in _tensors(one)] if isinstance(found, list | tuple) else []


def operator_of(name: str) -> Any:
    """Raises UnsupportedCase where this torch has none of this name, or it opens a file, which a suite may not name."""
    import torch

    namespace, packet, overload = name.split(".")
    if namespace == GENERATED:
        return kernel_of(packet, overload)
    if namespace in DEFINED_IN:
        with contextlib.suppress(ImportError, OSError, RuntimeError):  # then the operator is not there
            importlib.import_module(DEFINED_IN[namespace])
    try:
        found = getattr(getattr(getattr(torch.ops, namespace), packet), overload)
        arguments = found._schema.arguments  # noqa: SLF001 - nothing public tells
    except (AttributeError, RuntimeError):
        whose = "" if namespace == "aten" else ": it is of the script itself, or of a library that is not imported here"
        raise UnsupportedCase(f"torch {torch.__version__} has no operator {name}{whose}") from None
    if any(str(each.type) == "str" and OF_FILES.search(each.name) for each in arguments):
        raise UnsupportedCase(f"{name} opens a file, which a suite may not have done")
    return found


def memory(operand: Operand, pool: Any) -> Any:
    """[extent] on the device of the pool, which repeats there: to bring all of it from the host takes longer."""
    if pool.numel() == operand.extent:
        return pool
    return pool.repeat(-(-operand.extent // pool.numel()))[: operand.extent]


def wide(operand: Operand, array: Array) -> Any:
    """The memory of a tensor on the CPU, floats in float64."""
    import numpy as np
    import torch

    if operand.dtype in operands.FLOATS:
        array = array.astype(np.float64)
    elif operand.dtype == "complex64":
        array = array.astype(np.complex128)
    return memory(operand, torch.from_numpy(array.copy()))
