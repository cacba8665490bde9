"""How the groups of the fingerprint are filled: a table of fields, each with where it is read and by what."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.system.files import attempt, trimmed, utf8

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


class Reader(NamedTuple):
    """source: the file, system call or variable that a field comes from, for people. read: takes the root and, where
    ``of_others``, the number of a process, 0 this one; without, it tells of this process or of the machine alone.
    """

    source: str
    read: Callable[..., Any]
    of_others: bool = False

    def value(self, root: Path, pid: int = 0) -> Any:
        """What it reads; raises whatever its reading raises."""
        return self.read(root, pid) if self.of_others else self.read(root)


def of_process(source: str, read: Callable[[Path, int], Any]) -> Reader:
    """A reader that tells of any process."""
    return Reader(source, read, of_others=True)


def read_all(readers: Mapping[str, Reader], root: Path, pid: int = 0, *, of_machine: bool = False) -> dict[str, Any]:
    """Every field by its name, None where it could not be read, and the reasons for these as ``missing``.

    pid: of the process that they are read of, 0 this one. of_machine: whether what is no process's is the machine's.
    """
    missing: dict[str, str] = {}
    fields = {
        name: attempt(missing, name, functools.partial(_read, reader, root, pid, of_machine=of_machine))
        for name, reader in readers.items()
    }
    return fields | {"missing": {name: utf8(reason) for name, reason in missing.items()}}


def _read(reader: Reader, root: Path, pid: int, *, of_machine: bool) -> Any:
    if pid and not (reader.of_others or of_machine):
        raise LookupError(f"only process {pid} itself could tell")
    return reader.value(root, pid)


def word(path: Path) -> str:
    """The text of a file without the space around it. Raises OSError, and ValueError where it is empty."""
    text = trimmed(path.read_text())
    if not text:
        raise ValueError(f"{path} is empty")
    return text
