"""Workers in arms of the machine itself, and the steps around a worker. Real containers are in tests/containers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from primbench.errors import BackendUnavailable, InvalidRequest, WorkerError
from primbench.results.record import Record, Worker
from primbench.runtimes.limits import properties
from primbench.spec.arm import Arm, parse_arm
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.workers.process import WorkerProcess
from primbench.workers.protocol import Start
from primbench.workers.session import Session

from ...groups import control_groups, is_deserted
from ...processes import children

START = Start(backend="numpy", device="cpu")
CASE = Case(
    primitive="gemm",
    parameters={"m": 2, "n": 2, "k": 2},
    backend="numpy",
    device="cpu",
    method=Method(dry_run=True),
    arm="here",
)
ENDED_WITHIN_S = 60


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the folders of launches are made, and nothing else."""
    found = tmp_path / "launches"
    found.mkdir()
    monkeypatch.setenv("TMPDIR", str(found))
    return found


def test_a_case_runs_on_the_host_and_says_in_which_arm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIMBENCH_RUNTIME", "left")
    arm = parse_arm("host:threads=1,env.OMP_DYNAMIC=false,name=here")
    with Session(arms={"here": arm}) as session:
        worker, record = session.run([CASE])
        assert isinstance(worker, Worker)
        assert isinstance(record, Record)
        assert psutil.pid_exists(worker.pid)
    assert not psutil.pid_exists(worker.pid)
    assert ("ok", None, arm) == (record.status, record.reason, worker.arm)
    variables = worker.environment.software.variables or {}
    assert ("false", "host") == (variables["OMP_DYNAMIC"], variables["PRIMBENCH_RUNTIME"])
    assert [] == list(folder.iterdir())


def test_an_arm_that_was_not_given_is_refused() -> None:
    with (
        pytest.raises(InvalidRequest, match="arm here: there are other"),
        Session(arms={"other": parse_arm("host")}) as it,
    ):
        list(it.run([CASE]))


def test_a_worker_that_is_killed_is_said_to_be_and_replaced(folder: Path) -> None:
    with Session(arms={"here": parse_arm("host:name=here")}) as session:
        worker, _ = session.run([CASE])
        assert isinstance(worker, Worker)
        os.kill(worker.pid, signal.SIGKILL)
        (record,) = session.run([CASE])
        (second, after) = session.run([CASE])
    assert isinstance(record, Record)
    assert ("failed", True) == (record.status, "worker was killed by SIGKILL" in str(record.reason))
    assert isinstance(second, Worker)
    assert isinstance(after, Record)
    assert (1, "ok") == (second.worker, after.status)


def with_limit(words: str) -> Arm:
    """Skips where no control group can be made."""
    arm = parse_arm(f"host:{words}")
    try:
        tried = WorkerProcess(START, arm=parse_arm("host:memory=4GiB"))
        assert tried.ready
        tried.end()
    except BackendUnavailable as refusal:
        pytest.skip(f"a limit on the host needs root or systemd: {refusal}")
    return arm


def test_what_a_killed_supervisor_leaves_is_cleared_by_the_next_one_and_no_more(folder: Path) -> None:
    arm = with_limit("memory=4GiB")
    running = WorkerProcess(START, arm=arm)
    assert running.ready
    (kept,) = folder.iterdir()
    others = set(children("primbench.workers.supervisor"))
    killed = WorkerProcess(START, arm=arm)
    assert killed.ready
    (left,) = set(folder.iterdir()) - {kept}
    assert control_groups(left.name)
    (folder / "primbench-of-somebody").mkdir()
    (supervisor,) = set(children("primbench.workers.supervisor")) - others  # by number it need not be the last one
    supervisor.kill()
    wait_until(lambda: not psutil.pid_exists(killed.ready.pid))
    assert left.exists()
    with Session(arms={"here": parse_arm("host:name=here")}) as session:
        assert ["ok"] == [each.status for each in session.run([CASE]) if isinstance(each, Record)]
    assert {kept.name, "primbench-of-somebody"} == {path.name for path in folder.iterdir()}
    assert [] == control_groups(left.name)
    assert control_groups(kept.name)
    killed.end()
    running.end()
    assert ["primbench-of-somebody"] == [path.name for path in folder.iterdir()]
    assert [] == control_groups(kept.name)


