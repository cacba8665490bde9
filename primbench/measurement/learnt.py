"""What trainings of one network came to: the loss of every step, and how often each was right in the end."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec

from primbench.quantities import Amount, Whole

EARLY = 0.1  # share of the steps of a training whose mean loss is that at first, and as many that at last


Losses = Annotated[list[Amount | None], msgspec.Meta(min_length=1)]
"""Of every step of a training."""


class Learnt(msgspec.Struct, frozen=True, kw_only=True):
    """Trainings of one network that differ by their seed alone, of first weights and of what a step draws at random."""

    losses: Annotated[list[Losses], msgspec.Meta(min_length=1)]
    """Seed -> loss of each step, as it was computed, to the last bit; None where it was no finite number."""
    right: list[Whole] | None = None
    """Seed -> of ``held_out`` examples, how many it is right about; None with the reason in ``missing``."""
    held_out: Whole = 0
    chance: Amount | None = None
    """Share of the held-out examples that guessing is right about."""
    deterministic: bool = False
    """Whether only algorithms were used that give the same each time."""
    again: Whole = 0
    """How many trainings were made once more and timed."""
    first_unlike: Whole | None = None
    """The earliest step, from 1 on, in which one made again had another loss than before; None where none had."""
    missing: dict[str, str] = {}

    def __post_init__(self) -> None:
        """Raises ValueError, which makes a line of a file that is not so be refused."""
        if self.right is not None and (self.held_out < 1 or len(self.right) != len(self.losses)):
            raise ValueError(f"{len(self.right)} right of {self.held_out} held out, of {len(self.losses)} trainings")

    @property
    def accuracies(self) -> list[float] | None:
        """Seed -> share of the held-out examples that it is right about; None where there is nothing to be right in."""
        return None if self.right is None else [each / self.held_out for each in self.right]

    @property
    def first_losses(self) -> list[float]:
        """Seed -> mean loss of the first steps, nan where one is no finite number."""
        return [_mean(losses[: _early(losses)]) for losses in self.losses]

    @property
    def last_losses(self) -> list[float]:
        return [_mean(losses[-_early(losses) :]) for losses in self.losses]

    @property
    def loss_fell(self) -> bool:
        """Whether the mean of all trainings did."""
        return math.fsum(self.last_losses) < math.fsum(self.first_losses)

    @property
    def beats_chance(self) -> bool | None:
        """Whether more is right, of all trainings together, than guessing is once in 1000; None where nothing is."""
        if self.right is None or self.chance is None:
            return None
        asked = len(self.right) * self.held_out
        expected = asked * self.chance
        return sum(self.right) > expected + _Z999 * math.sqrt(expected * (1 - self.chance))


_Z999 = 3.09  # 99.9 % point of the standard normal


def first_unlike(one: list[float | None], other: list[float | None]) -> int | None:
    """The first step, from 1 on, whose losses differ in any bit; None where no step's do."""
    pairs = zip(one, other, strict=True)
    return next((step for step, (a, b) in enumerate(pairs, 1) if a != b), None)


def _early(losses: list[float | None]) -> int:
    return max(1, round(EARLY * len(losses)))


def _mean(losses: list[float | None]) -> float:
    return math.fsum(math.nan if each is None else each for each in losses) / len(losses)
