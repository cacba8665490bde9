"""Which dose is given next, so that the time that there is tells most."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from primbench.doses.dosing import PAIRS
from primbench.doses.factors import asked_first, factors
from primbench.doses.telling import told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.doses.dosing import Dosing
    from primbench.doses.factors import Trial
    from primbench.doses.found import Slope
    from primbench.spec.arm import Arm


class _Order(NamedTuple):
    """The least comes first."""

    was_given: bool
    is_not_asked: bool
    narrowness: float
    expected_s: float


def give_doses(dosing: Dosing, ends_s: float, places: Sequence[Arm] = ()) -> None:
    """Each dose once, the quickest first, then what narrows the widest interval; none but the first that would end
    later, by what others took.

    ends_s: in time.monotonic()'s seconds. places: what foretells these comes first in both, until it has its PAIRS.
    """
    asked = asked_first(dosing.here, places)
    while due := [each for each in dosing.trials if _is_due(dosing, each) and dosing.is_in_time(each, ends_s)]:
        orders = [_order(dosing, each, is_asked=each.id in asked) for each in due]
        dosing.give(due[orders.index(min(orders))])


def _is_due(dosing: Dosing, trial: Trial) -> bool:
    """Not again where the harm cannot be had, or the step has that much to spare."""
    if trial.why_not:
        return False
    return not dosing.numbers[trial.id] or any(each.share is not None for each in _slopes(dosing, trial))


def _order(dosing: Dosing, trial: Trial, *, is_asked: bool) -> _Order:
    pairs = len(dosing.numbers[trial.id])
    widths = [_width(each) for each in _slopes(dosing, trial) if each.share is not None]  # no other gets narrower
    narrowness = -max(widths, default=math.inf)
    return _Order(pairs > 0, not (is_asked and pairs < PAIRS), narrowness, dosing.expected_s(trial))


def _slopes(dosing: Dosing, trial: Trial) -> list[Slope]:
    of_trial = {each.id for each in factors(dosing.here) if each.trial == trial.id}
    return [each.slope for each in told(dosing) if each.slope.factor in of_trial]


def _width(slope: Slope) -> float:
    """Of the interval of the step's time under the largest dose, as a share of that time; without one, infinite."""
    if slope.low is None or slope.high is None or slope.share is None or slope.largest_dose is None:
        return math.inf
    longer = max(1.0, 1 + slope.share * slope.largest_dose)
    return (slope.high - slope.low) * slope.largest_dose / longer
