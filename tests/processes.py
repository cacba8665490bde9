"""Processes that a test's own started, of which one may end while it is looked at."""

from __future__ import annotations

import psutil


def children(module: str, of: int | None = None, *, recursive: bool = False) -> list[psutil.Process]:
    """Those whose command names this module. of: the number of whose they are; None is this process's."""
    found = psutil.Process(of).children(recursive=recursive)
    return [child for child in found if any(module in word for word in words_of(child))]


def words_of(process: psutil.Process) -> list[str]:
    """Its command; [] of one that has ended."""
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []
