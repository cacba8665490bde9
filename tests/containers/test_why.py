"""Containers between a host and an engine's, by a real runc: each has what it is to have of that one's, and no more."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from primbench.experiments.why.frame import framed
from primbench.experiments.why.ingredients import Mixtures
from primbench.results import file as results_file
from primbench.results.record import Record, Worker
from primbench.runtimes import oci
from primbench.runtimes.hostroot import bound_folders
from primbench.runtimes.table import launch
from primbench.spec.arm import Arm, parse_arm
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.system.files import read_mounts
from primbench.workers.session import Session
from primbench.workers.trial import refused

from .programs import SYSTEM, program
from .traces import at_last, groups

FAST, SLOW = "nothing", "everything"
CAPABILITIES, ONE = "capabilities", "no cap-add=SYS_ADMIN"
ARMS = ["seccomp=docker", CAPABILITIES, "shm=64MiB, ipc=private", "network=none", "cgroup=private", "root=overlay"]


@pytest.fixture(scope="module", autouse=True)
def runc(work: Path) -> Any:
    """Where primbench finds it. The filters are of one architecture."""
    if platform.machine() != "x86_64":
        pytest.skip("needs a machine of the architecture x86-64: the filters of Docker and Podman are of that")
    program("runc", "apt-get install runc", SYSTEM)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", SYSTEM)
        yield


def arms(engine: str = "docker") -> dict[str, Arm]:
    """The least of a container, with each thing alone that an engine's has, of capabilities all and one, and all."""
    mixtures = Mixtures(*framed(parse_arm("host"), parse_arm(engine), refused)[2:4])
    numbers: dict[str, list[int]] = {}
    for number, each in enumerate(mixtures.ingredients):
        numbers.setdefault(CAPABILITIES if each.atoms[0][0] == "cap_add" else each.words, []).append(number)
        if each.words == ONE:
            numbers[ONE] = [number]
    return {
        FAST: mixtures.fast,
        **{words: mixtures.arm(frozenset(of)) for words, of in numbers.items()},
        SLOW: mixtures.slow,
    }


@pytest.fixture(scope="module")
def workers() -> dict[str, Worker]:
    """What one finds in each."""
    case = Case(
        primitive="launch", parameters={"call": "getppid"}, backend="numpy", device="cpu", method=Method(dry_run=True)
    )
    asked, found = arms(), {}
    with Session(arms={arm.name: arm for arm in asked.values()}) as session:
        for words, arm in asked.items():
            worker, record = session.run([replace(case, arm=arm.name)])
            assert isinstance(worker, Worker)
            assert isinstance(record, Record)
            assert ("ok", None) == (record.status, record.reason), words
            found[words] = worker
    return found


def test_each_thing_is_there_alone(workers: dict[str, Worker]) -> None:
    assert {FAST, *ARMS, ONE, SLOW} == workers.keys()
    seen = {words: worker.environment.confinement for words, worker in workers.items()}
    assert {ARMS[0], SLOW} == {words for words, each in seen.items() if each.move_pages == "EPERM"}
    held = {words: {*(each.capabilities or ())} for words, each in seen.items()}
    assert {ARMS[1], ONE, SLOW} == {words for words, each in held.items() if each != held[FAST]}
    assert {"CAP_SYS_ADMIN"} == held[FAST] - held[ONE]
    assert [14, 14] == [len(held[words]) for words in (ARMS[1], SLOW)]
    small = {words for words, each in workers.items() if each.environment.limits.shm_bytes == 64 * 2**20}
    assert {ARMS[2], SLOW} == small


@pytest.mark.parametrize(("kind", "words"), [("ipc", ARMS[2]), ("net", ARMS[3]), ("mnt", None), ("uts", None)])
def test_a_namespace_is_left_where_that_is_what_differs(
    kind: str, words: str | None, workers: dict[str, Worker]
) -> None:
    here = os.readlink(f"/proc/self/ns/{kind}")
    left = {each for each, of in workers.items() if (of.environment.confinement.namespaces or {})[kind] != here}
    assert ({words, SLOW} if words else {*workers}) == left


def test_what_a_container_costs_is_asked_of_its_parts(tmp_path: Path) -> None:
    """And nothing is left of them but the results."""
    left, before = tmp_path / "left", groups()
    left.mkdir()
    case = ("--primitive", "launch --call getppid", "--backend", "numpy", "--device", "cpu", "--max-time", "10ms")
    command = [sys.executable, "-P", "-m", "primbench", "why", "host", "runc", *case, "--min-time", "1ms"]
    done = subprocess.run(
        [*command, "--time-budget", "1ms", "-o", str(tmp_path / "why.jsonl")],
        cwd="/", env={**os.environ, "TMPDIR": str(left)}, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout.startswith("launch getppid on numpy cpu")
    study = results_file.read(tmp_path / "why.jsonl").header.study
    assert study is not None
    assert ["host by runc", "runc by runc", "host", "runc"] == [arm.name for arm in study.arms]
    rest = at_last(lambda: [*map(str, left.iterdir()), *({*groups()} - {*before})])
    assert not rest, rest


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


@pytest.mark.parametrize(("name", "is_own"), [(FAST, False), (ARMS[4], True), (SLOW, True)])
def test_a_control_group_of_its_own_is_an_ingredient(name: str, is_own: bool, tmp_path: Path) -> None:
    groups = inside(arms()[name], tmp_path, "print(open('/proc/self/cgroup').read(), end='')")
    assert is_own == (groups != Path("/proc/self/cgroup").read_text())
    assert is_own == ("primbench-" in groups)


def test_an_overlay_shows_the_hosts_files_and_those_mounted_among_them(tmp_path: Path) -> None:
    arm = arms()[ARMS[5]]
    mountinfo = inside(arm, tmp_path, "print(open('/proc/self/mountinfo').read(), end='')")
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(mountinfo)
    kinds = {mount.point: mount.kind for mount in read_mounts(tmp_path)}
    assert {"overlay"} == {kinds[str(folder)] for folder in bound_folders()}
    here = {mount.point for mount in read_mounts(Path("/")) if {*Path(mount.point).parents} & {*bound_folders()}}
    assert here <= kinds.keys()


def test_without_the_overlay_there_is_none_of_the_hosts_folders(tmp_path: Path) -> None:
    found = inside(arms()[ARMS[3]], tmp_path, "print(open('/proc/self/mountinfo').read(), end='')")
    assert "lowerdir=/usr" not in found


@pytest.mark.parametrize("name", [FAST, ARMS[4], ARMS[5]])
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


def test_what_this_machine_has_not_is_left_out_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder whose name no overlay can be told of makes overlays impossible."""
    odd = tmp_path / "a,b"
    odd.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(odd))
    frame = framed(parse_arm("host"), parse_arm("docker"), refused)
    assert [ARMS[5]] == [*frame.left_out]
    held = {each.words for each in Mixtures(frame.base, frame.whole).ingredients}
    assert {*ARMS[:5], ONE} - {CAPABILITIES} == {each for each in held if "cap-add" not in each or each == ONE}


def test_a_container_of_apptainer_is_taken_apart_into_what_runc_can_give_one() -> None:
    made = framed(parse_arm("host"), parse_arm("apptainer"), refused)
    assert ("runc", "runc", {}) == (made.base.runtime, made.whole.runtime, made.left_out)
    words = {each.words for each in Mixtures(made.base, made.whole).ingredients}
    assert {"no-new-privileges=yes", "cap-drop=CHOWN", "no cap-add=SYS_ADMIN"} <= words
    assert not {"seccomp", "root", "network", "ipc"} & {each.partition("=")[0] for each in words}
