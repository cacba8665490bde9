"""Whether the libraries took other code for a case in one place, as they said themselves when it was first called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.compare.cause import Cause
from primbench.compare.sides import identity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.compare.comparison import CaseComparison
    from primbench.compare.sides import Side
    from primbench.measurement.implementation import Implementation
    from primbench.results.record import Record

# A product of float16 took 8.26 ms by oneDNN's kernel and 15.5 s by its reference (pytorch/pytorch#193951).
TIMES = 1880.0
_UPSTREAM = 12  # after variables that choose code, before libraries and packages that bring it
_OTHER = "other code of the libraries"
_NEITHER = "torch's own code, neither oneDNN nor MKL"


def other_implementations(case: CaseComparison, baseline: Side, side: Side) -> Iterator[Cause]:
    """A reference, or no library's code where the other place has some, makes nothing faster."""
    one, other = (_taken(each.cases[identity(case.case)]) for each in (baseline, side))
    if one is None or other is None or one == other:
        return
    told = f"it takes {_only(other, one)} in {side.name}, {_only(one, other)} in {baseline.name}"
    if slow := _slow(other, one):
        title = f"{slow} in {side.name}"
        yield Cause(f"{title}: {told}", 1.0, TIMES, title, _UPSTREAM)
    elif slow := _slow(one, other):
        title = f"{slow} in {baseline.name}"
        yield Cause(f"{title}: {told}", 1.0, TIMES, title, _UPSTREAM).of_baseline()
    else:
        yield Cause(f"{_OTHER}: {told}", 1 / TIMES, TIMES, _OTHER, _UPSTREAM)


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
