"""The roof: the best that a device did in the same run, and what its maker's datasheet says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import primbench.suites as suites
from primbench.devices import Device
from primbench.problem import MEMORY
from primbench.results.record import Record, model_of
from primbench.suites import Entry, datasheets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.problem import Bound
    from primbench.results.file import Results
    from primbench.spec.case import Case
    from primbench.suites.datasheets import Datasheet

ROOF = "roof"  # the suite, and the set that its entries belong to
OF_HOST = MEMORY._replace(by="h2h")  # what a copy within the device's own memory is called where that is the host's
ABOVE = 1.02  # two measurements of the same may differ so much


def needed(cases: Sequence[Case]) -> list[Entry]:
    """The entries of the suite that bound one of these cases, all of one device."""
    kinds = {case.on.kind for case in cases}
    bounds = {_bound(case) for case in cases} - {None}
    entries = [entry for entry in suites.read(ROOF) if entry.labels["device"] in kinds]
    return [entry for entry in entries if entry.problem.bound() in bounds]


@dataclass(frozen=True)
class Roof:
    """What devices can do at most: measured, and by their datasheets."""

    measured: dict[tuple[str, Bound], float]
    """Device and bound -> FLOP/s or bytes/s."""
    known: dict[str, Datasheet]
    """Device -> its datasheet."""

    def figures(self, record: Record) -> dict[str, float | None]:
        bound = _bound(record.case)
        rate = _rate(record, bound)
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


class Ceiling(NamedTuple):
    """What arithmetic and memory allow at most, as measured, or as a maker prints it. None is unknown."""

    flop_per_s: float | None
    bytes_per_s: float | None
    is_printed: bool = False

    def at(self, flop_per_byte: float) -> float | None:
        """The least FLOP/s that one of the two allows; None where neither is known."""
        by_memory = self.bytes_per_s * flop_per_byte if self.bytes_per_s else None
        return min(filter(None, (self.flop_per_s, by_memory)), default=None)


def roof_of(results: Results) -> Roof | None:
    """The roof that a file holds; None where none of its cases is one."""
    measured = _measured(results)
    return Roof(measured, _sheets(results)) if measured else None


def ceilings_of(results: Results, device: str, bound: Bound) -> list[Ceiling]:
    """What is known to limit arithmetic of a kind on a device: measured in this run, printed by its maker."""
    measured, sheet = _measured(results), _sheets(results).get(device)
    memory = MEMORY if Device.parse(device).is_gpu else OF_HOST
    of_memory = bound.rate == memory.rate
    found = [Ceiling(None if of_memory else measured.get((device, bound)), measured.get((device, memory)))]
    if sheet:
        found.append(Ceiling(None if of_memory else _peak(sheet, bound), sheet.memory_bytes_per_s, is_printed=True))
    return [each for each in found if each.flop_per_s or each.bytes_per_s]


def _measured(results: Results) -> dict[tuple[str, Bound], float]:
    return _best([record for record in results.records if record.case.labels.get("set") == ROOF])


def _sheets(results: Results) -> dict[str, Datasheet]:
    models = {worker.device: model_of(worker) for worker in results.workers}
    sheets = {device: datasheets.of(model) for device, model in models.items() if model}
    return {device: sheet for device, sheet in sheets.items() if sheet}


def _best(records: Sequence[Record]) -> dict[tuple[str, Bound], float]:
    """The highest rate on each device by each bound."""
    found: dict[tuple[str, Bound], float] = {}
    for record in records:
        bound = _bound(record.case)
        if bound and (rate := _rate(record, bound)):
            key = record.case.device, bound
            found[key] = max(rate, found.get(key, 0.0))
    return found


def _bound(case: Case) -> Bound | None:
    """What bounds a case: a copy's or product's rate; None for a primitive that names no bound."""
    problem = case.known_problem()
    bound = problem.bound() if problem else None
    return OF_HOST if bound == MEMORY and not case.on.is_gpu else bound


def _rate(record: Record, bound: Bound | None) -> float | None:
    return getattr(record.measurement, bound.rate) if record.measurement and bound else None


def _peak(sheet: Datasheet, bound: Bound) -> float | None:
    """d2d counts reads and writes, as a memory's bandwidth does."""
    if bound.rate == "bytes_per_s":
        path = {"d2d": sheet.memory_bytes_per_s, "h2d": sheet.pcie_bytes_per_s, "d2h": sheet.pcie_bytes_per_s}
        return path.get(bound.by)
    return sheet.flop_per_s.get("tf32" if bound.math_mode == "tf32" else bound.by)


def _share(rate: float | None, peak: float | None) -> float | None:
    return rate / peak if rate and peak else None
