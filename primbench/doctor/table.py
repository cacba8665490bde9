"""The table of causes, put together of the files in ``primbench/causes/``, and what all of them show in one place.

These stand above whatever walks the table, so that a row may use what is known of two places and of a job, as kernels
stand above ``primbench.registry``. So they are found here, and not imported by name.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.doctor.cause import Finding
from primbench.environment.comparable import meaning_of
from primbench.spec.settings import SETTINGS
from primbench.system.files import was_refused
from primbench.system.meaning import Fact, FactId

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.doctor.cause import Cause
    from primbench.doctor.place import Place
    from primbench.spec.setting import Setting

_FOLDER = "primbench.causes"


@functools.cache
def causes() -> dict[str, Cause]:
    """Id -> cause, file after file by their RANK, and as they stand there.

    Raises ValueError where two rows have one id, or where one names another that is not there.
    """
    rows = list(_rows())
    table = {row.id: row for row in rows}
    twice = [row.id for row in rows if table[row.id] is not row]
    unknown = {named for row in rows for named in (*row.explains_away, row.under or row.id)} - table.keys()
    if twice or unknown:
        raise ValueError(f"causes: there twice: {twice}; named, and not there: {sorted(unknown)}")
    return table


def _rows() -> Iterator[Cause]:
    package = importlib.import_module(_FOLDER)
    names = [found.name for found in pkgutil.iter_modules(package.__path__) if not found.name.startswith("_")]
    files = [importlib.import_module(f"{_FOLDER}.{name}") for name in names]
    for file in sorted(files, key=lambda each: each.RANK):
        yield from file.CAUSES


def settings_of(cause: Cause) -> list[str]:
    """Keys of the settings of an arm that bring the cause about, and are left out where it is to be taken away."""
    return [row.key for row in SETTINGS.values() if cause.id in _causes_of(row)]


def _causes_of(row: Setting) -> Iterator[str | None]:
    """By the facts that show it, and all entries of one where these are alike."""
    yield row.rule
    for fact in {*row.shows, row.checked} - {None}:
        meaning = meaning_of(FactId(*fact or ()))
        yield from (each.rule for each in (meaning, meaning.entry) if isinstance(each, Fact))


def leading(cause: Cause) -> Cause:
    """The cause whose bounds and order it has, which is itself where it comes under none."""
    return causes()[cause.under] if cause.under else cause


def checks() -> list[Cause]:
    """The causes that are looked for in one place."""
    return [cause for cause in causes().values() if cause.here is not None]


def examine(place: Place) -> list[Finding]:
    """What each cause shows in the place, in the table's order; one with nothing to say is "ok"."""
    found: list[Finding] = []
    for cause in checks():
        well = Finding(cause=cause.id, severity="ok", summary=well_of(cause), distorts=[])
        found += [*findings(cause, place)] or [well]
    return found


def well_of(cause: Cause) -> str:
    """What is well where a cause shows nothing."""
    return ((cause.here and cause.here.__doc__) or "").strip()


def findings(cause: Cause, place: Place) -> Iterator[Finding]:
    """What a cause shows in the place, and what of it could not be seen; with what its row says of all of these."""
    if cause.here is None or (cause.where is not None and not cause.where(place)):
        return
    for each in (*unseen(place, *cause.reads), *cause.here(place)):
        distorts = [] if each.severity == "unknown" else [*cause.slows] if each.distorts is None else each.distorts
        yield replace(each, cause=cause.id, about=each.about or [*cause.reads], distorts=distorts)


def unseen(place: Place, *facts: FactId) -> Iterator[Finding]:
    """An "unknown" for each part of a place of which some of these facts could not be read; nothing where all could.

    A fact of three parts is one of each GPU. values: name and reason in turn.
    """
    found = [(fact, *each) for fact in facts for each in _missing(place, fact)]
    for part in dict.fromkeys(fact[0] for fact, _, _ in found):
        yield _unknown(place, [each for each in found if each[0][0] == part])


def _unknown(place: Place, found: Sequence[tuple[FactId, str, str]]) -> Finding:
    may_be_seen = place.pid is not None and any(was_refused(reason) for _, _, reason in found)
    return Finding(
        severity="unknown",
        summary="could not be seen",
        about=[*dict.fromkeys(fact for fact, _, _ in found)],
        values=[word for _, *words in found for word in words],
        evidence=[f"{name}: {reason}" for _, name, reason in found],
        advice="look with the rights of root" if may_be_seen else None,
        fix=[f"sudo primbench doctor {place.pid}"] if may_be_seen else [],
    )


def _missing(place: Place, fact: FactId) -> Iterator[tuple[str, str]]:
    """Each fact's name, and why it is not known."""
    part, name = getattr(place, fact[0], None) or getattr(place.environment, fact[0]), fact[-1]
    if len(fact) == 2:
        yield from [(name, part.missing[name])] if name in part.missing else []
        return
    for index, each in enumerate(getattr(part, fact[1]) or ()):
        yield from [(f"{name} of cuda:{index}", each.missing[name])] if name in each.missing else []
