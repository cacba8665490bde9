"""Which file system holds the folders that a framework and its data come from."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import struct
import sys
from typing import TYPE_CHECKING

from primbench.environment import bytecode
from primbench.environment.configuration import cache_names, homely, in_home, temporary_files
from primbench.system.files import holding, read_mounts
from primbench.system.processes import environ_of, folder_of, root_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from primbench.system.files import Mount

STRICTLY = "strictatime"
"""Each time, where others note it once a day or never."""
WORKING_FOLDER, SHARED_MEMORY, TEMPORARY_FILES = "working folder", "shared memory", "temporary files"
LOADED_FROM = (TEMPORARY_FILES, "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
"""What torch and Triton compile for CPUs, or to launch kernels, is a shared library in one of these."""
FILES_OF = "files of "
"""The name of a package follows: no matter where one place alone has it."""
NETWORK_LIKE = ("fuse", "nfs", "9p", "virtiofs", "lustre", "ceph", "gpfs", "beegfs", "cifs", "smb3")

# Mounts by which a system talks to its users and programs, and where it keeps them: no data or packages lie there.
_OF_THE_SYSTEM = re.compile(r"fusectl|fuse\.(lxcfs|portal|snapfuse|gvfsd-fuse)")
_FOR_THE_SYSTEM = re.compile(r"/(proc|sys|dev|etc|run|snap|var/lib|usr/lib/wsl)(/.*)?")
_OPTION = re.compile(
    r"sync|dirsync|data=(journal|writeback)|compress(-force)?(=.+)?|nodatacow|fsync=.+|volatile|cache=.+|dax(=.+)?"
    r"|nodelalloc"  # of ext4: all that its superblock's own default of data=journal shows of itself there
    r"|nobarrier|barrier=(0|none)"
)
# What files take over from their folder, by the option of a mount that does the same: linux/fs.h, FS_IOC_GETFLAGS.
_ATTRIBUTES = {
    0x8: "sync",
    0x10000: "dirsync",
    0x4000: "data=journal",
    0x4: "compress",
    0x800000: "nodatacow",
    0x800: "encrypted",
}
_WITH_ATTRIBUTES = ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs")  # on disks of this machine
_MOST_STEPS = 1000  # a path has 4096 characters at most, and 40 links
_GET_ATTRIBUTES = 0x80086601  # where all but Alpha, MIPS, PowerPC and SPARC have it
_OF_AN_ARM = re.compile(r".*/primbench-[^/]+/overlay-\d+/merged")  # which others see as long as its worker lives


def filesystems(root: Path, pid: int = 0) -> dict[str, str]:
    """What a folder is for -> the kind of what is mounted there, and where: "9p on /mnt/c"."""
    mounts = read_mounts(root, pid)
    folders = _folders_of(root, pid) if pid else _folders()
    found = {what: _holder(mounts, folder, root_of(root, pid)) for what, folder in folders}
    return {what: where for what, where in found.items() if where}


def kind_of(where: str) -> str:
    """Of what ``filesystems`` says, the kind alone: "9p"."""
    return where.partition(" on ")[0]


def is_on_root(where: str) -> bool:
    """The same: whether it is what is mounted on / that holds the folder."""
    return where.endswith(" on /")


def access_times(root: Path, pid: int = 0) -> dict[str, str]:
    """What is read from a folder -> when that is noted in the file: mount(8). A kernel that stands in for Linux lists
    no such options: then there are none.
    """
    mounts = read_mounts(root, pid)
    if not any(_noted(mount) != STRICTLY for mount in mounts):
        return {}
    found = {what: holding(mounts, folder) for what, folder in read_folders(root, pid)}
    return {what: _noted(mount) for what, mount in found.items() if mount}


def read_folders(root: Path, pid: int = 0, *others: str) -> list[tuple[str, str]]:
    """What a folder is for, and where it is, of others and those read while it is timed, as far as is known."""
    folders = _folders_of(root, pid) if pid else _folders()
    wanted = (TEMPORARY_FILES, "Python", *others)
    return [(what, folder) for what, folder in folders if what in wanted or what.startswith(FILES_OF)]


def _noted(mount: Mount) -> str:
    options = mount.own_options.split(",")
    if "ro" in (*options, *mount.options.split(",")):
        return "noatime"
    return next((each for each in ("noatime", "relatime") if each in options), STRICTLY)


def filesystem_of(folder: str, root: Path) -> str | None:
    """The kind of what is mounted where a folder is, and where; None where no mount holds it."""
    return _holder(read_mounts(root), os.path.realpath(os.path.expanduser(folder)), root)


def _holder(mounts: Sequence[Mount], folder: str, root: Path) -> str | None:
    mount = holding(mounts, folder)
    return mount and f"{_kind(mount, _attributes(mount, root / folder.lstrip('/')))} on {homely(mount.point)}"


def _kind(mount: Mount, attributes: Sequence[str] = ()) -> str:
    """With what has the file system, or a folder of it, write or read in another way: "ext4 (sync)"."""
    options = [each for each in mount.options.split(",")[1:] if _OPTION.fullmatch(each)]
    words = dict.fromkeys((*options, *attributes))
    return f"{mount.kind} ({', '.join(words)})" if words else mount.kind


def _attributes(mount: Mount, folder: Path) -> list[str]:
    """None where the folder is not there, or has none. Nobody is asked who may never answer, as over a network."""
    if mount.kind not in _WITH_ATTRIBUTES:
        return []
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        (found,) = struct.unpack("I4x", fcntl.ioctl(opened, _GET_ATTRIBUTES, bytes(8)))
    except OSError:
        return []
    finally:
        os.close(opened)
    return [word for bit, word in _ATTRIBUTES.items() if found & bit]


def noexec(root: Path, pid: int = 0) -> list[str]:
    """Which of the folders that compiled code is loaded from are mounted noexec, so that none can be (mount(8))."""
    mounts = read_mounts(root, pid)
    folders = dict(_folders_of(root, pid) if pid else _folders())
    held = {what: holding(mounts, folders[what]) for what in LOADED_FROM if what in folders}
    return [what for what, mount in held.items() if mount and "noexec" in mount.own_options.split(",")]


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
        (TEMPORARY_FILES, temporary_files()),
        (SHARED_MEMORY, "/dev/shm"),
        *((f"{FILES_OF}{name}", str(path.parent)) for name, path in bytecode.sources().items()),
        *cache_names().items(),
    ]
    return [(what, os.path.realpath(os.path.expanduser(folder))) for what, folder in folders]


def steps_to_temporary_files() -> int:
    """How many names are looked up on the way, those that links stand for among them; at most what Linux goes."""
    at, names, count = "/", os.path.join(os.getcwd(), temporary_files()).split("/"), 0
    while names and count < _MOST_STEPS:
        name = names.pop(0)
        if name in ("", "."):
            continue
        count += 1
        at = os.path.dirname(at) if name == ".." else os.path.join(at, name)
        with contextlib.suppress(OSError):
            target = os.readlink(at)
            at = "/" if target.startswith("/") else os.path.dirname(at)
            names = target.split("/") + names
    return count


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
        (TEMPORARY_FILES, temporary_files(environ)),
        *cache_names(environ).items(),
    ]
    return [(what, in_home(folder, environ)) for what, folder in folders]
