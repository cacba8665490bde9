"""cuDNN's recurrent networks against a stand-in for the library, with its prototypes, that notes what it is given."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_float, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from primbench.cuda import cudnn
from primbench.cuda.cudnn_rnn import Recurrent, RnnAddresses
from primbench.devices import nth_gpu

WEIGHTS, BIASES = 0x1000, 0x9000
SEQUENCE = (c_void_p, c_void_p)  # a descriptor and an address
PROTOTYPES = {
    "cudnnSetDropoutDescriptor": (c_void_p, c_void_p, c_float, c_void_p, c_size_t, c_ulonglong),
    "cudnnSetRNNDescriptor_v8": (c_void_p, *[c_int] * 12, c_void_p, c_uint),
    "cudnnSetRNNDataDescriptor": (c_void_p, *[c_int] * 5, POINTER(c_int), c_void_p),
    "cudnnSetTensorNdDescriptor": (c_void_p, c_int, c_int, POINTER(c_int), POINTER(c_int)),
    "cudnnBuildRNNDynamic": (c_void_p, c_void_p, c_int),
    "cudnnGetRNNWeightSpaceSize": (c_void_p, c_void_p, POINTER(c_size_t)),
    "cudnnGetRNNTempSpaceSizes": (c_void_p, c_void_p, c_int, c_void_p, POINTER(c_size_t), POINTER(c_size_t)),
    "cudnnGetRNNWeightParams": (
        c_void_p, c_void_p, c_int, c_size_t, c_void_p, c_int, c_void_p, POINTER(c_void_p), c_void_p, POINTER(c_void_p),
    ),
    "cudnnRNNForward": (
        c_void_p, c_void_p, c_int, c_void_p, *SEQUENCE, *SEQUENCE, c_void_p, c_void_p, c_void_p,
        c_void_p, c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p,
    ),
    "cudnnRNNBackwardData_v8": (
        c_void_p, c_void_p, c_void_p, *SEQUENCE, c_void_p, *SEQUENCE, *[c_void_p] * 4, *[c_void_p] * 4,
        c_size_t, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p,
    ),
    "cudnnRNNBackwardWeights_v8": (
        c_void_p, c_void_p, c_int, c_void_p, *SEQUENCE, *SEQUENCE, *SEQUENCE,
        c_size_t, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p,
    ),
}  # fmt: skip
# Results: of which argument, and what is written there.
RESULTS = {
    "cudnnGetRNNWeightSpaceSize": {2: 4096},
    "cudnnGetRNNTempSpaceSizes": {4: 512, 5: 256},
}


@dataclass(frozen=True)
class Network:
    cell: str = "lstm"
    dtype: str = "float16"
    math_mode: str = "ieee"
    hidden_size: int = 8
    batch_size: int = 3
    seq_len: int = 5
    layers: int = 1
    bidirectional: bool = False


class Library:
    """calls: name and arguments of each; statuses: what a function is to return other than 0; alive: objects."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.statuses: dict[str, int] = {}
        self.alive: set[int] = set()
        self.callbacks: list[Any] = []
        self.functions = SimpleNamespace(
            cudnnGetErrorString=lambda status: b"CUDNN_STATUS_%d" % status,
            cudnnGetLastErrorString=lambda message, size: None,
            **{name: self._function(name, types) for name, types in PROTOTYPES.items()},
        )
        for kind in ("RNN", "RNNData", "Tensor", "Dropout"):
            create = self._as_loaded(CFUNCTYPE(c_int, POINTER(c_void_p))(self._create))
            setattr(self.functions, f"cudnnCreate{kind}Descriptor", create)
            destroy = self._as_loaded(CFUNCTYPE(c_int, c_void_p)(self._destroy))
            setattr(self.functions, f"cudnnDestroy{kind}Descriptor", destroy)

    def last(self, function: str) -> tuple[Any, ...]:
        return [arguments for name, arguments in self.calls if name == function][-1]

    def _function(self, name: str, types: tuple[Any, ...]) -> Any:
        def called(*arguments: Any) -> int:
            lists = POINTER(c_int)  # the caller's own, gone when it returns
            self.calls.append((name, tuple(a[:3] if isinstance(a, lists) else a for a in arguments)))
            for position, value in RESULTS.get(name, {}).items():
                arguments[position][0] = value
            if name == "cudnnGetRNNWeightParams":
                chain, gate = arguments[2], arguments[5]
                arguments[7][0], arguments[9][0] = WEIGHTS + 16 * chain + gate, BIASES + 16 * chain + gate
            return self.statuses.get(name, 0)

        return self._as_loaded(CFUNCTYPE(c_int, *types)(called))

    def _as_loaded(self, callback: Any) -> Any:
        """A C function called as one of a ctypes.CDLL is: nothing is known of its argument types."""
        self.callbacks.append(callback)
        return CFUNCTYPE(c_int)(ctypes.cast(callback, c_void_p).value or 0)

    def _create(self, made: Any) -> int:
        made[0] = 100 + len(self.alive)
        self.alive.add(made[0])
        return 0

    def _destroy(self, pointer: int) -> int:
        self.alive.remove(pointer)
        return 0


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setattr(cudnn, "library", lambda: made.functions)
    monkeypatch.setattr(cudnn, "handle", lambda stream_handle, device: c_void_p(stream_handle))
    return made


