"""Operators of torch, as a step called them, and the rules by which they are cases of primitives.

A primitive has its rules in a file ``operators.py`` of its folder::

    @operator("mm", "addmm")
    def gemm(call: Call, settings: Settings) -> list[OperatorCase]: ...
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from primbench.problem.operands import Operand, operands, written

Phase = Literal["forward", "backward", "optimizer"]

_BARRIER = "c10d::monitored_barrier_"  # which returns once it is done, where other collectives return as they begin
_WAITS_FOR_RANKS = ("_c10d_functional::wait_tensor", "c10d_functional::wait_tensor", _BARRIER)
_NO_OPERATORS = (
    "autograd::",  # what evaluates a node, of which operators are a part
    "FSDP::",  # marks, as a script makes some
    *_WAITS_FOR_RANKS,
)
_COMPILED = "## Call CompiledFxGraph"  # launches kernels, which are no operators
_COLLECTIVES_ON_HOST = ("gloo:", "mpi:", _BARRIER)  # gloo's from when one of its threads takes it up
_COLLECTIVE_KERNEL = re.compile(
    r"(nccl|rccl|msccl)|(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all).*kernel", re.IGNORECASE
)
_WAIT_FOR_GPU = re.compile(r"(cuda|hip|cu)(Device|Stream|Event|Ctx)Synchronize")


def is_under_way(name: str) -> bool:
    """Whether what torch's profiler calls so is an operator, or a graph that torch has compiled, as a whole; autograd's
    nodes are not, nor what a script has marked, nor a wait for a collective.
    """
    return ("::" in name and not name.startswith(_NO_OPERATORS)) or name.startswith(_COMPILED)


def is_collective_kernel(name: str) -> bool:
    """Whether what torch's profiler calls so is a kernel by which ranks exchange something."""
    return _COLLECTIVE_KERNEL.search(name) is not None


def is_collective_on_host(name: str) -> bool:
    """Whether what torch's profiler calls so is ranks that exchange something by their CPUs: an operator in old traces,
    and an annotation today.
    """
    return name.startswith(_COLLECTIVES_ON_HOST)


def is_wait_for_ranks(name: str) -> bool:
    """Whether what torch's profiler calls so returns once a collective is done. It may be within an operator that is
    given a tensor which a collective makes.
    """
    return name.startswith(_WAITS_FOR_RANKS)


def is_wait_for_gpu(name: str) -> bool:
    """Whether what torch's profiler calls so is a call of the driver that returns once the GPU is done."""
    return _WAIT_FOR_GPU.match(name) is not None


def profiled_name(operator: str) -> str:
    """What torch's profiler calls one that torch.ops has as aten.addmm.default: aten::addmm."""
    return "::".join(operator.split(".")[:2])


class NotThere(Exception):
    """What is looked for in a call is not there, or is of another kind: it is no case of this primitive."""


class Touched(NamedTuple):
    """Memory that a call touches: storages by their addresses, and how many bytes of each."""

    given: Mapping[int, int] = MappingProxyType({})
    """Storages given to it, those that it writes in place among them."""
    made: Mapping[int, int] = MappingProxyType({})
    """Storages made by it."""
    of_tensors: tuple[int, ...] = ()
    """The storage of each tensor that it is given, in their order; 0 is none of those above."""


class Call(NamedTuple):
    """One operator of torch, as a step called it."""

    operator: str
    """Its name in torch.ops, as aten.addmm.default."""
    positional: list[Any]
    """Arguments by their places, as operands.py has them."""
    named: dict[str, Any]
    """Arguments by their names."""
    phase: Phase = "forward"
    """In which phase: backward is what autograd called, optimizer all from there to the next module, clipping and
    scaling included.
    """
    host_only: bool = False
    """Whether it is a view or an allocation."""
    touched: Touched | None = None
    """What memory it touches; None is not known, or nothing."""
    seconds: float | None = None
    """How long it took while it was recorded, of what another process may be unable to call; None was not timed."""
    group: int | None = None
    """How many processes exchange something in it; None of others, or where that is not known."""

    @property
    def name(self) -> str:
        """Without namespace and overload: addmm."""
        return self.operator.split(".")[1]

    @property
    def profiled_name(self) -> str:
        """As torch's profiler has it: aten::addmm."""
        return profiled_name(self.operator)

    @property
    def tensors(self) -> list[Operand]:
        """Those that it is given, in their order, each once."""
        return [*operands(self.positional), *operands(self.named)]

    def argument(self, number: int, name: str = "", default: Any = None) -> Any:
        """What was given there, or by name."""
        return self.positional[number] if number < len(self.positional) else self.named.get(name, default)

    def tensor(self, number: int, name: str = "", *, anywhere: bool = False) -> Operand:
        """Raises NotThere where there is no tensor in its place, or one on the host of a step on a GPU.

        anywhere: that may be there, too; a case of a primitive is on one device.
        """
        found = self.argument(number, name)
        if not isinstance(found, Operand) or (found.on_host and not anywhere):
            raise NotThere(f"{self.operator}: no tensor on the device as argument {number}")
        return found

    def key(self) -> tuple[str, ...]:
        """Equal for calls that cost the same. Of what is the host's work alone its name says enough."""
        if self.host_only:
            return self.operator, "", "", self.phase
        return self.operator, written(self.positional), written(self.named), self.phase, str(self.group or "")


class Settings(NamedTuple):
    """What a call depends on beside its arguments."""

    on_gpu: bool = False
    """Whether the step ran on a GPU."""
    tf32_gemm: bool = False
    """Whether float32 products are rounded to tf32."""
    tf32_conv: bool = False
    """Whether float32 convolutions are rounded to tf32."""
    cudnn_benchmark: bool = False
    """Whether cuDNN tries its algorithms for convolutions."""
    ranks: int = 1
    """Processes of the job."""

    def expect_all(self, group: int | None) -> None:
        """Raises NotThere where an operator is among some processes of the job alone. group: as Call has it."""
        if group not in (None, self.ranks):
            raise NotThere(f"a group of {group} of {self.ranks} processes")


class OperatorCase(NamedTuple):
    """A case of a primitive. Fields at their defaults are left out."""

    primitive: str
    fields: dict[str, Any]
    inputs: tuple[Operand, ...] = ()
    """The tensors of the call that are its inputs, in their order, as the call has them; () is not known."""


Rule = Callable[[Call, Settings], list[OperatorCase]]
"""The cases that a call is, the first of which stands for it. Raises NotThere where it is none of the primitive."""

ANY = "*"
"""The name in the rule for operators that are no case of another primitive: they are called again as they were."""

OPERATORS: dict[str, Rule] = {}  # by their names; primbench.registry imports the files that fill it


def operator(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for operators of these names, without namespace and overload."""

    def register(rule: Rule) -> Rule:
        for name in names:
            there = OPERATORS.get(name)
            if there is not None and there.__module__ != rule.__module__:
                raise TypeError(f"operator {name} has rules in {there.__module__} and {rule.__module__}")
            OPERATORS[name] = rule
        return rule

    return register


def said(fields: dict[str, Any], **defaults: Any) -> dict[str, Any]:
    """The fields without those that say what is the case anyway."""
    return {name: value for name, value in fields.items() if name not in defaults or value != defaults[name]}


def again(call: Call) -> OperatorCase:
    """The call as it was. Raises NotThere where no primitive calls any operator."""
    if ANY not in OPERATORS:
        raise NotThere("no primitive calls any operator as it was")
    return OPERATORS[ANY](call, Settings())[0]
