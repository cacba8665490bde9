"""Which file system holds the folders that a framework and its data come from."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from primbench.environment.configuration import cache_names, homely
from primbench.system.files import read_mounts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from primbench.system.files import Mount

WORKING_FOLDER = "working folder"


def filesystems(root: Path) -> dict[str, str]:
    """What a folder is for -> the kind of what is mounted there, and where: "9p on /mnt/c"."""
    mounts = read_mounts(root)
    found = {what: _holding(mounts, os.path.realpath(os.path.expanduser(folder))) for what, folder in _folders()}
    return {what: f"{mount.kind} on {homely(mount.point)}" for what, mount in found.items() if mount}


def _folders() -> list[tuple[str, str]]:
    """What is read and written, and where, whether that is there or not."""
    return [
        (WORKING_FOLDER, os.getcwd()),
        ("home", "~"),
        ("Python", sys.prefix),
        ("temporary files", os.environ.get("TMPDIR") or "/tmp"),
        *cache_names().items(),
    ]


def _holding(mounts: Sequence[Mount], path: str) -> Mount | None:
    """The mount that a path lies in: the deepest, and of those at one point the last."""
    within = [mount for mount in mounts if _lies_in(path, mount.point)]
    return max(reversed(within), key=lambda mount: len(mount.point), default=None)


def _lies_in(path: str, point: str) -> bool:
    return path == point or path.startswith(point.rstrip("/") + "/")
