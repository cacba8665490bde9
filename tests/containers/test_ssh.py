"""Workers on another machine by ssh: here this one again, by a server of the tests' own."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from primbench.errors import BackendUnavailable
from primbench.results import file as results_file
from primbench.results.record import Record, Worker
from primbench.spec.arm import Arm, format_arm, parse_arm
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.workers.process import WorkerGone, WorkerProcess
from primbench.workers.protocol import Start
from primbench.workers.session import Session

from .built import copy_package, copy_primbench, make_user_land
from .sshd import Server, server
from .traces import MARK, Process, at_last, marked, runtime, traces, worker_inside

__all__ = ["runtime", "traces"]

GEMM = Case(
    primitive="gemm",
    parameters={"m": 32, "n": 48, "k": 16},
    backend="numpy",
    device="cpu",
    method=Method(min_time_s=0.005, max_time_s=0.02),
    arm="far",
)
ENDLESS = replace(GEMM, method=Method(min_time_s=300, max_time_s=300))
START = Start(backend="numpy", device="cpu")
QUICK = ["--min-time", "5ms", "--max-time", "20ms"]
ONE_GEMM = "[[gemm]]\nm = 64\nn = 64\nk = 64\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("sshd")) as found:
        yield found


@pytest.fixture
def far(served: Server, traces: Callable[[], list[str]]) -> Iterator[Callable[..., Arm]]:
    """``far(*settings)``: an arm on it; afterwards nothing may be left there, what supervises workers included."""
    mark = os.environ[MARK]

    def arm(*settings: str, host: str = "far", python: str | Path = sys.executable) -> Arm:
        own = (f"config={served.config}", f"python={python}", f"env.{MARK}={mark}", "name=far")
        return parse_arm(f"ssh:{','.join([host, *own, *settings])}")

    yield arm

    def left() -> list[str]:
        there = [path.name for path in Path("/proc").glob("[0-9]*") if mark in words_of(path)]
        return [*there, *map(str, served.temporary.iterdir())]

    assert [] == at_last(left)


def words_of(process: Path) -> str:
    try:
        return process.joinpath("cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""  # it has ended


def of(arm: Arm, *cases: Case) -> tuple[list[Worker], list[Record]]:
    with Session(arms={arm.name: arm}) as session:
        lines = list(session.run(cases))
    return [line for line in lines if isinstance(line, Worker)], [line for line in lines if isinstance(line, Record)]


def test_a_case_is_verified_and_timed_there_under_limits(
    far: Callable[..., Arm], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    (worker,), records = of(far("nice=5", "nofile=900"), GEMM, GEMM)
    assert [("ok", 0), ("ok", 0)] == [(record.status, record.worker) for record in records], records[0].reason
    found = worker.environment
    assert (5, 900, "1") == (
        found.limits.niceness,
        found.limits.open_files,
        (found.software.variables or {})["OPENBLAS_NUM_THREADS"],
    )
    assert found.confinement.runtime is not None
    assert found.confinement.runtime.in_container is False


def test_a_variable_that_is_passed_on_stands_in_no_list_of_processes(
    far: Callable[..., Arm], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "a-secret-of-the-tests")
    worker = WorkerProcess(START, arm=far("env.MY_TOKEN"))
    assert worker.ready
    assert "MY_TOKEN=a-secret-of-the-tests" in worker_inside().variables
    assert not any("a-secret-of-the-tests" in words_of(process) for process in Path("/proc").glob("[0-9]*"))
    worker.end()


@pytest.fixture(scope="module")
def without_primbench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has all that this one has but primbench."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for path in (Path(each) for each in sys.path if each.endswith("-packages")):
        for entry in path.iterdir():
            is_own = entry.name.startswith(("primbench", "__editable__")) or entry.suffix == ".pth"
            if not is_own and not (packages / entry.name).exists():
                (packages / entry.name).symlink_to(entry)
    return folder / "bin/python"


def test_where_primbench_is_not_there_it_is_sent_and_kept(
    far: Callable[..., Arm], without_primbench: Path, served: Server
) -> None:
    for _ in range(2):
        (worker,), (record,) = of(far(python=without_primbench), GEMM)
        assert "ok" == record.status, record.reason
        (kept,) = (served.cache / "primbench").iterdir()
        assert str(kept) == (worker.environment.software.variables or {})["PYTHONPATH"]
        assert str(without_primbench) == worker.environment.software.python_executable


def study(folder: Path, *arms: Arm) -> tuple[subprocess.CompletedProcess[str], list[Record]]:
    """A pair of arms beside the host, in one small product."""
    (folder / "one.toml").write_text(ONE_GEMM)
    words = [word for arm in arms for word in ("--arm", format_arm(arm))]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "primbench", "study", folder / "one.toml", "--arm", "host", *words,
         "--pairs", "1", "--backend", "numpy", *QUICK, "-o", folder / "study.jsonl"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done, results_file.read(folder / "study.jsonl").records


def test_this_machine_by_ssh_is_no_other_one_and_those_that_are_not_reached_hold_up_nobody(
    far: Callable[..., Arm], tmp_path_factory: pytest.TempPathFactory
) -> None:
    absent = [replace(far(host=host), name=host) for host in REFUSED]
    absent.append(replace(far(python="/nowhere/python3"), name="without"))
    done, records = study(tmp_path_factory.mktemp("study"), far(), *absent)
    assert "a difference is a place effect: the libraries are of the same builds" in done.stdout, done.stderr
    told = [line.split(" runs nothing")[0] for line in done.stderr.splitlines() if "runs nothing" in line]
    assert sorted(arm.name for arm in absent) == sorted(told), "a line each"
    expected = {("host", "ok"), ("far", "ok"), *((arm.name, "skipped") for arm in absent)}
    assert expected == {(each.case.arm, each.status) for each in records}
    assert all(record.measurement.turns for record in records if record.measurement)


OTHER_MACHINE = """\
#!/bin/sh
exec unshare --mount sh -c 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"' {boot} {python} "$@"
"""


def test_another_machine_has_no_turns_and_is_the_effect(
    far: Callable[..., Arm], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A stand-in for its kernel: the identity alone is another one, in a mount namespace."""
    if os.geteuid() != 0:
        pytest.skip("needs root, who may mount")
    folder = tmp_path_factory.mktemp("study")
    (folder / "boot").write_text("1b4e28ba-2fa1-11d2-883f-0016d3cca427\n")
    (folder / "python").write_text(OTHER_MACHINE.format(boot=folder / "boot", python=sys.executable))
    (folder / "python").chmod(0o755)
    done, records = study(folder, far(python=folder / "python"))
    assert "a difference is a machine effect, none of the place alone; host | far: two that are alike" in done.stdout
    reasons = {record.measurement.missing["turns"] for record in records if record.measurement}
    assert {"the arms are on different machines"} == reasons


