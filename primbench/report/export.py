"""Records for other programs: flat CSV in seconds, Markdown tables, one JSON document."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import msgspec

from primbench.record import Record, Results, Worker
from primbench.report.columns import figures_beside
from primbench.report.table import markdown, tables
from primbench.report.yardstick import Yardstick
from primbench.summary import flat
from primbench.units import TimeUnit


def to_csv(records: Sequence[Record], yardsticks: Sequence[Yardstick] = ()) -> str:
    """One row a record; times in seconds whatever the table shows, empty where a value is unknown.

    arm: of a study; empty outside of studies.
    """
    rows = [flat(record) | figures_beside(record, yardsticks) for record in records]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def to_markdown(
    records: Sequence[Record],
    workers: Sequence[Worker],
    time_unit: TimeUnit | None = None,
    yardsticks: Sequence[Yardstick] = (),
) -> str:
    return "\n".join(markdown(table) for table in tables(records, workers, time_unit, yardsticks))


def to_json(results: Results) -> str:
    """The whole of a results file as one document, raw samples included."""
    return msgspec.json.format(msgspec.json.encode(results), indent=1).decode() + "\n"
