"""What a launch makes, and what is left of it where whoever was to clear it away was killed.

The folder of a launch is locked as long as its supervisor lives. Of one that is not, the container, the control groups,
which are called as it is, and the folder itself are removed by whoever comes next.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from primbench.system.files import Mount, read_mounts
from primbench.system.jsonlines import UNREADABLE
from primbench.system.locks import lock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_PREFIX = "primbench-"
_LAUNCH = re.compile(_PREFIX + "[a-z0-9_]+")  # other folders of this prefix, as of files, have a second "-"
_NEW, _TO_DO = "new", "to-clear.json"
_MADE_WITHIN_S = 600.0
_STEP_TIMEOUT_S = 60.0
_CLEARED_WITHIN_S = 10.0
_REMOVED_WITHIN_S = 5.0
# What engines, kubectl and umount say where there is nothing left to remove, or nobody who would.
_GONE = ("no such", "does not exist", "cannot connect", "was refused", "not found", "not mounted", "no mount point")


class ToDo(msgspec.Struct, frozen=True, kw_only=True):
    """The commands that clear a launch away, should its supervisor be killed; fields as in ``Invocation``."""

    after: list[list[str]] = []
    environment: dict[str, str] | None = None


@contextlib.contextmanager
def launch_folder() -> Iterator[Path]:
    """A temporary folder that this process holds locked, so that sweep() leaves it, removed at the end.

    But for what a container's root wrote there, which an unprivileged user of an engine may not remove.
    """
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        with open(folder / _NEW, "wb") as held:
            lock(held.fileno())
            _note(held.fileno(), ToDo())
            os.rename(held.name, folder / _TO_DO)  # renamed once locked, so that no sweep finds it unlocked
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def note(folder: Path, to_do: ToDo) -> None:
    """Record the commands to run before the folder may go, should this process be killed."""
    with open(folder / _TO_DO, "rb+") as file:
        _note(file.fileno(), to_do)


def _note(descriptor: int, to_do: ToDo) -> None:
    os.pwrite(descriptor, msgspec.json.encode(to_do) + b"\n", 0)  # longer each time, so that nothing old is left


def sweep() -> None:
    """Clear away what killed supervisors of this user left here."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError, ValueError, *UNREADABLE):
            _sweep(folder)


def _sweep(folder: Path) -> None:
    """Raises one of these where it is none of ours."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        return  # only what nobody else can have written to says what is to be run
    if not os.path.lexists(folder / _TO_DO):
        _sweep_begun(folder, time.time() - status.st_mtime)
        return
    with open(folder / _TO_DO, "rb+") as file:
        if lock(file.fileno()) is not True:
            return
        _unmount(folder)
        if _mounted_in(folder):
            return
        to_do = msgspec.json.decode(file.read(), type=ToDo)
        for command in to_do.after:
            clear(command, to_do.environment)
        for mount in read_mounts(Path("/")):
            if mount.kind in ("cgroup", "cgroup2"):
                remove_groups(_called(folder.name, mount.point))
        shutil.rmtree(folder, ignore_errors=True)


def _sweep_begun(folder: Path, age_s: float) -> None:
    """One whose maker was killed before it had locked it, unless it may be at that yet. Raises OSError."""
    if _LAUNCH.fullmatch(folder.name) and age_s > _MADE_WITHIN_S:
        (folder / _NEW).unlink(missing_ok=True)
        folder.rmdir()


def _unmount(folder: Path) -> None:
    """What an arm had mounted there, which nothing holds by now."""
    for mount in _mounted_in(folder):
        if mount.kind == "fuse.fuse-overlayfs":
            clear(["umount", "--lazy", mount.point], None)


def _mounted_in(folder: Path) -> list[Mount]:
    return [mount for mount in read_mounts(Path("/")) if Path(mount.point).is_relative_to(folder)]


def _called(name: str, top: str) -> Iterator[Path]:
    for at, names, _ in os.walk(top):
        if name in names:
            yield Path(at) / name


def remove_groups(groups: Iterator[Path] | Sequence[Path]) -> None:
    """Control groups without groups in them. Ends the processes that are left there, too."""
    for group in groups:
        deadline = time.monotonic() + _REMOVED_WITHIN_S
        while group.exists() and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                for process in map(int, (group / "cgroup.procs").read_text().split()):
                    if process:  # 0 is one of another PID namespace, and would be all of this process's group
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(process, signal.SIGKILL)
            try:
                group.rmdir()
            except OSError:  # its processes are still ending
                time.sleep(0.02)


def clear(command: Sequence[str], environment: Mapping[str, str] | None) -> None:
    """Repeat a command until it works or finds nothing to clear: a removal in progress makes it fail for a while."""
    if shutil.which(command[0]) is None:
        return
    deadline = time.monotonic() + _CLEARED_WITHIN_S
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                env=environment, timeout=_STEP_TIMEOUT_S, check=False,
            )  # fmt: skip
            if done.returncode == 0 or any(words in done.stderr.lower() for words in _GONE):
                return
        if time.monotonic() > deadline:
            return
        time.sleep(0.2)
