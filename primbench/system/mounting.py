"""Mounts that only one process and what it starts see."""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLONE_NEWNS = 0x20000  # linux/sched.h
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000  # linux/mount.h
_MNT_DETACH = 2


@contextlib.contextmanager
def own_mounts() -> Iterator[None]:
    """In a mount namespace of its own, which this process of one thread leaves at the end. Raises OSError."""
    before = os.open("/proc/self/ns/mnt", os.O_RDONLY)
    try:
        _call("unshare", _CLONE_NEWNS)
        _call("mount", b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), None)
        try:
            yield
        finally:
            _call("setns", before, _CLONE_NEWNS)
    finally:
        os.close(before)


def move(source: str, target: str) -> None:
    """Show what is mounted at one path at another instead. Raises OSError."""
    bind(source, target)
    _call("umount2", os.fsencode(source), _MNT_DETACH)


def bind(source: str, target: str) -> None:
    """Show a file or folder at another path, too. Raises OSError."""
    _call("mount", os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(_MS_BIND | _MS_REC), None)


def mount_tmpfs(path: str) -> None:
    """An empty folder in memory. Raises OSError."""
    _call("mount", b"tmpfs", os.fsencode(path), b"tmpfs", ctypes.c_ulong(0), b"mode=1777")


def _call(name: str, *arguments: object) -> None:
    if ctypes.CDLL(None, use_errno=True)[name](*arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
