"""A side as its place was while a case was timed, where that had changed since its workers told of it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.doctor.against import in_words
from primbench.environment.comparable import meaning_of
from primbench.environment.difference import difference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.compare.sides import Side
    from primbench.results.record import Worker


def as_timed(side: Side, key: bytes) -> Side:
    """key: the identity of the case. The same side where nothing had changed."""
    found = _workers(side, key)
    return dataclasses.replace(side, workers=side.workers | found) if found else side


def changed_later(side: Side, key: bytes) -> Iterator[str]:
    """What of the place had changed, in words, each once."""
    words = {
        f"{in_words(change, 'at its start', 'once it was timed')} in {side.name}": None
        for number, worker in _workers(side, key).items()
        for layer in ("limits", "confinement")
        for change in getattr(difference(side.workers[number].environment, worker.environment), layer).changes
        if change.kind == "differs" or meaning_of(change.field).by_doctor
    }
    yield from words


def _workers(side: Side, key: bytes) -> dict[int, Worker]:
    """Those whose place had changed, as it was then."""
    found = {}
    for record in side.cases[key]:
        if record.later is not None and record.worker in side.workers:
            worker = side.workers[record.worker]
            found[record.worker] = replace(worker, environment=record.later.of(worker.environment))
    return found
