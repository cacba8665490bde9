from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from msgspec.structs import replace

from primbench.distributed import child
from primbench.errors import BackendUnavailable, PlacementError
from primbench.measurement import Measurement
from primbench.measurement.outputs import Checked, Output
from primbench.results.record import Record, Worker
from primbench.spec.arm import Arm
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.spec.placement import Placement
from primbench.system.said import FULL_BYTES, Lines, shorten, written
from primbench.timing.raised import one_line
from primbench.workers import process
from primbench.workers.asking import ask_a_worker
from primbench.workers.checked import CheckedOutputs
from primbench.workers.process import WorkerGone, WorkerProcess
from primbench.workers.protocol import Prepared, Start
from primbench.workers.session import Session

CASE = Case(
    primitive="gemm", parameters={"m": 2, "n": 2, "k": 2}, backend="numpy", device="cpu", method=Method(dry_run=True)
)
START = Start(backend="numpy", device="cpu")


def of(cases: Iterable[Case], runner: Session) -> tuple[list[Worker], list[Record]]:
    with runner:
        lines = list(runner.run(cases))
    workers = [line for line in lines if isinstance(line, Worker)]
    assert not [worker.pid for worker in workers if psutil.pid_exists(worker.pid)]
    return workers, [line for line in lines if isinstance(line, Record)]


def faulty(fault: str) -> Case:
    return replace(CASE, primitive="faulty", parameters={"n": 4, "fault": fault})


@pytest.fixture
def with_faulty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, faulty_package: Path) -> None:
    """Workers find the primitive ``faulty``."""
    monkeypatch.setenv("PYTHONPATH", str(faulty_package))
    monkeypatch.setenv("FAULT_TEST_RUN", str(tmp_path))


def test_a_worker_line_comes_before_the_first_record_made_there() -> None:
    with Session(first_worker=5) as runner:
        lines = list(runner.run([CASE, CASE]))
    assert [Worker, Record, Record] == [type(line) for line in lines]
    assert [5, 5, 5] == [line.worker for line in lines]


def test_one_worker_serves_the_cases_of_one_place() -> None:
    bound = replace(CASE, placement=Placement(threads=1))
    workers, records = of([CASE, CASE, bound, replace(bound, process=1), CASE], Session())
    assert [0, 0, 1, 2, 3] == [record.worker for record in records]
    assert [0, 1, 2, 3] == [worker.worker for worker in workers]
    assert 4 == len({worker.pid for worker in workers})
    assert 1 == workers[1].placement.threads


@pytest.mark.usefixtures("with_faulty")
def test_a_worker_is_replaced_after_a_failure_and_kept_after_a_skip() -> None:
    cases = [faulty(name) for name in ("none", "unsupported", "raise", "none")]
    _, records = of(cases, Session())
    assert ["ok", "skipped", "failed", "ok"] == [record.status for record in records]
    assert [0, 0, 0, 1] == [record.worker for record in records]


@pytest.mark.usefixtures("with_faulty")
def test_a_case_is_given_up_after_its_time() -> None:
    _, (record,) = of([faulty("hang")], Session(timeout_s=0.5))
    assert ("failed", "no answer within 0.5 s (--timeout)") == (record.status, record.reason)
    assert record.duration_s > 0.5


def in_two_arms(case: Case, timeout_s: float = 60) -> list[Record]:
    found = {"FAULT_TEST_RUN": os.environ["FAULT_TEST_RUN"]}  # arms have an environment of their own
    arms = [Arm(name=name, variables=found) for name in ("one", "other")]
    with Session(timeout_s=timeout_s, arms={arm.name: arm for arm in arms}) as runner:
        cases = [replace(case, arm=arm.name) for arm in arms]
        runner.start(cases)
        for each in cases:
            assert [Worker] == [type(line) for line in runner.open(each)]
        return runner.run_in_turn(cases, None, {})


@pytest.mark.usefixtures("with_faulty")
def test_workers_of_a_pair_make_their_inputs_at_the_same_time() -> None:
    assert 2 * [("ok", None)] == [(record.status, record.reason) for record in in_two_arms(faulty("meet"))]


@pytest.mark.usefixtures("with_faulty")
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("hang-early", "no answer within 0.5 s (--timeout)"),
        ("abort-early", "worker died of signal SIGABRT: last words"),
        ("raise", "RuntimeError: out of luck"),
    ],
)
def test_what_goes_wrong_in_preparation_is_the_outcome_of_the_case(fault: str, reason: str) -> None:
    records = in_two_arms(faulty(fault), 0.5 if fault == "hang-early" else 60)
    assert 2 * [("failed", reason)] == [(record.status, record.reason) for record in records]


def test_workers_that_cannot_start_fail_their_cases_without_a_worker_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    workers, records = of([CASE, CASE], Session())
    assert [] == workers
    assert [("failed", "worker died of exit status 1", None)] * 2 == [
        (record.status, record.reason, record.worker) for record in records
    ]


