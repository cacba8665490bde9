"""Recurrent networks on torch: cuDNN, oneDNN or torch's own loop in one call; and a call or two for each step."""

from __future__ import annotations

import functools
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.errors import UnsupportedCase
from primbench.kernels.rnn.problem import CUDNN_ALGORITHMS
from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from primbench.kernels.rnn._operands import Operands
    from primbench.kernels.rnn.problem import Rnn

# torch says which library it took nowhere but in the graph it keeps for the backward pass.
LIBRARIES = {"CudnnRnn": "cuDNN", "MkldnnRnn": "oneDNN"}
# Up to so many units torch asks cuDNN for PERSIST_STATIC_SMALL_H (aten/src/ATen/native/cudnn/RNN.cpp).
SMALL_UNITS = 192
OWN_LOOP = "torch's own loop over the steps"


@kernel("rnn", "torch")
def torch_rnn(backend: Any, problem: Rnn, *inputs: Any) -> Step:
    """The step's ``algorithm`` names the library that torch takes, and what it does besides.

    What torch's RNN calls return they allocate: its caching allocator serves every call from the same blocks.
    """
    import torch

    if problem.algo in CUDNN_ALGORITHMS:
        raise UnsupportedCase("torch chooses cuDNN's algorithm itself: ask for algo=fused, or backend=cupy")
    if problem.direction == "bwd_weights":
        raise UnsupportedCase(
            "torch computes the gradients of weights together with those of the input, never alone: "
            "ask for direction=bwd_data, or backend=cupy or numpy"
        )
    _set_precision(torch, problem, on_gpu=backend.device.is_gpu)
    operands = problem.operands(inputs)
    return (_stepwise if problem.algo == "stepwise" else _fused)(torch, backend, problem, operands)


def _set_precision(torch: Any, problem: Rnn, *, on_gpu: bool) -> None:
    """Say explicitly what torch would otherwise take from the process: tf32, and how 16-bit products are summed."""
    if not on_gpu:
        if problem.math_mode == "tf32":
            raise UnsupportedCase("torch on a CPU has no tf32 mode")
        return
    cudnn = torch.backends.cudnn
    cudnn.allow_tf32 = problem.math_mode == "tf32"
    if hasattr(cudnn, "rnn"):  # since torch 2.9; the flag before leaves it to what is set for all of torch
        cudnn.rnn.fp32_precision = problem.math_mode
    flags = torch.backends.cuda.matmul
    flags.allow_tf32 = problem.math_mode == "tf32"
    flags.allow_fp16_reduced_precision_reduction = flags.allow_bf16_reduced_precision_reduction = False
    if hasattr(flags, "allow_fp16_accumulation"):
        flags.allow_fp16_accumulation = False


def _fused(torch: Any, backend: Any, problem: Rnn, operands: Operands) -> Step:
    x, h0, c0, dy, weights = operands
    layers, both_ways, has_biases, dropout, batch_first = problem.layers, problem.bidirectional, True, 0.0, False
    call = {"vanilla": torch.rnn_relu, "lstm": torch.lstm, "gru": torch.gru}[problem.cell]
    if torch.cudnn_is_acceptable(x):
        if problem.needs_exact_tanh and problem.hidden_size <= SMALL_UNITS:
            raise UnsupportedCase(
                f"torch takes cuDNN's kernel for up to {SMALL_UNITS} units, which approximates tanh to 2^-11 in "
                "float32, too: ask for algo=stepwise, math_mode=tf32 or more units"
            )
        _flatten(torch, problem, weights)

    def forward(x: Any, *, training: bool) -> Any:
        state = h0 if c0 is None else (h0, c0)
        return call(x, state, weights, has_biases, layers, dropout, training, both_ways, batch_first)[0]

    def inference() -> Any:  # without a graph: nothing asks for a gradient
        return forward(x, training=False)

    def training() -> Any:
        return forward(x, training=True).detach()

    def bwd_data() -> Any:
        # Only x asks for a gradient, so none is computed for the weights; torch fills those of the last states with 0.
        return torch.autograd.grad(y, x, dy, retain_graph=True)[0]

    with _without_onednn(torch) if problem.is_backward else nullcontext():
        algorithm = _library(forward(x[:1].clone().requires_grad_(), training=True))
        y = forward(x.requires_grad_(), training=True) if problem.is_backward else None
    if problem.direction == "forward_training":
        for array in (x, *weights):
            array.requires_grad_()
    if problem.is_backward and algorithm == "cuDNN":
        algorithm = "cuDNN, on a copy of its reserve space, which it overwrites"
    step = {"forward_inference": inference, "forward_training": training, "bwd_data": bwd_data}[problem.direction]
    return described(step, algorithm=algorithm)


@contextmanager
def _without_onednn(torch: Any) -> Iterator[None]:
    """Keep an LSTM from oneDNN, which computes the weights' gradients with the input's, asked for or not."""
    before, torch.backends.mkldnn.enabled = torch.backends.mkldnn.enabled, False
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = before


