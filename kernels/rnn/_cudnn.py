"""A pass of a recurrent network by one of cuDNN's algorithms, on CuPy arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from ctypes import c_size_t, c_ubyte, c_void_p
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.cuda.cudnn_rnn import Recurrent, RnnAddresses
from primbench.gpu.nvidia import driver
from primbench.problem import Step, described

if TYPE_CHECKING:
    from primbench.kernels.rnn._operands import Operands
    from primbench.kernels.rnn.problem import Rnn

Call = Callable[[], None]


class Pass(NamedTuple):
    """A pass through the network."""

    calls: Sequence[Call]
    """What a step makes, one after the other."""
    output: Any
    """Holds the result after them."""
    note: str = ""
    """What they do besides, in words."""


def cudnn_step(backend: Any, problem: Rnn, operands: Operands, algorithm: str) -> Step:
    """Has been called once. Raises CudnnRefusal or CudnnError where cuDNN has no such network in this algorithm."""
    training = problem.direction != "forward_inference"
    recurrent = Recurrent(problem, algorithm, backend.stream_handle, backend.device, training=training)
    weights = _packed(backend, problem, operands, recurrent)
    y = backend.empty((problem.seq_len, problem.batch_size, problem.ways * problem.hidden_size), problem.dtype)
    workspace, reserve = (
        backend.empty((max(1, size),), "int8") for size in (recurrent.workspace_bytes, recurrent.reserve_bytes)
    )
    addresses = RnnAddresses(
        x=_at(operands.x), h0=_at(operands.h0), weights=_at(weights), workspace=_at(workspace), y=_at(y),
        c0=_at(operands.c0), dy=_at(operands.dy), reserve=_at(reserve),
    )  # fmt: skip
    if problem.is_backward:
        recurrent.forward(addresses)()
        dx = backend.empty(operands.x.shape, problem.dtype)
        addresses = replace(addresses, dx=_at(dx))
        if problem.direction == "bwd_data":
            calls, output, note = _bwd_data(backend, recurrent, addresses, dx, reserve)
        else:
            calls, output, note = _bwd_weights(backend, problem, recurrent, addresses, dx)
    else:
        calls, output, note = Pass([recurrent.forward(addresses)], y)
    # The calls have addresses only, and cuDNN refers to descriptors that no call names.
    kept = (recurrent, operands, weights, workspace, reserve, y, output)

    def step() -> Any:
        for call in calls:
            call()
        return kept[-1]

    step()
    backend.synchronize()
    return described(step, algorithm=f"cuDNN {algorithm}{note}")


def _bwd_data(backend: Any, recurrent: Recurrent, a: RnnAddresses, dx: Any, reserve: Any) -> Pass:
    """The pass leaves gradients where it found activations: each call needs a reserve as the forward pass left it."""
    left = reserve.copy()
    renew = functools.partial(_copy, backend, _at(reserve), left.data, left.nbytes)
    return Pass([renew, recurrent.bwd_data(a)], dx, ", on a copy of its reserve space, which it overwrites")


def _bwd_weights(backend: Any, problem: Rnn, recurrent: Recurrent, a: RnnAddresses, dx: Any) -> Pass:
    """The gradients of w_hh lie in one piece for each chain: one chain's are the output as they stand."""
    recurrent.bwd_data(a)()
    dweights = backend.empty((recurrent.weight_bytes // dx.itemsize,), problem.dtype)
    zero = functools.partial(
        driver.call, "cuMemsetD8Async", c_void_p(_at(dweights)), c_ubyte(0), c_size_t(dweights.nbytes),
        c_void_p(backend.stream_handle),
    )  # fmt: skip
    run = recurrent.bwd_weights(replace(a, dweights=_at(dweights)))
    gates = recurrent.gates
    firsts = [m.weights - _at(dweights) for m in recurrent.matrices(_at(dweights)) if m.gate == gates]
    shape = (gates * problem.hidden_size, problem.hidden_size)
    found = [dweights[first // dx.itemsize :][: shape[0] * shape[1]].reshape(1, *shape) for first in firsts]
    note = ", gradients zeroed first, as it adds to them"
    if len(found) == 1:
        return Pass([zero, run], found[0], note)
    output = backend.empty((len(found), *shape), problem.dtype)
    gather = [
        functools.partial(_copy, backend, _at(part), one.data, one.nbytes)
        for part, one in zip(output, found, strict=True)
    ]
    return Pass([zero, run, *gather], output, note)


def _packed(backend: Any, problem: Rnn, operands: Operands, recurrent: Recurrent) -> Any:
    """The weights in one block, as cuDNN lays them out."""
    block = backend.empty((recurrent.weight_bytes,), "int8")
    hidden, gates = problem.hidden_size, recurrent.gates
    for to in recurrent.matrices(_at(block)):
        w_ih, w_hh, b_ih, b_hh = operands.weights[4 * to.chain : 4 * to.chain + 4]
        weights, bias = (w_ih, b_ih) if to.gate < gates else (w_hh, b_hh)
        rows = slice(to.gate % gates * hidden, (to.gate % gates + 1) * hidden)
        for address, part in ((to.weights, weights[rows]), (to.bias, bias[rows])):
            _copy(backend, address, part.data, part.nbytes)
    return block


def _copy(backend: Any, to: int, source: Any, size_bytes: int) -> None:
    """Enqueue a copy within the GPU. source: a CuPy pointer, which keeps its memory alive."""
    addresses = c_void_p(to), c_void_p(source.ptr)
    driver.call("cuMemcpyDtoDAsync_v2", *addresses, c_size_t(size_bytes), c_void_p(backend.stream_handle))


def _at(array: Any) -> Any:
    """An array's address; None of none."""
    return None if array is None else array.data.ptr
