"""The files of a history: those that are named, and those below folders and baselines that hold results."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from primbench.baselines.named import FOLDER, place_of
from primbench.compare.sessions import sessions_at
from primbench.errors import FileError, PrimbenchError
from primbench.history import others, own
from primbench.history.series import series_of
from primbench.system.inputs import unlike_a_file
from primbench.system.jsonlines import SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.history.series import Observed, TimeSeries

_NOT_ENTERED = frozenset((".git", "node_modules", "__pycache__"))


@dataclass
class FilesRead:
    """What files hold. unreadable: file -> why nothing of it, or not all, is used."""

    series: list[TimeSeries] = field(default_factory=list)
    files: int = 0
    unreadable: dict[str, str] = field(default_factory=dict)

    def told(self, file: str, error: Exception) -> None:
        """Of a file: what is wrong with it."""
        self.unreadable[file] = str(error).removeprefix(f"{file}:").strip()


def read(places: Sequence[str]) -> FilesRead:
    """places: results files, files of other programs, folders of these, or baselines by name; none is all baselines.

    Raises FileError where nothing of them can be used.
    """
    found = FilesRead()
    runs = sorted(_runs(places or [str(FOLDER)], found), key=lambda each: (each.time, each.file))
    sessions = sessions_at([(each.boot, each.started) for each in runs])
    numbers = {run: number for number, session in enumerate(sessions) for run in session.runs}
    found.series = series_of([(run, numbers[at]) for at, run in enumerate(runs)], found.told)
    found.files = len({point.file for each in found.series for point in each.points})
    if not found.series:
        raise FileError(_nothing(places, found))
    return found


def _runs(places: Sequence[str], found: FilesRead) -> Iterator[Observed]:
    for path, is_named in dict(_paths(places)).items():
        run = _run(path, found, is_named=is_named)
        if run is not None:
            yield run


def _run(path: Path, found: FilesRead, *, is_named: bool) -> Observed | None:
    """None where there is none in it, of which is told where it was named itself."""
    try:
        run = own.observed(path, found.told) if path.name.endswith(SUFFIXES) else others.observed(path)
    except PrimbenchError as error:
        found.told(str(path), error)
        return None
    if run is None and is_named:
        found.told(str(path), FileError(f"no results of primbench (*.jsonl), {others.PROGRAMS}"))
    return run


def _paths(places: Sequence[str]) -> Iterator[tuple[Path, bool]]:
    """Each with whether it was named itself. Raises FileError of a name that is none."""
    for text in places:
        place = Path(place_of(text))
        if place.is_dir():
            yield from ((each, False) for each in _below(place))
        elif os.path.lexists(place):
            yield place, True
        else:
            raise FileError(f"{text}: no such file or folder, nor a baseline of that name in {FOLDER}")


def _below(folder: Path) -> Iterator[Path]:
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if each not in _NOT_ENTERED)
        for name in sorted(names):
            path = Path(at, name)
            if (name.endswith(SUFFIXES) or others.may_be(path)) and unlike_a_file(path) is None:
                yield path


def _nothing(places: Sequence[str], found: FilesRead) -> str:
    words = ", ".join(places) or str(FOLDER)
    first = next(iter(found.unreadable.items()), None)
    why = f", such as {first[0]}: {first[1]}" if first else ""
    return f"{words}: no times in any file there{why}; `primbench run quick --save-as NAME` adds a run to a baseline"
