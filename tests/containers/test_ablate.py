"""Containers put together one ingredient after the other, by a real runc: each is there, and so are those before it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from primbench.experiments.ablation import bare, build_up, ingredients
from primbench.results import file as results_file
from primbench.results.file import Results
from primbench.results.record import Record, Worker
from primbench.runtimes import oci
from primbench.runtimes.hostroot import bound_folders
from primbench.runtimes.table import launch
from primbench.spec.arm import Arm
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.system.files import read_mounts
from primbench.workers.session import Session

from .programs import SYSTEM, program
from .traces import at_last, groups

QUICK = ("--backend", "numpy", "--device", "cpu", "--min-time", "1ms", "--max-time", "10ms", "--fail-on", "never")
SUITE = 'gemm = [{ m = 16, n = 16, k = 16 }]\nlaunch = [{ call = "getppid" }]\n'
SHM_BYTES = {"docker": 64 * 2**20, "podman": 65_536_000}
ONCE = ("--pairing", "one-after-the-other")  # else all arms start once more: under a quota none can take turns
ARMS = ["host", "namespaces", "control group", "seccomp", "fewer capabilities", "ipc and small shm", "network"]
ARMS += ["overlay root", "no new privileges", "CPU quota"]


@pytest.fixture(scope="module", autouse=True)
def runc(work: Path) -> Any:
    """Where primbench finds it. The filters are of one architecture."""
    if platform.machine() != "x86_64":
        pytest.skip("needs a machine of the architecture x86-64: the filters of Docker and Podman are of that")
    program("runc", "apt-get install runc", SYSTEM)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", SYSTEM)
        yield


def ablate(*arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "primbench", "ablate", "--runner", "runc", *map(str, arguments)]
    return subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=240, check=False)


@pytest.fixture(scope="module")
def ablated(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Results]:
    """One pair of Docker's with everything that can be asked for, of which nothing is left but the results."""
    folder, left, before = tmp_path_factory.mktemp("ablation"), tmp_path_factory.mktemp("left"), groups()
    (folder / "suite.toml").write_text(SUITE)
    added = ("--no-new-privileges", "--cpus", "1.5")
    asked = ("--runtime", "docker", "--sizes", folder / "suite.toml", *added, *ONCE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(left))
        done = ablate(*asked, "--pairs", 1, *QUICK, "-o", folder / "results.jsonl")
    assert 0 == done.returncode, done.stderr
    rest = at_last(lambda: [*map(str, left.iterdir()), *({*groups()} - {*before})])
    assert not rest, rest
    return done, results_file.read(folder / "results.jsonl")


@pytest.fixture
def workers(ablated: tuple[Any, Results]) -> list[Worker]:
    """In the order of the arms."""
    found = {worker.arm.name: worker for worker in ablated[1].workers if worker.arm}
    return [found[name] for name in ARMS]


def test_every_case_is_measured_in_every_arm(ablated: tuple[Any, Results]) -> None:
    done, found = ablated
    assert "" == done.stderr
    assert found.header.study is not None
    assert ARMS == [arm.name for arm in found.header.study.arms]
    assert {("ok", None)} == {(each.status, each.reason) for each in found.records}
    expected = {(arm, primitive) for arm in ARMS for primitive in ("gemm", "launch")}
    assert expected == {(each.case.arm, each.case.primitive) for each in found.records}


def from_then_on(name: str) -> list[bool]:
    """Of each arm, whether it has what this one adds."""
    return [number >= ARMS.index(name) for number in range(len(ARMS))]


def test_filter_capabilities_and_privileges_are_added_one_by_one(workers: list[Worker]) -> None:
    here = [worker.environment.confinement for worker in workers]
    assert from_then_on("seccomp") == [each.seccomp == "filter" for each in here]
    outside = here[0].capabilities
    assert outside is not None
    assert "CAP_SYS_ADMIN" in outside
    assert [not each for each in from_then_on("fewer capabilities")] == [each.capabilities == outside for each in here]
    assert {14} == {len(each.capabilities or []) for each in here[ARMS.index("fewer capabilities") :]}
    assert from_then_on("no new privileges") == [bool(each.no_new_privileges) for each in here]


def test_the_filter_is_that_of_the_runtime(workers: list[Worker]) -> None:
    for call in ("set_mempolicy", "move_pages"):
        found = [getattr(worker.environment.confinement, call) for worker in workers]
        assert from_then_on("seccomp") == [each == "EPERM" for each in found]


def test_filter_and_shared_memory_of_podman_are_its_own() -> None:
    """What else it adds is as Docker's."""
    arm = arms("podman")[ARMS[5]]
    case = Case(
        primitive="launch", parameters={"call": "getppid"}, backend="numpy", device="cpu",
        method=Method(dry_run=True), arm=arm.name,
    )  # fmt: skip
    with Session(arms={arm.name: arm}) as session:
        worker, record = session.run([case])
    assert isinstance(worker, Worker)
    assert isinstance(record, Record)
    found = worker.environment
    assert ("ok", "filter", "allowed", "EPERM", SHM_BYTES["podman"]) == (
        record.status,
        found.confinement.seccomp,
        found.confinement.set_mempolicy,
        found.confinement.move_pages,
        found.limits.shm_bytes,
    ), record.reason


