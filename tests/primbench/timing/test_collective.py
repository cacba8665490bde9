from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from primbench.backends.numpy import Numpy
from primbench.distributed.group import Group
from primbench.errors import UnsupportedCase, VerificationError
from primbench.kernels.allreduce import Allreduce
from primbench.measurement import Measurement
from primbench.spec.method import Method
from primbench.timing.case import measure_on
from primbench.timing.collective import Lockstep, LockstepInTurn
from primbench.timing.sampling import CLOCK, MIN_TURNS

QUICK = Method(min_time_s=0.002, max_time_s=0.02)


OnEveryRank = Callable[..., list[Any]]


def measured(group: Group, problem: Allreduce, method: Method = QUICK) -> Measurement:
    return measure_on(Numpy(), problem, method, group)


def test_every_rank_has_the_same_samples_and_the_columns_of_nccl_tests(on_every_rank: OnEveryRank) -> None:
    problem = Allreduce(1 << 12, 2)
    zero, one = on_every_rank(2, lambda group: measured(group, problem))
    assert zero.verified
    assert zero.batch_s == one.batch_s
    assert zero.wall_s == one.wall_s
    figures = problem.figures(zero)
    assert pytest.approx(problem.bytes / zero.batch_s.median_s) == figures["algbw_bytes_per_s"]
    assert 0 == figures["#wrong"]


def test_ranks_take_turns_with_others_all_together(on_every_rank: OnEveryRank) -> None:
    """Rank 0 alone speaks with who gives turns; each rank has as many of them, and samples as much."""
    said: list[bool] = []

    def give_away(done: bool) -> bool:
        said.append(done)
        return done

    def code(group: Group) -> Measurement:
        turns = LockstepInTurn(group, None if group.rank else give_away, shares_s={})
        return measure_on(Numpy(), Allreduce(1 << 12, 2), QUICK, group, turns=turns)

    zero, one = on_every_rank(2, code)
    assert zero.batch_s == one.batch_s
    assert zero.turns.count == one.turns.count == 1 + len(said) > MIN_TURNS
    assert zero.turns.cpu is None


def test_a_cold_cache_rotates_the_same_number_of_sets_on_every_rank(on_every_rank: OnEveryRank) -> None:
    method = Method(cache="cold", dry_run=True)
    zero, one = on_every_rank(2, lambda group: measured(group, Allreduce(1 << 21, 2), method))
    assert zero.input_sets == one.input_sets > 1


def test_a_wrong_element_on_one_rank_fails_the_case_on_all(
    monkeypatch: pytest.MonkeyPatch, on_every_rank: OnEveryRank
) -> None:
    right = Allreduce.count_wrong
    monkeypatch.setattr(Allreduce, "count_wrong", lambda self, *asked: right(self, *asked) + 3)
    for outcome in on_every_rank(2, lambda group: measured(group, Allreduce(4096, 2))):
        assert isinstance(outcome, VerificationError)
        assert "wrong result: 6 of 2048 elements on 2 ranks" == str(outcome)


def test_what_does_not_fit_on_one_rank_is_refused_by_all_and_the_next_case_is_measured(
    on_every_rank: OnEveryRank,
) -> None:
    def code(group: Group) -> Any:
        with pytest.raises(UnsupportedCase, match=r"needs .* TiB, .* free on this host"):
            measured(group, Allreduce(1 << 39, 2), Method(check=False))
        return measured(group, Allreduce(64, 2), Method(dry_run=True)).verified

    assert [True, True] == on_every_rank(2, code)


def test_ranks_begin_at_the_same_moment_and_see_the_slowest_value(on_every_rank: OnEveryRank) -> None:
    def code(group: Group) -> Any:
        pace = Lockstep(group)
        pace.begin()
        began = CLOCK()
        return began, pace.slowest([float(group.rank), -float(group.rank)]), pace.now()

    (began, slowest, now), other = on_every_rank(2, code)
    assert [1.0, -0.0] == slowest == other[1]
    assert now == other[2]
    assert abs(began - other[0]) < 5e9
