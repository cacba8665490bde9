"""The passes by cuDNN, with a stand-in for cuDNN that computes with NumPy on host memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from primbench.cuda import trial
from primbench.cuda.cudnn import CudnnRefusal
from primbench.cuda.cudnn_rnn import ALGORITHMS, RnnAddresses, RnnGate
from primbench.devices import Device, nth_gpu
from primbench.errors import UnsupportedCase
from primbench.gpu.nvidia import driver
from primbench.kernels.rnn import Rnn, _cudnn
from primbench.kernels.rnn import cupy as rnn_cupy
from primbench.kernels.rnn._network import Network
from primbench.kernels.rnn.problem import CUDNN_ALGORITHMS
from primbench.problem import description_of
from primbench.timing.verify import check_output

LEFT_BY_FORWARD, LEFT_BY_BWD_DATA = 1, 2


class Array(np.ndarray[Any, np.dtype[Any]]):
    """NumPy's, with the address where CuPy has it."""

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.ctypes.data, array=self)


class Recurrent:
    """Padded weights, a reserve that passes leave for each other, gradients that are added: as cuDNN has them."""

    def __init__(self, problem: Rnn, algorithm: str, stream_handle: int, device: Device, *, training: bool) -> None:
        if algorithm == "persist_static" and problem.cell == "gru":
            raise CudnnRefusal("cudnnSetRNNDescriptor_v8: CUDNN_STATUS_NOT_SUPPORTED")
        self.problem, self.gates = problem, {"vanilla": 1, "lstm": 4, "gru": 3}[problem.cell]
        self.places = list(self._places())
        self.weight_bytes = self.places[-1][3] + 64
        self.workspace_bytes, self.reserve_bytes = 0, 8 * training

    def _places(self) -> Iterator[tuple[int, int, int, int]]:
        """Chain, gate, and where it begins and ends: matrices first, then the biases."""
        hidden, ways, start = self.problem.hidden_size, self.problem.ways, 0
        chains = [features for features in self.problem.input_sizes for _ in range(ways)]
        for part in ("matrix", "bias"):
            for chain, features in enumerate(chains):
                for gate in range(2 * self.gates):
                    columns = 1 if part == "bias" else features if gate < self.gates else hidden
                    yield chain, gate, start, start + 4 * hidden * columns
                    start += 4 * hidden * columns

    def matrices(self, weights: int) -> Iterator[RnnGate]:
        half = len(self.places) // 2
        for (chain, gate, start, _), (_, _, bias, _) in zip(self.places[:half], self.places[half:], strict=True):
            yield RnnGate(chain, gate, weights + start, weights + bias)

    def _network(self, a: RnnAddresses) -> Network:
        p, gates = self.problem, self.gates
        state = (p.layers * p.ways, p.batch_size, p.hidden_size)
        found = {(m.chain, m.gate): m for m in self.matrices(a.weights)}
        weights = []
        for chain in range(state[0]):
            features = p.input_sizes[chain // p.ways]
            for first, columns in ((0, features), (gates, p.hidden_size)):
                parts = [at(found[chain, g].weights, p.hidden_size, columns) for g in range(first, first + gates)]
                weights.append(np.concatenate(parts))
            for first in (0, gates):
                biases = [at(found[chain, gate].bias, p.hidden_size) for gate in range(first, first + gates)]
                weights.append(np.concatenate(biases))
        sequence = (p.seq_len, p.batch_size)
        arrays = [at(a.x, *sequence, p.hidden_size), at(a.h0, *state)]
        arrays += [at(a.c0, *state)] if a.c0 else []
        arrays += [at(a.dy, *sequence, p.ways * p.hidden_size)] if a.dy else []
        operands: Any = p.operands([*arrays, *weights])
        problem: Any = p
        return Network(problem.cell, problem.direction, problem.ways, operands)

    def forward(self, a: RnnAddresses) -> Callable[[], None]:
        def run() -> None:
            y = self._network(a).forward()
            at(a.y, *y.shape)[:] = y
            if self.reserve_bytes and a.reserve:
                at(a.reserve, 1)[:] = LEFT_BY_FORWARD

        return run

    def bwd_data(self, a: RnnAddresses) -> Callable[[], None]:
        def run() -> None:
            assert a.reserve
            assert a.dx
            assert LEFT_BY_FORWARD == at(a.reserve, 1)[0]
            at(a.reserve, 1)[:] = LEFT_BY_BWD_DATA
            network = self._network(a)
            network.forward()
            dx = network.bwd_data()
            at(a.dx, *dx.shape)[:] = dx

        return run

    def bwd_weights(self, a: RnnAddresses) -> Callable[[], None]:
        def run() -> None:
            assert a.reserve
            assert a.dweights
            assert LEFT_BY_BWD_DATA == at(a.reserve, 1)[0]
            gradients, hidden = self._network(a).step()(), self.problem.hidden_size
            for m in self.matrices(a.dweights):
                if m.gate >= self.gates:
                    rows = slice((m.gate - self.gates) * hidden, (m.gate - self.gates + 1) * hidden)
                    at(m.weights, hidden, hidden)[:] += gradients[m.chain, rows]

        return run


def at(address: Any, *shape: int) -> Any:
    """float32 memory at an address."""
    return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_float)), shape)