@pytest.fixture
def python_there(runtime: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the variables by which the runtime is found, which no machine takes over from here."""
    path = tmp_path_factory.mktemp("there") / "python"
    told = {"PATH", "DOCKER_HOST", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF"} & os.environ.keys()
    variables = [f"{name}={os.environ[name]}" for name in sorted(told)]
    path.write_text(f'#!/bin/sh\nexec env {shlex.join([*variables, sys.executable])} "$@"\n')
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("runtime", ["docker", "podman", "apptainer", "charliecloud", "runc"], indirect=True)
def test_a_container_there_is_one_of_that_machines_files(
    runtime: str, python_there: Path, far: Callable[..., Arm]
) -> None:
    limits = [] if runtime == "charliecloud" else ["cpus=0.5", "network=none"]
    (worker,), records = of(far(f"runtime={runtime}", *limits, python=python_there), GEMM, GEMM)
    assert [("ok", 0), ("ok", 0)] == [(record.status, record.worker) for record in records], records[0].reason
    found = worker.environment
    assert found.confinement.runtime is not None
    assert (runtime, True) == (found.confinement.runtime.name, found.confinement.runtime.in_container)
    assert sys.executable == found.software.python_executable
    assert (
        not limits or (None if runtime == "apptainer" else 0.5) == found.limits.cpu_quota
    )  # it shows no groups inside
    if os.geteuid() == 0:
        assert os.readlink("/proc/self/ns/net") != (found.confinement.namespaces or {})["net"]


@pytest.fixture(scope="module")
def image_there(work: Path) -> Path:
    """A folder with a user land, Python and primbench of its own."""
    tree = work / "image-there"
    packages = make_user_land(tree)
    for name in ("numpy", "msgspec", "threadpoolctl"):
        copy_package(name, packages, without={"tests"})
    copy_primbench(packages)
    return tree


@pytest.mark.parametrize("runtime", ["runc"], indirect=True)
def test_an_image_there_brings_its_own_python_and_primbench(
    runtime: str, image_there: Path, python_there: Path, far: Callable[..., Arm]
) -> None:
    (worker,), (record,) = of(far(f"runtime={runtime}", f"image={image_there}", python=python_there), GEMM)
    assert "ok" == record.status, record.reason
    assert str(worker.environment.software.python_executable).startswith("/usr/local/bin/python3")


@pytest.mark.parametrize("runtime", ["podman"], indirect=True)
def test_an_image_that_is_not_there_is_told_in_one_line(
    runtime: str, python_there: Path, far: Callable[..., Arm]
) -> None:
    with pytest.raises(BackendUnavailable, match=r"^arm far: podman create: .*image not known: `podman images` lists"):
        WorkerProcess(START, arm=far("runtime=podman", "image=localhost/nosuch", python=python_there)).ready  # noqa: B018


REFUSED = {
    "shut": "ssh: connect to host 127.0.0.1 port 1: Connection refused: see whether `ssh -F",
    "unknown": "Host key verification failed: its key is not known here",
    "locked": "Permission denied (publickey,password): nobody is asked for a password",
    "nowhere.invalid": "Could not resolve hostname nowhere.invalid",
}


@pytest.mark.parametrize("host", REFUSED)
def test_a_machine_that_lets_nobody_in_ends_its_arm_in_one_line(host: str, far: Callable[..., Arm]) -> None:
    with pytest.raises(BackendUnavailable) as refusal:
        WorkerProcess(START, arm=far(host=host)).ready  # noqa: B018
    assert str(refusal.value).startswith("arm far: ")
    assert REFUSED[host] in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_where_there_is_no_python_the_arm_says_so(far: Callable[..., Arm]) -> None:
    with pytest.raises(BackendUnavailable, match=r"^arm far: .*there is no /nowhere/python3: name one by python="):
        WorkerProcess(START, arm=far(python="/nowhere/python3")).ready  # noqa: B018


def client() -> Process:
    (found,) = [each for each in marked(os.environ[MARK]) if each.words.startswith("ssh ")]
    return found


@pytest.mark.parametrize("runtime", ["host", "podman"], indirect=True)
@pytest.mark.parametrize("victim", [client, worker_inside])
def test_what_is_killed_ends_its_arm_alone(
    victim: Callable[[], Process], runtime: str, python_there: Path, far: Callable[..., Arm]
) -> None:
    worker = WorkerProcess(START, arm=far(f"runtime={runtime}", python=python_there))
    assert worker.ready
    os.kill(victim().pid, signal.SIGKILL)
    with pytest.raises(WorkerGone, match=r"^worker was killed by SIGKILL"):
        worker.run(replace(ENDLESS, arm=""), 60.0)
    worker.end()


def test_a_machine_that_is_cut_off_ends_its_arm_and_itself_what_it_had_begun(
    far: Callable[..., Arm], served: Server
) -> None:
    """Neither server nor client is told: here ssh gives up after 15 s, there what supervises the worker after 20 s.

    The worker is stopped, so that its case takes no CPU until then.
    """
    if served.cable is None:
        pytest.skip("needs root, who may lay and cut a cable")
    worker = WorkerProcess(START, arm=far())
    assert worker.ready
    os.kill(worker_inside().pid, signal.SIGSTOP)
    cut = threading.Timer(0.5, subprocess.run, [["ip", "link", "set", served.cable, "down"]])
    cut.start()
    try:
        with pytest.raises(WorkerGone, match=r"exit status 255: Timeout, server \S+ not responding"):
            worker.run(replace(ENDLESS, arm=""), 60.0)
        worker.end()
        there = at_last(lambda: [each.words for each in marked(os.environ[MARK]) if each.is_worker])
        assert [] == there
        unreached = r"ssh: connect to host \S+ port \d+: .*|Connection to \S+ port \d+ timed out"
        with pytest.raises(BackendUnavailable, match=rf"^arm far: ({unreached}): see whether `ssh"):
            WorkerProcess(START, arm=far()).ready  # noqa: B018
    finally:
        cut.join()
        subprocess.run(["ip", "link", "set", served.cable, "up"], check=True)


NEVER_ENDS = Path(__file__).with_name("never_ends.py")


@pytest.mark.parametrize("runtime", ["host", "podman"], indirect=True)
def test_nothing_is_left_when_the_front_is_killed_in_the_middle_of_a_case(
    runtime: str, python_there: Path, far: Callable[..., Arm]
) -> None:
    asked = far(f"runtime={runtime}", python=python_there)
    words = [msgspec.json.encode(each).decode() for each in (asked, replace(ENDLESS, arm=""))]
    front = subprocess.Popen([sys.executable, "-P", NEVER_ENDS, *words], stdout=subprocess.PIPE)
    with front:
        assert front.stdout is not None
        assert b"begun\n" == front.stdout.readline()
        assert worker_inside()
        front.send_signal(signal.SIGKILL)
