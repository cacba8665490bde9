"""What a file of `primbench watch -o` holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from primbench.doctor.cause import Hindrance
from primbench.doctor.job import Job, Stretch
from primbench.errors import FileError
from primbench.system.jsonlines import UNREADABLE, whole_lines
from primbench.watching.causes import hindrances
from primbench.watching.ranks import LateRank
from primbench.watching.stretch import joined
from primbench.watching.watch import Watched

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Kept(NamedTuple):
    """What a file of `primbench watch -o` holds."""

    job: Job
    whole: Stretch | None
    """All that was watched; None where the job ended before a second look."""
    found: list[Hindrance]
    late: LateRank | None
    """The rank for which the others waited; None where none was late for certain."""
    watched: Watched | None
    """How it ended; None where watching itself was killed."""


class _Line(msgspec.Struct):
    kind: str = ""


_TYPES: Mapping[str, type[Any]] = {
    "job": Job,
    "sample": Stretch,
    "hindrance": Hindrance,
    "late": LateRank,
    "watched": Watched,
}


def read(path: Path) -> Kept:
    """Raises FileError naming the line that is not as it should be."""
    lines: dict[type[Any], list[Any]] = {each: [] for each in _TYPES.values()}
    for number, text in enumerate(whole_lines(path), 1):
        try:
            kind = _TYPES[msgspec.json.decode(text, type=_Line).kind]
            lines[kind].append(msgspec.json.decode(text, type=kind))
        except (*UNREADABLE, KeyError) as error:
            raise FileError(f"{path}:{number}: not a line of `primbench watch`: {error}") from None
    job, watched = lines[Job][0], next(iter(lines[Watched]), None)
    if watched is not None:
        return Kept(job, watched.whole, lines[Hindrance], next(iter(lines[LateRank]), None), watched)
    whole = joined(lines[Stretch]) if lines[Stretch] else None
    return Kept(job, whole, hindrances(whole, job) if whole is not None else [], None, None)
