"""Baselines by name: runs of one place, in a folder below the working one that a repository can keep.

A run is what says how a place is at one time; several of them say how it is. So each that is saved stands beside those
before, in a results file of its own.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from primbench.errors import FileError, InvalidRequest, OutputError
from primbench.results.file import encode
from primbench.system import outputs
from primbench.system.jsonlines import SUFFIXES

if TYPE_CHECKING:
    from primbench.results.file import Results
    from primbench.results.record import Line

FOLDER = Path(".primbench/baselines")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def name_of(text: str) -> str:
    """Raises InvalidRequest for what would be no folder of its own everywhere."""
    if not _NAME.fullmatch(text):
        raise InvalidRequest(f"{text!r} is no name for a baseline: letters, digits, and . _ - between them")
    return text


def check(name: str) -> None:
    """Raises InvalidRequest where no run can be saved by that name."""
    folder = (FOLDER / name).absolute()
    there = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
    if not os.path.isdir(there):
        raise InvalidRequest(f"--save-as {name}: {there} is no folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InvalidRequest(f"--save-as {name}: {there}: no permission to write there")


def save(name: str, results: Results) -> Path:
    """A run more of the baseline: the file that it is in now, whole or not at all. Raises OutputError."""
    path = FOLDER / name / f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}.jsonl"
    lines: list[Line] = [results.header, *results.workers, *results.records]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        outputs.write(path, b"".join(map(encode, lines)))
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}; not saved as {name}") from None
    except OutputError as error:
        raise OutputError(f"{error}; not saved as {name}") from None
    return path


def saved() -> list[str]:
    """The names that there are."""
    return sorted(each.name for each in FOLDER.glob("*/")) if FOLDER.is_dir() else []


def place_of(text: str) -> str:
    """The folder of the baseline of that name, or the path that it is otherwise."""
    folder = FOLDER / text
    return str(folder) if _NAME.fullmatch(text) and os.path.isdir(folder) else text


def runs_of(place: str) -> list[Path]:
    """The results file itself, - for stdin, or those in a folder. Raises FileError where there is none."""
    if place == "-":
        return [Path(place)]
    if not os.path.lexists(place):
        names = ", ".join(saved()) or "none"
        raise FileError(f"{place}: no such file, nor a baseline of that name in {FOLDER}: there is {names}")
    if not os.path.isdir(place):
        return [Path(place)]
    found = sorted(each for each in Path(place).glob("*") if each.name.endswith(SUFFIXES))
    if not found:
        raise FileError(f"{place}: a folder without results files (*.jsonl)")
    return found
