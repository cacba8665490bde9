"""Records for other programs: flat CSV in seconds, Markdown tables, one JSON document."""

from __future__ import annotations

from collections.abc import Sequence

from primbench.baselines.yardstick import Yardstick
from primbench.report.columns import figures_beside
from primbench.report.plain import csv_of, json_of
from primbench.report.table import markdown, tables
from primbench.results.file import Results
from primbench.results.record import Record, Worker
from primbench.results.summary import flat
from primbench.units import TimeUnit


def to_csv(records: Sequence[Record], yardsticks: Sequence[Yardstick] = ()) -> str:
    """One row a record; times in seconds whatever the table shows, empty where a value is unknown.

    arm: of a study; empty outside of studies.
    """
    return csv_of([flat(record) | figures_beside(record, yardsticks) for record in records])


def to_markdown(
    records: Sequence[Record],
    workers: Sequence[Worker],
    time_unit: TimeUnit | None = None,
    yardsticks: Sequence[Yardstick] = (),
) -> str:
    return "\n".join(markdown(table) for table in tables(records, workers, time_unit, yardsticks))


def to_json(results: Results) -> str:
    """The whole of a results file as one document, raw samples included."""
    return json_of(results)
