"""Times from elsewhere beside ours: an earlier results file, one that is shipped, or DeepBench's published times."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import primbench.suites as suites
from primbench import stats
from primbench.baselines.yardstick import Yardstick
from primbench.errors import FileError, InvalidRequest
from primbench.measurement import Measurement
from primbench.problem import Value
from primbench.report.table import model_of
from primbench.results import record as records_file
from primbench.results.record import Case, Record, Results
from primbench.results.summary import samples
from primbench.suites import deepbench
from primbench.units import format_percent

FORMS = 'published:"NVIDIA V100", reference:NAME, or a results file'
NOTABLE = 0.02  # two runs of one case on one machine agree better than this
MAIN = ("device_s", "batch_s", "stream_s")  # in the order of Measurement.main

Key = tuple[str, frozenset[tuple[str, Value]], str, str, str, str]


def parse(text: str) -> Yardstick:
    """What ``--against`` names. Raises InvalidRequest naming what there is, FileError for an unfit file."""
    kind, _, name = text.partition(":")
    if kind == "published":
        return Published(deepbench.read(name))
    if kind == "reference":
        paths = suites.references().get(name)
        if paths is None:
            raise InvalidRequest(f"reference:{name}: there is {' and '.join(suites.references())}")
        return Earlier(text, _times(paths))
    if not os.path.exists(text):  # Path's raises OSError for a name that is too long
        raise InvalidRequest(f"{text!r}: no such file; --against takes {FORMS}")
    return Earlier(text, _times([Path(text)]))


@dataclass(frozen=True)
class Theirs:
    """A time that stands in a results file, and what it was measured with."""

    time_s: float
    made_by: str


@dataclass(frozen=True)
class Earlier:
    """Main metrics of earlier runs, by what was measured how."""

    name: str
    times: dict[Key, list[Theirs]]

    def figures(self, record: Record) -> dict[str, float | None]:
        metric = main_of(record.measurement)
        return beside(_median_s(record, metric), self._theirs_s(record, metric))

    def _theirs_s(self, record: Record, metric: str | None) -> float | None:
        """The median over processes; where nothing of ours was measured, of whatever was theirs."""
        for name in (metric,) if metric else MAIN:
            found = self.times.get(_key(record.case, name))
            if found:
                return stats.quantile([each.time_s for each in found], 0.5)
        return None

    def notes(self, records: Sequence[Record]) -> list[str]:
        found = [self.figures(record) for record in records]
        if all(each["theirs_s"] is None for each in found):
            there = sorted({f"{key[0]} on {key[2]} {key[3]}" for key in self.times})
            return [f"theirs: {self.name} holds none of these cases, on this backend: it has {', '.join(there)}"]
        keys = [_key(record.case, name) for record in records for name in MAIN]
        made_by = sorted({each.made_by for key in keys for each in self.times.get(key, [])})
        apart = sum(each["ratio"] is not None and abs(each["ratio"] - 1) > NOTABLE for each in found)
        return [
            f"theirs: {self.name}, {', '.join(made_by)}",
            f"ratio: our main metric over theirs, {_summary(found)}, {apart} of them off by more than "
            f"{format_percent(NOTABLE)}; the two runs are unpaired, which proves no difference",
        ]


@dataclass(frozen=True)
class Published:
    """DeepBench's times of a device."""

    published: deepbench.Published

    def figures(self, record: Record) -> dict[str, float | None]:
        theirs = self._time(record)
        return beside(_median_s(record, _nearest(record)), theirs.time_s if theirs else None)

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
            + _summary([self.figures(record) for record in records]),
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


def beside(ours_s: float | None, theirs_s: float | None) -> dict[str, float | None]:
    return {"theirs_s": theirs_s, "ratio": ours_s / theirs_s if ours_s is not None and theirs_s else None}


def main_of(measurement: Measurement | None) -> str | None:
    """The name of the main metric."""
    return next((name for name in MAIN if samples(measurement, name)), None)


def _median_s(record: Record, metric: str | None) -> float | None:
    found = samples(record.measurement, metric) if metric else None
    return found.median_s if found else None


def _summary(found: Sequence[dict[str, float | None]]) -> str:
    ratios = [each["ratio"] for each in found if each["ratio"]]
    if not ratios:
        return "none of ours was timed"
    mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
    return f"geometric mean {mean:.3f} over {len(ratios)} of {len(found)} cases"


def _times(paths: Sequence[Path]) -> dict[Key, list[Theirs]]:
    found: dict[Key, list[Theirs]] = {}
    for path in paths:
        results = records_file.read(path)
        if results.header.study is not None:
            raise InvalidRequest(f"{path}: of a study, which has arms of its own: `primbench compare {path}`")
        for record in results.latest():
            metric = main_of(record.measurement)
            time_s = _median_s(record, metric)
            if metric and time_s is not None:
                found.setdefault(_key(record.case, metric), []).append(Theirs(time_s, _made_by(record, results)))
    if not found:
        raise FileError(f"{', '.join(map(str, paths))}: holds no times to compare with")
    return found


def _made_by(record: Record, results: Results) -> str:
    worker = next((worker for worker in results.workers if worker.worker == record.worker), None)
    if worker is None:
        return record.case.backend
    version = worker.versions.get(record.case.backend)
    return " ".join(filter(None, (record.case.backend, version, "on", model_of(worker) or record.case.device)))


def _key(case: Case, metric: str) -> Key:
    """Equal where the same was measured in the same way; the number of a GPU does not count."""
    try:
        fields = case.problem().parameters()  # with the defaults of fields that an older file does not have
    except InvalidRequest:
        fields = case.parameters
    kind = case.device.partition(":")[0]
    return case.primitive, frozenset(fields.items()), case.backend, kind, case.method.cache, metric
