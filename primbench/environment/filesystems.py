"""Which file system holds the folders that a framework and its data come from."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

from primbench.environment import bytecode
from primbench.environment.configuration import cache_names, homely, in_home
from primbench.system.files import holding, read_mounts
from primbench.system.processes import environ_of, folder_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from primbench.system.files import Mount

WORKING_FOLDER, SHARED_MEMORY = "working folder", "shared memory"
FILES_OF = "files of "
"""The name of a package follows: no matter where one place alone has it."""
NETWORK_LIKE = ("fuse", "nfs", "9p", "virtiofs", "lustre", "ceph", "gpfs", "beegfs", "cifs", "smb3")

# Mounts by which a system talks to its users and programs, and where it keeps them: no data or packages lie there.
_OF_THE_SYSTEM = re.compile(r"fusectl|fuse\.(lxcfs|portal|snapfuse|gvfsd-fuse)")
_FOR_THE_SYSTEM = re.compile(r"/(proc|sys|dev|etc|run|snap|var/lib|usr/lib/wsl)(/.*)?")
_OPTION = re.compile(
    r"sync|dirsync|data=journal|compress(-force)?(=.+)?|nodatacow|fsync=.+|volatile|cache=.+|dax(=.+)?"
)
_OF_AN_ARM = re.compile(r".*/primbench-[^/]+/overlay-\d+/merged")  # which others see as long as its worker lives


def filesystems(root: Path, pid: int = 0) -> dict[str, str]:
    """What a folder is for -> the kind of what is mounted there, and where: "9p on /mnt/c"."""
    mounts = read_mounts(root, pid)
    folders = _folders_of(root, pid) if pid else _folders()
    found = {what: _holder(mounts, folder) for what, folder in folders}
    return {what: where for what, where in found.items() if where}


def filesystem_of(folder: str, root: Path) -> str | None:
    """The kind of what is mounted where a folder is, and where; None where no mount holds it."""
    return _holder(read_mounts(root), os.path.realpath(os.path.expanduser(folder)))


def _holder(mounts: Sequence[Mount], folder: str) -> str | None:
    mount = holding(mounts, folder)
    return mount and f"{_kind(mount)} on {homely(mount.point)}"


def _kind(mount: Mount) -> str:
    """With the options of the file system that have it write or read in another way: "ext4 (sync)"."""
    options = [each for each in mount.options.split(",")[1:] if _OPTION.fullmatch(each)]
    return f"{mount.kind} ({', '.join(options)})" if options else mount.kind


def far_mounts(root: Path, pid: int = 0) -> dict[str, str]:
    """Where something is mounted over a network or by a program, and its kind; / and what ``filesystems`` has apart."""
    mounts, told = read_mounts(root, pid), set(filesystems(root, pid).values())
    return {
        point: mount.kind
        for mount in mounts
        if mount.kind.startswith(NETWORK_LIKE)
        and not _OF_THE_SYSTEM.fullmatch(mount.kind)
        and not _FOR_THE_SYSTEM.fullmatch(mount.point)
        and not _OF_AN_ARM.fullmatch(mount.point)
        and (point := homely(mount.point)) != "/"
        and f"{_kind(mount)} on {point}" not in told
    }


def _folders() -> list[tuple[str, str]]:
    """What is read and written, and where, whether that is there or not; links followed."""
    folders = [
        *_working_folder(),
        ("home", "~"),
        ("Python", sys.prefix),
        ("temporary files", temporary_files()),
        (SHARED_MEMORY, "/dev/shm"),
        *((f"{FILES_OF}{name}", str(path.parent)) for name, path in bytecode.sources().items()),
        *cache_names().items(),
    ]
    return [(what, os.path.realpath(os.path.expanduser(folder))) for what, folder in folders]


def temporary_files(environ: Mapping[str, str] = os.environ) -> str:
    """The folder that temporary files are made in, as the variables of a process say."""
    return environ.get("TMPDIR") or "/tmp"


def _working_folder() -> list[tuple[str, str]]:
    """None where it was removed: all other folders are there as before."""
    try:
        return [(WORKING_FOLDER, os.getcwd())]
    except OSError:
        return []


def _folders_of(root: Path, pid: int) -> list[tuple[str, str]]:
    """The same of another process, as far as it is told from outside; links in its own root are not followed."""
    environ = environ_of(root, pid)
    folders = [
        (WORKING_FOLDER, os.readlink(folder_of(root, pid) / "cwd")),
        ("home", "~"),
        ("temporary files", temporary_files(environ)),
        *cache_names(environ).items(),
    ]
    return [(what, in_home(folder, environ)) for what, folder in folders]
