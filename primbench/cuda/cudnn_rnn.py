"""Recurrent networks by cuDNN through ctypes: everything is prepared once, a pass is one C call.

Values and signatures are those of cudnn_adv.h and cudnn_ops.h, cuDNN 9.19. All sequences have one length, so that the
array of lengths on the device, which cuDNN 8.9.1 and later do not need, is left out.
"""

from __future__ import annotations

from ctypes import byref, c_float, c_int, c_size_t, c_ulonglong, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from primbench.cuda import cudnn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from primbench.devices import Device

ALGORITHMS = {"standard": 0, "persist_static": 1, "persist_dynamic": 2}
_GATES = {"vanilla": 1, "lstm": 4, "gru": 3}
_CELLS = {"vanilla": 0, "lstm": 2, "gru": 3}  # vanilla: CUDNN_RNN_RELU
_DOUBLE_BIAS = 2
_LINEAR_INPUT = 0
_SEQUENCE_MAJOR_UNPACKED, _PADDED_IO = 0, 1  # as torch asks for
_INFERENCE, _TRAINING = 0, 1
_ADD_TO_GRADIENTS = 0  # the only mode that it supports
_DEFAULT_MATH = 0


class RecurrentNetwork(Protocol):
    """A recurrent network over seq_len steps of batch_size sequences, as many input features as hidden_size units."""

    @property
    def hidden_size(self) -> int: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def seq_len(self) -> int: ...
    @property
    def cell(self) -> str: ...
    @property
    def layers(self) -> int: ...
    @property
    def bidirectional(self) -> bool: ...
    @property
    def dtype(self) -> str: ...
    @property
    def math_mode(self) -> str: ...


@dataclass(frozen=True)
class RnnAddresses:
    """Device addresses of memory that the caller keeps alive; None where a pass has no such array."""

    x: int
    """The input, a sequence [T,N,features]."""
    h0: int
    """The first state, [layers (times 2),N,H]."""
    weights: int
    """weight_bytes, laid out as matrices() says."""
    workspace: int
    """workspace_bytes, free between passes."""
    y: int
    """The output, a sequence [T,N,features]."""
    c0: int | None = None
    """The first cell state, [layers (times 2),N,H]."""
    dy: int | None = None
    """The gradient of the output, a sequence [T,N,features]."""
    dx: int | None = None
    """The gradient of the input, a sequence [T,N,features]."""
    dweights: int | None = None
    """The gradient of the weights: weight_bytes, laid out as they are."""
    reserve: int | None = None
    """reserve_bytes, in which a pass leaves what the next one needs."""


@dataclass(frozen=True)
class RnnGate:
    """One gate's weights and bias within the weights."""

    chain: int
    """Number of the layer in one direction, from 0, as cuDNN counts them."""
    gate: int
    """Number of the gate: those of the input first, then those of the state."""
    weights: int
    """Where its matrix begins."""
    bias: int
    """Where its bias begins."""


