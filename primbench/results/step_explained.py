"""Where the time of a step goes: numbers of the step beside its parts', and rows that add up to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from primbench.results.step_timed import Timed

if TYPE_CHECKING:
    from primbench.spec.captured import NotCalledAgain

STEP = "the step"
ROUNDING = 1e-9  # of a step, which sums of numbers are out by
LAUNCHES, PYTHON, LOADING, COLLECTIVES, RANKS, QUEUING, FAULTS, NOT_MEASURED, UNEXPLAINED = (
    "launches", "Python and autograd", "data loader", "collectives, exposed", "waiting for a rank", "waiting for a CPU",
    "new memory", "not measured", "unexplained",
)  # fmt: skip
"""Rows of what is no part. COLLECTIVES: while nothing that computes ran, in the rank that all wait for."""


class Number(msgspec.Struct, frozen=True, kw_only=True):
    """A number of the step, and what its parts come to."""

    name: str
    """Which number: device, host or step; busy instead of device where kernels were logged."""
    parts_s: float | None
    """What the parts come to; None where none of them was measured, or computes."""
    step_s: float | None
    """What was measured of the step, in seconds."""
    missing: str | None = None
    """Why ``step_s`` is None."""
    is_least: bool = False
    """Whether parts are missing in the sum, so that all come to no less."""

    @property
    def ratio(self) -> float | None:
        """Of the parts to the step."""
        return self.parts_s / self.step_s if self.parts_s is not None and self.step_s else None


class SumRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one kind of parts takes of a step."""

    name: str
    seconds: float | None
    """Seconds of the step's time, below 0 where parts take longer than what is left of it; None where that is not
    known.
    """
    calls: int = 0
    """How many calls it is of."""


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time of a step goes."""

    device: str
    """Device of its cases."""
    numbers: list[Number]
    rows: list[SumRow]
    """Rows that add up to the step's time, or where that is unknown, to what the parts take; the largest first, then
    launches, Python and autograd, what a GPU ran beyond the parts, the data loader, waiting for a rank and for a CPU,
    what was not measured and what is unexplained, which nobody knows beside that. Launches are what parts take longer
    to launch than to compute. Python and autograd is what the host does between its calls, the optimizer's own code
    among it, while a GPU waits: by how much it takes longer for the step than for them, and of a script how long its
    own steps were outside operators, where that is known.
    """
    calls: int
    others: dict[str, float] = {}
    """Seconds of other operators, by name, the largest first."""
    collectives: dict[str, float] = {}
    """Seconds of what ranks exchange, of what was measured alone, by name, the largest first; {} where it is not known
    how long of the step nothing that computes ran beside it.
    """
    hidden_s: float | None = None
    """How much longer all of it takes alone than it ran in this rank's step while nothing that computes did; None where
    that is not known, or not all was measured.
    """
    in_step: list[NotCalledAgain] = []
    """Operators that could not be measured by themselves, the largest first: what they took in the captured step."""
    unmeasured: dict[str, int] = {}
    """Calls of parts that were not measured, by name and reason."""
    disturbed_s: float = 0.0
    """Seconds of what parts take, in calls that something disturbed."""
    disturbances: dict[str, list[str]] = {}
    """What disturbed it, of the step and of the part that takes most of it."""
    slowest: tuple[str, float] | None = None
    """The operator that has most of what operators take longer in the step than alone, and how long it does; None where
    none is known to have half of it.
    """
    timed: Timed | None = None
    """What the step's time is of, where it was not measured as a case."""
    compiled: int = 0
    """Graphs of operators that torch had compiled, whose operators the parts are."""
    cuda_graphs: int = 0
    """CUDA graphs that the step replayed, whose operators are no parts."""
    helpers: int = 0
    """Threads that the step started within calls of modules, whose calls may have run at the same time as others."""
    far: int = 0
    """Calls that were measured on several inputs in turn, since the step touches more between two uses of their data
    than they do.
    """

    @property
    def step_s(self) -> float | None:
        return self.numbers[-1].step_s

    @property
    def known_s(self) -> float:
        """What the step takes, or where that is not known, what its parts come to; 0 where neither is."""
        return self.step_s or self.numbers[-1].parts_s or 0.0

    def seconds(self, name: str) -> float:
        """Of the row of that name; 0 where there is none."""
        return sum(row.seconds or 0.0 for row in self.rows if row.name == name)

    @property
    def rest_s(self) -> float | None:
        """What is left of the step: unexplained, or taken by what was not measured."""
        if self.step_s is None:
            return None
        rest_s = self.step_s - sum(row.seconds or 0.0 for row in self.rows if row.name != UNEXPLAINED)
        return rest_s if abs(rest_s) > ROUNDING * self.step_s else 0.0

    @property
    def unexplained_fraction(self) -> float | None:
        return self.rest_s / self.step_s if self.rest_s is not None and self.step_s and not self.unmeasured else None
