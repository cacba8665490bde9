"""Places as a command line names them: a results file, a folder of several runs, or a baseline by its name."""

from __future__ import annotations

import gc
import os
from contextlib import contextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from primbench.baselines.named import place_of, runs_of
from primbench.baselines.roof import ROOF
from primbench.errors import FileError
from primbench.report.table import MOST_ROWS
from primbench.results import file as results_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from primbench.results.file import Results
    from primbench.results.record import Record


class NamedRuns(NamedTuple):
    """A place, and what was measured in it."""

    label: str
    """Tells it apart from others named beside it."""
    files: list[str]
    """Where each of its runs was read."""
    runs: list[Results]
    """Each of its runs, with the latest record of each case."""


def read_places(
    texts: Sequence[str],
    *,
    may_be_empty: bool = False,
    read: Callable[[str], Results] = results_file.read,
) -> list[NamedRuns]:
    """Every place with all of its runs. may_be_empty: whether a run without records is one. read: reads a run's file.

    Raises FileError, also for a place that holds no run.
    """
    with _nothing_is_garbage():
        return [
            _read_place(text, label, may_be_empty=may_be_empty, read=read)
            for text, label in zip(texts, labels(texts), strict=True)
        ]


def shown_whole() -> Callable[[Record], bool]:
    """Tells of which records all is shown: their rows, what they add up to, the roof, and curves."""
    is_row = results_file.first_of_each(MOST_ROWS)

    def is_shown(record: Record) -> bool:
        labels = record.case.labels
        return is_row(record) or record.case.method.over_time or "count" in labels or labels.get("set") == ROOF

    return is_shown


@contextmanager
def _nothing_is_garbage() -> Iterator[None]:
    """What is read inside is not searched for garbage, then or later, which takes a third as long as reading itself."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def _read_place(text: str, label: str, *, may_be_empty: bool, read: Callable[[str], Results]) -> NamedRuns:
    files = [str(each) for each in runs_of(place_of(text))]
    runs = [read(each) for each in files]
    for file, found in zip(files, runs, strict=True):
        if not found.records and not may_be_empty:
            raise FileError(f"{file}: holds no records: the run ended before its first case did")
    return NamedRuns(label, files, [replace(each, records=each.latest()) for each in runs])


def labels(paths: Sequence[str]) -> list[str]:
    """Of each path the shortest end, in whole names, that no other path ends in; of one path alone its last name.

    Paths that are the same have the same label.
    """
    parts = [PurePath(os.path.abspath(path) if path in (".", "..") else path).parts for path in paths]
    return [str(PurePath(*_tail(own, [other for other in parts if other != own]))) for own in parts]


def _tail(own: tuple[str, ...], others: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    tails = (own[-length:] for length in range(1, len(own)))
    return next((tail for tail in tails if all(other[-len(tail) :] != tail for other in others)), own)


def as_one(place: NamedRuns) -> Results:
    """All runs of a place as one, in which each record has a label ``file`` that says of which run it is, and the
    header is the first one's; a single run as it is.
    """
    if len(place.runs) == 1:
        return place.runs[0]
    start, workers, records = 0, [], []
    for label, run in zip(labels(place.files), place.runs, strict=True):
        workers += [replace(each, worker=start + each.worker) for each in run.workers]
        for record in run.records:
            case = replace(record.case, labels={**record.case.labels, "file": label})
            worker = None if record.worker is None else start + record.worker
            records.append(replace(record, case=case, worker=worker))
        start += 1 + max((each.worker for each in run.workers), default=-1)
    return replace(place.runs[0], workers=workers, records=records)
