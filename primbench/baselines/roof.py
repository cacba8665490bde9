"""The roof: the best that a device did in the same run, and what its maker's datasheet says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import primbench.suites as suites
from primbench.problem import Value
from primbench.results.file import Results
from primbench.results.record import Record, model_of
from primbench.spec.case import Case
from primbench.suites import Entry, datasheets
from primbench.suites.datasheets import Datasheet

ROOF = "roof"  # the suite, and the set that its entries belong to
ABOVE = 1.02  # two measurements of the same may differ so much
Bound = tuple[str, str]
"""("memcpy", direction) or (dtype, math mode)."""


def needed(cases: Sequence[Case]) -> list[Entry]:
    """The entries of the suite that bound one of these cases, all of one device."""
    kinds = {case.device.partition(":")[0] for case in cases}
    bounds = {_bound(case.primitive, case.parameters) for case in cases if _has_roof(case)}
    entries = [entry for entry in suites.read(ROOF) if entry.labels["device"] in kinds]
    return [entry for entry in entries if _bound(entry.problem.primitive, entry.problem.parameters()) in bounds]


def _has_roof(case: Case) -> bool:
    return case.primitive == "memcpy" or case.problem().flop() is not None


@dataclass(frozen=True)
class Roof:
    """measured: device and bound -> FLOP/s or bytes/s. known: device -> its datasheet."""

    measured: dict[tuple[str, Bound], float]
    known: dict[str, Datasheet]

    def figures(self, record: Record) -> dict[str, float | None]:
        bound, rate = _bound(record.case.primitive, record.case.parameters), _rate(record)
        sheet = self.known.get(record.case.device)
        return {
            "of_roof_fraction": _share(rate, self.measured.get((record.case.device, bound)) if bound else None),
            "of_datasheet_fraction": _share(rate, _peak(sheet, bound) if sheet and bound else None),
        }

    def notes(self, records: Sequence[Record]) -> list[str]:
        found = [self.figures(record) for record in records]
        notes = []
        shares = [share for each in found if (share := each["of_roof_fraction"]) is not None]
        if shares:
            notes.append("of roof: of the best rate that a case of set roof reached on this device in this run")
        if max(shares, default=0.0) > ABOVE:
            notes.append(
                "more than the roof: data from a cache, where the roof's came from memory, or a disturbed roof"
            )
        if any(each["of_datasheet_fraction"] is not None for each in found):
            sources = {self.known[record.case.device].source for record in records if record.case.device in self.known}
            notes.append(f"of datasheet: of the peak without sparsity in {', '.join(sorted(sources))}")
        return notes


def roof_of(results: Results) -> Roof | None:
    """The roof that a file holds; None where none of its cases is one."""
    measured: dict[tuple[str, Bound], float] = {}
    for record in results.records:
        bound, rate = _bound(record.case.primitive, record.case.parameters), _rate(record)
        if record.case.labels.get("set") == ROOF and bound and rate:
            key = record.case.device, bound
            measured[key] = max(rate, measured.get(key, 0.0))
    if not measured:
        return None
    models = {worker.device: model_of(worker) for worker in results.workers}
    sheets = {device: datasheets.of(model) for device, model in models.items() if model}
    return Roof(measured, {device: sheet for device, sheet in sheets.items() if sheet})


def _bound(primitive: str, parameters: Mapping[str, Value]) -> Bound | None:
    """What a case cannot be faster than; None where nothing is measured for it."""
    if primitive == "memcpy":
        return (primitive, str(parameters["direction"])) if parameters.get("gpus") == 1 else None
    return (str(parameters["dtype"]), str(parameters.get("math_mode", "ieee"))) if "dtype" in parameters else None


def _rate(record: Record) -> float | None:
    if record.measurement is None:
        return None
    return record.measurement.bytes_per_s if record.case.primitive == "memcpy" else record.measurement.flop_per_s


def _peak(sheet: Datasheet, bound: Bound) -> float | None:
    """d2d counts reads and writes, as a memory's bandwidth does."""
    kind, mode = bound
    if kind == "memcpy":
        return {"d2d": sheet.memory_bytes_per_s, "h2d": sheet.pcie_bytes_per_s, "d2h": sheet.pcie_bytes_per_s}.get(mode)
    return sheet.flop_per_s.get("tf32" if mode == "tf32" else kind)


def _share(rate: float | None, peak: float | None) -> float | None:
    return rate / peak if rate and peak else None
