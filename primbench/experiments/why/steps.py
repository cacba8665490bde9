"""A captured step as what is asked about: as a whole where that is a case, and part by part where causes are proven."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING

from primbench.spec.captured import PARTS, WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from primbench.spec.case import Case

PROCESSES = range(100_000, 100_004)
"""Numbers of the pairs in which parts are measured, beyond those of all rounds."""


def wholes(cases: Sequence[Case]) -> list[Case]:
    """Those that are a step as a whole."""
    return [each for each in cases if each.labels.get("set") == WHOLE]


def are_of_step(cases: Sequence[Case]) -> bool:
    """Whether they are parts of one, the whole among them or not."""
    return any(each.labels.get("set") == PARTS for each in cases)


def weight(case: Case, times_s: Iterable[float], log: float) -> float:
    """By how much two places differ in a case: in the logarithm, and of a part of a step in seconds of the step.

    times_s: of a call in the first one. log: of the ratio, without its sign.
    """
    calls = int(case.labels["count"]) if case.labels.get("set") == PARTS else 0
    return calls * fmean(times_s) * math.expm1(log) if calls else log
