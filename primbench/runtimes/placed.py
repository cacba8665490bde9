"""Files of this machine that a worker sees elsewhere: bound over others, or where the dynamic loader looks first."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from primbench.errors import InvalidRequest
from primbench.runtimes.hostroot import caches
from primbench.spec.arm import Arm, asked, is_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.spec.setting import PlacedFile

MOST_LINKS = 40  # that a path leads by, as in Linux: path_resolution(7)
_IN_IMAGE = "/tmp/primbench-libraries"
"""An image's folders may not be written to, but for this one, which is there in all."""


def placed(arm: Arm, folder: Path) -> list[tuple[str, str]]:
    """What is to be bound, and where. folder: the launch's.

    Raises InvalidRequest where a file is not there, or none of the places that it is to be seen in.
    """
    found = dict[str, str]()
    for setting, each in _asked(arm):
        if not _is_name(each):
            found |= dict.fromkeys(_there(arm, setting, each), each.path)
        elif not arm.on_host_root:
            found[f"{_IN_IMAGE}/{each.at[0]}"] = each.path
    return [(path, at) for at, path in found.items()]


def in_front(arm: Arm, folder: Path) -> str | None:
    """The folder that the dynamic loader is to look in first; None where nothing is to be found there.

    Raises as placed() does.
    """
    named = {each.at[0]: each.path for _, each in _asked(arm) if _is_name(each)}
    if not named:
        return None
    if not arm.on_host_root:
        return _IN_IMAGE
    front = caches(folder) / "libraries"  # which all have that are on the host's root
    front.mkdir()
    for name, path in named.items():
        if arm.runtime == "host":
            (front / name).symlink_to(path)
        else:
            shutil.copy(path, front / name)
    return str(front)


def _asked(arm: Arm) -> Iterator[tuple[str, PlacedFile]]:
    """With the setting in words."""
    for row, value in asked(arm, "files"):
        assert row.files is not None
        for each in row.files(value):
            is_there = os.path.isfile if _is_name(each) else os.path.exists
            if not is_there(each.path):
                raise InvalidRequest(f"{row.key}: there is no {each.path}", arm=arm.name)
            yield row.key, each


def _is_name(file: PlacedFile) -> bool:
    return "/" not in file.at[0]


def _there(arm: Arm, setting: str, file: PlacedFile) -> list[str]:
    """Of the places in which it is to be seen those that there are, links followed, where the root can be looked at."""
    root = "/" if arm.on_host_root else str(arm.image)
    if not is_folder(root):
        return [*file.at]
    found = dict.fromkeys(filter(None, (inside(Path(root), each) for each in file.at)))
    if not found:
        raise InvalidRequest(f"{setting}: there is no {' nor '.join(file.at)} to be replaced", arm=arm.name)
    return [*found]


def inside(root: Path, path: str) -> str | None:
    """Where a path leads in another root, as from there; None where there is nothing."""
    left, at, links = path.split("/")[::-1], Path("/"), 0
    while left:
        name = left.pop()
        at = at.parent if name == ".." else at / name
        here = root / str(at).lstrip("/")
        if here.is_symlink():
            links += 1
            target = os.readlink(here)
            at = Path("/") if target.startswith("/") else at.parent
            left += target.split("/")[::-1]
        if not os.path.lexists(here) or links > MOST_LINKS:
            return None
    return str(at)
