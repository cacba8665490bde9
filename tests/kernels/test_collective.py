"""Collectives beside the all-reduce: every element of every rank, sizes and formulas of nccl-tests, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from primbench.backends.numpy import Numpy
from primbench.dtypes import numpy_dtype
from primbench.errors import InvalidRequest, UnsupportedCase, VerificationError
from primbench.kernels.collective import Collective
from primbench.kernels.collective.problem import OPERATIONS
from primbench.measurement import Measurement, Samples
from primbench.problem.ranked import EXACT
from primbench.spec.method import Method
from primbench.timing.case import measure_on, setup

SEED = 3
every_operation = pytest.mark.parametrize("operation", OPERATIONS)


def received(problem: Collective, rank: int) -> Any:
    """What the definition of MPI (MPI-4.0, chapters 3 and 6) gives a rank, in the dtype itself."""
    brought = [problem.inputs_of(each, SEED)[0] for each in range(problem.ranks)]
    mine = slice(rank * problem.share, (rank + 1) * problem.share)
    made: dict[str, Callable[[], Any]] = {
        "all_gather": lambda: np.concatenate(brought),
        "reduce_scatter": lambda: np.add.reduce([each[mine] for each in brought], dtype=numpy_dtype(problem.dtype)),
        "broadcast": lambda: brought[0],
        "all_to_all": lambda: np.concatenate([each[mine] for each in brought]),
        "send_recv": lambda: brought[rank - 1],
    }
    return made[problem.operation]().copy()


@every_operation
@pytest.mark.parametrize("dtype", EXACT)
def test_what_is_received_is_right_to_the_last_element_and_every_wrong_one_is_counted(
    operation: str, dtype: str
) -> None:
    for ranks in (2, 3, 64):
        problem = Collective(64 * 16 * 9, ranks, dtype, operation)
        output = received(problem, ranks - 1)
        assert 0 == problem.count_wrong(output, ranks - 1, SEED)
        output[[0, 1, -1]] += numpy_dtype(dtype).type(1)
        assert 3 == problem.count_wrong(output, ranks - 1, SEED)


@pytest.mark.parametrize("operation", ["reduce_scatter", "all_to_all", "send_recv"])
def test_what_another_rank_is_to_receive_is_wrong(operation: str) -> None:
    problem = Collective(1 << 16, 4, operation=operation)
    assert problem.count_wrong(received(problem, 1), 2, SEED) > 0.9 * problem.received_count(2)


def test_shares_are_right_where_the_inputs_repeat() -> None:
    problem = Collective(3_000_000, 2, "int8", "all_to_all")
    assert 0 == problem.count_wrong(received(problem, 1), 1, SEED)


@pytest.mark.parametrize(
    ("operation", "algbw", "busbw", "sent_bytes", "received_bytes"),
    [
        ("all_gather", 1.2e9, 0.8e9, 400_000, 1_200_000),
        ("reduce_scatter", 1.2e9, 0.8e9, 1_200_000, 400_000),
        ("broadcast", 1.2e9, 1.2e9, 1_200_000, 1_200_000),
        ("all_to_all", 1.2e9, 0.8e9, 1_200_000, 1_200_000),
        ("send_recv", 1.2e9, 1.2e9, 1_200_000, 1_200_000),
    ],
)
def test_sizes_and_bandwidths_are_those_of_nccl_tests(
    operation: str, algbw: float, busbw: float, sent_bytes: int, received_bytes: int
) -> None:
    problem = Collective(1_200_000, 3, operation=operation)
    assert (sent_bytes, received_bytes) == (4 * problem.sent_count, 4 * problem.received_count(0))
    taken = Samples(samples_s=[1e-3], calls_per_sample=1, taken_by="graph", stopped="noise")
    figures = problem.figures(Measurement(device_s=taken, verified=True))
    assert pytest.approx(algbw) == figures["algbw_bytes_per_s"]
    assert pytest.approx(busbw) == figures["busbw_bytes_per_s"]
    assert 0 == figures["#wrong"]


def test_shares_are_rounded_down_to_16_bytes_as_nccl_tests_does() -> None:
    assert [992, 992, 1000] == [
        Collective(1000, 2, dtype, operation).bytes
        for dtype, operation in (("float32", "all_gather"), ("int8", "all_to_all"), ("float32", "broadcast"))
    ]


def test_a_skewed_split_gives_every_element_to_one_rank_and_the_first_most() -> None:
    problem = Collective(16 * 64, 4, operation="all_to_all", split="zipf")
    assert [124, 60, 40, 32] == problem.shares
    ends = np.cumsum([0, *problem.shares])
    brought = [problem.inputs_of(each, SEED)[0] for each in range(4)]
    for rank in range(4):
        output = np.concatenate([each[ends[rank] : ends[rank + 1]] for each in brought])
        assert problem.received_count(rank) == output.size
        assert 0 == problem.count_wrong(output, rank, SEED)
    assert 3 * 124 / 256 == problem.busbw_factor()
    assert 4 * (256 + 4 * 124) == problem.memory_bytes()


def test_ranks_of_numpy_receive_skewed_shares(on_every_rank: Callable[..., list[Any]]) -> None:
    problem = Collective(1 << 12, 3, operation="all_to_all", split="zipf")
    found = on_every_rank(3, lambda group: measure_on(Numpy(), problem, Method(dry_run=True), group))
    assert [True] * 3 == [each.verified for each in found], found


@pytest.mark.parametrize(
    ("expected", "fields"),
    [
        (
            "split='zipf' with operation='broadcast': all_to_all's",
            {"bytes": 64, "operation": "broadcast", "split": "zipf"},
        ),
        ("bytes=1001: float32 takes 4 each", {"bytes": 1001}),
        ("operation='all_gather' bytes=32: at least 48, 16 for each of 3 ranks", {"bytes": 32, "ranks": 3}),
        ("operation='gather': one of all_gather, reduce_scatter,", {"bytes": 1024, "operation": "gather"}),
        ("ranks=128: int8 sums", {"bytes": 4096, "ranks": 128, "dtype": "int8", "operation": "reduce_scatter"}),
    ],
)
def test_nonsense_is_refused(expected: str, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=expected):
        Collective(**fields)


def test_several_ranks_are_several_processes() -> None:
    with pytest.raises(UnsupportedCase, match="2 ranks are 2 processes"):
        setup(Collective(1024, 2), backend="numpy", device="cpu")


@every_operation
@pytest.mark.parametrize("in_place", [True, False])
def test_ranks_of_numpy_receive_it_before_and_after_it_is_timed(
    operation: str, in_place: bool, on_every_rank: Callable[..., list[Any]]
) -> None:
    method = Method(min_time_s=0.001, max_time_s=0.002)
    for ranks, size_bytes in ((2, 1 << 12), (3, 1 << 12)):
        problem = Collective(size_bytes, ranks, operation=operation, in_place=in_place)
        found = on_every_rank(ranks, lambda group, problem=problem: measure_on(Numpy(), problem, method, group))
        assert [True] * ranks == [each.verified for each in found], found


def test_a_share_that_is_left_out_fails_the_case_on_all_ranks(
    monkeypatch: pytest.MonkeyPatch, on_every_rank: Callable[..., list[Any]]
) -> None:
    from primbench.kernels.collective import numpy as numpy_kernel

    sums = numpy_kernel._sums
    monkeypatch.setattr(numpy_kernel, "_sums", lambda *asked: list(sums(*asked))[:-1])
    problem = Collective(1 << 12, 3, operation="all_to_all")
    for outcome in on_every_rank(3, lambda group: measure_on(Numpy(), problem, Method(dry_run=True), group)):
        assert isinstance(outcome, VerificationError)
        assert f"wrong result: {3 * problem.share} of {3 * problem.count} elements on 3 ranks" == str(outcome)