@pytest.mark.parametrize(
    ("kind", "name"),
    [("mnt", "namespaces"), ("pid", "namespaces"), ("uts", "namespaces"), ("ipc", ARMS[5]), ("net", "network")],
)
def test_namespaces_are_left_one_by_one(kind: str, name: str, workers: list[Worker]) -> None:
    found = [(worker.environment.confinement.namespaces or {})[kind] for worker in workers]
    assert os.readlink(f"/proc/self/ns/{kind}") == found[0]
    assert from_then_on(name) == [each != found[0] for each in found]


def test_shared_memory_is_the_hosts_until_it_is_small(workers: list[Worker]) -> None:
    found = [worker.environment.limits.shm_bytes for worker in workers]
    small = SHM_BYTES["docker"]
    assert small != found[0]
    assert [small if has else found[0] for has in from_then_on(ARMS[5])] == found


def test_a_quota_holds_where_it_was_asked_for(workers: list[Worker]) -> None:
    found = [worker.environment.limits.cpu_quota for worker in workers]
    assert [1.5 if has else found[0] for has in from_then_on("CPU quota")] == found


def test_a_waterfall_is_printed_with_a_row_an_ingredient(ablated: tuple[Any, Results]) -> None:
    """And one of the means, unless the machine was too busy to tell of any case."""
    done, _ = ablated
    titles = [line for line in done.stdout.splitlines() if "by runc" in line]
    assert all("docker by runc, one ingredient after the other  (1 pair;" in title for title in titles)
    means = [] if "no geometric mean: no case could be told" in done.stdout else ["geometric"]
    assert ["gemm", *means, "launch"] == sorted(title.split()[0] for title in titles)
    rows = [line.strip() for line in done.stdout.splitlines()]
    for name in [*ARMS[1:], "all of it", "all of it and no new privileges, CPU quota"]:
        assert len(titles) == len([row for row in rows if row.startswith(f"{name}  ")]), name
    assert "left out: CPUs of another node: " in done.stdout


def arms(engine: str = "docker") -> dict[str, Arm]:
    return {arm.name: arm for arm in build_up(bare("runc"), ingredients(engine), lambda arm: None)[0]}


def inside(arm: Arm, folder: Path, program: str, *, gpus: bool = False) -> str:
    """What a program of Python prints in place of the worker."""
    launched = launch(arm, folder, gpus=gpus)
    written = msgspec.json.decode((folder / "config.json").read_bytes())
    written["process"]["args"] = [sys.executable, "-c", program]
    (folder / "config.json").write_bytes(msgspec.json.encode(written))
    done = subprocess.run(launched.worker, capture_output=True, text=True, timeout=60, check=False)
    for step in launched.after:
        subprocess.run(step, capture_output=True, timeout=60, check=False)
    assert 0 == done.returncode, done.stderr
    return done.stdout


@pytest.mark.parametrize(("name", "is_own"), [("namespaces", False), ("control group", True), ("overlay root", True)])
def test_a_control_group_of_its_own_is_an_ingredient(name: str, is_own: bool, tmp_path: Path) -> None:
    groups = inside(arms()[name], tmp_path, "print(open('/proc/self/cgroup').read(), end='')")
    assert is_own == (groups != Path("/proc/self/cgroup").read_text())
    assert is_own == ("primbench-" in groups)


def test_an_overlay_shows_the_hosts_files_and_those_mounted_among_them(tmp_path: Path) -> None:
    arm = arms()["overlay root"]
    mountinfo = inside(arm, tmp_path, "print(open('/proc/self/mountinfo').read(), end='')")
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(mountinfo)
    kinds = {mount.point: mount.kind for mount in read_mounts(tmp_path)}
    assert {"overlay"} == {kinds[str(folder)] for folder in bound_folders()}
    here = {mount.point for mount in read_mounts(Path("/")) if {*Path(mount.point).parents} & {*bound_folders()}}
    assert here <= kinds.keys()


def test_without_the_overlay_there_is_none_of_the_hosts_folders(tmp_path: Path) -> None:
    found = inside(arms()["network"], tmp_path, "print(open('/proc/self/mountinfo').read(), end='')")
    assert "lowerdir=/usr" not in found


@pytest.mark.parametrize("name", ["namespaces", "control group", "overlay root"])
def test_devices_get_in_where_they_are_asked_for_and_only_there(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU may not be here: another device that a container has none of stands in for its files."""
    device = "/dev/fuse"
    if not Path(device).is_char_device():
        pytest.skip(f"there is no {device}, which has to stand in for a GPU")
    monkeypatch.setattr(oci, "gpu_files", lambda: [device])
    program = f"import os; print(os.path.exists({device!r}) and os.open({device!r}, os.O_RDWR) > 0)"
    found: list[str] = []
    for gpus in (True, False):
        folder = tmp_path / str(gpus)
        folder.mkdir()
        found.append(inside(arms()[name], folder, program, gpus=gpus).strip())
    assert ["True", "False"] == found


def test_an_ingredient_that_this_machine_has_not_is_one_line_and_the_others_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder whose name no overlay can be told of makes overlays impossible."""
    odd = tmp_path / "a,b"
    odd.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(odd))
    path, suite = tmp_path / "results.jsonl", tmp_path / "suite.toml"
    suite.write_text('launch = [{ call = "getppid" }]\n')
    done = ablate("--sizes", suite, "--pairs", 1, *ONCE, *QUICK, "-o", path)
    assert 0 == done.returncode, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("left out: overlay root: ")
    study = results_file.read(path).header.study
    assert study is not None
    assert ARMS[:7] == [arm.name for arm in study.arms]
    assert line in [" ".join(note.split()) for note in study.notes]
    assert line in [" ".join(each.split()) for each in done.stdout.splitlines()]
