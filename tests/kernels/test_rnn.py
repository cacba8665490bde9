from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from primbench.backends import open_backend
from primbench.devices import nth_gpu
from primbench.errors import UnsupportedCase
from primbench.kernels.rnn import Rnn
from primbench.problem import description_of
from primbench.registry import setup_of
from primbench.timing.verify import check_output

from . import gpu_simulator

pytestmark = pytest.mark.wheel

CELLS = ("vanilla", "lstm", "gru")
SHAPES = ((1, False), (1, True), (2, False), (2, True))


@pytest.mark.parametrize(
    ("backend", "options", "message"),
    [
        ("numpy", {"algo": "fused"}, "ask for algo=stepwise"),
        ("numpy", {"algo": "persist_static"}, "ask for algo=stepwise"),
        ("numpy", {"dtype": "bfloat16"}, "no fast bfloat16 ieee product"),
        ("torch", {"direction": "bwd_weights"}, "ask for direction=bwd_data, or backend=cupy"),
        ("torch", {"math_mode": "tf32"}, "no tf32 mode"),
        ("torch", {"algo": "stepwise", "direction": "forward_training"}, "forward_inference only"),
        ("torch", {"algo": "stepwise", "cell": "gru"}, "pointwise gru kernel is for GPUs"),
        ("torch", {"algo": "persist_dynamic"}, "ask for algo=fused, or backend=cupy"),
        ("numba", {"algo": "fused"}, "ask for algo=stepwise"),
        ("numba", {"dtype": "float16"}, "float32 ieee only"),
        ("numba", {"direction": "bwd_data"}, "numba stepwise computes forward_inference only"),
    ],
)
def test_what_a_backend_lacks_is_said_with_what_it_has(backend: str, options: dict[str, Any], message: str) -> None:
    if backend != "numpy":
        pytest.importorskip(backend, reason=f"{backend} is not installed")
    with pytest.raises(UnsupportedCase, match=message):
        set_up(backend, Rnn(8, 2, 3, **options))


def set_up(name: str, problem: Rnn) -> Any:
    backend = open_backend(name, "cpu")
    inputs = problem.inputs(np.random.default_rng(0))
    step = setup_of("rnn", name)(backend, problem, *map(backend.put, inputs))
    check_output(backend, problem, step, problem.reference(np.random.default_rng(0), *inputs))
    return step


def test_numpy_needs_no_forward_pass_for_each_backward_one() -> None:
    """Two calls give the same: a backward pass reads what the forward pass left and changes none of it."""
    for direction in ("bwd_data", "bwd_weights"):
        step = set_up("numpy", Rnn(8, 2, 3, "gru", direction))
        np.testing.assert_array_equal(np.array(step()), step())


def calls_of(step: Any) -> Counter[str]:
    """Operations that torch dispatches in one call, views left out: on a GPU, what may launch."""
    torch_dispatch = pytest.importorskip("torch.utils._python_dispatch", reason="torch is not installed")
    counted: Counter[str] = Counter()

    class Counting(torch_dispatch.TorchDispatchMode):  # type: ignore[misc, name-defined]
        def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if not call.is_view:
                counted[call.overloadpacket.__name__] += 1
            return call(*args, **(kwargs or {}))

    with Counting():
        step()
    return counted


def test_stepwise_vanilla_makes_two_calls_a_step() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    step = set_up("torch", Rnn(8, 2, 5, algo="stepwise"))
    assert {"addmm": 1, "addmm_": 5, "relu_": 5} == calls_of(step)
    assert "2 calls a step" in str(description_of(step).algorithm)


@pytest.fixture
def fused_cells(monkeypatch: pytest.MonkeyPatch) -> Any:
    """torch's pointwise kernels of a step, which it has for GPUs, in plain operations on a CPU."""
    torch = pytest.importorskip("torch", reason="torch is not installed")

    def lstm(x: Any, hidden: Any, c: Any, b_ih: Any, b_hh: Any) -> tuple[Any, Any, Any]:
        i, f, g, o = (x + hidden + b_ih + b_hh).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c, x

    def gru(x: Any, hidden: Any, h: Any, b_ih: Any, b_hh: Any) -> tuple[Any, Any]:
        (xr, xz, xn), (hr, hz, hn) = (x + b_ih).chunk(3, 1), (hidden + b_hh).chunk(3, 1)
        z = (xz + hz).sigmoid()
        return (1 - z) * (xn + (xr + hr).sigmoid() * hn).tanh() + z * h, x

    library = torch.library.Library("aten", "IMPL")
    library.impl("_thnn_fused_lstm_cell", lstm, "CPU")
    library.impl("_thnn_fused_gru_cell", gru, "CPU")
    yield
    library._destroy()


