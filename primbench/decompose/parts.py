"""The parts of a step as they were measured: each of its cases, of one process or several."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from primbench import stats
from primbench.kernels.aten.problem import Aten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from primbench.measurement import Measurement, Samples
    from primbench.results.record import Record
    from primbench.spec.captured import Captured
    from primbench.spec.case import Case

OTHERS, VIEWS = "other operators", "views"
"""Rows of parts that are no primitive's."""


class Part(NamedTuple):
    """row: that it is in. calls: in a step. device_s, host_s: of one; None where it was not measured.

    reason: why device_s is not known. disturbances: in words. is_far: whether it was measured with a cold cache, since
    the step touches more than it holds from one use of its data to the next. busy_s: of its kernels; None where they
    were not traced.
    """

    row: str
    label: str
    calls: int
    device_s: float | None
    host_s: float | None
    reason: str
    disturbances: list[str]
    is_far: bool = False
    busy_s: float | None = None

    @property
    def all_s(self) -> float:
        """Of its calls on the device, as far as known."""
        return self.calls * (self.device_s or 0.0)


def by_case(records: Sequence[Record], name: str) -> list[list[Record]]:
    """Those of the set of that name; several of a case are of several processes."""
    found: dict[object, list[Record]] = {}
    for record in records:
        if record.case.labels.get("set", "") == name:
            found.setdefault(part_of(record), []).append(record)
    return list(found.values())


def part_of(record: Record) -> bytes:
    """What tells the cases of one suite apart, wherever they ran."""
    case = record.case
    return msgspec.json.encode((case.primitive, case.parameters, case.labels), order="deterministic")


def measured_part(records: Sequence[Record]) -> Part:
    case = records[0].case
    host_s = median_s(records, lambda found: found.enqueue_s or found.batch_s or found.stream_s)
    is_view = bool(case.parameters.get("host_only"))
    row = _row_of(case)
    label, calls = case.labels.get("label", case.primitive), int(case.labels.get("count", "1"))
    is_far = any(each.cache != each.case.method.cache for each in records)
    if is_view and case.device != "cpu" and host_s is not None:  # which computes nothing
        return Part(row, label, calls, 0.0, host_s, "", disturbances(records), is_far, 0.0)
    device_s, busy_s = (median_s(records, of) for of in (device_time, lambda found: found.busy_s))
    reason = "" if device_s is not None else why_unknown(records)
    return Part(row, label, calls, device_s, host_s, reason, disturbances(records), is_far, busy_s)


def _row_of(case: Case) -> str:
    if case.parameters.get("host_only"):
        return VIEWS
    return OTHERS if case.primitive == Aten.primitive else case.primitive


def without_record(parts: Sequence[Part], captured: Captured | None) -> list[Part]:
    """Calls of the step that nothing was measured of: a run was cut off, or they cannot be made again."""
    if captured is None:
        return []
    gone = {
        "captured, but not in these results": captured.parts - sum(part.calls for part in parts),
        "they cannot be made again, as comments in the step's file say": captured.left_out,
    }
    return [Part("", "", calls, None, None, reason, []) for reason, calls in gone.items() if calls > 0]


def device_time(found: Measurement) -> Samples | None:
    """Of a call that waits for the GPU itself, such as item(), all that is known is its period."""
    return found.device_s or found.batch_s or found.stream_s


def why_unknown(records: Sequence[Record]) -> str:
    """Why the device's time of a case is."""
    record = next((each for each in records if each.status != "ok"), records[0])
    if record.measurement is None or record.status != "ok":
        return f"{record.status}: {record.reason}"
    return next((why for name, why in record.measurement.missing.items() if name.startswith("device")), "not timed")


def median_s(records: Sequence[Record], of: Callable[[Measurement], Samples | None]) -> float | None:
    """Over processes, each by its median."""
    measured = [each.measurement for each in records if each.measurement and each.status == "ok"]
    found = [taken.median_s for each in measured if (taken := of(each))]
    return stats.quantile(found, 0.5) if found else None


def disturbances(records: Iterable[Record]) -> list[str]:
    """What disturbed a case in any process, each once."""
    return list(dict.fromkeys(each for record in records for each in record.disturbed_by))
