"""What measured times may be set beside: the roof of the device, an earlier run, somebody's published times."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from primbench.errors import InvalidRequest
from primbench.problem import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.results.metrics import Metric
    from primbench.results.record import Record
    from primbench.spec.case import Case


class Yardstick(Protocol):
    """Adds columns to the tables and the CSV, and says below a table what they are."""

    def figures(self, record: Record) -> dict[str, float | None]:
        """The added columns by name, unit at the end as in Problem.figures, ``ratio`` beside those.

        The same names for every record; None where there is nothing to compare with.
        """
        ...

    def notes(self, records: Sequence[Record]) -> list[str]:
        """Lines for below the table of these records."""
        ...


Key = tuple[str, frozenset[tuple[str, Value]], str, str, str, str]


@dataclass(frozen=True)
class Theirs:
    """A time that stands in a results file, and what it was measured with."""

    time_s: float
    made_by: str


def beside(ours_s: float | None, theirs_s: float | None) -> dict[str, float | None]:
    return {"theirs_s": theirs_s, "ratio": ours_s / theirs_s if ours_s is not None and theirs_s else None}


def median_s(record: Record, metric: Metric | None) -> float | None:
    found = metric.samples(record.measurement) if metric else None
    return found.median_s if found else None


def summary_of(found: Sequence[dict[str, float | None]]) -> str:
    ratios = [each["ratio"] for each in found if each["ratio"]]
    if not ratios:
        return "none of ours was timed"
    mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
    return f"geometric mean {mean:.3f} over {len(ratios)} of {len(found)} cases"


def key_of(case: Case, metric: Metric) -> Key:
    """A key that is equal for the same measurement; two GPUs of a machine count as the same device."""
    try:
        fields = case.problem().parameters()  # with the defaults of fields that an older file does not have
    except InvalidRequest:
        fields = case.parameters
    return case.primitive, frozenset(fields.items()), case.implementation, case.on.kind, case.method.cache, metric.name
