"""Records for other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.report.columns import figures_beside
from primbench.report.document import Check, Document, Section
from primbench.report.ladder import ladders
from primbench.report.step_totals import step_totals
from primbench.report.table import tables
from primbench.results.summary import flat
from primbench.spec.naming import name_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.baselines.yardstick import Yardstick
    from primbench.report.document import State
    from primbench.results.file import Results
    from primbench.results.record import Record
    from primbench.units import TimeUnit

STATES: dict[str, State] = {"ok": "passed", "failed": "failed", "skipped": "open"}


def document(results: Results, time_unit: TimeUnit | None = None, yardsticks: Sequence[Yardstick] = ()) -> Document:
    """The whole of a results file: a row a record, whose times are in seconds whatever the table shows.

    arm: of a study; empty outside of studies.
    """
    records = results.records

    def pictures() -> Document:
        from primbench.report import measured  # which a table need not wait for

        return measured.page(results, yardsticks)

    return Document(
        title="records",
        answer=None,
        sections=lambda: [
            Section(
                "",
                [
                    *ladders(records),
                    *tables(records, results.workers, time_unit, yardsticks),
                    *step_totals(records),
                ],
            )
        ],
        rows=lambda: [flat(record) | figures_beside(record, yardsticks) for record in records],
        checks=lambda: list(map(_check, records)),
        value=results,
        page=pictures,
    )


def _check(record: Record) -> Check:
    """Of several processes and arms each is told apart, as a test's name is to be its own."""
    case = record.case
    return Check(
        group=f"{case.primitive} in {case.arm}" if case.arm else case.primitive,
        name=f"{name_of(case)}, process {case.process}" if case.process else name_of(case),
        state=STATES[record.status],
        words=record.reason or "",
    )