def _flatten(torch: Any, problem: Rnn, weights: list[Any]) -> None:
    """Move the weights into one block, as cuDNN wants them; else every call would. nn.Module leaves bfloat16 out."""
    from torch.backends.cudnn.rnn import get_cudnn_mode

    mode = get_cudnn_mode({"vanilla": "RNN_RELU", "lstm": "LSTM", "gru": "GRU"}[problem.cell])
    size, per_chain, projected_size, batch_first = problem.hidden_size, 4, 0, False
    torch._cudnn_rnn_flatten_weight(  # noqa: SLF001 - what nn.RNN calls; nothing public does it for bare tensors
        weights, per_chain, size, mode, size, projected_size, problem.layers, batch_first, problem.bidirectional
    )


def _library(output: Any) -> str:
    """Which library computed an output that has a graph."""
    waiting = [output.grad_fn]
    while waiting:
        node = waiting.pop()
        for name, library in LIBRARIES.items():
            if node.name().startswith(name):
                return library
        waiting += [earlier for earlier, _ in node.next_functions if earlier is not None]
    return OWN_LOOP


def _stepwise(torch: Any, backend: Any, problem: Rnn, operands: Operands) -> Step:
    """In every layer and direction one product with the input for all steps, then two calls for each."""
    if problem.direction != "forward_inference":
        raise UnsupportedCase("torch stepwise computes forward_inference only: ask for algo=fused")
    if problem.cell != "vanilla" and not backend.device.is_gpu:
        raise UnsupportedCase(f"torch's pointwise {problem.cell} kernel is for GPUs: ask for algo=fused")
    x, h0, c0, _, weights = operands
    calls: list[Callable[[], Any]] = []
    for layer in range(problem.layers):
        outputs: list[Any] = []
        for i, order in enumerate((1, -1)[: problem.ways], layer * problem.ways):
            y = backend.empty((problem.seq_len, problem.batch_size, problem.hidden_size), problem.dtype)
            c = None if c0 is None else c0[i]
            chain = Chain(x, y, h0[i], c, *weights[4 * i : 4 * i + 4])
            outputs.append(y)
            calls.append((_vanilla if problem.cell == "vanilla" else _gated)(torch, chain, order))
        x = outputs[0]
        if problem.bidirectional:
            x = backend.empty((problem.seq_len, problem.batch_size, 2 * problem.hidden_size), problem.dtype)
            calls.append(functools.partial(torch.cat, outputs, 2, out=x))

    def step() -> Any:
        for call in calls:
            call()
        return x

    pointwise = "relu_" if problem.cell == "vanilla" else "fused cell"
    return described(step, algorithm=f"stepwise: 2 calls a step, product and {pointwise}")


class Chain(NamedTuple):
    """One direction of one layer: what it reads, and y[T,N,H], which it writes."""

    x: Any
    y: Any
    h0: Any
    c0: Any
    w_ih: Any
    w_hh: Any
    b_ih: Any
    b_hh: Any


def _vanilla(torch: Any, chain: Chain, order: int) -> Callable[[], None]:
    """All steps of vanilla cells, in place in y: adding the product to what is there saves a copy."""
    x, y, w_x, w_h = chain.x.flatten(0, 1), chain.y.flatten(0, 1), chain.w_ih.T, chain.w_hh.T
    bias, states = chain.b_ih + chain.b_hh, chain.y.unbind()[::order]

    def run() -> None:
        torch.addmm(bias, x, w_x, out=y)
        h = chain.h0
        for state in states:
            h = state.addmm_(h, w_h).relu_()

    return run


def _gated(torch: Any, chain: Chain, order: int) -> Callable[[], None]:
    """All steps, by the kernel of torch.nn.LSTMCell or GRUCell; it allocates its state: the stack at the end copies."""
    _, y, h0, c0, _, w_hh, *biases = chain
    x, w_x, w_h, is_lstm = chain.x.flatten(0, 1), chain.w_ih.T, w_hh.T, c0 is not None
    aten = torch.ops.aten
    cell = (aten._thnn_fused_lstm_cell if is_lstm else aten._thnn_fused_gru_cell).default  # noqa: SLF001 - no public name
    gates, hidden = y.new_empty((len(x), len(w_hh))), y.new_empty((len(h0), len(w_hh)))
    gates_of_steps = gates.unflatten(0, y.shape[:2]).unbind()[::order]

    def run() -> None:
        torch.mm(x, w_x, out=gates)
        states, h, carried = [], h0, c0 if is_lstm else h0
        for gates_of_step in gates_of_steps:
            torch.mm(h, w_h, out=hidden)
            h, second, *_ = cell(gates_of_step, hidden, carried, *biases)
            carried = second if is_lstm else h
            states.append(h)
        torch.stack(states[::order], out=y)

    return run
