"""How likely each ingredient is a cause, by what is known before anything is measured: the order of a search alone."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from primbench.compare.explain import beside, own_part
from primbench.doctor.table import causes
from primbench.environment.comparable import meaning_of
from primbench.environment.configuration import of_variable
from primbench.spec.settings import SETTINGS
from primbench.spec.settings.variables import ENV
from primbench.spec.variables import is_for_libraries
from primbench.system.meaning import FactId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.experiments.why.atoms import Atom
    from primbench.experiments.why.ingredients import Ingredient
    from primbench.spec.case import Case
    from primbench.spec.setting import Activity, Setting

KNOWN, USUAL, UNLIKELY = 4.0, 1.0, 0.4
"""Of what is known to slow what the case does, of what may, and of what nothing is known to read."""


def weights(ingredients: Sequence[Ingredient], case: Case) -> list[float]:
    """Of each, how many times as likely it is a cause as one of which nothing is known.

    Names that one word may stand for share the weight of that: each is asked about, and none of it crowds out others.
    """
    done = {own_part(case), *beside(case), "launch"}
    names = Counter(each.among for each in ingredients)
    return [
        max(_weight(atom, done) for atom in each.atoms) / (names[each.among] if each.among else 1)
        for each in ingredients
    ]


def _weight(atom: Atom, done: set[Activity]) -> float:
    row = SETTINGS.get(atom[0])
    slowed = {each for rule in _rules(atom) if rule in causes() for each in causes()[rule].slows}
    if row is not None and done & {*slowed, *row.moves}:
        return KNOWN
    return UNLIKELY if _is_unread(atom, row) else USUAL


def _is_unread(atom: Atom, row: Setting | None) -> bool:
    """Whether nothing is known to go by it."""
    if row is ENV:
        return not is_for_libraries(atom[1])
    return row is not None and not row.moves and row.cost != "image"  # of which much else is than is moved by itself


def _rules(atom: Atom) -> list[str]:
    """Ids of the causes that a difference in it is."""
    row = SETTINGS.get(atom[0])
    if row is ENV:
        found = of_variable(atom[1])
        return [found.rule] if found.rule and found.read_by else []
    facts = [meaning_of(FactId(*fact)).rule for fact in row.shows] if row else []
    return [rule for rule in (row and row.rule, *facts) if rule]
