"""The chain of loads: one ring through all places, walked to its end."""

from __future__ import annotations

import numpy as np
import pytest

from primbench import Method, measure
from primbench.backends import missing, open_backend
from primbench.errors import InvalidRequest, UnsupportedCase, VerificationError
from primbench.kernels.chase.problem import STRIDE_BYTES, Chase
from primbench.measurement import Measurement, Samples
from primbench.numa.pages import PAGE_BYTES
from primbench.numa.scan import memory_nodes
from primbench.registry import setup_of
from primbench.timing.verify import check_output

QUICK = Method(min_time_s=0.001, max_time_s=0.005)
without_numba = pytest.mark.skipif(missing("numba") is not None, reason=str(missing("numba")))


@pytest.mark.parametrize("places", [2, 3, 1000])
def test_the_chain_comes_through_every_place_once(places: int) -> None:
    (following,) = Chase(places * STRIDE_BYTES).inputs(np.random.default_rng(1))
    at, seen = 0, []
    for _ in range(places):
        seen.append(at)
        at = int(following[at])
    assert (0, list(range(places))) == (at, sorted(seen))


def test_a_rising_chain_goes_to_the_next_place() -> None:
    (following,) = Chase(5 * STRIDE_BYTES, order="rising").inputs(np.random.default_rng(1))
    assert [1, 2, 3, 4, 0] == list(following)


def test_the_chain_leaves_no_order_to_guess() -> None:
    (following,) = Chase(2**20).inputs(np.random.default_rng(1))
    assert np.mean(np.abs(np.diff(following)) <= 2) < 0.01


@pytest.mark.wheel
@without_numba
def test_a_walk_that_is_one_load_short_is_found() -> None:
    problem = Chase(2**16)
    backend, rng = open_backend("numba", "cpu"), np.random.default_rng(1)
    inputs = problem.inputs(rng)
    right = problem.reference(rng, *inputs)
    step = setup_of("chase", "numba")(backend, problem, *inputs)
    assert 0 == check_output(backend, problem, step, right)
    end = int(step()[0])
    with pytest.raises(VerificationError, match="wrong result"):
        check_output(backend, problem, lambda: np.flatnonzero(inputs[0] == end), right)


@pytest.mark.wheel
@without_numba
def test_on_a_node_of_its_own_all_pages_are_there() -> None:
    node = next(node.id for node in memory_nodes() if node.has_memory and node.allowed)
    found = measure(Chase(2**20, node), "numba", "cpu", method=QUICK)
    assert found.pages is not None
    assert ([node], False, True) == (found.pages.asked, found.pages.misplaced, found.verified)
    assert 2**20 // PAGE_BYTES <= sum(found.pages.by_node.values())


@pytest.mark.wheel
@without_numba
def test_a_node_that_is_not_there_is_said_so() -> None:
    with pytest.raises(UnsupportedCase, match="no memory on node 900"):
        measure(Chase(2**20, 900), "numba", "cpu", method=QUICK)


def test_load_is_the_time_of_one() -> None:
    samples = Samples(samples_s=[1023e-8], calls_per_sample=1, taken_by="host clock", stopped="count")
    assert 1e-8 == pytest.approx(Chase(1024 * STRIDE_BYTES).figures(Measurement(batch_s=samples))["load_s"])
    assert {"load_s": None} == Chase(1024).figures(Measurement())


@pytest.mark.parametrize(
    ("size_bytes", "node", "reason"),
    [
        (1000, -1, "a multiple of 128"),
        (128, -1, "at least 256"),
        (0, -1, "at least 1"),
        (256, 1024, "a whole number from -1 to 1023"),
    ],
)
def test_what_is_no_chain_is_refused(size_bytes: int, node: int, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        Chase(size_bytes, node)