def test_a_limit_of_nothing_is_refused_and_leaves_nothing(folder: Path) -> None:
    before = control_groups("primbench-*")
    with pytest.raises(BackendUnavailable, match="of memory may be too little"):
        WorkerProcess(START, arm=with_limit("memory=1B")).ready  # noqa: B018
    assert [] == list(folder.iterdir())
    left = {each for each in control_groups("primbench-*") if each not in before and "-test-" not in each.name}

    def is_nothing_left() -> bool:
        """What else runs here has groups, too: each of them has processes at some time, and then is removed."""
        left.intersection_update([each for each in left if is_deserted(each)])
        return not left

    wait_until(is_nothing_left)


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + ENDED_WITHIN_S
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_what_the_runtime_cannot_do_is_the_reason(folder: Path) -> None:
    with pytest.raises(BackendUnavailable, match="charliecloud has no cpus of its own"):
        WorkerProcess(START, arm=parse_arm("charliecloud:cpus=2")).ready  # noqa: B018
    assert [] == list(folder.iterdir())


@pytest.mark.parametrize("runtime", ["docker", "podman", "apptainer", "charliecloud", "runc"])
def test_a_runtime_that_is_not_installed_is_the_reason(
    runtime: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("USER", "me")
    with pytest.raises(
        BackendUnavailable, match=f"arm {runtime}: [a-z-]+: No such file or directory: see `primbench arms`"
    ):
        WorkerProcess(START, arm=parse_arm(runtime)).ready  # noqa: B018
    assert [] == list(folder.iterdir())


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """``client(script)``: a program docker that writes down how it is called and then does as the script says.

    What it stands for is a daemon that refuses, which a real one does not do when asked to.
    """

    def write(script: str) -> Path:
        called = tmp_path / "called"
        (tmp_path / "docker").write_text(f'#!/bin/sh\necho "$1" >> {called}\n{script}\n')
        (tmp_path / "docker").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        return called

    return write


def test_a_step_that_fails_is_quoted_and_what_came_before_it_is_cleared(
    client: Callable[[str], Path], folder: Path
) -> None:
    refuse = "printf \"Error: no space left\\n\\nRun 'docker create --help' for more information\\n\" >&2; exit 1"
    called = client(f"[ $1 != create ] || {{ {refuse}; }}")
    with pytest.raises(BackendUnavailable, match=r"^arm docker: docker create: Error: no space left$"):
        WorkerProcess(START, arm=parse_arm("docker")).ready  # noqa: B018
    assert ["import", "create", "rm", "rmi"] == called.read_text().split()
    assert [] == list(folder.iterdir())


def test_what_is_in_the_way_of_clearing_is_waited_for(client: Callable[[str], Path], folder: Path) -> None:
    busy = (
        f"[ $1 != rm ] || [ -e {folder.parent}/tried ] || {{ touch {folder.parent}/tried; echo 'in use' >&2; exit 1; }}"
    )
    called = client(f"[ $1 != start ] || {{ echo gone >&2; exit 7; }}\n{busy}")
    with pytest.raises(BackendUnavailable, match="exit status 7: gone"):
        WorkerProcess(START, arm=parse_arm("docker")).ready  # noqa: B018
    assert ["import", "create", "start", "rm", "rm", "rmi"] == called.read_text().split()


FRONT = """\
import sys
from primbench.spec.arm import Arm, parse_arm
from primbench.workers.protocol import Start
from primbench.workers.process import WorkerProcess
print(WorkerProcess(Start(backend="numpy", device="cpu"), arm=parse_arm("host")).ready.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("told_to_all", [[], [signal.SIGTERM, signal.SIGHUP]], ids=["front alone", "whole job"])
def test_nothing_is_left_of_a_front_that_is_killed(told_to_all: list[int], folder: Path) -> None:
    """told_to_all: what a scheduler sends to every process of a job first."""
    command = [sys.executable, "-P", "-c", FRONT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as front:
        assert front.stdout is not None
        worker = int(front.stdout.readline())
        assert [] != list(folder.iterdir())
        (supervisor,) = psutil.Process(front.pid).children()
        for number in told_to_all:
            supervisor.send_signal(number)
        front.kill()
    deadline = time.monotonic() + ENDED_WITHIN_S
    while (psutil.pid_exists(worker) or list(folder.iterdir())) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not psutil.pid_exists(worker)
    assert [] == list(folder.iterdir())


def test_what_nohup_has_ignored_stays_ignored(folder: Path) -> None:
    command = ["nohup", sys.executable, "-P", "-c", FRONT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as front:
        assert front.stdout is not None
        worker = psutil.Process(int(front.stdout.readline()))
        for each in (psutil.Process(front.pid), *psutil.Process(front.pid).children(), worker):
            each.send_signal(signal.SIGHUP)
        with pytest.raises(psutil.TimeoutExpired):
            worker.wait(timeout=0.5)
        assert front.stdin is not None
        front.stdin.close()
        assert 0 == front.wait(ENDED_WITHIN_S)


WITH_A_COMPANION = """\
#!{python} -P
import subprocess, sys
companion = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL, {apart})
with open({told!r}, "w") as told:
    print(companion.pid, file=told)
