from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from primbench.backends.numpy import Numpy
from primbench.distributed.group import ALONE
from primbench.errors import BackendUnavailable, PrimbenchError, VerificationError
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.spec.placement import Placement
from primbench.timing.raised import one_line
from primbench.workers import protocol, worker
from primbench.workers.protocol import Outcome, Prepare, Ready, Refusal, Start, Task

START = Start(backend="numpy", device="cpu")
CASE = Case(
    primitive="gemm",
    parameters={"m": 8, "n": 8, "k": 8},
    backend="numpy",
    device="cpu",
    method=Method(min_time_s=0.001, max_time_s=0.01),
)


def talk(*messages: Any) -> tuple[list[protocol.Answer], subprocess.CompletedProcess[bytes]]:
    """What a real worker answers to these messages, and how it ends when no more come."""
    said = b"".join(protocol.encode(message) + b"\n" for message in messages)
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "primbench.workers.worker", "run=1"],
        input=said,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return [protocol.decode_answer(line) for line in ended.stdout.splitlines()], ended


def test_a_worker_answers_each_message_and_ends_with_its_input() -> None:
    dry = replace(CASE, method=Method(dry_run=True))
    (ready, timed, checked), ended = talk(START, Task(case=CASE), Task(case=dry))
    assert isinstance(ready, Ready)
    assert ("numpy", "cpu") == (ready.backend, ready.device)
    assert "numpy" in ready.versions
    assert isinstance(timed, Outcome)
    assert timed.measurement is not None
    assert timed.measurement.batch_s is not None
    assert timed.measurement.verified
    assert isinstance(checked, Outcome)
    assert checked.measurement is not None
    assert checked.measurement.main is None
    assert (0, b"") == (ended.returncode, ended.stderr)


def test_a_worker_looks_around_after_its_backend_is_open() -> None:
    (ready,), _ = talk(START)
    assert isinstance(ready, Ready)
    assert ready.environment.software.libraries is not None
    assert any("openblas" in name or "mkl" in name for name in ready.environment.software.libraries)
    assert ready.placement.threads is not None


def test_what_cannot_be_had_is_refused_and_said_to_be_place_or_backend() -> None:
    (backend,), _ = talk(replace(START, device="cuda:0"))
    (place,), _ = talk(replace(START, placement=Placement(cpus=(99_999,))))
    assert Refusal(reason="backend numpy on cuda:0: it runs on cpu only", placement=False) == backend
    assert isinstance(place, Refusal)
    assert place.placement
    assert ({"cpus": "99999"}, "this process may run on") == (place.asked, place.reason[:23])


def test_another_version_of_the_protocol_is_refused() -> None:
    expected = f"speaks protocol {protocol.PROTOCOL_VERSION}, this one 999: install the same version in both places"
    with pytest.raises(BackendUnavailable, match=expected):
        worker.begin(replace(START, protocol_version=999))


def outcome(**parameters: int | str) -> Outcome:
    return worker.run(Numpy(), Task(case=replace(CASE, parameters=CASE.parameters | parameters)), START)


def test_what_a_backend_cannot_do_is_skipped_and_what_goes_wrong_has_failed() -> None:
    assert Outcome(status="skipped", reason="NumPy has no bfloat16 matrix product") == outcome(dtype="bfloat16")
    wrong = outcome(m=0)
    assert "failed" == wrong.status
    assert str(wrong.reason).startswith("InvalidField: gemm m=0")


def test_tracing_on_a_cpu_is_an_outcome_too() -> None:
    traced = worker.run(Numpy(), Task(case=CASE), replace(START, purpose="trace"))
    assert traced.status != "ok"
    assert traced.reason


@pytest.mark.parametrize(
    ("expected", "error"),
    [
        ("RuntimeError: first", RuntimeError("first\nsecond")),
        ("RuntimeError: padded", RuntimeError("\n  padded\n")),
        ("MemoryError", MemoryError()),
        ("files in /x: none", PrimbenchError("files in /x: none")),
        ("VerificationError: wrong", VerificationError("wrong")),
        ("KeyError: 'x'", KeyError("x")),
    ],
)
def test_an_exception_becomes_one_line(expected: str, error: Exception) -> None:
    assert expected == one_line(error)


def test_every_message_survives_the_way_there_and_back() -> None:
    assert START == protocol.decode_start(protocol.encode(START))
    assert Task(case=CASE) == protocol.decode_word(protocol.encode(Task(case=CASE)))
    refusal = Refusal(reason="line\nend", placement=True)
    assert refusal == protocol.decode_answer(protocol.encode(refusal))
    with pytest.raises(msgspec.ValidationError):
        protocol.decode_answer(protocol.encode(START))


def test_inputs_that_were_made_early_are_those_of_their_case_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a case that another worker takes over, or that is not run after all."""
    given: list[int] = []

    def run(*_: object, inputs: Sequence[object], **__: object) -> Outcome:
        given.append(len(inputs))
        return Outcome(status="ok")

    monkeypatch.setattr(worker, "run", run)
    other = replace(CASE, process=1)
    prepare = Prepare(case=CASE, together=2)
    words: list[protocol.Word] = [prepare, Task(case=CASE), Task(case=CASE), prepare, Task(case=other)]
    source, sink = io.BytesIO(b"".join(protocol.encode(word) + b"\n" for word in words)), io.BytesIO()
    backend, ready = worker.begin(START)
    worker.serve(source, sink, backend, START, ready=ready, group=ALONE, refused=None)
    assert [2, 0, 0] == given
