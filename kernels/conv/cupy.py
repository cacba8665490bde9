"""Convolution on CuPy arrays: by cuDNN, or by primbench's own kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from collections.abc import Hashable

    from primbench.cuda import cudnn_graph
    from primbench.kernels.conv.problem import Conv

MAX_WORKSPACE_BYTES = 4 * 2**30


@dataclass(frozen=True, eq=False)
class Choice:
    """The plan for a problem and its workspace, which all calls share: they follow one another on one stream."""

    plan: cudnn_graph.EnginePlan
    workspace: Any

    def algorithm(self) -> str:
        """The plan in words, such as "cuDNN eng62 k2=7 k13=1 (tensor cores), workspace 9.3 MiB"."""
        from primbench.units import format_bytes

        notes = f" ({', '.join(self.plan.notes)})" if self.plan.notes else ""
        return f"cuDNN {self.plan.name}{notes}, workspace {format_bytes(self.plan.workspace_bytes)}"


# Many sets of inputs of one problem, a cold cache's, share one search; a choice lasts as long as the steps that use it.
_CHOICES: WeakValueDictionary[Hashable, Choice] = WeakValueDictionary()


@kernel("conv", "cupy")
def cupy_conv(backend: Any, problem: Conv, first: Any, second: Any) -> Step:
    """cuDNN called directly, with the fastest of the plans that it proposes, or implicit_gemm.cu.

    The step's ``algorithm`` is the engine, what it does to numbers ("sums in any order" where two calls
    may differ in the last bits), and its workspace.
    """
    from primbench.cuda import cudnn

    if problem.algo == "implicit_gemm":
        from primbench.kernels.conv import _implicit_gemm

        return _implicit_gemm.implicit_gemm(backend, problem, first, second)
    output = backend.empty(problem.output_shape, problem.out_dtype)
    operands = problem.roles(first, second, output)
    choice = _choose(backend, problem, operands)
    call = _bound(backend, choice.plan, operands, choice.workspace)
    function, arguments, kept = call.function, call.arguments, (output, operands, choice, call)

    def step() -> Any:
        if status := function(*arguments):
            raise cudnn.failure(status, "cudnnBackendExecute")
        return kept[0]  # through the tuple: the arguments are addresses only, and the step must keep all of it alive

    return described(step, algorithm=choice.algorithm())


def _choose(backend: Any, problem: Conv, operands: tuple[Any, Any, Any]) -> Choice:
    from primbench.cuda import cudnn, cudnn_conv
    from primbench.gpu.nvidia import driver

    key = (problem, backend.device, backend.stream_handle)
    choice = _CHOICES.get(key)
    if choice is None:
        limit_bytes = problem.workspace_bytes or min(MAX_WORKSPACE_BYTES, driver.free_memory_bytes())
        found = cudnn_conv.plans(problem, cudnn.handle(backend.stream_handle, backend.device), limit_bytes)
        best = cudnn_conv.first if problem.algo == "heuristic" else cudnn_conv.fastest
        workspace = backend.empty((max(plan.workspace_bytes for plan in found),), "int8")
        plan = best(found, lambda plan: _bound(backend, plan, operands, workspace), backend.stream_handle)
        choice = _CHOICES[key] = Choice(plan, backend.empty((plan.workspace_bytes,), "int8"))
    return choice


def _bound(
    backend: Any, plan: cudnn_graph.EnginePlan, operands: tuple[Any, Any, Any], workspace: Any
) -> cudnn_graph.EngineCall:
    from primbench.cuda import cudnn, cudnn_conv, cudnn_graph

    identities = (cudnn_conv.X, cudnn_conv.W, cudnn_conv.Y)
    addresses = {identity: array.data.ptr for identity, array in zip(identities, operands, strict=True)}
    handle = cudnn.handle(backend.stream_handle, backend.device)
    return cudnn_graph.bound(plan, handle, addresses, workspace.data.ptr if plan.workspace_bytes else 0)
