"""Formats for other programs and for papers: one file each, which has the name of the option that asks for it.

A file has ``RANK`` (the least is listed first), ``WRITES`` (what that is, for --help) and, where few people use it,
``IS_RARE = True``, each in a line of its own that is read as text: it is imported when something is written. Its
``write(document)`` gives the text of a ``primbench.report.document.Document``, or its bytes. It may have ``NEEDS``:
packages that must be there.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from typing import TYPE_CHECKING

from primbench.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from primbench.report.document import Document


class ReportFormat:
    """What a file tells of itself.

    rank: the least is listed first. writes: what it is, in words. is_rare: whether few people use it.
    """

    def __init__(self, name: str, said: Mapping[str, str]) -> None:
        self.name, self.rank, self.writes = name, int(said["RANK"]), said["WRITES"].strip('"')
        self.is_rare = "IS_RARE" in said

    def write(self, document: Document) -> str | bytes:
        written: str | bytes = self._module().write(document)
        return written

    def check(self) -> None:
        """Raises InvalidRequest where a package is not installed that it is written with."""
        needed = getattr(self._module(), "NEEDS", ())
        if absent := [each for each in needed if importlib.util.find_spec(each) is None]:
            raise InvalidRequest(f"--{self.name}: needs {' and '.join(absent)}: pip install 'primbench[report]'")

    def _module(self) -> ModuleType:
        return importlib.import_module(f"{__name__}.{self.name}")


@functools.cache
def known() -> dict[str, ReportFormat]:
    """Name -> format, in the order of their ranks."""
    entries = [entry for folder in __path__ for entry in os.scandir(folder) if entry.name.endswith(".py")]
    found = [_read(entry) for entry in entries if not entry.name.startswith("_")]
    return {each.name: each for each in sorted(found, key=lambda each: (each.rank, each.name))}


def _read(entry: os.DirEntry[str]) -> ReportFormat:
    with open(entry.path, encoding="utf-8") as file:
        parts = [line.rstrip().partition(" = ") for line in file]
    said = {name: value for name, equals, value in parts if equals and name.isupper()}
    return ReportFormat(entry.name.removesuffix(".py"), said)
