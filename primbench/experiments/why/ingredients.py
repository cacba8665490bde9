"""What tells two arms apart, one thing after the other, and the arms in between: some things as here, others as there.

Found by walking the table of settings: a new setting is one more thing that can differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.errors import InvalidRequest
from primbench.experiments.why.atoms import Atom, Values, arm_with, lists_of, merged, said, values_of
from primbench.spec.apart import apart
from primbench.spec.settings import SETTINGS

if TYPE_CHECKING:
    from primbench.spec.arm import Arm


class Ingredient(NamedTuple):
    """One thing that a slow place has otherwise than a fast one, and that can be set by itself."""

    words: str
    """It in words, as the slow place has it."""
    atoms: tuple[Atom, ...]
    """The values of an arm that it is."""

    @property
    def among(self) -> str | None:
        """The field of the setting that it is a name of, where one word may stand for all of these."""
        row = SETTINGS.get(self.atoms[0][0])
        return row.field if row and row.one_by_one else None


@dataclass(frozen=True)
class Mixtures:
    """All arms that have some settings of a slow one, and all others of a fast one.

    Raises InvalidRequest where these two are different machines, runtimes or images.
    """

    fast: Arm
    slow: Arm

    def __post_init__(self) -> None:
        for what, one, other in apart(self.fast, self.slow):
            raise InvalidRequest(
                f"{self.fast.name} and {self.slow.name}: {what} {one} and {other}: no setting lies between these two"
            )

    @cached_property
    def ingredients(self) -> list[Ingredient]:
        """In the order of the table of settings."""
        one, other = self._values
        found: dict[str, list[Atom]] = {}
        for atom in self._order:
            if one.get(atom) != other.get(atom):
                found.setdefault(_together(atom), []).append(atom)
        return [
            Ingredient(", ".join(said(atom, one.get(atom), other.get(atom)) for atom in atoms), tuple(atoms))
            for atoms in found.values()
        ]

    @property
    def all(self) -> frozenset[int]:
        return frozenset(range(len(self.ingredients)))

    def arm(self, chosen: frozenset[int]) -> Arm:
        """With these of the ingredients, by their places in the list. Raises InvalidRequest where they contradict."""
        if len(chosen) in (0, len(self.ingredients)):
            return self.slow if chosen else self.fast
        return self.mixed(chosen, f"{self.fast.runtime} +{'+'.join(str(each + 1) for each in sorted(chosen))}")

    def mixed(self, chosen: frozenset[int], name: str) -> Arm:
        """The same under a name, made value by value in any case."""
        one, other = self._values
        moved = {atom for number in chosen for atom in self.ingredients[number].atoms}
        values = [(atom, held[atom]) for atom in self._order if atom in (held := other if atom in moved else one)]
        return arm_with(self.fast, name, values, self._lists)

    def held(self, atom: Atom) -> tuple[Any, Any]:
        """The value in the fast and in the slow place; None where it is not set."""
        one, other = self._values
        return one.get(atom), other.get(atom)

    @cached_property
    def _lists(self) -> dict[str, str]:
        return lists_of(self.fast, self.slow)

    @cached_property
    def _values(self) -> tuple[Values, Values]:
        return values_of(self.fast, self._lists), values_of(self.slow, self._lists)

    @cached_property
    def _order(self) -> list[Atom]:
        return merged(*map(list, self._values))


def _together(atom: Atom) -> str:
    """What is equal of values that differ as one thing: those that a container has under one name."""
    row = SETTINGS.get(atom[0])
    return row.ingredient.name if row and row.ingredient and len(atom) == 1 else "\0".join(atom)
