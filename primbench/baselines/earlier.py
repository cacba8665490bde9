"""Times of an earlier results file beside ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from primbench import stats
from primbench.baselines.published import NOTABLE
from primbench.baselines.yardstick import Key, Theirs, beside, key_of, median_s, summary_of
from primbench.errors import FileError, InvalidRequest
from primbench.results import file as results_file
from primbench.results.metrics import MAIN, Metric, main_of
from primbench.results.record import Record, model_of
from primbench.units import format_percent

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from primbench.results.file import Results


@dataclass(frozen=True)
class Earlier:
    """Main metrics of earlier runs, by what was measured how."""

    name: str
    times: dict[Key, list[Theirs]]
    files: Sequence[str] = ()
    """Those that the times stand in."""

    def figures(self, record: Record) -> dict[str, float | None]:
        metric = main_of(record.measurement)
        return beside(median_s(record, metric), self._theirs_s(record, metric))

    def _theirs_s(self, record: Record, metric: Metric | None) -> float | None:
        """The median over processes; where nothing of ours was measured, of whatever was theirs."""
        for ours in (metric,) if metric else MAIN:
            found = self.times.get(key_of(record.case, ours))
            if found:
                return stats.quantile([each.time_s for each in found], 0.5)
        return None

    def notes(self, records: Sequence[Record]) -> list[str]:
        found = [self.figures(record) for record in records]
        if all(each["theirs_s"] is None for each in found):
            there = sorted({f"{key[0]} on {key[2]} {key[3]}" for key in self.times})
            return [f"theirs: {self.name} holds none of these cases, on this backend: it has {', '.join(there)}"]
        apart = sum(each["ratio"] is not None and abs(each["ratio"] - 1) > NOTABLE for each in found)
        return [
            f"theirs: {self.name}, {', '.join(self._makers(records))}",
            f"ratio: our main metric over theirs, {summary_of(found)}, {apart} of them off by more than "
            f"{format_percent(NOTABLE)}; the two runs are unpaired, which proves no difference",
        ]

    def _makers(self, records: Sequence[Record]) -> list[str]:
        """What their times of these cases were made by, in words, each once."""
        keys = [key_of(record.case, metric) for record in records for metric in MAIN]
        return sorted({each.made_by for key in keys for each in self.times.get(key, [])})


def times_in(paths: Sequence[Path]) -> dict[Key, list[Theirs]]:
    found: dict[Key, list[Theirs]] = {}
    for path in paths:
        results = results_file.read(path)
        if results.header.study is not None:
            raise InvalidRequest(f"{path}: of a study, which has arms of its own: `primbench compare {path}`")
        for record in results.latest():
            metric = main_of(record.measurement)
            time_s = median_s(record, metric)
            if metric and time_s is not None:
                found.setdefault(key_of(record.case, metric), []).append(Theirs(time_s, _made_by(record, results)))
    if not found:
        raise FileError(f"{', '.join(map(str, paths))}: holds no times to compare with")
    return found


def _made_by(record: Record, results: Results) -> str:
    worker = next((worker for worker in results.workers if worker.worker == record.worker), None)
    if worker is None:
        return record.case.backend
    version = worker.versions.get(record.case.backend)
    return " ".join(filter(None, (record.case.backend, version, "on", model_of(worker) or record.case.device)))
