"""Published times beside ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from primbench.baselines.yardstick import beside, median_s, summary_of
from primbench.errors import InvalidRequest
from primbench.results.metrics import METRICS, Metric
from primbench.suites import deepbench

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.results.record import Record

NOTABLE = 0.02  # two runs of one case on one machine agree better than this


@dataclass(frozen=True)
class PublishedTimes:
    """DeepBench's times of a device."""

    published: deepbench.Published

    def figures(self, record: Record) -> dict[str, float | None]:
        theirs = self._time(record)
        return beside(median_s(record, _nearest(record)), theirs.time_s if theirs else None)

    def _time(self, record: Record) -> deepbench.Time | None:
        try:
            return self.published.time(record.case.problem(), record.case.labels.get("id"))
        except InvalidRequest:  # a problem of another version
            return None

    def notes(self, records: Sequence[Record]) -> list[str]:
        compared = [(record, time) for record in records if (time := self._time(record))]
        if not compared:
            return [f"theirs: DeepBench published no times of these cases on {self.published.device}: {self._has()}"]
        ours = " or ".join(sorted({_nearest(record).heading for record, _ in compared}))
        return [
            f"theirs: {self._sources(compared)}, published by DeepBench",
            f"ratio: our {ours} over theirs, a mean of calls and their launches back to back, cut off to whole us; "
            + summary_of([self.figures(record) for record in records]),
            *_cautions(compared),
        ]

    def _sources(self, compared: Sequence[tuple[Record, deepbench.Time]]) -> str:
        from_sheets = {(time.id.split("/")[1], record.case.parameters.get("dtype")) for record, time in compared}
        sheets = [sheet for sheet in self.published.sheets if (sheet.set, sheet.dtype) in from_sheets]
        made_by = dict.fromkeys(f"{sheet.arithmetic} ({sheet.libraries})" for sheet in sheets)
        return f"{self.published.device}, {', '.join(made_by)}"

    def _has(self) -> str:
        sheets = dict.fromkeys(f"{sheet.set} in {sheet.dtype}" for sheet in self.published.sheets)
        return f"it published {', '.join(sheets)}, in its own sizes"


def _nearest(record: Record) -> Metric:
    return METRICS[deepbench.nearest_metric(record.case.primitive, on_cpu=not record.case.on.is_gpu)]


def _cautions(compared: Sequence[tuple[Record, deepbench.Time]]) -> list[str]:
    primitives = {record.case.primitive for record, _ in compared}
    dtypes = {record.case.parameters.get("dtype") for record, _ in compared}
    in_sheet = {time.id: time.size_in_sheet for _, time in compared if time.size_in_sheet}
    notes = [caution.words for caution in deepbench.CAUTIONS if caution.concerns(primitives, dtypes)]
    if in_sheet:
        first, size = next(iter(in_sheet.items()))
        notes.append(f"their sheet prints another size for {len(in_sheet)} of these, as {size} for {first}")
    return notes
