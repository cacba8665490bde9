"""How the groups of the fingerprint are filled: a table of fields, each with where it is read and by what."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.system.files import attempt, trimmed, utf8

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


class Reader(NamedTuple):
    """source: the file, system call or variable that a field comes from, for people. read: takes the root."""

    source: str
    read: Callable[[Path], Any]


def read_all(readers: Mapping[str, Reader], root: Path) -> dict[str, Any]:
    """Every field by its name, None where it could not be read, and the reasons for these as ``missing``."""
    missing: dict[str, str] = {}
    fields = {name: attempt(missing, name, functools.partial(reader.read, root)) for name, reader in readers.items()}
    return fields | {"missing": {name: utf8(reason) for name, reason in missing.items()}}


def word(path: Path) -> str:
    """The text of a file without the space around it. Raises OSError, and ValueError where it is empty."""
    text = trimmed(path.read_text())
    if not text:
        raise ValueError(f"{path} is empty")
    return text