@pytest.mark.usefixtures("fused_cells")
@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize(("layers", "bidirectional"), SHAPES)
def test_stepwise_on_a_gpu_with_its_pointwise_kernels_replaced(cell: str, layers: int, bidirectional: bool) -> None:
    from primbench.kernels.rnn.torch import _stepwise

    torch = pytest.importorskip("torch", reason="torch is not installed")
    backend: Any = open_backend("torch", "cpu")
    problem = Rnn(8, 2, 5, cell, layers=layers, bidirectional=bidirectional, algo="stepwise")
    inputs = problem.inputs(np.random.default_rng(0))
    backend.device = nth_gpu(0)  # only named: what is put stays on the CPU
    operands = problem.operands([torch.from_numpy(array) for array in inputs])
    backend.empty = lambda shape, dtype: torch.empty(shape)
    step = _stepwise(torch, backend, problem, operands)
    check_output(backend, problem, step, problem.reference(np.random.default_rng(0), *inputs))
    chains = layers * (2 if bidirectional else 1)
    products_and_cells = {"mm": chains * (1 + 5), f"_thnn_fused_{cell}_cell": chains * 5, "stack": chains}
    assert products_and_cells | ({"cat": layers} if bidirectional else {}) == calls_of(step)


@pytest.mark.parametrize(
    ("cell", "direction", "library"),
    [
        ("vanilla", "forward_inference", "torch's own loop"),
        ("gru", "forward_training", "torch's own loop"),
        ("gru", "bwd_data", "torch's own loop"),
        ("lstm", "forward_training", "oneDNN"),
        ("lstm", "bwd_data", "torch's own loop"),
    ],
)
def test_torch_says_which_library_it_took(cell: str, direction: str, library: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if library == "oneDNN" and not torch.backends.mkldnn.is_available():
        pytest.skip("this torch is built without oneDNN")
    step = set_up("torch", Rnn(8, 2, 3, cell, direction))
    assert str(description_of(step).algorithm).startswith(library)
    assert any("mkldnn_rnn_layer" in name for name in calls_of(step)) == (library == "oneDNN")
    assert torch.backends.mkldnn.enabled == torch.backends.mkldnn.is_available()


def test_torch_computes_no_gradients_of_weights_for_bwd_data() -> None:
    """Of the products that the backward pass makes, one a step and one for x: those of the weights would add two."""
    pytest.importorskip("torch", reason="torch is not installed")
    calls = calls_of(set_up("torch", Rnn(8, 2, 5, "gru", "bwd_data")))
    assert 5 + 1 >= calls["mm"] > 0


def test_torch_is_told_the_precision_in_its_new_words_and_its_old_ones() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not hasattr(torch.backends.cudnn, "rnn"):
        pytest.skip("torch before 2.9 has the old words only")
    from primbench.backends.torch import _precision_flags
    from primbench.kernels.rnn.torch import _set_precision

    cudnn, before = torch.backends.cudnn, _precision_flags(torch)
    for mode, allowed in (("tf32", True), ("ieee", False)):
        _set_precision(torch, Rnn(8, 2, 3, math_mode=mode), on_gpu=True)
        assert (mode, allowed) == (cudnn.rnn.fp32_precision, cudnn.allow_tf32)
    for owner, name, value in before:
        setattr(owner, name, value)
    assert before == _precision_flags(torch)


def test_torch_on_a_gpu_refuses_the_small_kernel_that_approximates_tanh(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr(torch, "cudnn_is_acceptable", lambda _: True)
    with pytest.raises(UnsupportedCase, match="up to 192 units, which approximates tanh"):
        set_up("torch", Rnn(192, 2, 3, "gru"))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("layers", "bidirectional"), SHAPES)
def test_numba_step_by_step_on_a_cpu(cell: str, layers: int, bidirectional: bool) -> None:
    pytest.importorskip("numba", reason="numba is not installed")
    step = set_up("numba", Rnn(33, 3, 4, cell, layers=layers, bidirectional=bidirectional))
    assert "2 calls a step" in str(description_of(step).algorithm)


# The simulator runs threads one by one in Python, so it gets a small tile.
IN_SIMULATOR = """
import itertools, json, types
import numpy as np
from numba import cuda
from primbench.devices import nth_gpu
from primbench.dtypes import numpy_dtype
from primbench.kernels.gemm import numba as gemm_numba
from primbench.kernels.rnn import Rnn
from primbench.kernels.rnn.numba import numba_rnn

gemm_numba.TILES = {"float32": (gemm_numba.Tile(16, 16, 4, 4, 4),)}
backend = types.SimpleNamespace(
    name="numba", device=nth_gpu(0), multiprocessors=1, stream=0, synchronize=lambda: None,
    empty=lambda shape, dtype: cuda.device_array(shape, numpy_dtype(dtype)),
)
wrong = []
for cell, steps, ways in (("vanilla", 1, 1), ("lstm", 2, 1), ("gru", 1, 2)):
    problem = Rnn(5, 2, steps, cell, bidirectional=ways == 2, dtype="float16")
    rng = np.random.default_rng(1)
    inputs = problem.inputs(rng)
    output = numba_rnn(backend, problem, *map(cuda.to_device, inputs))().copy_to_host()
    reference = problem.reference(rng, *inputs)
    error = np.abs(output[reference.index].astype("float64") - reference.expected) / reference.scale
    if not error.max() <= problem.tolerance():
        wrong.append([str(problem), float(error.max())])
print(json.dumps(wrong))
"""


def test_numba_step_by_step_in_the_simulator_of_a_gpu() -> None:
    pytest.importorskip("numba", reason="numba is not installed")
    assert [] == gpu_simulator.printed(IN_SIMULATOR)
