"""enroot's containers, and pyxis's, which are the same, in a real cluster of Slurm.

Neither is in a registry of packages: both are built of the sources at github.com/NVIDIA/enroot and NVIDIA/pyxis.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from primbench.environment.container import ContainerRuntime
from primbench.errors import BackendUnavailable
from primbench.runtimes.invocation import PATH
from primbench.spec.arm import Arm, parse_arm
from primbench.workers.process import WorkerGone, WorkerProcess

from ..endless import ENDLESS, START
from ..slurm.conftest import cluster
from .conftest import bound_folders
from .programs import program
from .traces import MARK, Process, marked

NEVER_ENDS = Path(__file__).with_name("never_ends.py")
PLUGINS = [Path(folder, "slurm/spank_pyxis.so") for folder in ("/usr/local/lib", "/usr/lib", "/usr/lib64")]
# What `enroot import` writes of an image that has an entry point, and what Debian's own images have.
RC = '[ ! -s /etc/rc.local ] || . /etc/rc.local\nexec /nowhere/entry-point "$@"\n'
PROFILE = "PATH=/nowhere\nexport PATH\necho said by a profile\n"


@pytest.fixture
def store(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where enroot keeps its containers; skips where it is not installed."""
    program("enroot", "in no registry of packages, see github.com/NVIDIA/enroot")
    monkeypatch.setenv("ENROOT_DATA_PATH", str(work / "enroot"))


@pytest.fixture(scope="session")
def image(work: Path, skeleton: Path) -> Path:
    """Its Python is that of here, by the image's own PATH, which the image's profile takes away."""
    files = {
        "fstab": "".join(f"{folder} {folder} none x-create=dir,rbind,ro\n" for folder in bound_folders()),
        "environment": f"PATH={Path(sys.executable).parent}:{PATH}\n",
        "profile": PROFILE,
        "rc": RC,
    }
    return squashed(skeleton, work / "mine", files)


def squashed(tree: Path, copy: Path, files: dict[str, str]) -> Path:
    """An image of a tree with some files in /etc."""
    program("mksquashfs", "apt-get install squashfs-tools")
    shutil.copytree(tree, copy, symlinks=True)
    for name, text in files.items():
        (copy / "etc" / name).write_text(text)
    made = copy.with_suffix(".sqsh")
    subprocess.run(["mksquashfs", copy, made, "-all-root", "-quiet", "-no-progress"], check=True, timeout=60)
    return made


def arm(*settings: str) -> Arm:
    return parse_arm(f"enroot:{','.join(settings)},env.{MARK}={os.environ[MARK]},name=there")


def runtime_of(worker: WorkerProcess) -> ContainerRuntime:
    found = worker.ready.environment.confinement.runtime
    assert found is not None
    return found


def inside() -> list[Process]:
    return [each for each in marked(os.environ[MARK]) if "-m primbench.workers.worker run=" in each.words]


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("is_file", [True, False])
def test_a_worker_is_in_the_image_and_nothing_of_the_image_comes_between(
    image: Path, traces: Callable[[], list[str]], *, is_file: bool
) -> None:
    if is_file:
        program("squashfuse", "apt-get install squashfuse")
    else:
        subprocess.run(["enroot", "create", "--force", "--name", "mine", image], check=True, timeout=60)
    name = image if is_file else "mine"
    worker = WorkerProcess(START, arm=arm(f"image={name}", "nice=5", "env.ODD= a 'b' \"c\" $d # e=f "))
    found, limits = runtime_of(worker), worker.ready.environment.limits
    (process,) = inside()
    worker.end()
    assert ("enroot", True) == (found.name, found.in_container)
    assert "/proc/self/mountinfo: /.lock is a mount (enroot)" in found.evidence
    assert 5 == limits.niceness
    assert "ODD= a 'b' \"c\" $d # e=f " in process.variables


