"""The calls of a step made again: in which word they are, and what a delay before each does."""

from __future__ import annotations

import base64
import zlib

import pytest

from primbench import Method, run
from primbench.backends import missing
from primbench.errors import InvalidField, InvalidRequest
from primbench.kernels.replay import Replay
from primbench.kernels.replay.problem import DELAYS_NS, Part, decoded, delayed, encoded

WITHOUT_TORCH = missing("torch")
PARTS = [
    Part("gemm", {"m": 16, "n": 16, "k": 16}),
    Part("aten", {"operator": "aten.mul_.Tensor", "arguments": '["float32[8]", 2.0]'}),
    Part("aten", {"operator": "nowhere.to_be.found"}),
]


def test_calls_in_a_word_and_back() -> None:
    word = encoded(PARTS, [1, 0, 1])
    assert (PARTS, [1, 0, 1]) == decoded(word)
    assert "gemm" == Replay(calls=word).problems[0].primitive


@pytest.mark.parametrize(
    "word",
    ["", "no base64!", base64.b64encode(b"not deflated").decode(), base64.b64encode(zlib.compress(b"[]")).decode(),
     encoded(PARTS, [3]), encoded(PARTS, [])],
)  # fmt: skip
def test_what_is_no_step(word: str) -> None:
    with pytest.raises(InvalidField, match="replay calls"):
        Replay(calls=word)


def test_a_problem_that_is_none() -> None:
    with pytest.raises(InvalidRequest, match="gemm"):
        Replay(calls=encoded([Part("gemm", {"m": -1})], [0])).memory_bytes()


@pytest.mark.wheel
@pytest.mark.skipif(WITHOUT_TORCH is not None, reason=str(WITHOUT_TORCH))
def test_delays_are_in_the_time() -> None:
    """Of 512 calls each at least 4 us later: no quiet machine is needed for a step that takes longer by that. One
    without delays may wait for a CPU whenever a measurement makes it: there is another measurement then.
    """
    from primbench import measure

    problem = Replay(calls=encoded(PARTS, [0, 1] * 256 + [2]), dosed=True)
    method = Method(min_time_s=0.02, max_time_s=0.05)
    for _ in range(50):
        found = measure(problem, "torch", "cpu", method=method)
        assert {"calls": 512, "left_out_calls": 1} == found.counts
        assert found.verified is None
        assert [delayed("calls", each) for each in DELAYS_NS["calls"]] == [*found.others]
        shortest_s = [min(samples.samples_s) for samples in found.others.values()]
        assert shortest_s[-1] > 512 * 3e-6
        if shortest_s[0] < shortest_s[-1]:
            break
    else:
        pytest.fail("no delay makes a step longer")


@pytest.mark.wheel
@pytest.mark.skipif(WITHOUT_TORCH is not None, reason=str(WITHOUT_TORCH))
def test_two_ranks_make_their_collectives_and_time_delays_of_these() -> None:
    """Of 64 of them each at least 400 us later."""
    parts = [
        *PARTS[:2], Part("allreduce", {"bytes": 1024, "ranks": 2}), Part("collective", {"bytes": 1024, "ranks": 2})
    ]  # fmt: skip
    problem = Replay(calls=encoded(parts, [0, 1, 2, 3] * 32), dosed=True, ranks=2)
    (record,) = run([problem], backend="torch", device="cpu", method=Method(min_time_s=0.02, max_time_s=0.05))
    found = record.measurement
    assert found is not None, record.reason
    assert {"calls": 128, "left_out_calls": 0} == found.counts
    names = [delayed(what, each) for what in DELAYS_NS for each in DELAYS_NS[what]]
    assert names == [*found.others]
    assert min(found.others[delayed("collectives", 400_000)].samples_s) > 64 * 390e-6


@pytest.mark.wheel
@pytest.mark.skipif(WITHOUT_TORCH is not None, reason=str(WITHOUT_TORCH))
def test_two_ranks_leave_out_what_one_makes_alone_and_torch_would_then_make_of_all() -> None:
    parts = [Part("allreduce", {"bytes": 1024, "ranks": ranks}) for ranks in (2, 1)]
    problem = Replay(calls=encoded(parts, [0, 1]), ranks=2)
    (record,) = run([problem], backend="torch", device="cpu", method=Method(min_time_s=0.002, max_time_s=0.005))
    assert record.measurement is not None, record.reason
    assert {"calls": 1, "left_out_calls": 1} == record.measurement.counts


@pytest.mark.wheel
@pytest.mark.skipif(WITHOUT_TORCH is not None, reason=str(WITHOUT_TORCH))
def test_one_process_leaves_collectives_out() -> None:
    from primbench import measure

    problem = Replay(calls=encoded([PARTS[0], Part("allreduce", {"bytes": 1024, "ranks": 2})], [0, 1]))
    found = measure(problem, "torch", "cpu", method=Method(min_time_s=0.002, max_time_s=0.005))
    assert {"calls": 1, "left_out_calls": 1} == found.counts
