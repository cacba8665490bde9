"""Workers of studies in real runtimes, started and ended as primbench itself does it."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from primbench.errors import BackendUnavailable
from primbench.results.record import Record, Worker
from primbench.runtimes.table import known
from primbench.spec.arm import Arm, parse_arm
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.system.cgroups import cgroup_version
from primbench.system.files import holding, read_mounts
from primbench.workers.process import WorkerGone, WorkerProcess
from primbench.workers.protocol import Start
from primbench.workers.session import Session
from primbench.workers.trial import works_here

from ..endless import ENDLESS
from .programs import program
from .traces import in_words, worker_inside

OCI = ["docker", "podman"]
CONTAINERS = [*OCI, "apptainer", "charliecloud"]
MIB = 2**20
ASKED_BY_PODMAN = 2**20  # open files, unless its configuration says otherwise
CPU = max(os.sched_getaffinity(0))
GEMM = Case(
    primitive="gemm",
    parameters={"m": 32, "n": 48, "k": 16},
    backend="numpy",
    device="cpu",
    method=Method(min_time_s=0.005, max_time_s=0.02),
)


def arm(runtime: str, *settings: str) -> Arm:
    return parse_arm(in_words(runtime, *settings, "name=here"))


def of(cases: list[Case], *arms: Arm, **options: Any) -> tuple[list[Worker], list[Record]]:
    with Session(arms={each.name: each for each in arms}, **options) as session:
        lines = list(session.run(cases))
    return [line for line in lines if isinstance(line, Worker)], [line for line in lines if isinstance(line, Record)]


def here(case: Case = GEMM, process: int = 0) -> Case:
    return replace(case, arm="here", process=process)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of nothing, to be loaded before all others."""
    path = tmp_path_factory.mktemp("library") / "libnothing.so"
    subprocess.run(["gcc", "-shared", "-o", path, "-x", "c", "/dev/null"], check=True)
    return path


