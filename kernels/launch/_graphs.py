"""Graphs that change between launches, and graphs that branch or loop, by the driver through ctypes.

Made node by node, each waiting for the one before. Structures and numbers are those of cuda.h.
"""

from __future__ import annotations

import ctypes
import itertools
from contextlib import contextmanager
from ctypes import addressof, byref, c_int, c_longlong, c_size_t, c_uint, c_ulonglong, c_void_p
from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.gpu.nvidia import driver
from primbench.kernels.launch import _times
from primbench.kernels.launch._cuda import parameters
from primbench.kernels.launch._driver import ptx
from primbench.problem import described

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from primbench.kernels.launch.problem import Launch
    from primbench.problem import Array, Step

_CONDITIONAL_NODE = 13  # CU_GRAPH_NODE_TYPE_CONDITIONAL
_IF, _WHILE = 0, 1  # CU_GRAPH_COND_TYPE_
_ASSIGN_DEFAULT = 1  # CU_GRAPH_COND_ASSIGN_DEFAULT: at each launch the condition is what it was created with
_handle = c_void_p.from_param  # converted beforehand: it would cost time in every call


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = (
        ("function", c_void_p), ("grid", c_uint * 3), ("block", c_uint * 3), ("shared_bytes", c_uint),
        ("parameters", c_void_p), ("extra", c_void_p), ("kernel", c_void_p), ("context", c_void_p),
    )  # fmt: skip


class ConditionalNode(ctypes.Structure):
    """CUgraphNodeParams of a conditional node."""

    _fields_ = (
        ("type", c_int), ("reserved", c_int * 3),
        ("condition", c_ulonglong), ("kind", c_int), ("count", c_uint), ("bodies", c_void_p), ("context", c_void_p),
        ("unused", c_longlong * 26),
    )  # fmt: skip


class UpdateResult(ctypes.Structure):
    """CUgraphExecUpdateResultInfo."""

    _fields_ = (("result", c_int), ("node", c_void_p), ("from_node", c_void_p))


class Graph:
    """A graph without an instance, destroyed with the object, which keeps alive what its nodes are given."""

    def __init__(self) -> None:
        self.handle, self.nodes, self._kept = c_void_p(), [], []  # type: tuple[c_void_p, list[c_void_p], list[Any]]
        driver.call("cuGraphCreate", byref(self.handle), c_uint(0))

    def __del__(self) -> None:
        if self.handle:
            driver.function("cuGraphDestroy")(self.handle)

    def add_kernel(self, node: KernelNode) -> None:
        self.nodes.append(_add_kernel(self.handle, self.nodes[-1:], node))

    def add_conditional(self, kind: int, body_of: Callable[[int], KernelNode]) -> None:
        """A node whose condition holds at each launch. body_of: its body, one kernel, by the condition's handle."""
        condition, context, node = c_ulonglong(), c_void_p(driver.current_context()), c_void_p()
        flags = (c_uint(1), c_uint(_ASSIGN_DEFAULT))
        driver.call("cuGraphConditionalHandleCreate", byref(condition), self.handle, context, *flags)
        given = ConditionalNode(
            type=_CONDITIONAL_NODE, condition=condition.value, kind=kind, count=1, context=context.value
        )
        before = (c_void_p * 1)(*self.nodes[-1:])
        number = c_size_t(len(self.nodes[-1:]))
        driver.call("cuGraphAddNode_v2", byref(node), self.handle, before, None, number, byref(given))
        self.nodes.append(node)
        _add_kernel(c_void_p.from_address(given.bodies), [], body_of(condition.value))

    @contextmanager
    def made(self) -> Iterator[c_void_p]:
        yield self.handle


def _add_kernel(graph: c_void_p, behind: Sequence[c_void_p], given: KernelNode) -> c_void_p:
    node, before = c_void_p(), (c_void_p * 1)(*behind)
    count = c_size_t(len(behind))
    driver.call("cuGraphAddKernelNode_v2", byref(node), graph, before, count, byref(given))
    return node


class Instance:
    """A graph ready to be launched on a stream; it keeps the graph, whose nodes name its own."""

    def __init__(self, graph: Graph, stream: int) -> None:
        self.graph, self.handle = graph, driver.instantiate(graph.handle)
        driver.call("cuGraphUpload", self.handle, c_void_p(stream))

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            driver.function("cuGraphExecDestroy")(self.handle)


def graph_step(backend: Any, problem: Launch) -> Step:
    """A call that launches a graph which was changed just before, or which has conditional nodes.

    Raises UnsupportedCase where the driver is older than what it needs.
    """
    return (_changing if problem.graph in _CHANGES else _conditional)(backend, problem)


def _kernel_node(kernel: int, words: Array) -> KernelNode:
    """One thread of a kernel, given words by value; what these lie in must outlive every use of the node."""
    at = (c_void_p * 1)(words.ctypes.data)
    node = KernelNode(function=kernel, grid=(1, 1, 1), block=(1, 1, 1), parameters=addressof(at))
    node.kept = (at, words)
    return node