def recurrent(network: Network, algorithm: str = "standard", *, training: bool = True) -> Recurrent:
    return Recurrent(network, algorithm, stream_handle=7, device=nth_gpu(0), training=training)


ALL = RnnAddresses(x=1, h0=2, weights=3, workspace=4, y=5, c0=6, dy=7, dx=8, dweights=9, reserve=10)


@pytest.mark.parametrize(
    ("network", "algorithm", "enumerations"),
    [
        (Network(), "standard", (0, 2, 2, 0, 0, 2, 0, 1)),
        (Network("gru", "bfloat16", bidirectional=True), "persist_static", (1, 3, 2, 1, 0, 9, 0, 1)),
        (Network("vanilla", "float32"), "persist_dynamic", (2, 0, 2, 0, 0, 0, 0, 3)),
        (Network("lstm", "float32", "tf32"), "standard", (0, 2, 2, 0, 0, 0, 0, 0)),
    ],
)
def test_a_network_is_described(
    library: Library, network: Network, algorithm: str, enumerations: tuple[int, ...]
) -> None:
    """Algorithm, cell, biases, direction, input mode, storage, sums in float32, math: as cudnn_adv.h counts them."""
    recurrent(network, algorithm)
    described = library.last("cudnnSetRNNDescriptor_v8")
    assert enumerations == described[1:9]
    assert (8, 8, 8, 1) == described[9:13]
    built = [arguments[2] for name, arguments in library.calls if name == "cudnnBuildRNNDynamic"]
    assert ([3] if algorithm == "persist_dynamic" else []) == built


def test_sequences_and_states_have_their_shapes(library: Library) -> None:
    recurrent(Network(layers=2, bidirectional=True))
    x, y = (arguments for name, arguments in library.calls if name == "cudnnSetRNNDataDescriptor")
    assert [(5, 3, 8), (5, 3, 16)] == [x[3:6], y[3:6]]
    assert [5, 5, 5] == x[6]
    _, stored, axes, sizes, strides = library.last("cudnnSetTensorNdDescriptor")
    assert (2, 3, [4, 3, 8], [24, 8, 1]) == (stored, axes, sizes, strides)


def test_each_gate_of_each_chain_has_its_place(library: Library) -> None:
    made = recurrent(Network("gru", layers=2))
    found = [(m.chain, m.gate, m.weights - WEIGHTS, m.bias - BIASES) for m in made.matrices(64)]
    assert [(chain, gate, 16 * chain + gate, 16 * chain + gate) for chain in (0, 1) for gate in range(6)] == found
    assert (4096, 64) == library.last("cudnnGetRNNWeightParams")[3:5]


def test_inference_and_training_pass_everything_forward(library: Library) -> None:
    for training in (False, True):
        recurrent(Network(), training=training).forward(ALL)()
        _, _, mode, lengths, x, *rest = library.last("cudnnRNNForward")
        y, state, cell = rest[1], rest[3], rest[6]
        assert (int(training), None, state) == (mode, lengths, cell)
        assert [1, y, 5, state, 2, None, cell, 6, None, 4096, 3, 512, 4, 256, 10] == rest
        assert 3 == len({x, y, state})


def test_a_network_without_cells_passes_none(library: Library) -> None:
    recurrent(Network("gru"), training=False).forward(RnnAddresses(x=1, h0=2, weights=3, workspace=4, y=5))()
    arguments = library.last("cudnnRNNForward")
    assert (None, None, None) == arguments[11:14]
    assert None is arguments[-1]


def test_the_backward_passes_pass_everything(library: Library) -> None:
    made = recurrent(Network())
    made.bwd_data(ALL)()
    _, _, lengths, y, *rest = library.last("cudnnRNNBackwardData_v8")
    x, state = rest[2], rest[4]
    assert None is lengths
    assert [5, 7, x, 8, state, 2, None, None, state, 6, None, None, 4096, 3, 512, 4, 256, 10] == rest
    made.bwd_weights(ALL)()
    arguments = library.last("cudnnRNNBackwardWeights_v8")
    assert (0, None, x, 1, state, 2, y, 5, 4096, 9, 512, 4, 256, 10) == arguments[2:]


def test_a_refusal_names_the_call(library: Library) -> None:
    library.statuses["cudnnBuildRNNDynamic"] = 3004
    with pytest.raises(cudnn.CudnnRefusal, match="cudnnBuildRNNDynamic: CUDNN_STATUS_3004"):
        recurrent(Network(), "persist_dynamic")
    made = recurrent(Network())
    library.statuses["cudnnRNNForward"] = 5000
    with pytest.raises(cudnn.CudnnError, match="cudnnRNNForward: CUDNN_STATUS_5000"):
        made.forward(ALL)()


def test_objects_live_as_long_as_the_network(library: Library) -> None:
    made = recurrent(Network())
    assert 5 == len(library.alive)
    del made
    assert set() == library.alive
