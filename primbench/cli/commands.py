"""The commands that there are: every file of ``primbench.cli`` whose first line says what `primbench NAME` does.

The file is called as the command, with an underscore behind it where Python has such a word, and has the command of
click as ``command`` and its place among others as ``RANK``. Where the command writes files of a kind of its own, it has
what their first line is, as ``KEEPS``, and a function ``shown``, which makes a document of one for `primbench show`.
Where it has an answer of its own to results files, a function ``answered`` makes a document of one for
`primbench report`, None where it did not write the file.
It is imported when the command is used; of the others the text is read.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    import click

_FOLDER = os.path.dirname(__file__)


@functools.cache
def known() -> dict[str, str]:
    """Name -> what it does in a line, by rank."""
    files = [entry for entry in os.listdir(_FOLDER) if entry.endswith(".py")]
    return {name: summary for _, name, summary in sorted(found for file in files for found in _read(file))}


def command(name: str) -> click.Command | None:
    """The command of this name, imported; None where there is none."""
    for stem in (name, f"{name}_"):
        is_there = os.path.isfile(os.path.join(_FOLDER, f"{stem}.py"))
        if is_there and any(each == name for _, each, _ in _read(f"{stem}.py")):
            found: click.Command = importlib.import_module(f"primbench.cli.{stem}").command
            return found
    return None


def keeper(kind: str) -> tuple[str, ModuleType] | None:
    """The command that writes files whose first line is of this kind, and its module; None where there is none."""
    for name, found, kept in _having(lambda text: re.search(r'(?m)^KEEPS = "(\w+)"$', text)):
        if kept == kind:
            return name, importlib.import_module(found)
    return None


def answerers() -> Iterator[ModuleType]:
    """The modules of commands that have an answer of their own to results files."""
    having = _having(lambda text: re.search(r"(?m)^def (answered)\(", text))
    return (importlib.import_module(found) for _, found, _ in having)


def _having(find: Callable[[str], re.Match[str] | None]) -> Iterator[tuple[str, str, str]]:
    """Commands in whose files something is found: name, module, and what is in parentheses of the pattern."""
    for name in known():
        stem = name if os.path.isfile(os.path.join(_FOLDER, f"{name}.py")) else f"{name}_"
        with open(os.path.join(_FOLDER, f"{stem}.py"), encoding="utf-8") as opened:
            found = find(opened.read())
        if found:
            yield name, f"primbench.cli.{stem}", found[1]


def _read(file: str) -> list[tuple[int, str, str]]:
    """Rank, name and summary; none where the file is of no command."""
    with open(os.path.join(_FOLDER, file), encoding="utf-8") as opened:
        first = re.fullmatch(r'"""`primbench (\w+)`: (.+?)(?:""")?\n', opened.readline())
        rank = re.search(r"(?m)^RANK = (\d+)$", opened.read()) if first else None
    return [(int(rank[1]), first[1], first[2])] if first and rank else []
