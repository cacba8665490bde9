"""Whether the libraries took other code for a case in one place, as they said themselves when it was first called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.compare.sides import identity
from primbench.doctor.cause import Suspect

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.compare.beside import Beside
    from primbench.measurement.implementation import Implementation
    from primbench.results.record import Record

# A product of float16 took 8.26 ms by oneDNN's kernel and 15.5 s by its reference (pytorch/pytorch#193951).
TIMES = 1880.0
_OTHER = "other code of the libraries"
_NEITHER = "torch's own code, neither oneDNN nor MKL"


def other_implementations(beside: Beside) -> Iterator[Suspect]:
    """A reference, or no library's code where the other place has some, makes nothing faster."""
    baseline, side = beside.baseline, beside.side
    one, other = (_taken(each.cases[identity(beside.case.case)]) for each in (baseline, side))
    if one is None or other is None or one == other:
        return
    told = f"it takes {_only(other, one)} in {side.name}, {_only(one, other)} in {baseline.name}"
    if slow := _slow(other, one):
        title = f"{slow} in {side.name}"
        yield Suspect(f"{title}: {told}", 1.0, TIMES, title)
    elif slow := _slow(one, other):
        title = f"{slow} in {baseline.name}"
        yield Suspect(f"{title}: {told}", 1.0, TIMES, title).of_baseline()
    else:
        yield Suspect(f"{_OTHER}: {told}", 1 / TIMES, TIMES, _OTHER)


def _taken(records: Sequence[Record]) -> set[Implementation] | None:
    """In any process of a place; None where none of them says."""
    measured = [each.measurement for each in records if each.measurement]
    told = [each.implementations for each in measured if each.implementations is not None]
    return {implementation for each in told for implementation in each} if told else None


def _slow(here: set[Implementation], there: set[Implementation]) -> str | None:
    """What is known to be slow of what is taken here alone."""
    if not here:
        return "no code of oneDNN or MKL"
    return next((f"the reference code of {each.library}" for each in here - there if each.is_reference), None)


def _only(here: set[Implementation], there: set[Implementation]) -> str:
    return " and ".join(sorted(map(str, here - there))) or ("nothing besides" if here else _NEITHER)
