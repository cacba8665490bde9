from __future__ import annotations

import math
import weakref
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from primbench.backends import missing
from primbench.errors import UnsupportedCase
from primbench.kernels.aten import Aten
from primbench.kernels.elementwise import Elementwise
from primbench.kernels.gemm import Gemm
from primbench.kernels.startup import Startup
from primbench.problem import Problem
from primbench.spec.method import Method
from primbench.system import memory
from primbench.timing.calls import CallLoop
from primbench.timing.case import measure
from primbench.timing.inputs import InputTurns, cold_sets, turns_apart


def test_cold_sets_exceed_twice_the_cache() -> None:
    assert 7 == cold_sets(20, 60)
    assert cold_sets(10**9, 60 * 2**20) == 2


def test_a_cold_run_that_would_need_too_many_sets_is_refused() -> None:
    with pytest.raises(UnsupportedCase, match=r"\d+ sets of inputs, 4096 are the limit"):
        measure(Gemm(4, 4, 4), backend="numpy", device="cpu", method=Method(cache="cold"))


def test_what_has_no_inputs_has_no_cold_cache() -> None:
    with pytest.raises(UnsupportedCase, match="startup has no inputs that a cache could hold"):
        measure(Startup(what="thread"), device="cpu", method=Method(cache="cold"))


def test_a_cold_run_rotates_its_sets() -> None:
    problem = Gemm(1024, 1024, 16)
    method = Method(cache="cold", dry_run=True)
    measured = measure(problem, backend="numpy", device="cpu", method=method)
    assert measured.input_sets_bytes > 2 * memory.last_level_cache_bytes()
    assert measured.input_sets == measured.input_sets_bytes // problem.memory_bytes() > 1


def test_a_part_is_cold_where_the_step_touches_more_than_the_cache_holds() -> None:
    cache_bytes = memory.last_level_cache_bytes()

    def sets(problem: Problem, reuse_bytes: int | None) -> int:
        return measure(
            problem, device="cpu", method=Method(dry_run=True, check=False, reuse_bytes=reuse_bytes)
        ).input_sets

    product = Gemm(2, 1024, 1024)
    assert [1, 1] == [sets(product, each) for each in (None, cache_bytes)]
    assert cold_sets(product.memory_bytes(), cache_bytes) == sets(product, cache_bytes + 1)
    pushes_itself_out = Elementwise(2 * cache_bytes // 8)
    assert [1, 1, 1] == [sets(each, 2**50) for each in (Gemm(4, 4, 4), Startup(what="thread"), pushes_itself_out)]


@pytest.mark.wheel
@pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))
def test_sets_of_any_operator_are_as_many_as_what_it_writes_leaves_to_be_filled() -> None:
    """Of a gradient that is written into rows of a table, or of a sum, which writes next to nothing."""
    cache_bytes, method = memory.last_level_cache_bytes(), Method(dry_run=True, check=False, reuse_bytes=2**50)
    summed = Aten("aten.sum.default", '["float32[512,1024]"]')
    spread = Aten("aten.select_backward.default", '["float32[1024]", [512, 1024], 0, 3]')
    mebi = 2**20
    for problem, touched_bytes in ((summed, 2 * mebi + 4), (spread, 2 * mebi + 4096)):
        found = measure(problem, "torch", "cpu", method=method)
        assert cold_sets(touched_bytes, cache_bytes) == found.input_sets


INPUTS = st.lists(st.tuples(st.integers(0, 10**8), st.integers(10**6, 10**7)), min_size=1, max_size=4)


