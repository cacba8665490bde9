from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from primbench.dtypes import numpy_dtype
from primbench.errors import InvalidRequest
from primbench.kernels.rnn import Rnn
from primbench.kernels.rnn import problem as rnn
from primbench.kernels.rnn._network import Network
from primbench.kernels.rnn.problem import FADING

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
@pytest.mark.parametrize(
    ("layers", "bidirectional", "direction"),
    [(*EXTREMES[0], "forward_inference"), (*EXTREMES[0], "bwd_data"), (*EXTREMES[1], "bwd_data")],
)
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


def test_a_gradient_that_is_rounded_to_bfloat16_as_it_is_summed_passes() -> None:
    """Every 20 terms; cuDNN's on an H200 is as far off where the units are an odd number from 135 to 301."""
    problem = Rnn(161, 5, 1, "lstm", "bwd_data", bidirectional=True, dtype="bfloat16")
    stored, shares = numpy_dtype("bfloat16"), []
    for seed in range(20):
        inputs = problem.inputs(np.random.default_rng(seed))
        right = problem.reference(np.random.default_rng(1), *inputs)
        network = Network("lstm", "bwd_data", 2, problem.operands([array.astype("float64") for array in inputs]))
        network.forward()
        network.bwd_data()
        dx = np.zeros((5, 161), "float32")
        for chain in network.chains:
            few = np.arange(0, chain.dgates.shape[2], 20)
            dgates = chain.dgates[0].astype(stored).astype("float32")
            for terms in np.split(np.arange(dgates.shape[1]), few[1:]):
                product = (dgates[:, terms] @ chain.w_ih[terms]).astype(stored).astype("float32")
                dx = (dx + product).astype(stored).astype("float32")
        shares.append(float((np.abs(dx - right.expected[0]) / right.scale[0]).max() / problem.tolerance()))
    assert 0.5 < max(shares) < 1


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
