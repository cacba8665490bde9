"""Folders of an arm that are in memory, or shown through fuse-overlayfs, which runs outside of any container; files and
folders of this machine that are seen elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from primbench.errors import BackendUnavailable, InvalidRequest
from primbench.runtimes.invocation import ANSWERS_WITHIN_S
from primbench.runtimes.leftovers import clear
from primbench.runtimes.placed import placed
from primbench.spec.arm import Arm, asked
from primbench.system.mounting import bind, mount_tmpfs, move, own_mounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


PROGRAM = "fuse-overlayfs"


class Bind(NamedTuple):
    """A file or folder of this machine that a worker sees."""

    source: str
    """Its path on this machine."""
    target: str
    """Its path where the worker sees it."""
    is_read_only: bool
    """Whether the worker cannot write to it."""


def binds(arm: Arm, folder: Path) -> list[Bind]:
    """All that a container is given beside its root. folder: the launch's. Raises InvalidRequest where it cannot be."""
    shown = [Bind(source, point, is_read_only=False) for source, point in [*overlays(arm, folder), *_elsewhere(arm)]]
    return shown + [Bind(path, at, is_read_only=True) for path, at in placed(arm, folder)]


def overlays(arm: Arm, folder: Path) -> list[tuple[str, str]]:
    """Where fuse-overlayfs shows each folder, and at which path the worker is to see that. folder: the launch's."""
    paths = [each for _, found in asked(arm, "overlays") for each in found]
    return [(str(folder / f"overlay-{number}" / "merged"), path) for number, path in enumerate(paths)]


def _elsewhere(arm: Arm) -> list[tuple[str, str]]:
    """Folders of this machine, and where each is seen."""
    words = (each.partition(":") for _, found in asked(arm, "binds") for each in found)
    return [(source, point) for source, _, point in words]


def _check_hides_none(arm: Arm, folder: Path) -> None:
    """Raises InvalidRequest where one is seen in the place of the launch's, and would be left with files of it."""
    for _, point in _elsewhere(arm):
        if point == "/" or point in map(str, folder.parents):
            raise InvalidRequest(
                f"a mount on {point} hides {folder}, by which workers are started: set TMPDIR to another folder where "
                "primbench is started",
                arm=arm.name,
            )


@contextlib.contextmanager
def mounted(arm: Arm, folder: Path) -> Iterator[None]:
    """With fuse-overlayfs at work, and on the host with the arm's folders in place, for this process and its own alone.

    Raises BackendUnavailable where they cannot be had, InvalidRequest where one hides the folder of the launch.
    """
    _check_hides_none(arm, folder)
    shown = overlays(arm, folder)
    try:
        for merged, path in shown:
            _show(arm, merged, path)
        with _in_place(arm, folder):
            yield
    finally:
        for merged, _ in shown:
            clear(["umount", "--lazy", merged], None)


def _show(arm: Arm, merged: str, path: str) -> None:
    where = f"fuse-overlay={path}"
    if shutil.which(PROGRAM) is None:
        raise BackendUnavailable(f"{where}: {PROGRAM} is not installed: apt-get install {PROGRAM}", arm=arm.name)
    if os.geteuid() != 0:
        raise BackendUnavailable(
            f"{where}: what a user mounts, no other sees, such as a container's root: be root", arm=arm.name
        )
    own = os.path.dirname(merged)
    for name in ("merged", "upper", "work"):
        os.makedirs(os.path.join(own, name))
    try:
        done = subprocess.run(
            [PROGRAM, "-o", f"lowerdir={path},upperdir={own}/upper,workdir={own}/work", merged],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=ANSWERS_WITHIN_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise BackendUnavailable(
            f"{where}: {PROGRAM} did not mount it within {ANSWERS_WITHIN_S:g} s", arm=arm.name
        ) from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise BackendUnavailable(f"{where}: {said[-1]}", arm=arm.name)


@contextlib.contextmanager
def _in_place(arm: Arm, folder: Path) -> Iterator[None]:
    """Where no runtime puts them there."""
    mounts = _on_the_host(arm, folder) if arm.runtime == "host" else []
    if not mounts:
        yield
        return
    with contextlib.ExitStack() as stack:
        where = "a mount namespace"
        try:
            stack.enter_context(own_mounts())
            for where, mount in mounts:  # noqa: B007 - told of what fails
                mount()
            folder.mkdir(parents=True, exist_ok=True)  # where it was hidden, by a tmpfs on /tmp
        except OSError as error:
            mend = "be root" if os.geteuid() else "see whether this machine has it"
            raise BackendUnavailable(f"mounting {where}: {error.strerror}: {mend}", arm=arm.name) from None
        yield


def _on_the_host(arm: Arm, folder: Path) -> list[tuple[str, Callable[[], None]]]:
    """What is mounted where, in words, and what does it."""
    in_memory = [each for _, found in asked(arm, "mounts") for each in found]
    return [
        *((path, partial(move, merged, path)) for merged, path in overlays(arm, folder)),
        *((f"{path} on {at}", partial(bind, path, at)) for path, at in [*_elsewhere(arm), *placed(arm, folder)]),
        *((path, partial(mount_tmpfs, path)) for path in in_memory),
    ]