def driver_call(function: str, *arguments: Any) -> None:
    to, value, size_bytes = (argument.value for argument in arguments[:3])
    {"cuMemcpyDtoDAsync_v2": ctypes.memmove, "cuMemsetD8Async": ctypes.memset}[function](to, value, size_bytes)


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(_cudnn, "Recurrent", Recurrent)
    monkeypatch.setattr(driver, "call", driver_call)
    monkeypatch.setattr(rnn_cupy, "_fastest", {})
    return SimpleNamespace(
        name="cupy", device=nth_gpu(0), stream_handle=7, synchronize=lambda: None, get=np.asarray,
        put=lambda host: host.copy().view(Array),
        empty=lambda shape, dtype: np.full(shape, 85, dtype).view(Array),
        poison=lambda array: array.fill(np.nan),
    )  # fmt: skip


def step_of(backend: Any, problem: Rnn) -> Any:
    inputs = problem.inputs(np.random.default_rng(0))
    step = rnn_cupy.cupy_rnn(backend, problem, *map(backend.put, inputs))
    check_output(backend, problem, step, problem.reference(np.random.default_rng(0), *inputs))
    return step


@pytest.mark.parametrize("cell", ["vanilla", "lstm", "gru"])
@pytest.mark.parametrize(("layers", "bidirectional"), [(1, False), (2, True)])
@pytest.mark.parametrize("direction", ["forward_inference", "forward_training", "bwd_data", "bwd_weights"])
def test_every_call_gives_the_whole_result(
    cell: str, layers: int, bidirectional: bool, direction: str, backend: Any
) -> None:
    step = step_of(backend, Rnn(5, 2, 3, cell, direction, layers, bidirectional, algo="standard"))
    np.testing.assert_array_equal(np.array(step()), step())
    assert str(description_of(step).algorithm).startswith("cuDNN standard")


def test_one_chain_of_gradients_stays_where_cudnn_put_it(backend: Any) -> None:
    step = step_of(backend, Rnn(5, 2, 3, "gru", "bwd_weights", algo="standard"))
    assert step().base is not None


def test_the_fastest_is_taken_and_taken_again(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    times_s = {"standard": 3e-6, "persist_dynamic": 1e-6}
    monkeypatch.setattr(rnn_cupy, "TRIED", ("standard", "persist_static", "persist_dynamic"))
    monkeypatch.setattr(trial, "device_s", lambda step, *_: times_s[str(description_of(step).algorithm).split()[1]])
    problem = Rnn(5, 2, 3, "gru", math_mode="tf32")
    chosen = "cuDNN persist_dynamic (tried: standard 3.00 us, persist_dynamic 1.00 us)"
    assert chosen == description_of(step_of(backend, problem)).algorithm
    times_s["standard"] = 0.0
    assert "cuDNN persist_dynamic" == description_of(step_of(backend, problem)).algorithm
    exact = Rnn(5, 2, 3, "gru")
    assert "cuDNN standard (no other takes it)" == description_of(step_of(backend, exact)).algorithm


def test_what_cudnn_lacks_is_said_with_what_it_has(backend: Any) -> None:
    with pytest.raises(UnsupportedCase, match="NOT_SUPPORTED: ask for algo=auto"):
        step_of(backend, Rnn(5, 2, 3, "gru", math_mode="tf32", algo="persist_static"))
    with pytest.raises(UnsupportedCase, match=r"approximate tanh .* ask for algo=standard"):
        step_of(backend, Rnn(5, 2, 3, "lstm", algo="persist_static"))


def test_every_algorithm_that_can_be_asked_for_has_a_number() -> None:
    assert CUDNN_ALGORITHMS == tuple(ALGORITHMS)
