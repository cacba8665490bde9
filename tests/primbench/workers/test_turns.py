"""Who has the next turn, with workers that do as they are told; experiments/test_pairs.py has real ones."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import psutil
import pytest
from msgspec.structs import replace

from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.workers import turns
from primbench.workers.process import WorkerGone, WorkerProcess
from primbench.workers.protocol import Go, Outcome, Sampled, Start, Task, TurnOver
from primbench.workers.turns import take_turns

CASE = Case(primitive="launch", parameters={"call": "dispatch"}, backend="numpy", device="cpu")
OK = Outcome(status="ok")


class Scripted:
    """metrics: how many turns each of them takes until there are samples enough. log: who had its turn, of all, and who
    ended, in capitals.

    turn_s: by a clock of their own, ``now_s``. ends_later: whether it says that it has sampled all before it ends.
    """

    now_s = 0.0

    def __init__(
        self,
        name: str,
        log: list[str],
        metrics: list[int],
        *,
        dies_in: int | None = None,
        turn_s: float = 0.0,
        ends_later: bool = False,
    ) -> None:
        self._name, self._log = name, log
        self._metrics, self._turns = metrics, 0
        self._dies_in, self._turn_s, self._ends_later = dies_in, turn_s, ends_later
        self._left = 0
        self.ended = False
        self.spent_s: list[float] = []

    def turn(self, word: Task | Go, timeout_s: float, spent_s: float) -> TurnOver | Sampled | Outcome:
        assert not self.ended
        self._log.append(self._name)
        self.spent_s.append(spent_s)
        self._turns += 1
        Scripted.now_s += self._turn_s
        if self._turns == self._dies_in or spent_s + self._turn_s > timeout_s:
            raise WorkerGone("worker was killed by SIGKILL")
        if isinstance(word, Task) or word.all_done:
            if not self._metrics:
                return Sampled() if self._ends_later else OK
            self._left = self._metrics.pop(0)
        self._left -= 1
        return TurnOver(done=self._left <= 0)

    def outcome(self, timeout_s: float, spent_s: float) -> Outcome:
        self._log.append(self._name.upper())
        Scripted.now_s += self._turn_s
        if spent_s + self._turn_s > timeout_s:
            raise WorkerGone("worker was killed by SIGKILL")
        return OK

    def end(self) -> None:
        self.ended = True


def played(*workers: Scripted, timeout_s: float = 60.0) -> list[str | None]:
    """The reasons for which they failed."""
    pairs = [(cast("WorkerProcess", each), Task(case=CASE, in_turn=True)) for each in workers]
    return [outcome.reason for outcome, _ in take_turns(pairs, timeout_s)]


@pytest.fixture
def log() -> list[str]:
    return []


def test_turns_go_round_in_the_order_of_the_arms_until_all_have_enough_of_a_metric(log: list[str]) -> None:
    played(*(Scripted(name, log, metrics) for name, metrics in (("a", [3, 1]), ("b", [5, 1]), ("c", [1, 1]))))
    assert list("abc") * 7 == log  # of the first metric five, of the second one, and the one in which they end


def test_they_end_at_the_same_time_once_all_have_sampled(log: list[str]) -> None:
    assert [None] * 3 == played(*(Scripted(name, log, [1], ends_later=name != "b") for name in "abc"))
    assert list("abcabcAC") == log


def test_one_that_has_fewer_metrics_or_ends_early_holds_up_nobody(log: list[str]) -> None:
    assert [None, None] == played(Scripted("a", log, [2]), Scripted("b", log, [2, 3, 3]))
    assert "abababbbbbbb" == "".join(log)


def test_one_that_dies_in_its_turn_leaves_the_others_to_theirs_and_is_ended_at_once(log: list[str]) -> None:
    dying = Scripted("b", log, [4, 4], dies_in=3)
    assert [None, "worker was killed by SIGKILL", None] == played(
        Scripted("a", log, [4, 4]), dying, Scripted("c", log, [4, 4])
    )
    assert dying.ended
    assert "abcabcabc" + "ac" * 6 == "".join(log)


def test_a_timeout_is_of_a_workers_own_turns(log: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "time", SimpleNamespace(monotonic=lambda: Scripted.now_s))
    slow, quick = Scripted("slow", log, [9], turn_s=0.03), Scripted("quick", log, [9])
    slow_reason, quick_reason = played(slow, quick, timeout_s=0.1)
    assert slow_reason is not None
    assert quick_reason is None
    assert pytest.approx([0.0, 0.03, 0.06, 0.09]) == slow.spent_s
    assert {0.0} == set(quick.spent_s)


@pytest.fixture
def workers() -> Iterator[list[WorkerProcess]]:
    started = [WorkerProcess(Start(backend="numpy", device="cpu")) for _ in range(2)]
    assert all(each.ready for each in started)
    yield started
    for each in started:
        each.end()


QUICK = replace(CASE, method=Method(min_time_s=0.001, max_time_s=0.01))
QUICK_TASK = Task(case=QUICK, in_turn=True)


def test_the_reason_names_the_time_that_was_asked_for_and_not_what_was_left_of_it(
    workers: list[WorkerProcess],
) -> None:
    stopped, _ = workers
    assert TurnOver(done=True) == stopped.turn(QUICK_TASK, 60.0, 0.0)
    os.kill(stopped.ready.pid, signal.SIGSTOP)
    with pytest.raises(WorkerGone, match=r"^no answer within 1 s \(--timeout\)$"):
        stopped.turn(Go(all_done=True), 1.0, 0.8)


def test_one_that_does_not_answer_is_gone_when_the_others_go_on(workers: list[WorkerProcess]) -> None:
    os.kill(workers[0].ready.pid, signal.SIGSTOP)
    (stopped, _), (other, active_s) = take_turns([(each, QUICK_TASK) for each in workers], 5.0)
    assert ("failed", "no answer within 5 s (--timeout)") == (stopped.status, stopped.reason)
    assert not psutil.pid_exists(workers[0].ready.pid)
    assert ("ok", None) == (other.status, other.reason)
    assert active_s < 5.0


def test_what_is_timed_in_turn_waits_while_others_have_theirs(workers: list[WorkerProcess]) -> None:
    """Waiting is no part of its phases, but for those that come when all is sampled, in which nobody has a turn."""
    cpu = min(os.sched_getaffinity(0))
    for outcome, active_s in take_turns([(each, replace(QUICK_TASK, cpu=cpu)) for each in workers], 60.0):
        assert outcome.measurement is not None
        turns = outcome.measurement.turns
        assert turns is not None
        assert (cpu, True) == (turns.cpu, turns.count > 6)
        phases_s = outcome.measurement.phases_s
        assert sum(time_s for name, time_s in phases_s.items() if name not in ("second check", "look")) <= active_s
        assert "look" in phases_s
        assert "turns" not in outcome.measurement.missing