def test_an_unreachable_device_is_an_error_or_a_skip_as_asked() -> None:
    unreachable = replace(CASE, device="cuda:0")
    with pytest.raises(BackendUnavailable, match="backend numpy on cuda:0: it runs on cpu only"):
        of([unreachable], Session())
    _, records = of([unreachable, CASE], Session(skip_unavailable=True))
    assert [("skipped", None), ("ok", 0)] == [(record.status, record.worker) for record in records]
    assert "backend numpy on cuda:0: it runs on cpu only" == records[0].reason


def test_a_place_that_cannot_be_had_is_an_error() -> None:
    nowhere = replace(CASE, placement=Placement(cpus=(99_999,)))
    with pytest.raises(PlacementError, match="cpus=99999"):
        of([nowhere], Session(skip_unavailable=True))


def test_a_place_that_cannot_be_had_is_a_skip_where_that_is_asked() -> None:
    nowhere = replace(CASE, placement=Placement(cpus=(99_999,)))
    _, records = of([nowhere, CASE], Session(skip_misplaced=True))
    assert [("skipped", None), ("ok", 0)] == [(record.status, record.worker) for record in records]
    assert "cpus=99999" in (records[0].reason or "")


@pytest.mark.wheel
def test_a_worker_tells_what_it_would_choose() -> None:
    ready = ask_a_worker(("numpy", "torch"), "cpu")
    expected = "numpy" if ready.backend == "numpy" else "torch"
    assert (expected, "cpu") == (ready.backend, ready.device)
    assert not psutil.pid_exists(ready.pid)


IMPOSTORS = {
    "echo 'no JSON'; sleep 9": "worker spoke out of turn, .* printed 'no JSON': .*malformed",
    'echo \'{"type":"Outcome","status":"ok"}\'; sleep 9': "worker answered Outcome where Ready was due",
    "exec >&-; sleep 9": "worker closed its output but goes on running",
    "read line; echo one >&2; echo two >&2; exit 7": "worker died of exit status 7: two",
    "sleep 9": "no answer within 2 s$",
    "kill -SEGV $$": "worker died of signal SIGSEGV",
    "echo of something else >&2; kill -ILL $$": (
        "worker died of signal SIGILL: MKL_CBWR=AVX2 has a library take code that this CPU may lack the instr"
    ),
}


@pytest.mark.parametrize("script", IMPOSTORS)
def test_what_speaks_no_protocol_is_ended_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str
) -> None:
    impostor = tmp_path / "python"
    impostor.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\n{script}\n")
    impostor.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(impostor))
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    monkeypatch.setenv("MKL_CBWR", "AVX2")
    is_silent = script == "sleep 9"
    monkeypatch.setattr(process, "START_TIMEOUT_S", 2.0 if is_silent else 60.0)
    monkeypatch.setattr(child, "END_TIMEOUT_S", 0.5)
    with pytest.raises(WorkerGone, match=IMPOSTORS[script]):
        WorkerProcess(START).ready  # noqa: B018
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


# In an arm that, as Podman may, loses the last words of a worker that something was said to.
LOSING = """
import os, select, sys
if "primbench.workers.worker" in sys.orig_argv:
    is_spoken_to = bool(select.select([0], [], [], {patience_s})[0])
    {dies}
"""
NOTHING = r"arm losing: worker died of exit status 1 and said nothing, nor did another that was started to hear it$"


@pytest.mark.parametrize(
    ("patience_s", "dies", "told"),
    [
        pytest.param(
            0.5,
            'is_spoken_to or os.write(2, b"one\\ntwo"); os._exit(1)',
            "worker died of exit status 1: two: ",
            id="words",
        ),
        pytest.param(0, "os._exit(1)", NOTHING, id="none to be heard"),
        pytest.param(60, "os._exit(1)", NOTHING, id="none unless it is spoken to"),
    ],
)
def test_what_died_without_a_word_is_heard_once_more_and_not_spoken_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, patience_s: float, dies: str, told: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(LOSING.format(patience_s=patience_s, dies=dies))
    monkeypatch.setattr(process, "HEARD_WITHIN_S", 1.0 if patience_s == 60 else process.HEARD_WITHIN_S)
    arm, running = (
        Arm(name="losing", variables={"PYTHONPATH": str(tmp_path)}),
        psutil.Process().children(recursive=True),
    )
    with pytest.raises(BackendUnavailable, match=told):
        WorkerProcess(START, arm=arm).ready  # noqa: B018
    assert [] == [each for each in psutil.Process().children(recursive=True) if each not in running]


def test_an_ended_worker_is_of_no_more_use_and_may_be_ended_twice() -> None:
    worker = WorkerProcess(START)
    os.kill(worker.ready.pid, signal.SIGKILL)
    os.waitid(os.P_PID, worker.ready.pid, os.WEXITED | os.WNOWAIT)  # dead, but not yet asked how it died
    with pytest.raises(WorkerGone, match="killed by SIGKILL"):
        worker.run(CASE, 5.0)
    worker.end()
    worker.end()