@pytest.mark.parametrize("runtime", [*OCI, "runc", "host"], indirect=True)
def test_limits_a_preload_and_folders_in_memory_hold_inside(
    runtime: str, library: Path, traces: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    shm = [] if runtime == "host" else ["shm=256MiB"]
    few = ["cpu-weight=50", "pids=500", "nofile=2048", "read-rate=64MiB", *([] if runtime in OCI else ["nice=5"])]
    there = [f"preload={library}", "tmpfs=/srv", "env.TMPDIR=/srv"]
    asked = arm(runtime, "cpus=0.5", f"cpuset={CPU}", "mems=0", "memory=512MiB", *shm, *few, *there)
    (worker,), (record,) = of([here()], asked)
    assert ("ok", asked) == (record.status, worker.arm), record.reason
    limits, confinement = worker.environment.limits, worker.environment.confinement
    assert ([CPU], [0], 0.5, 0.1, 512 * MIB) == (
        limits.cpus_allowed,
        limits.memory_nodes_allowed,
        limits.cpu_quota,
        limits.cpu_period_s,
        limits.memory_limit_bytes,
    ), limits.missing
    assert not shm or 256 * MIB == limits.shm_bytes
    assert (500, 2048) == (limits.processes_max, limits.open_files)
    assert limits.cpu_weight is not None, "of which engines make 50 in one version and 20 in another"
    assert limits.io_limits
    assert limits.io_limits[0].endswith(f" rbps={64 * MIB}")
    assert runtime in OCI or 5 == limits.niceness
    assert "tmpfs on /srv" == (confinement.filesystems or {})["temporary files"]
    software = worker.environment.software
    assert ["libnothing.so"] == [each.name for each in (software.preloads or {})["LD_PRELOAD"]]
    is_found_inside(runtime, worker)


def is_found_inside(runtime: str, worker: Worker) -> None:
    """Which runtime it is, with a variable of this process, and the same program."""
    found, software = worker.environment.confinement.runtime, worker.environment.software
    assert found is not None
    assert (runtime, runtime != "host") == (found.name, found.in_container), found.evidence
    assert "1" == (software.variables or {}).get("OMP_NUM_THREADS")
    assert sys.executable == os.path.expanduser(str(software.python_executable))


@pytest.mark.parametrize("runtime", ["apptainer"], indirect=True)
def test_limits_of_apptainer_hold_as_far_as_they_can_be_seen(
    runtime: str, traces: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are unknown, and not absent."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    few = ["cpu-weight=50", "pids=500", "nofile=2048", "nice=5"]
    (worker,), _ = of([here()], arm(runtime, "cpus=0.5", f"cpuset={CPU}", "mems=0", "memory=512MiB", *few))
    limits = worker.environment.limits
    assert ([CPU], [0], 2048, 5) == (
        limits.cpus_allowed,
        limits.memory_nodes_allowed,
        limits.open_files,
        limits.niceness,
    )
    assert (None, None) == (limits.cpu_quota, limits.memory_limit_bytes)
    assert {"cpu_quota", "memory_limit_bytes"} <= limits.missing.keys()
    is_found_inside(runtime, worker)


@pytest.mark.parametrize(
    ("runtime", "settings", "set_mempolicy", "seccomp"),
    [
        ("docker", ("cap-add=SYS_NICE",), "allowed", "filter"),
        ("docker", ("seccomp=unconfined", "cap-drop=ALL"), "allowed", "disabled"),
        ("podman", ("seccomp=unconfined",), "allowed", "disabled"),
        ("runc", (), "allowed", "disabled"),
    ],
    indirect=["runtime"],
)
def test_confinement_is_as_asked(
    runtime: str, settings: tuple[str, ...], set_mempolicy: str, seccomp: str, traces: Callable[[], list[str]]
) -> None:
    (worker,), _ = of([here()], arm(runtime, *settings))
    found = worker.environment.confinement
    assert set_mempolicy == found.set_mempolicy == found.mbind, found.missing
    assert seccomp == found.seccomp


@pytest.mark.parametrize("runtime", ["runc"], indirect=True)
def test_what_is_written_below_an_overlay_root_is_in_an_upper_layer(
    runtime: str, traces: Callable[[], list[str]]
) -> None:
    below = holding(read_mounts(Path("/")), tempfile.gettempdir())
    if below is None or below.kind == "overlay":
        pytest.skip("an upper layer cannot lie on another overlay, as that of temporary files here")
    found = of([here()], arm(runtime, "root=overlay"))[0][0].environment
    assert "overlay on /tmp" == (found.confinement.filesystems or {})["temporary files"]


@pytest.mark.parametrize("runtime", ["runc", "host"], indirect=True)
def test_a_folder_is_shown_through_fuse_overlayfs(
    runtime: str, tmp_path_factory: pytest.TempPathFactory, traces: Callable[[], list[str]]
) -> None:
    program("fuse-overlayfs", "apt-get install fuse-overlayfs")
    found = of([here()], arm(runtime, "fuse-overlay=/srv", "env.TMPDIR=/srv"))[0][0].environment
    assert "fuse.fuse-overlayfs on /srv" == (found.confinement.filesystems or {})["temporary files"]


@pytest.mark.parametrize("runtime", ["runc"], indirect=True)
def test_a_filter_from_a_file_holds(runtime: str, tmp_path_factory: pytest.TempPathFactory, traces: Any) -> None:
    profile = tmp_path_factory.mktemp("profile") / "denies.json"
    profile.write_text(
        '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["set_mempolicy"], "action": "SCMP_ACT_ERRNO"}]}'
    )
    (worker,), _ = of([here()], arm(runtime, f"seccomp={profile}"))
    found = worker.environment.confinement
    assert ("EPERM", "allowed", "filter") == (found.set_mempolicy, found.mbind, found.seccomp)


@pytest.mark.parametrize("runtime", ["podman"], indirect=True)
def test_the_ranks_of_a_collective_are_inside_together(runtime: str, traces: Callable[[], list[str]]) -> None:
    pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two ranks need two CPUs")
    case = Case(
        primitive="allreduce",
        parameters={"bytes": 4096, "ranks": 2},
        backend="torch",
        device="cpu",
        method=GEMM.method,
    )
    _, (record,) = of([here(case)], arm(runtime))
    assert "ok" == record.status, record.reason


@pytest.mark.parametrize("runtime", ["charliecloud"], indirect=True)
def test_a_model_reads_from_disk_inside(runtime: str, traces: Callable[[], list[str]]) -> None:
    """It makes its own examples, where its temporary files are, and leaves none."""
    pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    case = Case(
        primitive="model",
        parameters={"network": "fathom_memnet", "data": "disk", "batch_size": 4, "examples": 8},
        backend="torch",
        device="cpu",
        method=GEMM.method,
    )
    _, (record,) = of([here(case)], arm(runtime))
    assert "ok" == record.status, record.reason
    assert record.measurement is not None
    assert record.measurement.data is not None
    assert (8, {"data_wait_s", "decode_s"}) == (record.measurement.data.examples, {*record.measurement.others})


NEVER_ENDS = Path(__file__).with_name("never_ends.py")


@pytest.mark.parametrize("runtime", ["host"], indirect=True)
def test_nothing_is_left_when_the_front_is_killed_in_the_middle_of_a_case(
    runtime: str, traces: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With limits, which are a control group. Containers are in test_study.py."""
    monkeypatch.setenv("OF_THE_MACHINE", "yes")
    case = replace(here(), method=Method(min_time_s=300, max_time_s=300))
    words = [msgspec.json.encode(each).decode() for each in (arm(runtime, "cpus=2"), case)]
    front = subprocess.Popen(
        [sys.executable, "-P", NEVER_ENDS, *words],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with front:
        assert front.stdout is not None
        assert b"begun\n" == front.stdout.readline()
        time.sleep(0.5)  # the case is under way by then, or is not: nothing may be left either way
        assert front.poll() is None
        assert "OF_THE_MACHINE=yes" not in worker_inside().variables
        front.send_signal(signal.SIGKILL)


@pytest.mark.parametrize("runtime", ["docker"], indirect=True)
def test_a_case_that_takes_too_long_ends_its_worker_alone(runtime: str, traces: Callable[[], list[str]]) -> None:
    endless = replace(here(), method=Method(min_time_s=300, max_time_s=300))
    _, (late, next_one) = of([endless, here()], arm(runtime), timeout_s=8.0)
    assert ("failed", "no answer within 8 s (--timeout)") == (late.status, late.reason)
    assert ("ok", 1) == (next_one.status, next_one.worker)


@pytest.mark.parametrize("runtime", ["docker", "podman", "runc"], indirect=True)
def test_a_worker_dies_as_it_does_outside(runtime: str, traces: Callable[[], list[str]]) -> None:
    worker = WorkerProcess(Start(backend="numpy", device="cpu"), arm=arm(runtime))
    assert worker.ready
    os.kill(worker_inside().pid, signal.SIGKILL)
    with pytest.raises(WorkerGone, match=r"^worker was killed by SIGKILL"):
        worker.run(ENDLESS, 60.0)
    worker.end()


@pytest.mark.parametrize("runtime", ["host"], indirect=True)
def test_cpus_that_are_not_there_are_refused_in_the_words_of_the_kernel(
    runtime: str, traces: Callable[[], list[str]]
) -> None:
    with pytest.raises(BackendUnavailable, match=r"the kernel refuses cpuset\.cpus = 900: .*: there are CPUs "):
        WorkerProcess(Start(backend="numpy", device="cpu"), arm=arm(runtime, "cpuset=900")).ready  # noqa: B018


@pytest.mark.parametrize("runtime", OCI, indirect=True)
def test_a_gpu_that_is_not_there_ends_the_arm_in_one_line(runtime: str, traces: Callable[[], list[str]]) -> None:
    if Path("/dev/nvidia0").exists():
        pytest.skip("there is a GPU here")
    with pytest.raises(BackendUnavailable, match=f"no GPU is visible inside {runtime}"):
        WorkerProcess(Start(backend="torch", device="cuda:0"), arm=arm(runtime)).ready  # noqa: B018


@pytest.mark.parametrize("runtime", [*CONTAINERS, "runc"], indirect=True)
def test_a_runtime_that_starts_a_container_works_here(runtime: str, traces: Callable[[], list[str]]) -> None:
    words, version = works_here(runtime)
    assert "yes" == words
    assert version[0].isdigit()


REFUSED = {
    'runtime = "runc"': (
        'runtime = "crun"',
        "a machine whose control groups are v1 and v2 at once: use runc",
    ),
    "default_ulimits = ": ("#", 'below [containers] in containers.conf, set default_ulimits = ["nofile='),
}


@pytest.mark.parametrize("setting", REFUSED)
@pytest.mark.parametrize("runtime", ["podman"], indirect=True)
def test_a_runtime_that_is_installed_and_starts_nothing_does_not_work_here(
    runtime: str, setting: str, tmp_path_factory: pytest.TempPathFactory, traces: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if setting.startswith("runtime"):
        program("crun", "apt-get install crun")
        if cgroup_version() != "hybrid":
            pytest.skip("crun starts containers here: the architecture of control groups is v1 or v2, not both at once")
    if setting.startswith("default") and resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= ASKED_BY_PODMAN:
        pytest.skip("root may have as many open files here as Podman asks for")
    other, told = REFUSED[setting]
    path = tmp_path_factory.mktemp("configuration") / "containers.conf"
    path.write_text(Path(os.environ["CONTAINERS_CONF"]).read_text().replace(setting, other))
    monkeypatch.setenv("CONTAINERS_CONF", str(path))
    words, version = works_here(runtime)
    assert words.startswith("no: ")
    assert told in words
    assert version[0].isdigit()


def test_a_docker_client_without_a_server_is_not_docker(docker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", docker.environment["PATH"])
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/socket")
    reason, _ = known()["docker"].found()
    assert reason is not None
    assert "Cannot connect to the Docker daemon" in reason
    with pytest.raises(BackendUnavailable, match="Cannot connect to the Docker daemon"):
        WorkerProcess(Start(backend="numpy", device="cpu"), arm=parse_arm("docker")).ready  # noqa: B018


ASKS = """
from primbench.spec.arm import parse_arm
from primbench.workers.trial import refused
print(refused(parse_arm("docker:network=none")))
"""


@pytest.mark.parametrize("runtime", ["docker"], indirect=True)
def test_a_daemon_that_sees_other_files_is_found_out_before_its_arm_starts(
    runtime: str, tmp_path_factory: pytest.TempPathFactory, traces: Callable[[], list[str]]
) -> None:
    """What is mounted in a mount namespace of one's own, the daemon outside of it does not see."""
    own = str(tmp_path_factory.mktemp("own"))
    hidden = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', own]
    command = [*hidden, sys.executable, "-P", "-c", ASKS]
    environment = {**os.environ, "TMPDIR": own}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert "docker create: " in done.stdout
    assert "who starts containers for docker sees other files than are here" in done.stdout