@pytest.mark.usefixtures("store")
def test_what_it_does_not_start_is_one_line_that_says_how_to_mend(
    image: Path, skeleton: Path, work: Path, tmp_path: Path, traces: Callable[[], list[str]]
) -> None:
    cut = work / "cut.sqsh"
    cut.write_bytes(image.read_bytes()[:200])
    bare = squashed(skeleton, work / "bare", {})
    for asked, told in {
        "absent": "`enroot list` lists",
        str(work / "absent.sqsh"): "name a squashfs file, or",
        str(skeleton): "name a squashfs file, or",
        str(cut): "Failed to mount: .*`enroot create|name a squashfs file, or",
        str(bare): f"image {bare} has none$",
    }.items():
        with pytest.raises(BackendUnavailable, match=f"^arm there: .*({told})"):
            WorkerProcess(START, arm=arm(f"image={asked}")).ready  # noqa: B018


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("is_front", [True, False])
def test_what_is_killed_in_the_middle_of_a_case_leaves_nothing(
    image: Path, traces: Callable[[], list[str]], *, is_front: bool
) -> None:
    """A file is mounted by processes beside the worker's."""
    program("squashfuse", "apt-get install squashfuse")
    if not is_front:
        worker = WorkerProcess(START, arm=arm(f"image={image}"))
        assert worker.ready
        os.kill(inside()[0].pid, signal.SIGKILL)
        with pytest.raises(WorkerGone, match=r"^worker was killed by SIGKILL"):
            worker.run(ENDLESS, 60.0)
        worker.end()
        return
    kill_front_of(arm(f"image={image}"))


def kill_front_of(there: Arm) -> None:
    words = [msgspec.json.encode(each).decode() for each in (there, ENDLESS)]
    with subprocess.Popen([sys.executable, "-P", NEVER_ENDS, *words], stdout=-1, start_new_session=True) as front:
        assert front.stdout is not None
        assert b"begun\n" == front.stdout.readline()
        time.sleep(0.5)  # the case is under way by then, or is not: nothing may be left either way
        assert front.poll() is None
        front.send_signal(signal.SIGKILL)


@pytest.fixture
def on_n2(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Arm]]:
    """``on_n2(*settings)``: an arm on that node, in a job of a cluster with pyxis."""
    program("enroot", "in no registry of packages, see github.com/NVIDIA/enroot")
    plugins = [path for path in PLUGINS if path.exists()]
    if not plugins:
        pytest.skip(f"pyxis is not installed, {PLUGINS[0]}: in no registry of packages, see github.com/NVIDIA/pyxis")
    folder = tmp_path_factory.mktemp("pyxis")
    (folder / "plugstack.conf").write_text(f"required {plugins[0]}\n")
    with cluster(folder, f"PlugStackConfig={folder}/plugstack.conf\n"):
        begun = subprocess.run(["salloc", "-N3", "--no-shell"], capture_output=True, text=True, timeout=60, check=True)
        (job,) = re.findall(r"Granted job allocation (\d+)", begun.stderr)
        monkeypatch.setenv("SLURM_JOB_ID", job)
        yield lambda *settings: parse_arm(
            f"slurm:n2,{','.join(settings)},env.{MARK}={os.environ[MARK]},env.HOME=/tmp,name=there"
        )
        subprocess.run(["scancel", job], timeout=60, check=True)
        until_no_container_is_left(job)


def until_no_container_is_left(job: str) -> None:
    """pyxis removes the container of a step that has ended."""
    deadline = time.monotonic() + 60
    while True:
        listed = subprocess.run(["enroot", "list"], capture_output=True, text=True, timeout=60, check=True).stdout
        if not (left := [name for name in listed.split() if name.startswith(f"pyxis_{job}.")]):
            return
        assert time.monotonic() < deadline, left
        time.sleep(0.2)


def test_pyxis_starts_the_image_and_says_what_it_does_not_start(
    traces: Callable[[], list[str]], image: Path, skeleton: Path, work: Path, on_n2: Callable[..., Arm]
) -> None:
    worker = WorkerProcess(START, arm=on_n2(f"image={image}"))
    found = runtime_of(worker)
    worker.end()
    assert ("enroot", True) == (found.name, found.in_container), found.evidence
    for asked, told in {
        str(work / "absent.sqsh"): r"pyxis: \[ERROR\] No such file or directory: .* is to be a squashfs file on n2",
        str(__file__): r"pyxis: \[ERROR\] Invalid image format: .* is to be a squashfs file on n2",
        f"{image},python=/nowhere/python3": f"there is no /nowhere/python3 in image {image}: name one by python=",
    }.items():
        with pytest.raises(BackendUnavailable, match=f"^arm there: .*{told}"):
            WorkerProcess(START, arm=on_n2(f"image={asked}")).ready  # noqa: B018


def test_nothing_of_pyxis_is_left_when_the_front_is_killed(
    traces: Callable[[], list[str]], image: Path, on_n2: Callable[..., Arm]
) -> None:
    kill_front_of(on_n2(f"image={image}"))