def _changing(backend: Any, problem: Launch) -> Step:
    """The instance was made of a graph that writes zeros: a call that did not change it would be found out.

    Calls take turns with parameters that differ in a word which no kernel reads, so that each has something to change.
    """
    _need("cuGraphExecKernelNodeSetParams_v2", "12.0")
    module, output = driver.Module(ptx(problem.parameter_bytes)), backend.empty((problem.nodes,), "int32")
    kernel = module.function("last_word")
    nodes = [[_kernel_node(kernel, words) for words in _marked(problem, output, mark)] for mark in range(3)]
    graphs = [_chain(each) for each in nodes]
    instance = Instance(graphs[0], backend.stream_handle)
    change = _CHANGES[problem.graph]
    turns = itertools.cycle(
        [change(instance, graph, given) for graph, given in zip(graphs[1:], nodes[1:], strict=True)]
    )
    launch, arguments = _launch_of(instance, backend.stream_handle)

    def step() -> Any:
        for name, function, given in next(turns):
            if status := function(*given):
                raise driver.failure(name, status)
        if status := launch(*arguments):
            raise driver.failure("cuGraphLaunch", status)
        return output

    step.kept = (module, nodes, graphs, instance)  # type: ignore[attr-defined]
    return described(step, stream_only=True, others={"instantiate_s": _times.instantiation(graphs[1].made)})


def _marked(problem: Launch, output: Any, mark: int) -> list[Array]:
    """Parameters of each node, with a mark in the word behind the address; mark 0 has it write 0."""
    found = parameters(problem, output)
    for words in found:
        words[2] = mark
        words[-1] *= mark > 0
    return found


def _chain(nodes: Sequence[KernelNode]) -> Graph:
    graph = Graph()
    for node in nodes:
        graph.add_kernel(node)
    return graph


_Call = tuple[str, "Callable[..., int]", tuple[Any, ...]]


def _set_parameters(instance: Instance, graph: Graph, nodes: Sequence[KernelNode]) -> list[_Call]:
    """A call for each node."""
    name = "cuGraphExecKernelNodeSetParams_v2"
    pairs = zip(instance.graph.nodes, nodes, strict=True)
    return [
        (name, driver.function(name), (_handle(instance.handle.value), _handle(node.value), _handle(addressof(given))))
        for node, given in pairs
    ]


def _update(instance: Instance, graph: Graph, nodes: Sequence[KernelNode]) -> list[_Call]:
    """One call, which finds out for itself what differs."""
    name = "cuGraphExecUpdate_v2"
    result = UpdateResult()
    given = (_handle(instance.handle.value), _handle(graph.handle.value), byref(result))
    return [(name, driver.function(name), given)]


_CHANGES: dict[str, Callable[[Instance, Graph, Sequence[KernelNode]], list[_Call]]] = {
    "set_parameters": _set_parameters,
    "update": _update,
}


def _conditional(backend: Any, problem: Launch) -> Step:
    """if: a node for each kernel, which is its body. while: one node, whose body runs as often as there are kernels."""
    _need("cuGraphConditionalHandleCreate", "12.4")
    output, graph = backend.empty((problem.nodes,), "int32"), Graph()
    rows = parameters(problem, output)
    if problem.graph == "if":
        module = driver.Module(ptx(problem.parameter_bytes))
        nodes = [_kernel_node(module.function("last_word"), words) for words in rows]
        for node in nodes:
            graph.add_conditional(_IF, lambda condition, node=node: node)  # type: ignore[misc]
    else:
        from primbench.cuda import kernels

        options = ("-DCONDITIONAL", f"-DPARAMETER_BYTES={problem.parameter_bytes}")
        module = kernels.module(kernels.text_of("launch", "launch.cu"), options)
        nodes = [_kernel_node(module.function("each_pass"), _told(rows, condition=0))]

        def body(condition: int) -> KernelNode:
            _told(rows, condition)
            return nodes[0]

        graph.add_conditional(_WHILE, body)
    instance = Instance(graph, backend.stream_handle)
    launch, arguments = _launch_of(instance, backend.stream_handle)

    def step() -> Any:
        if status := launch(*arguments):
            raise driver.failure("cuGraphLaunch", status)
        return output

    step.kept = (module, nodes, instance)  # type: ignore[attr-defined]
    return described(step, stream_only=True)  # only one instance may exist: to make another cannot be timed


def _told(rows: Sequence[Array], condition: int) -> Array:
    """The first node's words, with the condition's handle behind the address and the number of passes last."""
    words = rows[0]
    words[2:4].view("uint64")[0] = condition
    words[-1] = len(rows)
    return words


def _launch_of(instance: Instance, stream: int) -> tuple[Callable[..., int], tuple[Any, ...]]:
    return driver.function("cuGraphLaunch"), (_handle(instance.handle.value), _handle(stream))


def _need(function: str, cuda: str) -> None:
    try:
        driver.function(function)
    except AttributeError:
        raise UnsupportedCase(
            f"this needs a driver of CUDA {cuda}, which has {function}: update it, or ask for graph=replay"
        ) from None
