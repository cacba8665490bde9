"""What to do about what is proven: the advice of the table of causes, else what the fast place has in its stead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from primbench.doctor.place import Place
from primbench.doctor.table import examine
from primbench.experiments.why.atoms import said
from primbench.spec.settings import SETTINGS
from primbench.spec.settings.variables import ENV
from primbench.system.meaning import FactId

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.doctor.cause import Finding
    from primbench.environment.fingerprint import Environment
    from primbench.experiments.why.atoms import Atom
    from primbench.experiments.why.conclusion import Proof
    from primbench.experiments.why.ingredients import Mixtures


class Mend(msgspec.Struct, frozen=True, kw_only=True):
    """What to do about one ingredient that is proven to slow a place."""

    difference: int
    """Its number."""
    cause: str | None = None
    """The id of the cause whose advice this is; None where it is what the fast place has in its stead."""
    advice: str
    """In words, of the slow place."""
    fix: list[str] = []
    """Commands that do it, never run here."""


def mends(
    proofs: Sequence[Proof], mixtures: Mixtures, fast: Environment | None, slow: Environment | None
) -> Iterator[Mend]:
    """Of each that makes the slow place slower. fast, slow: what was found there; None where that is not known."""
    found = _in_slow_alone(fast, slow)
    for proof in proofs:
        for each in proof.contributions:
            if proof.harms.ratio > 1 and each.role != "takes away":
                yield _mend(each.difference, mixtures, found)


def _mend(number: int, mixtures: Mixtures, found: Sequence[Finding]) -> Mend:
    atoms = mixtures.ingredients[number].atoms
    facts = {fact for atom in atoms for fact in _facts(atom)}
    for each in found:
        if each.advice and not facts.isdisjoint(each.about):
            return Mend(difference=number, cause=each.cause, advice=each.advice, fix=each.fix)
    return Mend(difference=number, advice=", ".join(_as_fast(atom, *mixtures.held(atom)) for atom in atoms))


def _as_fast(atom: Atom, fast: Any, slow: Any) -> str:
    """What the fast place has in its stead. fast, slow: the value there; None where it is not set."""
    field, *within = atom
    if field == ENV.field and len(within) == 2:
        name, entry = within
        return f"take {entry} out of {name}" if fast is None else f"have {entry} in {name}"
    if field == ENV.field and fast is None:
        return f"unset {within[0]}" if isinstance(slow, str) else f"leave {within[0]} as it is"
    return f"leave out {said(atom, None, slow)}" if fast is None else f"have {said(atom, None, fast)}"


def _facts(atom: Atom) -> Iterator[FactId]:
    """By which what is found in a place is of it. Of an entry of a list none: the advice is about the whole."""
    field, *within = atom
    row = SETTINGS.get(field)
    if row is ENV and len(within) == 1:
        yield FactId("software", "variables", within[0])
    elif row is not None and row is not ENV:
        shown = [row.checked] if row.checked in row.shows else [*row.shows, row.checked]  # others only follow from it
        yield from (FactId(*fact) for fact in shown if fact)


def _in_slow_alone(fast: Environment | None, slow: Environment | None) -> list[Finding]:
    """What is wrong with the slow place, and not in the same way with the fast one."""
    there = _wrong_with(slow)
    same = [(each.cause, each.about, each.values) for each in _wrong_with(fast)]
    return [each for each in there if (each.cause, each.about, each.values) not in same]


def _wrong_with(environment: Environment | None) -> list[Finding]:
    found = [] if environment is None else examine(Place(environment=environment))
    return [each for each in found if each.severity not in ("ok", "unknown")]
