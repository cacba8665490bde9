from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from primbench.backends import open_backend
from primbench.errors import InvalidRequest, UnsupportedCase
from primbench.kernels.rnn import Rnn
from primbench.kernels.rnn import problem as rnn
from primbench.kernels.rnn.problem import FADING
from primbench.problem import description_of
from primbench.registry import setup_of
from primbench.timing.verify import check_output

Floats = np.ndarray[Any, np.dtype[np.float64]]
CELLS = ("vanilla", "lstm", "gru")
SHAPES = ((1, False), (1, True), (2, False), (2, True))
EXTREMES = (SHAPES[0], SHAPES[-1])


def inputs_of(problem: Rnn) -> list[Any]:
    """In float64, in which formulas and slopes are compared."""
    return [array.astype("float64") for array in problem.inputs(np.random.default_rng(0))]


def expected_of(problem: Rnn, inputs: list[Any]) -> Floats:
    expected: Floats = problem.reference(np.random.default_rng(1), *inputs).expected
    return expected


def test_counts() -> None:
    gru = Rnn(4, 3, 5, "gru")
    assert gru.flop() == 2 * 3 * 5 * 3 * 4 * (4 + 4)
    assert gru.recurrent_flop() == 2 * 3 * 5 * 3 * 4 * 4
    assert gru.bytes_moved() == 4 * (2 * 5 * 3 * 4 + 12 * (4 + 4 + 2))
    assert replace(gru, dtype="float16", direction="bwd_data").bytes_moved() == gru.bytes_moved() / 2 + 2 * 5 * 3 * 12


def test_a_second_layer_reads_both_directions_of_the_first() -> None:
    deep = Rnn(4, 3, 5, "lstm", layers=2, bidirectional=True)
    assert deep.flop() == 2 * 2 * 4 * 5 * 3 * 4 * ((4 + 4) + (8 + 4))
    assert deep.recurrent_flop() == 2 * 2 * 4 * 5 * 3 * 4 * (4 + 4)
    weights = deep.operands(inputs_of(deep)).weights
    assert [(16, 4), (16, 4), (16, 8), (16, 8)] == [w_ih.shape for w_ih in weights[::4]]


def plain_step(cell: str, x: Floats, h: Floats, c: Floats, weights: list[Floats]) -> tuple[Floats, Floats]:
    """One step by the formulas of torch's documentation, every gate by itself."""
    w_ih, w_hh, b_ih, b_hh = (np.split(w, rnn.GATES[cell]) for w in weights)
    from_x = [w @ x + b for w, b in zip(w_ih, b_ih, strict=True)]
    from_h = [w @ h + b for w, b in zip(w_hh, b_hh, strict=True)]
    summed = [a + b for a, b in zip(from_x, from_h, strict=True)]

    def sigmoid(a: Floats) -> Floats:
        return 1 / (1 + np.exp(-a))

    if cell == "vanilla":
        return np.maximum(summed[0], 0), c
    if cell == "lstm":
        i, f, g, o = sigmoid(summed[0]), sigmoid(summed[1]), np.tanh(summed[2]), sigmoid(summed[3])
        c = f * c + i * g
        return o * np.tanh(c), c
    r, z = sigmoid(summed[0]), sigmoid(summed[1])
    n = np.tanh(from_x[2] + r * from_h[2])
    return (1 - z) * n + z * h, c


