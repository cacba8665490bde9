"""Published times beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from primbench.baselines.yardstick import beside, median_s, summary_of
from primbench.errors import InvalidRequest
from primbench.results.record import Record
from primbench.suites import deepbench

NOTABLE = 0.02  # two runs of one case on one machine agree better than this


@dataclass(frozen=True)
class Published:
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
        ours = " or ".join(sorted({_nearest(record).removesuffix("_s") for record, _ in compared}))
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


def _nearest(record: Record) -> str:
    """Our metric that is nearest to theirs: back-to-back calls; of an all-reduce, single calls waited for."""
    if record.case.primitive == "allreduce":
        return "wall_s"
    return "batch_s" if record.case.device == "cpu" else "stream_s"


def _cautions(compared: Sequence[tuple[Record, deepbench.Time]]) -> list[str]:
    primitives = {record.case.primitive for record, _ in compared}
    dtypes = {record.case.parameters.get("dtype") for record, _ in compared}
    in_sheet = {time.id: time.size_in_sheet for _, time in compared if time.size_in_sheet}
    notes = []
    if "gemm" in primitives:
        notes.append("theirs are column-major: the very call is ours with m and n, and trans_a and trans_b, swapped")
    if "gemm" in primitives and "float16" in dtypes:
        notes.append("float16: DeepBench's program asks for sums in float16, its sheet names wider ones")
    if "rnn" in primitives:
        notes.append("theirs skip the products with the input, which ours compute: half of the flop")
    if dtypes & {"float16", "int8"}:
        notes.append("their float16 and int8 inputs were zeros, which took up to 15 % less time on a V100")
    if "int8" in dtypes:
        notes.append("some of their int8 sizes were padded to multiples of 4")
    if "allreduce" in primitives:
        notes.append("theirs is the fastest of several libraries, and synchronized after every call")
    if in_sheet:
        first, size = next(iter(in_sheet.items()))
        notes.append(f"their sheet prints another size for {len(in_sheet)} of these, as {size} for {first}")
    return notes
