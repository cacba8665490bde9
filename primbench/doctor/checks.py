"""What the causes that there are show in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.doctor.finding import Finding
from primbench.doctor.place import unseen
from primbench.doctor.table import causes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.doctor.cause import Cause
    from primbench.doctor.place import Place


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
