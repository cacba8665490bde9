"""What doses have shown of a step, and what that foretold of places."""

from __future__ import annotations

from typing import Literal

import msgspec

from primbench.compare.estimates import TOO_BUSY_FRACTION
from primbench.doses.factors import FactorId

Loss = Literal["loses", "gains", "nothing", "not told"]


def is_too_busy(waited_share: float | None) -> bool:
    """Whether others had the CPUs for so long that nothing is told but longer calls, which take turns in one process.

    waited_share: of ``Bounds``.
    """
    return (waited_share or 0.0) >= TOO_BUSY_FRACTION


class Slope(msgspec.Struct, frozen=True, kw_only=True):
    """How a step's time hangs on one harm."""

    factor: FactorId
    words: str
    """The harm in words."""
    per: str
    """What one dose is, in words."""
    verdict: Loss
    """"nothing": the interval lies within the margin at the largest dose. "loses", "gains": it lies beside 0."""
    share: float | None = None
    """By how much of its undosed time the step is longer for one dose; None where it was not measured."""
    low: float | None = None
    """Lower end of the 95 % interval of ``share``; None where nothing tells of the scatter."""
    high: float | None = None
    """Upper end of the same."""
    pairs: int = 0
    """How many processes without the harm were set beside some with it."""
    largest_dose: float | None = None
    """The largest that was given, in doses."""
    reason: str | None = None
    """Why it is not told, where more than the scatter is why."""


class PlaceDose(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a harm there is in a place."""

    factor: FactorId
    dose: float
    """In doses of the factor."""
    low: float | None = None
    """Lower end of its 95 % interval; None where nothing tells of the scatter."""
    high: float | None = None
    """Upper end of the same."""


class Foretold(msgspec.Struct, frozen=True, kw_only=True):
    """What was foretold of a step in a place, and what it took there."""

    place: str
    """Name of the arm."""
    doses: list[PlaceDose] = []
    """Of each harm that the place has, as it was read and measured there before the step ran."""
    ratio: float | None = None
    """How many times as long the step was foretold to take there as here."""
    low: float | None = None
    """Lower end of the interval that holds the mean of as many pairs in 95 of 100 cases."""
    high: float | None = None
    """Upper end of the same."""
    pairs: int = 0
    """Pairs by which the step was measured there."""
    measured: float | None = None
    """How many times as long it took there; None where it did not run."""
    time_s: float | None = None
    """What it took there, in seconds: the mean of its processes."""
    is_within: bool | None = None
    """Whether ``measured`` lies in the interval; None where one of the two is unknown."""
    beyond: list[FactorId] = []
    """Harms of which the place has more than the largest dose that was tried."""
    reason: str | None = None
    """Why nothing was foretold, or nothing measured."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What would make a step slower, and by how much."""

    step: str
    """Whose step it is."""
    device: str
    threads: int
    """Of CPU libraries, of each rank."""
    ranks: int
    """Processes that made it together."""
    calls: int | None
    """Calls that it makes here; None where it did not run."""
    left_out_calls: int | None
    """Calls of the step that cannot be made again, or that this torch does not have on the device."""
    time_s: float | None
    """What the calls take, undosed, in seconds: the mean of all processes; None where none ran."""
    captured_s: float | None
    """Median of steps like it as they ran in the script, Python included; None where the file has none."""
    waited_share: float | None
    """Share of its time in which a thread of the undosed step waited for a CPU, the median of processes; None where the
    kernel does not count it, or none ran."""
    slopes: list[Slope]
    places: list[Foretold] = []
    took_s: float | None = None
    """How long all of it took; None where it was read from a file."""
    is_cut_off: bool = False
    """Whether it was interrupted."""