class Recurrent:
    """A network as cuDNN knows it, for one of its algorithms, on a stream of the current CUDA device.

    Raises CudnnRefusal or CudnnError where cuDNN has no such network in this algorithm.
    """

    def __init__(
        self, network: RecurrentNetwork, algorithm: str, stream_handle: int, device: Device, *, training: bool
    ) -> None:
        self._network, self._training = network, training
        self.gates = _GATES[network.cell]
        self._handle = cudnn.handle(stream_handle, device)
        self._rnn = self._describe(algorithm)
        ways = 2 if network.bidirectional else 1
        self._x = self._sequence(network.hidden_size)
        self._y = self._sequence(ways * network.hidden_size)
        self._state = cudnn.tensor(network.dtype, (network.layers * ways, network.batch_size, network.hidden_size))
        if algorithm == "persist_dynamic":
            cudnn.call("cudnnBuildRNNDynamic", self._handle, self._rnn, network.batch_size)
        weights, workspace, reserve = c_size_t(), c_size_t(), c_size_t()
        cudnn.call("cudnnGetRNNWeightSpaceSize", self._handle, self._rnn, byref(weights))
        mode = _TRAINING if training else _INFERENCE
        sizes = (byref(workspace), byref(reserve))
        cudnn.call("cudnnGetRNNTempSpaceSizes", self._handle, self._rnn, mode, self._x, *sizes)
        self.weight_bytes, self.workspace_bytes, self.reserve_bytes = weights.value, workspace.value, reserve.value

    def matrices(self, weights: int) -> Iterator[RnnGate]:
        """Where everything lies in the weights at an address: of each layer's directions, each gate."""
        network = self._network
        matrix, bias = cudnn.Object("TensorDescriptor"), cudnn.Object("TensorDescriptor")
        space = (c_size_t(self.weight_bytes), c_void_p(weights))
        for chain in range(network.layers * (2 if network.bidirectional else 1)):
            for gate in range(2 * self.gates):
                found, found_bias = c_void_p(), c_void_p()
                cudnn.call(
                    "cudnnGetRNNWeightParams",
                    self._handle, self._rnn, chain, *space, gate, matrix, byref(found), bias, byref(found_bias),
                )  # fmt: skip
                yield RnnGate(chain, gate, found.value or 0, found_bias.value or 0)

    def forward(self, a: RnnAddresses) -> Callable[[], None]:
        """y and, for training, the reserve."""
        return _prepared(
            "cudnnRNNForward",
            self._handle, self._rnn, _TRAINING if self._training else _INFERENCE, None,
            self._x, _address(a.x), self._y, _address(a.y),
            self._state, _address(a.h0), None, self._cell_state(a), _address(a.c0), None,
            *self._weights(a), *self._scratch(a),
        )  # fmt: skip

    def bwd_data(self, a: RnnAddresses) -> Callable[[], None]:
        """dx, from a reserve that forward() left; what bwd_weights() needs takes its place."""
        return _prepared(
            "cudnnRNNBackwardData_v8",
            self._handle, self._rnn, None,
            self._y, _address(a.y), _address(a.dy), self._x, _address(a.dx),
            self._state, _address(a.h0), None, None, self._cell_state(a), _address(a.c0), None, None,
            *self._weights(a), *self._scratch(a),
        )  # fmt: skip

    def bwd_weights(self, a: RnnAddresses) -> Callable[[], None]:
        """The gradients, added to dweights, from a reserve that bwd_data() left."""
        return _prepared(
            "cudnnRNNBackwardWeights_v8",
            self._handle, self._rnn, _ADD_TO_GRADIENTS, None,
            self._x, _address(a.x), self._state, _address(a.h0), self._y, _address(a.y),
            c_size_t(self.weight_bytes), _address(a.dweights), *self._scratch(a),
        )  # fmt: skip

    def _weights(self, a: RnnAddresses) -> tuple[Any, Any]:
        return c_size_t(self.weight_bytes), _address(a.weights)

    def _scratch(self, a: RnnAddresses) -> tuple[Any, ...]:
        sizes = c_size_t(self.workspace_bytes), c_size_t(self.reserve_bytes)
        return sizes[0], _address(a.workspace), sizes[1], _address(a.reserve)

    def _cell_state(self, a: RnnAddresses) -> Any:
        return None if a.c0 is None else self._state

    def _describe(self, algorithm: str) -> Any:
        network, stored = self._network, cudnn.DATA_TYPE[self._network.dtype]
        no_dropout = cudnn.Object("DropoutDescriptor")
        none = (c_float(0), None, c_size_t(0), c_ulonglong(0))
        cudnn.call("cudnnSetDropoutDescriptor", no_dropout, self._handle, *none)
        rnn = cudnn.Object("RNNDescriptor")
        cudnn.call(
            "cudnnSetRNNDescriptor_v8",
            rnn, ALGORITHMS[algorithm], _CELLS[network.cell], _DOUBLE_BIAS, int(network.bidirectional), _LINEAR_INPUT,
            stored, cudnn.DATA_TYPE["float32"], _math(network),
            network.hidden_size, network.hidden_size, network.hidden_size, network.layers, no_dropout, _PADDED_IO,
        )  # fmt: skip
        self._dropout = no_dropout  # the RNN's descriptor refers to it: keep it alive
        return rnn

    def _sequence(self, features: int) -> Any:
        network, made = self._network, cudnn.Object("RNNDataDescriptor")
        lengths = (c_int * network.batch_size)(*[network.seq_len] * network.batch_size)
        cudnn.call(
            "cudnnSetRNNDataDescriptor",
            made, cudnn.DATA_TYPE[network.dtype], _SEQUENCE_MAJOR_UNPACKED,
            network.seq_len, network.batch_size, features, lengths, None,
        )  # fmt: skip
        return made


def _math(network: RecurrentNetwork) -> int:
    """Default math may round float32 to tf32; FMA never does; 16 bit go to the tensor cores, summed in float32."""
    if network.dtype != "float32":
        return cudnn.TENSOR_OP_MATH
    return _DEFAULT_MATH if network.math_mode == "tf32" else cudnn.FMA_MATH


def _address(value: int | None) -> Any:
    """Converted beforehand: ctypes objects as arguments add 0.3 us to a call."""
    return c_void_p.from_param(value)


def _prepared(function: str, *arguments: Any) -> Callable[[], None]:
    call = getattr(cudnn.library(), function)

    def run() -> None:
        if status := call(*arguments):
            raise cudnn.failure(status, function)

    return run