def plain(problem: Rnn, inputs: list[Any]) -> Floats:
    """The forward pass, one sequence and one step at a time."""
    operands = problem.operands(inputs)
    x: Floats = operands.x
    for layer in range(problem.layers):
        outputs = []
        for way in range(problem.ways):
            i = layer * problem.ways + way
            y = np.empty((problem.seq_len, problem.batch_size, problem.hidden_size))
            for row in range(problem.batch_size):
                h, c = operands.h0[i, row], (operands.h0 if operands.c0 is None else operands.c0)[i, row]
                for t in range(problem.seq_len)[:: -1 if way else 1]:
                    h, c = plain_step(problem.cell, x[t, row], h, c, operands.weights[4 * i : 4 * i + 4])
                    y[t, row] = h
            outputs.append(y)
        x = np.concatenate(outputs, axis=2)
    return x


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("layers", "bidirectional"), SHAPES)
def test_the_reference_follows_the_formulas(cell: str, layers: int, bidirectional: bool) -> None:
    problem = Rnn(5, 3, 4, cell, layers=layers, bidirectional=bidirectional)
    inputs = inputs_of(problem)
    np.testing.assert_allclose(plain(problem, inputs), expected_of(problem, inputs), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("layers", "bidirectional"), EXTREMES)
@pytest.mark.parametrize("direction", ["bwd_data", "bwd_weights"])
def test_gradients_are_the_slopes_of_the_formulas(cell: str, layers: int, bidirectional: bool, direction: str) -> None:
    problem = Rnn(3, 2, 3, cell, direction, layers, bidirectional)
    inputs = inputs_of(problem)
    x, _, _, dy, weights = problem.operands(inputs)
    varied = [x] if direction == "bwd_data" else weights[1::4]  # the arrays themselves, changed in place below

    def slope(array: Floats, index: tuple[int, ...], step: float = 1e-5) -> float:
        value, sums = array[index], []
        for moved in (value + step, value - step):
            array[index] = moved
            sums.append(float((dy * plain(problem, inputs)).sum()))
        array[index] = value
        return (sums[0] - sums[1]) / (2 * step)

    slopes = [[slope(array, index) for index in np.ndindex(array.shape)] for array in varied]
    np.testing.assert_allclose(np.ravel(slopes), expected_of(problem, inputs).ravel(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("layers", "bidirectional"), EXTREMES)
@pytest.mark.parametrize("direction", ["forward_inference", "bwd_data"])
def test_a_sample_stands_for_the_whole(
    cell: str, layers: int, bidirectional: bool, direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Rnn(32, 6, 200, cell, direction, layers, bidirectional)
    inputs = problem.inputs(np.random.default_rng(0))
    whole = problem.reference(np.random.default_rng(1), *inputs).expected
    monkeypatch.setattr(rnn, "FULL_CHECK_FLOP", 1)
    for seed in range(2):
        part = problem.reference(np.random.default_rng(seed), *inputs)
        assert (1, 6, whole.shape[2]) == part.expected.shape
        assert 199 == part.index[0].max()
        difference = np.abs(part.expected - whole[part.index]) / part.scale
        assert difference.max() < problem.tolerance() / 5


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("layers", "bidirectional"), EXTREMES)
def test_gradients_of_weights_are_checked_where_few_steps_matter(
    cell: str, layers: int, bidirectional: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Rnn(32, 6, 200, cell, "bwd_weights", layers, bidirectional)
    timed = problem.inputs(np.random.default_rng(0))
    assert problem.check_inputs(np.random.default_rng(1), timed) is timed
    monkeypatch.setattr(rnn, "FULL_CHECK_FLOP", 1)
    checked = problem.check_inputs(np.random.default_rng(1), timed)
    part = problem.reference(np.random.default_rng(2), *checked)
    monkeypatch.undo()
    dy = problem.operands(checked).dy
    steps, rows = np.nonzero(dy.any(axis=2))
    assert [0, 1, 2, 3, 4, 5] == sorted(rows)
    assert 199 == steps.max()
    whole = problem.reference(np.random.default_rng(1), *checked).expected
    assert part.expected.shape == whole[part.index].shape
    assert (np.abs(part.expected - whole[part.index]) / part.scale).max() < problem.tolerance() / 5


def test_gradients_of_weights_are_right_whatever_dy_is(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Rnn(8, 3, 9, "gru", "bwd_weights")
    inputs = problem.inputs(np.random.default_rng(0))
    whole = problem.reference(np.random.default_rng(1), *inputs).expected
    monkeypatch.setattr(rnn, "FULL_CHECK_FLOP", 1)
    part = problem.reference(np.random.default_rng(1), *inputs)
    np.testing.assert_allclose(part.expected, whole[part.index], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("hidden", [32, 256])
def test_differences_fade_as_the_tolerance_says(cell: str, hidden: int) -> None:
    problem = Rnn(hidden, 2, 16, cell)
    inputs = inputs_of(problem)
    other = [inputs[0], -inputs[1], *inputs[2:]]
    difference = np.linalg.norm(expected_of(problem, inputs) - expected_of(problem, other), axis=(1, 2))
    assert difference[5] > 0
    assert difference[15] < difference[5] * FADING[cell] ** 10


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_network_without_its_recurrent_product_is_beyond_the_tolerance(cell: str, dtype: str) -> None:
    problem = Rnn(64, 4, 10, cell, dtype=dtype)
    inputs = inputs_of(problem)
    operands = problem.operands(inputs)
    right = problem.reference(np.random.default_rng(0), *inputs)
    operands.weights[1][:] = 0
    assert (np.abs(expected_of(problem, inputs) - right.expected) / right.scale).max() > problem.tolerance()


@pytest.mark.parametrize("cell", CELLS)
def test_the_tolerance_tells_tf32_from_float32(cell: str) -> None:
    problem = Rnn(128, 4, 20, cell)
    inputs = problem.inputs(np.random.default_rng(0))
    right = problem.reference(np.random.default_rng(1), *inputs)
    rounded = [(array.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for array in inputs]
    error = (np.abs(expected_of(problem, list(rounded)) - right.expected) / right.scale).max()
    assert problem.tolerance() < error < replace(problem, math_mode="tf32").tolerance()


def test_vanilla_keeps_away_from_where_its_derivative_jumps() -> None:
    problem = Rnn(256, 8, 30)
    y = expected_of(problem, inputs_of(problem))
    assert 0.3 < (y == 0).mean() < 0.7
    assert y[y > 0].min() > 0.1


def test_a_probe_has_fewer_steps_of_the_same_kind() -> None:
    problem = Rnn(512, 16, 100, "gru")
    small = problem.probe(problem.flop() // 10)
    assert replace(problem, seq_len=10) == small
    assert problem.probe(problem.flop()) is None
    tiny = problem.probe(2**24)
    assert tiny is not None
    assert (512, 1) == (tiny.hidden_size, tiny.seq_len)
    assert 2**23 < tiny.flop() < 2**25


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seq_len": 0}, "seq_len=0: a whole number of at least 1"),
        ({"cell": "elman"}, "cell='elman': one of vanilla, lstm, gru"),
        ({"direction": "forward"}, "direction='forward': one of forward_inference"),
        ({"layers": 0}, "layers=0: a whole number of at least 1"),
        ({"dtype": "int8"}, "dtype='int8': one of float32"),
        ({"dtype": "float16", "math_mode": "tf32"}, "tf32 is a mode of float32"),
    ],
)
def test_nonsense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        Rnn(**({"hidden_size": 1, "batch_size": 1, "seq_len": 1} | options))


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
    backend.device = "cuda:0"  # only named: what is put stays on the CPU
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
from primbench.dtypes import numpy_dtype
from primbench.kernels.gemm import numba as gemm_numba
from primbench.kernels.rnn import Rnn
from primbench.kernels.rnn.numba import numba_rnn

gemm_numba.TILES = {"float32": (gemm_numba.Tile(16, 16, 4, 4, 4),)}
backend = types.SimpleNamespace(
    name="numba", device="cuda:0", multiprocessors=1, stream=0, synchronize=lambda: None,
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
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run([sys.executable, "-P", "-c", IN_SIMULATOR], env=environment, capture_output=True, text=True)
    assert 0 == done.returncode, done.stderr
    assert [] == json.loads(done.stdout.splitlines()[-1])
