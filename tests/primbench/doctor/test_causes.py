"""What people really hit: of each public report, that what is said to name its cause does so, given its evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from primbench.doctor import table
from primbench.doctor.against import compare
from primbench.doctor.place import Place
from primbench.environment.comparable import meaning_of
from primbench.environment.difference import difference
from primbench.measurement import Measurement
from primbench.measurement.readings import GpuReading

from .causes import REPORTS, Report

MakePlace = Callable[[Mapping[str, Any]], Place]


def names(report: Report, place: MakePlace) -> bool:
    kind, _, name = report.named_by.partition(" ")
    if kind == "measurement":
        return name in (*GpuReading.__struct_fields__, *Measurement.__struct_fields__)
    here, there = place({}), place(report.seen)
    if kind == "check":
        said = [*table.examine(there), *compare(here, there, "there")]
        return any(finding.cause == name and finding.severity not in ("ok", "unknown") for finding in said)
    found = difference(here.environment, there.environment, same_work=False)
    changes = [
        change for layer in (found.stack, found.limits, found.confinement, found.machine) for change in layer.changes
    ]
    return any(str(change.field).startswith(name) and meaning_of(change.field).rule for change in changes)


def test_each_report_once() -> None:
    assert 108 == len(REPORTS) == len({report.source for report in REPORTS})


def test_causes_are_named_by_what_is_seen_of_them(place: MakePlace) -> None:
    said = [report for report in REPORTS if report.named_by]
    assert [] == [f"{report.source}: {report.named_by}" for report in said if not names(report, place)]
    assert len(said) >= 97


def test_what_is_not_named_has_a_reason() -> None:
    assert [] == [report.source for report in REPORTS if bool(report.named_by) == bool(report.why_not)]
