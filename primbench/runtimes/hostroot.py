"""The host's own root as an image: an empty tree, where the host's folders are bound at their own paths, read-only.

So the same Python, libraries and files are inside as outside, and only the container differs.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import primbench
from primbench.errors import InvalidRequest
from primbench.spec.arm import Arm, asked
from primbench.system.files import read_mounts

if TYPE_CHECKING:
    from collections.abc import Iterable


OF_CONTAINERS = (Path("/etc/hostname"), Path("/etc/hosts"), Path("/etc/resolv.conf"))
"""What container engines write for each container, and mount there."""

# A container has its own of these, or has no use for them; /var may hold the file systems of other containers.
_LEFT_OUT = {"proc", "sys", "dev", "run", "tmp", "var", "boot", "mnt", "media", "lost+found"}
_OWN = ("proc", "sys", "dev", "run", "tmp", "var/tmp")
_SEARCHED = ("PYTHONPATH", "LD_LIBRARY_PATH")


def bound_folders(root: Path = Path("/")) -> list[Path]:
    """Everything at the top but what is a container's own, and what Python needs from elsewhere; none in another."""
    top = {each.name for each in os.scandir(root) if each.is_dir(follow_symlinks=False)}
    folders = {Path("/") / name for name in top - _LEFT_OUT} | _of_python()
    return sorted(folder for folder in folders if folder != Path("/") and not folders & set(folder.parents))


def _of_python() -> set[Path]:
    """Folders of this Python, of primbench, where a link may lead to it, and of the search paths in the environment."""
    package = Path(primbench.__file__)
    needed = {sys.prefix, sys.base_prefix, str(package.parents[1]), str(package.resolve().parents[1])}
    for name in _SEARCHED:
        needed |= {*os.environ.get(name, "").split(":")}
    return {Path(folder) for folder in needed if os.path.isabs(folder) and os.path.isdir(folder)}


def mounted_below(folders: Iterable[Path], root: Path = Path("/")) -> list[Path]:
    """Mount points of other file systems within the folders, the outer ones first.

    A runtime that binds a folder binds these with it, and makes none of them read-only by making the folder so: they
    are bound once more, each for itself. What cannot be entered cannot be bound, nor be written to.
    """
    within, found = {*folders}, dict[Path, None]()
    for mount in read_mounts(root):
        point = Path(mount.point)
        if within & {*point.parents} and mount.kind != "autofs" and os.path.lexists(point):
            found[point] = None
    return sorted(found, key=lambda point: len(point.parts))


def read_only(arm: Arm, but: Iterable[Path] = ()) -> list[Path]:
    """What is bound read-only by runtimes that name it as FROM:TO:ro. but: what the runtime itself puts there,
    as it does where the arm has folders of its own.

    Raises InvalidRequest where such a word cannot say it.
    """
    folders = bound_folders()
    placed = (each for kind in ("mounts", "overlays", "binds") for _, paths in asked(arm, kind) for each in paths)
    own = {Path(each.rpartition(":")[2]) for each in placed}
    points = [each for each in (*folders, *mounted_below(folders)) if each not in own.union(but)]
    for point in points:
        if re.search("[:,\n]", str(point)):
            raise InvalidRequest(
                f"{arm.runtime} cannot bind {point} read-only, for its name: unmount it, or take runc", arm=arm.name
            )
    return points


def make_skeleton(folder: Path) -> Path:
    """The tree in ``folder``: places to bind at, and the links at the host's top such as /lib."""
    tree = folder / "root"
    for point in (*map(Path, _OWN), *bound_folders(), caches(folder)):
        (tree / str(point).lstrip("/")).mkdir(parents=True, exist_ok=True)
    for link in Path("/").iterdir():
        if link.is_symlink() and not os.path.lexists(tree / link.name):
            (tree / link.name).symlink_to(link.readlink())
    (tree / "tmp").chmod(0o1777)
    return tree


def caches(folder: Path) -> Path:
    """Where libraries may keep what they compile: writable, and empty at first in every arm, the host's too."""
    found = folder / "caches"
    found.mkdir(exist_ok=True)
    return found
