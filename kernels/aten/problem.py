"""Any operator of torch: its name, its arguments, inputs, and the same operator in float64 as the reference."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from primbench.errors import InvalidField
from primbench.kernels.aten._call import Called, memory
from primbench.problem import Problem, Reference, option
from primbench.problem.operands import ones, operands, read

if TYPE_CHECKING:
    import numpy as np

    from primbench.problem import Array

DTYPE = re.compile(r'"dtype": *"(\w+)"')
NAME = re.compile(r"\w+\.\w+\.\w+")
# Of the largest element of an output: sums are long and cancel, and 16-bit types are rounded on the way, too.
TOLERANCE = {"float64": 1e-8, "complex128": 1e-8, "float32": 1e-3, "complex64": 1e-3, "tf32": 3e-2, "float16": 3e-2,
             "bfloat16": 1e-1, "float8_e4m3fn": 0.5, "float8_e5m2": 0.5}  # fmt: skip
DIVISIONS = ("aten.div_.", "aten._foreach_div_.")  # how names of operators begin that divide in place
MOST_CHECKED = 2**22  # elements of all tensors, for which float64 on a CPU takes well below a second


@dataclass(frozen=True)
class Aten(Problem, name="aten"):
    """Any one operator of torch, called again as a step called it: what no primitive of its own stands for.

    ``primbench capture`` writes such cases. The operator is called with the same arguments on tensors of the same
    shapes, strides and types. Whole numbers are the same, or as many different ones of the same range: what an
    embedding costs depends on them. Numbers with a fraction are random, and not below zero where none was. What is
    divided in place by a number is divided by 1.

    An operator generated.NAME.DIGEST is a kernel that torch.compile has generated: its text is in a file of --kernels.

    A view or an allocation (host_only) starts nothing on a GPU: what it takes is the host's time.
    """

    operator: str = option("", "its name in torch.ops, such as aten.add.Tensor")
    arguments: str = option("[]", "in JSON, tensors as strings: see primbench/problem/operands.py")
    keywords: str = option("{}", "arguments by name, likewise")
    math_mode: str = option("ieee", "of float32 products and convolutions on a GPU", ("ieee", "tf32"))
    cudnn_benchmark: bool = option(False, "have cuDNN try its algorithms, and take the fastest")
    host_only: bool = option(False, "a view or an allocation, of which the host's time alone counts")

    cpu_backend = "torch"
    before = MappingProxyType({"cudnn_benchmark": lambda device: device.is_gpu})  # cuDNN always tried its algorithms
    example_sizes = ((),)
    example_fields = MappingProxyType(
        {
            "operator": "aten.add.Tensor",
            "arguments": '["float32[16,8]", "float32[16,8]@1,16"]',
            "keywords": '{"alpha": 2}',
        }
    )

    def settle(self) -> None:
        if not NAME.fullmatch(self.operator):
            raise InvalidField(f"aten operator={self.operator!r}: its name in torch.ops, such as aten.add.Tensor")
        read(self.arguments, list)
        read(self.keywords, dict)

    @functools.cached_property
    def called(self) -> Called:
        """What is divided in place is divided by 1: over and over by another number it would become infinite, of which
        a division takes twice as long, on a GPU, too.
        """
        positional, named = read(self.arguments, list), read(self.keywords, dict)
        if self.operator.startswith(DIVISIONS):
            positional, named = ones(positional), {name: ones(each) for name, each in named.items()}
        return Called(self.operator, positional, named, [*operands(positional), *operands(named)])

    @property
    def is_checkable(self) -> bool:
        """Whether float64 on a CPU would not take long."""
        return self.elements <= MOST_CHECKED

    @property
    def elements(self) -> int:
        return sum(each.elements for each in self.called.operands)

    def bytes_moved(self) -> None:
        """What it writes torch alone knows."""

    def memory_bytes(self) -> int:
        """Its tensors, and as much again for what it writes."""
        return 2 * sum(each.extent_bytes for each in self.called.operands)

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """What lies in memory of each tensor, [extent]; of large ones the first 262139 elements, which repeat there."""
        return tuple(each.array(rng) for each in self.called.operands)

    def laid_out(self, number: int, array: Any) -> Any:
        """[extent], as ``inputs`` says."""
        return memory(self.called.operands[number], array)

    def why_unverifiable(self) -> str | None:
        """Tries it, since a CPU has not every operator, and not every one in float64."""
        if self.host_only:
            return "a view or an allocation computes nothing"
        if not self.is_checkable:
            return f"in float64 on a CPU it would take long: {self.elements} elements, {MOST_CHECKED} are checked"
        from primbench.kernels.aten._reference import why_not

        return why_not(self.called)

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference:
        """float64[elements of all outputs]: the same operator on the CPU, whole numbers as they are.

        The scale is the largest element of each output.
        """
        from primbench.kernels.aten._reference import reference

        return reference(self.called, inputs)

    def tolerance(self) -> float:
        """That of the coarsest type among its tensors, and those that it is asked to make."""
        named = DTYPE.findall(self.arguments + self.keywords)
        types = [self.math_mode, *named, *(each.dtype for each in self.called.operands)]
        return max(TOLERANCE.get(each, 0.0) for each in types)