def speaker(stdout: int) -> SimpleNamespace:
    return SimpleNamespace(stdout=stdout, shorten_stderr=lambda: None)


def test_an_answer_that_came_while_this_process_was_stopped_is_heard() -> None:
    """As by Ctrl-Z: the time is over when it goes on, and as much of the answer as a pipe holds lies there."""
    hearing, speaking = os.pipe()
    worker = WorkerProcess.__new__(WorkerProcess)
    vars(worker).update(_child=speaker(hearing), _ranks=None, _heard=Lines())
    os.write(speaking, b'{"type":"Prep')
    rest = threading.Timer(0.05, os.write, (speaking, b'ared"}\n'))
    rest.start()
    try:
        assert Prepared() == worker._hear(1.0, Prepared, spent_s=2.0)
    finally:
        rest.join()
        os.close(hearing)
        os.close(speaking)


def test_what_writes_without_end_is_no_answer_once_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "REST_S", 0.1)
    worker = WorkerProcess.__new__(WorkerProcess)
    with subprocess.Popen(["sh", "-c", "while :; do printf x; done"], stdout=subprocess.PIPE) as endless:
        assert endless.stdout is not None
        vars(worker).update(_child=speaker(endless.stdout.fileno()), _ranks=None, _heard=Lines())
        with pytest.raises(WorkerGone, match=r"no answer within 0\.5 s"):
            worker._hear(0.5, Prepared, spent_s=0.0)
        endless.kill()


FLOODS = {
    "yes 'a line of words' | head -c 300000000 >&2; echo last words >&2; exit 3": (
        "worker died of exit status 3: last words$"
    ),
    "head -c 300000000 /dev/zero | tr '\\0' x >&2; exit 3": r"worker died of exit status 3: x{500} \[\.\.\.\] x{500}$",
    "head -c 466000000 /dev/zero; sleep 9": r"printed '(\\x00)+': a line of more than 64 MiB$",
    """printf '{"type":"Refusal","placement":false,"reason":"'; head -c 40000000 /dev/zero | tr '\\0' x; echo '"}'""": (
        r"^x{500} \[\.\.\.\] x{500}$"
    ),
}
FLOODED = """
import sys
from pathlib import Path
from primbench.errors import PrimbenchError
from primbench.system.files import labelled_bytes
from primbench.workers.process import WorkerProcess
from primbench.workers.protocol import Start
sys.executable = sys.argv[1]
try:
    WorkerProcess(Start(candidates=["numpy"], backend="numpy", device="cpu")).ready
except PrimbenchError as error:
    peak_bytes = labelled_bytes(Path("/proc/self/status"), "VmHWM")  # getrusage() has that of who forked it in it
    print(peak_bytes // 2**20, error, sep="\\n")
"""


@pytest.mark.parametrize("script", FLOODS)
def test_of_what_is_said_without_end_both_ends_are_kept(tmp_path: Path, script: str) -> None:
    impostor = tmp_path / "python"
    impostor.write_text(f"#!/bin/sh\n{script}\n")
    impostor.chmod(0o755)
    command = [sys.executable, "-c", FLOODED, str(impostor)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peak_mib, said = done.stdout.splitlines()
    assert re.search(FLOODS[script], said), said[:300]
    assert int(peak_mib) < 400


def test_what_goes_on_writing_to_standard_error_takes_no_disk() -> None:
    with child._appended() as file:
        os.write(file.fileno(), b"first words\n")
        for _ in range(3):
            os.write(file.fileno(), b"x\n" * (FULL_BYTES // 2))
            os.write(file.fileno(), b"last words\n")
            shorten(file.fileno())
            assert os.fstat(file.fileno()).st_size < FULL_BYTES
        lines = written(file.fileno()).splitlines()
    assert ("first words", "last words") == (lines[0], lines[-1])
    assert "[...]" in lines


def test_a_reason_of_megabytes_is_cut() -> None:
    assert len(one_line(ValueError("x" * 10**7))) < 1100


def test_references_are_kept_as_long_as_a_session_of_arms_lasts() -> None:
    known = CheckedOutputs()
    assert None is known.of(CASE).references
    with closing(known):
        known.keep_references()
        folder = known.of(CASE).references
        assert folder is not None
        assert os.path.isdir(folder.path)
        assert 0 == os.stat(folder.path).st_mode & 0o077
    assert not os.path.exists(folder.path)


def test_an_output_is_known_to_later_processes_of_the_same_arm_alone() -> None:
    known = CheckedOutputs()
    output = Output(digest="float32[1] 0", calls={"float32[1] 0": 1})
    known.add(CASE, Measurement(output=output, error=0.5))
    known.add(CASE, Measurement(output=output, error=0.5))
    known.add(replace(CASE, process=1), Measurement(error=0.5))  # of which nothing is known
    assert [Checked(digest=output.digest, error=0.5)] == known.of(replace(CASE, process=3)).outputs
    assert [] == known.of(replace(CASE, arm="another")).outputs
