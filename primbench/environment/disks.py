"""Which disk the folders lie on that are read, and how far ahead the kernel reads there."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from primbench.environment.filesystems import WORKING_FOLDER, read_folders
from primbench.environment.libraries import mapped
from primbench.system.files import attempt, holding, read_mounts, read_number, utf8
from primbench.system.processes import folder_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from primbench.system.files import Mount


USUAL_BYTES = 128 * 1024
"""As far as Linux reads ahead unless told otherwise: VM_READAHEAD_PAGES of linux/mm.h."""


def disks(root: Path, pid: int = 0) -> dict[str, str]:
    """What a folder is for -> the disk that it lies on, such as "nvme0n1", or the kind of what is mounted there.

    None of those that lie on no disk, as in memory or in the layers of a container, which are the host's.
    """
    return {what: name for what, name, _ in _found(root, pid)}


def read_ahead_bytes(root: Path, pid: int = 0) -> dict[str, int]:
    """What a folder is for -> how much the kernel reads beyond what is asked for, at most, of files that lie there."""
    return {what: ahead_bytes for what, _, ahead_bytes in _found(root, pid)}


def of_open_files(root: Path, pid: int) -> dict[str, int]:
    """Disk -> how far ahead it is read, of those that the files lie on which a process has open or mapped.

    Raises OSError where that may not be read.
    """
    folder = folder_of(root, pid) / "fd"
    opened = [attempt({}, "", (folder / number).readlink) for number in os.listdir(folder)]
    paths = {str(path) for path in opened if path is not None} | {*mapped(root, pid)}
    folders = {os.path.dirname(path) for path in paths if path.startswith("/")}
    found = _behind(root, pid, [(each, each) for each in folders])
    return {disk: ahead_bytes for _, disk, ahead_bytes in found}


def _found(root: Path, pid: int) -> Iterator[tuple[str, str, int]]:
    return _behind(root, pid, read_folders(root, pid, WORKING_FOLDER))


def _behind(root: Path, pid: int, folders: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, int]]:
    """Of each folder what it is for, its disk, and how far ahead that is read."""
    mounts = read_mounts(root, pid)
    for what, folder in folders:
        mount = holding(mounts, folder)
        kib = attempt({}, "", partial(_read_ahead_kib, root, mount)) if mount else None
        if mount and kib is not None:
            yield what, _name(root, mount), 1024 * kib


def _read_ahead_kib(root: Path, mount: Mount) -> int:
    """Of the disk, or of what else backs the mount, as over a network: Linux, ABI/testing/sysfs-class-bdi.

    A part of a disk has no queue of its own. Raises OSError where none backs it, and where /sys does not show it.
    """
    backing = root / "sys/class/bdi" / mount.device / "read_ahead_kb"
    part = root / "sys/dev/block" / mount.device / "../queue/read_ahead_kb"
    return read_number(backing if backing.exists() else part)


def _name(root: Path, mount: Mount) -> str:
    """Of a part of a disk that of the disk."""
    path = root / "sys/dev/block" / mount.device
    if not path.exists():
        return mount.kind
    found = path.resolve()
    return utf8(found.name if (found / "queue").is_dir() else found.parent.name)