status = subprocess.run(sys.argv[sys.argv.index("--") + 1 :]).returncode
companion.kill()
companion.wait()
sys.exit(status)
"""


@pytest.fixture
def accompanied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], tuple[WorkerProcess, psutil.Process]]:
    """A worker, and what its runtime has started beside it, ``apart`` from it.

    What this ch-run does stands for Apptainer where it may not mount an image file itself: it starts squashfuse, in a
    process group of its own, or unpacks the file.
    """

    def start(apart: str) -> tuple[WorkerProcess, psutil.Process]:
        program, told = tmp_path / "ch-run", tmp_path / "companion"
        program.write_text(WITH_A_COMPANION.format(python=sys.executable, apart=apart, told=str(told)))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        worker = WorkerProcess(START, arm=parse_arm("charliecloud"))
        assert worker.ready
        return worker, psutil.Process(int(told.read_text()))

    return start


def test_a_runtime_has_time_to_end_what_it_started(
    accompanied: Callable[[str], tuple[WorkerProcess, psutil.Process]],
) -> None:
    worker, companion = accompanied("start_new_session=True")  # nobody else can know it
    assert companion.is_running()
    worker.end()
    assert not companion.is_running()


def test_what_a_runtime_started_ends_with_a_worker_that_does_not_end_by_itself(
    accompanied: Callable[[str], tuple[WorkerProcess, psutil.Process]],
) -> None:
    worker, companion = accompanied("process_group=0")
    os.kill(worker.ready.pid, signal.SIGSTOP)
    worker.end()
    companion.wait(ENDED_WITHIN_S)


@pytest.mark.parametrize(
    ("status", "expected"), [(0, 0), (3, 3), (-9, -9), (-11, -11), (139, -11), (137, -9), (255, 255)]
)
def test_a_supervisor_ends_as_its_worker_did(status: int, expected: int) -> None:
    code = f"from primbench.workers.supervisor import end_as; end_as({status})"
    assert expected == subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode


def test_what_systemd_is_told_of_limits(tmp_path: Path) -> None:
    for name, number in (("nvme0n1", "259:0"), ("sda", "8:0"), ("loop0", "7:0")):
        (tmp_path / "sys/block" / name).mkdir(parents=True)
        (tmp_path / "sys/block" / name / "dev").write_text(f"{number}\n")
        if name != "loop0":
            (tmp_path / "sys/block" / name / "device").mkdir()
    arm = parse_arm("host:cpus=1.5,cpu-weight=20,cpuset=0-1+4,mems=0,memory=1GiB,pids=99,read-rate=1MiB")
    expected = [
        ("CPUQuota", "150%"), ("AllowedCPUs", "0-1,4"), ("AllowedMemoryNodes", "0"), ("CPUWeight", "20"),
        ("MemoryMax", str(2**30)), ("TasksMax", "99"),
        ("IOReadBandwidthMax", "/dev/nvme0n1 1048576"), ("IOReadBandwidthMax", "/dev/sda 1048576"),
    ]  # fmt: skip
    assert expected == properties(arm, tmp_path)
    assert [] == properties(parse_arm("host"))


def test_variables_that_are_too_long_for_a_program_are_refused_with_what_to_do() -> None:
    arm = parse_arm(f"host:name=long,env.LONG={'x' * 131_072}")
    with pytest.raises(WorkerError, match=r"Argument list too long: Linux passes on 128 KiB in .*: .* as env\.NAME$"):
        WorkerProcess(START, arm=arm)