@example([(2000001, 10**6), (4000001, 10**6)], 0)  # two copies of the nearest, whose turns would not fill three sets
@given(INPUTS, st.integers(0, 10**7))
def test_between_two_uses_of_a_copy_as_much_is_touched_as_in_the_step(
    inputs: list[tuple[int, int]], written_bytes: int
) -> None:
    """By going round three times: each copy and each output that lies between counts once. n calls in a row would be
    far enough for the nearest; its turns, of one length or of two next to it, are no longer than 2 n - 1 calls.
    """
    distances, sizes = zip(*inputs, strict=True)
    turns = turns_apart(distances, sizes, sum(sizes) + written_bytes)
    calls = [
        {("output", number): written_bytes}
        | {(which, turns.place(number, which)): size for which, size in enumerate(sizes)}
        for _ in range(3)
        for number in range(turns.sets)
    ]
    found: dict[Any, list[int]] = {}
    last: dict[Any, int] = {}
    for now, call in enumerate(calls):
        for one in call:
            if one in last and one[0] != "output":
                touched = {key: size for each in calls[last[one] : now] for key, size in each.items()}
                found.setdefault(one, []).append(sum(touched.values()))
            last[one] = now
    for (which, _), several in found.items():
        assert min(several) >= distances[which]
    nearest = min(range(len(sizes)), key=distances.__getitem__)
    in_each_turn = range(turns.sets // turns.of_inputs[nearest])
    touched_bytes = sum(sizes) + written_bytes
    far_enough = max(1, math.ceil(distances[nearest] / touched_bytes))
    assert max(max(found[nearest, copy]) for copy in in_each_turn) <= (2 * far_enough - 1) * touched_bytes


@pytest.mark.parametrize(
    ("distances", "sets", "copies"),
    [
        ((0, 0), 1, [1, 1]),
        ((110, 110), 1, [1, 1]),  # as far as a call itself takes
        ((111, 111), 2, [2, 2]),
        ((0, 1000), 90, [1, 90]),  # 100 for what is near, and ten for each other one
        ((1000, 0), 10, [10, 1]),
        ((220, 420), 22, [2, 22]),  # two times 100, and ten each
        ((330, 1000), 70, [4, 70]),  # three do, in 23 turns; in one of them there are four
        ((0, 10**9), 1, [1, 1]),  # too many
        ((1000, 10**9), 10, [10, 1]),  # the other as if that were near
    ],
)
def test_what_is_far_has_copies(distances: tuple[int, int], sets: int, copies: list[int]) -> None:
    turns = turns_apart(distances, (100, 10), 0)
    assert sets == turns.sets
    assert copies == [1 + max(turns.place(each, which) for each in range(sets)) for which in range(2)]


def test_thousands_of_inputs_go_round_with_those_that_would_take_too_many_copies_near() -> None:
    """As an optimizer is given those of all layers."""
    tiny, layers = 2000, 3
    turns = turns_apart([10**7] * tiny + [10**6] * layers, [4] * tiny + [10**5] * layers, 4 * tiny + layers * 10**5)
    assert (4, [4] * tiny + [1] * layers) == turns  # 8 kB, and three times 300
    assert InputTurns.together(1, tiny) == turns_apart([10**9] * tiny, [4] * tiny, 4 * tiny)


def test_what_calls_return_is_kept_while_the_other_sets_go_round() -> None:
    """As memory of its own for each, where it would be freed, and given to the next."""
    alive: list[weakref.ref[Any]] = []
    most = 0

    def step() -> Any:
        nonlocal most
        made = type("Output", (), {})()
        alive.append(weakref.ref(made))
        most = max(most, sum(each() is not None for each in alive))
        return made

    calls = CallLoop([step] * 3)
    calls(12)
    assert most == 1
    calls.apart(12)
    assert most == 4  # the one that is made, and three before
    assert not any(each() is not None for each in alive)


@pytest.mark.wheel
@pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))
def test_what_is_near_is_shared_by_sets_of_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """By sets on a CPU, which takes a GPU's way here; more elements than are drawn, so that they repeat in memory."""
    import numpy as np

    from primbench.backends import best_available
    from primbench.devices import Device
    from primbench.registry import backends_of, setup_of
    from primbench.timing import inputs

    problem = Aten("aten.add.Tensor", '["float32[300000]", "float32[300000]"]')
    backend = best_available(backends_of("aten"), "torch", "cpu")
    placed: list[tuple[int, ...]] = []

    def noted(*arguments: Any) -> Any:
        placed.append(tuple(each.data_ptr() for each in arguments[2:]))
        assert [300000, 300000] == [each.numel() for each in arguments[2:]]
        return setup_of("aten", "torch")(*arguments)

    monkeypatch.setattr(inputs, "last_level_cache_bytes", lambda _: 10**7)
    monkeypatch.setattr(inputs, "check_memory", lambda *_: None)
    monkeypatch.setattr(inputs, "extents_of", lambda *_: [])
    method = Method(reuse_bytes=(0, 10**7))
    with monkeypatch.context() as patched:
        patched.setattr(Device, "is_gpu", True)
        steps, _ = inputs.set_up(backend, problem, problem.inputs(np.random.default_rng(0)), method, noted)
    assert len(steps) == len(placed) == 4  # 1.2 MB near, and 2.4 MB a call for the other 8.8
    assert 1 == len({near for near, _ in placed})
    assert 4 == len({far for _, far in placed})
