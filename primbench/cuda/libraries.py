"""Where one of NVIDIA's libraries is found."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def first_loadable(stem: str, names: Sequence[str]) -> ctypes.CDLL | None:
    """``lib{stem}.so``: the copy in this process already, else cuda-pathfinder's, else the dynamic loader's by name.

    Two copies of one library in a process would be two states, and not the build that the framework beside us uses.
    """
    for name in _candidates(stem, names):
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    return None


def loaded_path(stem: str, maps: str) -> str | None:
    """The path of ``lib{stem}.so`` in the text of a /proc/PID/maps; None where it is not mapped."""
    for line in maps.splitlines():
        path = line[line.find("/") :]
        if path.rpartition("/")[2].startswith(f"lib{stem}.so"):
            return path
    return None


def own_maps() -> str:
    return Path("/proc/self/maps").read_text()


def _candidates(stem: str, names: Sequence[str]) -> Iterator[str]:
    loaded = loaded_path(stem, own_maps())
    if loaded is not None:
        yield loaded
    # Not installed, or DynamicLibNotFoundError, a RuntimeError: the loader may still know the name.
    with contextlib.suppress(ImportError, RuntimeError):
        yield importlib.import_module("cuda.pathfinder").load_nvidia_dynamic_lib(stem).abs_path
    yield from names
