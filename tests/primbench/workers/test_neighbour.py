"""Cases timed by real workers beside real neighbours: what is recorded of these, and what becomes of a case without."""

from __future__ import annotations

import os
import signal

import psutil
import pytest
from msgspec.structs import replace

from primbench.cli.study import neighbour_in_words
from primbench.results.record import Record, Worker
from primbench.spec.arm import Arm, parse_arm
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.workers.neighbour import NeighbourGone, start_of, timed_beside
from primbench.workers.process import WorkerProcess
from primbench.workers.protocol import Outcome
from primbench.workers.session import Session

from ...processes import children

CASE = Case(
    primitive="launch",
    parameters={"call": "getppid"},
    backend="numpy",
    device="cpu",
    method=Method(min_time_s=0.001, max_time_s=0.01),
    arm="here",
)
WORDS = "gemm -m 8 -n 8 -k 8"


def beside(words: str) -> Arm:
    return replace(parse_arm("host:name=here"), neighbour=neighbour_in_words(words))


def descendants() -> set[psutil.Process]:
    return set(children("primbench.workers.worker", recursive=True))


def test_a_neighbour_calls_during_every_case_of_its_own_arm_and_ends_with_it() -> None:
    other = replace(CASE, arm="other")
    with Session(arms={"here": beside(WORDS), "other": parse_arm("host:name=other")}) as session:
        first, *mine = session.run([CASE, CASE])
        assert isinstance(first, Worker)
        (neighbour,) = {each.pid for each in descendants()} - {first.pid}
        second, others = session.run([other])
        assert isinstance(second, Worker)
        assert [second.pid] == [each.pid for each in descendants()]
    assert not psutil.pid_exists(neighbour)
    assert isinstance(others, Record)
    assert others.measurement is not None
    assert others.measurement.neighbour is None
    for record in mine:
        assert isinstance(record, Record)
        assert record.measurement is not None
        found = record.measurement.neighbour
        assert found is not None
        assert (WORDS, "numpy", "cpu") == (found.words, found.backend, found.device)
        assert found.calls >= 1
        assert found.duration_s > 0


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (f"{WORDS} --backend cupy --device cpu", "cupy"),
        ("gemm -m 8 -n 8 -k 8 --dtype bfloat16", "UnsupportedCase: NumPy has no bfloat16 matrix product"),
    ],
)
def test_without_its_neighbour_a_case_fails_and_says_why(words: str, reason: str) -> None:
    with Session(arms={"here": beside(words)}) as session:
        *_, record = session.run([CASE])
    assert isinstance(record, Record)
    assert "failed" == record.status
    assert str(record.reason).startswith(f"neighbour {words}: ")
    assert reason in str(record.reason)
    assert "\n" not in str(record.reason)


def test_a_neighbour_that_dies_while_a_case_is_timed_is_the_reason_of_its_failure() -> None:
    neighbour = neighbour_in_words(WORDS)
    there = WorkerProcess(start_of(neighbour, CASE))

    def timed() -> Outcome:
        os.kill(there.ready.pid, signal.SIGKILL)
        return Outcome(status="ok")

    with pytest.raises(NeighbourGone, match=f"^neighbour {WORDS}: worker was killed by SIGKILL"):
        timed_beside(neighbour, there, 10.0, timed)
    there.end()


def test_one_that_stands_still_is_not_waited_for_for_ever() -> None:
    neighbour = neighbour_in_words(WORDS)
    there = WorkerProcess(start_of(neighbour, CASE))
    os.kill(there.ready.pid, signal.SIGSTOP)
    with pytest.raises(NeighbourGone, match=f"^neighbour {WORDS}: no answer within 0.1 s"):
        timed_beside(neighbour, there, 0.1, lambda: Outcome(status="ok"))
    there.end()


def test_it_is_on_the_device_and_by_the_backend_of_the_case_unless_it_names_others_or_lacks_them() -> None:
    on_gpu = replace(CASE, backend="torch", device="cuda:1")
    assert ("torch", "cuda:1") == chosen(WORDS, on_gpu)
    assert ("numpy", "cpu") == chosen(f"{WORDS} --backend numpy --device cpu", on_gpu)
    assert (None, "cuda:1") == chosen(WORDS, replace(on_gpu, backend="driver"))
    assert (None, "cpu") == chosen("files --bytes 4KiB", on_gpu)


def chosen(words: str, case: Case) -> tuple[str | None, str | None]:
    start = start_of(neighbour_in_words(words), case)
    return start.backend, start.device
