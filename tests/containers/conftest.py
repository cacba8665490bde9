"""Real container runtimes for the tests: each runs the installed package on this machine's own user land.

The image is a folder of links and empty folders; /usr, Python and the package are bound into it read-only at their own
paths, so that nothing is downloaded or built and ``sys.executable`` is the same program inside. Docker's daemon and
Podman's storage are private to the session; what they leave behind fails it.
"""

from __future__ import annotations

import io
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import primbench

from ..groups import ahead_of_others, control_groups
from .built import base, base_archive, built, found_by_runtime
from .programs import SYSTEM, program
from .traces import runtime, traces

__all__ = ["ahead_of_others", "base", "base_archive", "built", "found_by_runtime", "runtime", "traces"]

PACKAGE = Path(primbench.__file__).parents[1]
IMAGE = "primbench-tests"
SYSTEM_FOLDERS = ("bin", "sbin", "lib", "lib64")  # links into /usr, or folders of their own
ENOUGH = 20000  # open files and processes of a container
FIRST_PROCESSES = "pid:[4026531836]"  # the namespace that Linux itself starts with
DAEMON_STARTS_WITHIN_S = 30
ENDS_WITHIN_S = 60


@dataclass(frozen=True)
class Engine:
    """How a runtime starts a command. passes: the options which hand in a variable; () where all are inherited."""

    name: str
    start: Sequence[str]
    image: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    passes: Sequence[str] = ()

    def run(
        self, *command: str | Path, options: Sequence[str] = (), variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """``command`` in a fresh container, its output kept apart by stream."""
        given = variables or {}
        handed = [word for name, value in given.items() for word in self.passes and (*self.passes, f"{name}={value}")]
        return subprocess.run(
            [*self.start, *options, *handed, *self.image, *map(str, command)],
            env={**os.environ, **self.environment, **({} if self.passes else given)},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def python(
        self, *arguments: str | Path, options: Sequence[str] = (), variables: Mapping[str, str] | None = None
    ) -> str:
        """Standard output of this session's Python in a fresh container; it must end well."""
        found = self.run(sys.executable, "-P", *arguments, options=options, variables=variables)
        assert 0 == found.returncode, found.stdout + found.stderr
        return found.stdout


def bound_folders() -> list[Path]:
    """What this Python and the package need of the machine, none inside another."""
    own = [Path("/") / name for name in SYSTEM_FOLDERS if (Path("/") / name).is_dir()]
    needed = {Path("/usr"), *(each for each in own if not each.is_symlink())}
    needed |= {Path(sys.prefix), Path(sys.base_prefix), PACKAGE}
    return sorted(folder for folder in needed if not needed & set(folder.parents))


@pytest.fixture(scope="session")
def work() -> Iterator[Path]:
    """Of a short name, since Podman takes no long one; removed only once nothing of the machine is mounted in it."""
    if os.geteuid() != 0:
        pytest.skip("needs the superuser, who starts the containers here")
    if os.readlink("/proc/self/ns/pid") != FIRST_PROCESSES:
        pytest.skip("needs a machine: what this runs in is a container itself")
    folder = Path(tempfile.mkdtemp(prefix="containers-"))
    yield folder
    assert [] == mounts_in(folder)
    subprocess.run(["rm", "--recursive", "--force", folder], check=True, timeout=600)  # tens of thousands of files


@pytest.fixture(scope="session")
def skeleton(work: Path) -> Path:
    """A root file system without contents: where things are bound, and what the dynamic loader asks for."""
    root = work / "skeleton"
    for name in ("proc", "sys", "dev", "run", "tmp", "root", "etc", "mnt", "home", "var/tmp"):
        (root / name).mkdir(parents=True)
    for name in SYSTEM_FOLDERS:
        if (Path("/") / name).is_symlink():
            (root / name).symlink_to((Path("/") / name).readlink())
    for folder in bound_folders():
        (root / folder.relative_to("/")).mkdir(parents=True, exist_ok=True)
    shutil.copy("/etc/ld.so.cache", root / "etc")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    for name in ("hosts", "resolv.conf"):  # Charliecloud binds the host's over them
        (root / "etc" / name).touch()
    (root / "etc/os-release").symlink_to("../usr/lib/os-release")
    return root


@pytest.fixture(scope="session")
def archive(skeleton: Path) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        tar.add(skeleton, arcname=".")
    return written.getvalue()


def binds(option: str, form: str) -> list[str]:
    return [word for folder in bound_folders() for word in (option, form.format(folder=folder))]


def ulimit(name: str, limit: int) -> str:
    """Runtimes ask for more than a machine without CAP_SYS_RESOURCE may give: no more than this process has."""
    most = resource.getrlimit(limit)[1]
    return "{0}={1}:{1}".format(name, min(most, ENOUGH) if most != resource.RLIM_INFINITY else ENOUGH)


@contextmanager
def docker(work: Path, archive: bytes) -> Iterator[Engine]:
    """A daemon of its own, with no network. The client is the one that came with it: any other may be too new."""
    daemon = program("dockerd", "apt-get install docker.io", path=f"/usr/sbin:{os.environ['PATH']}")
    client = program("docker", "apt-get install docker.io", path=f"/usr/bin:{os.environ['PATH']}")
    folder = work / "docker"
    folder.mkdir()
    socket = f"unix://{folder}/socket"
    command = [
        *("setpriv", "--pdeathsig", "TERM", daemon),
        *("--iptables=false", "--ip6tables=false", "--bridge=none", f"--host={socket}"),
        *(f"--data-root={folder}/data", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid"),
        *("--containerd-namespace=primbench-tests", "--containerd-plugins-namespace=primbench-tests-plugins"),
        *("--exec-opt=native.cgroupdriver=cgroupfs", f"--default-ulimit={ulimit('nofile', resource.RLIMIT_NOFILE)}"),
    ]  # fmt: skip
    groups = groups_in_use()
    call = (client, "--host", socket)
    with (folder / "log").open("w") as log, subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    ) as process:  # fmt: skip
        try:
            until_it_answers(process, [*call, "version"], folder / "log")
            load([*call, "import", "-", IMAGE], archive)
            start = (*call, "run", "--rm", "--network=none", *binds("--volume", "{folder}:{folder}:ro"))
            path = f"{Path(client).parent}:{os.environ['PATH']}"
            yield Engine("docker", start, (IMAGE,), {"DOCKER_HOST": socket, "PATH": path}, passes=("--env",))
        finally:
            process.terminate()
            process.wait(timeout=30)
            clear(folder, groups)


def load(command: Sequence[str], archive: bytes, environment: Mapping[str, str] | None = None) -> None:
    whole = {**os.environ, **(environment or {})}
    found = subprocess.run(command, input=archive, env=whole, capture_output=True, check=False, timeout=60)
    assert 0 == found.returncode, found.stderr.decode()


def until_it_answers(process: subprocess.Popen[bytes], question: Sequence[str], log: Path) -> None:
    deadline = time.monotonic() + DAEMON_STARTS_WITHIN_S
    while subprocess.run(question, capture_output=True, check=False, timeout=30).returncode:
        if process.poll() is not None or time.monotonic() > deadline:
            pytest.fail(f"{question[0]} got no answer from its daemon:\n{log.read_text()[-2000:]}")
        time.sleep(0.2)


PODMAN_CONFIGURATION = """\
[containers]
default_ulimits = ["{nofile}", "{nproc}"]
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
tmp_dir = "{folder}/tmp"
"""  # crun refuses a machine whose control groups are v1 and v2 at once


PODMAN_STORAGE = """\
[storage]
driver = "overlay"
graphroot = "{folder}/root"
runroot = "{folder}/run"
"""


@contextmanager
def podman(work: Path, archive: bytes) -> Iterator[Engine]:
    client = program("podman", "apt-get install podman")
    program("runc", "apt-get install runc", SYSTEM)
    folder = work / "podman"
    folder.mkdir()
    limits = {
        "nofile": ulimit("nofile", resource.RLIMIT_NOFILE),
        "nproc": ulimit("nproc", resource.RLIMIT_NPROC),
    }
    (folder / "containers.conf").write_text(PODMAN_CONFIGURATION.format(folder=folder, **limits))
    (folder / "storage.conf").write_text(PODMAN_STORAGE.format(folder=folder))
    environment = {
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        "TMPDIR": str(folder),
    }
    call = (client, *("--root", f"{folder}/root"), *("--runroot", f"{folder}/run"), *("--tmpdir", f"{folder}/tmp"))
    groups = groups_in_use()
    try:
        load([*call, "import", "-", IMAGE], archive, environment)
        start = (*call, "run", "--rm", "--network=none", *binds("--volume", "{folder}:{folder}:ro"))
        yield Engine("podman", start, (f"localhost/{IMAGE}",), environment, passes=("--env",))
    finally:
        rest = [*call, "rm", "--all", "--force"]  # of a test that was cut off
        subprocess.run(rest, env={**os.environ, **environment}, capture_output=True, check=False, timeout=60)
        clear(folder, groups)


@contextmanager
def apptainer(work: Path, skeleton: Path) -> Iterator[Engine]:
    call = program("apptainer", "tests/containers/install-apptainer FOLDER, and FOLDER/usr/bin in PATH")
    folders = {"APPTAINER_CACHEDIR": work / "apptainer/cache", "APPTAINER_TMPDIR": work / "apptainer/tmp"}
    for folder in folders.values():
        folder.mkdir(parents=True)
    groups = groups_in_use()
    try:
        start = (call, "--silent", "exec", *binds("--bind", "{folder}:{folder}:ro"))
        yield Engine("apptainer", start, (str(skeleton),), {name: str(folder) for name, folder in folders.items()})
    finally:
        remove(groups)


@contextmanager
def charliecloud(skeleton: Path) -> Iterator[Engine]:
    call = program("ch-run", "apt-get install charliecloud-runtime")
    yield Engine("charliecloud", (call, *binds("--bind", "{folder}:{folder}")), (str(skeleton), "--"), {"USER": "root"})


def groups_of_engines() -> set[Path]:
    """The parents that runtimes make for the groups of their containers, and leave behind."""
    return set(control_groups("docker", "libpod_parent", "apptainer"))


def groups_in_use() -> set[Path]:
    """Those parents, once none is there that nobody uses: its limits would hold for the containers to come.

    Of control groups v1, a CPU that was offline for a moment is gone from a cpuset for good.
    """
    remove(set())
    return groups_of_engines()


def remove(before: set[Path]) -> None:
    """But for those in which somebody else has processes by now."""
    for top in groups_of_engines() - before:
        for folder, _, _ in os.walk(top, topdown=False):
            with suppress(OSError):
                os.rmdir(folder)


def clear(folder: Path, groups_before: set[Path]) -> None:
    """What a runtime keeps after its last container: monitors that are ending, a network namespace, its own storage."""
    deadline = time.monotonic() + ENDS_WITHIN_S
    while processes_of(folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    for point in reversed(mounts_in(folder)):
        subprocess.run(["umount", point], check=True, capture_output=True, timeout=30)
    remove(groups_before)


def mounts_in(folder: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [point for line in lines if (point := line.split(" ")[1]).startswith(f"{folder}/")]


def processes_of(folder: Path) -> list[str]:
    """Command lines that name the folder, but for this process's own."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended
        if str(folder) in words and path.parent.name != str(os.getpid()):
            found.append(words)
    return found


@pytest.fixture(scope="session")
def started(work: Path, archive: bytes, skeleton: Path) -> Callable[..., AbstractContextManager[Engine]]:
    """``started(name, folder)``: that runtime for a while, with what it keeps in the folder."""

    def start(name: str, folder: Path) -> AbstractContextManager[Engine]:
        if name == "docker":
            return docker(folder, archive)
        if name == "podman":
            return podman(folder, archive)
        return apptainer(folder, skeleton) if name == "apptainer" else charliecloud(skeleton)

    return start


@pytest.fixture(scope="session")
def host(work: Path) -> Engine:
    """No container: the same command on the machine itself."""
    return Engine("host", (), ())


def session_engine(name: str) -> Callable[..., Iterator[Engine]]:
    def engine(work: Path, started: Callable[..., AbstractContextManager[Engine]]) -> Iterator[Engine]:
        with started(name, work) as running:
            yield running
        assert [] == mounts_in(work / name) + processes_of(work / name)

    return pytest.fixture(scope="session", name=name)(engine)


docker_engine = session_engine("docker")
podman_engine = session_engine("podman")
apptainer_engine = session_engine("apptainer")
charliecloud_engine = session_engine("charliecloud")


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Engine:
    """The runtime that the test's parameter names."""
    found: Engine = request.getfixturevalue(request.param)
    return found
