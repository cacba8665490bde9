"""The same cases in several arms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from primbench.quantities import Counted
from primbench.spec.arm import Arm
from primbench.spec.case import Case
from primbench.spec.published import Published

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.spec.neighbour import Neighbour


Pairing = Literal["in-turn", "one-after-the-other"]
IN_TURN: Pairing = "in-turn"


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """The same cases in several arms, pair after pair of fresh processes."""

    title: str = ""
    arms: list[Arm]
    """Where cases run; the first is the baseline."""
    cases: list[Case]
    """What each arm runs in each pair, of no arm yet."""
    pairs: Counted
    """How many pairs: at most, with ``until_settled``, else exactly."""
    until_settled: bool = False
    seed: int = 0
    """Of the random order of arms and of cases."""
    other_builds: bool = False
    """Whether an arm whose framework is another build than the baseline's is run, too."""
    pairing: Pairing = "one-after-the-other"  # as it was before there was a choice
    """Whether the processes of a pair take turns, where they can, or follow one another."""
    notes: list[str] = []
    """What is to be known of the arms."""
    published: Published | None = None
    """What was found before of the cases."""
    why: bool = False
    """Whether it asks why its second arm is slower, in further arms with some settings of it and all others of the
    first.
    """
    elsewhere: dict[str, dict[str, list[float]]] = {}
    """Of an arm that stands for a place which a file was recorded in: by metric, seconds in each process there."""
    ingredients: list[str] = []
    """What it asks about, in words, by whose numbers its further arms are named."""


AGAIN = " (again)"
"""What the second one of two equal arms has after its name."""


def with_itself(arms: Sequence[Arm]) -> list[Arm]:
    """The arms and the first one once more, whose difference from itself is what the study cannot see below."""
    return [*arms, *(replace(first, name=first.name + AGAIN) for first in arms[:1])]


def with_neighbour(arms: Sequence[Arm], neighbour: Neighbour) -> list[Arm]:
    """The arms, and each once more beside the neighbour."""
    return [*arms, *(replace(arm, name=f"{arm.name} beside {neighbour.name}", neighbour=neighbour) for arm in arms)]
