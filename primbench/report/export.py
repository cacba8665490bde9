"""Records for other programs: flat CSV in seconds, Markdown tables, one JSON document."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import msgspec

from primbench.measurement import Samples
from primbench.record import Header, Record, Results, Worker
from primbench.report.table import TIMES, samples, tables, text
from primbench.units import TimeUnit

METRICS = (*TIMES.values(), "enqueue_single_s")


def to_csv(records: Sequence[Record]) -> str:
    """One row a record; times in seconds whatever the table shows, empty where a value is unknown."""
    rows = [flat(record) for record in records]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def to_markdown(records: Sequence[Record], workers: Sequence[Worker], time_unit: TimeUnit | None = None) -> str:
    return "\n".join(text(table, "github") for table in tables(records, workers, time_unit))


def to_json(header: Header, workers: Sequence[Worker], records: Sequence[Record]) -> str:
    """The whole of a results file as one document, raw samples included."""
    results = Results(header=header, workers=list(workers), records=list(records))
    return msgspec.json.format(msgspec.json.encode(results), indent=1).decode() + "\n"


def flat(record: Record) -> dict[str, object]:
    """The summary of a record, one level deep: case fields, status, and of each metric the median and tail."""
    case, measured = record.case, record.measurement
    row: dict[str, object] = {"primitive": case.primitive, "backend": case.backend, "device": case.device}
    row |= {"process": case.process} | dict(case.parameters) | {f"label_{k}": v for k, v in case.labels.items()}
    row |= {
        "status": record.status,
        "reason": record.reason,
        "verified": measured.verified if measured else None,
    }
    for metric in METRICS:
        row |= _quantiles(metric, samples(measured, metric))
    if measured is not None:
        main = measured.main
        row |= {
            "noise_fraction": main.noise if main else None,
            "flop": measured.flop,
            "flop_per_s": measured.flop_per_s,
            "bytes_moved": measured.bytes_moved,
            "bytes_per_s": measured.bytes_per_s,
            "launch_bound_fraction": measured.launch_bound_fraction,
            "gap_per_kernel_s": measured.gap_per_kernel_s,
            "kernels_per_call": measured.trace.kernels_per_call if measured.trace else None,
            "sm_clock_hz": measured.gpu.sm_clock_hz if measured.gpu else None,
        }
    return row


def _quantiles(metric: str, found: Samples | None) -> dict[str, float | None]:
    stem = metric.removesuffix("_s")
    return {
        f"{stem}_s": found.median_s if found else None,
        f"{stem}_p95_s": found.quantile_s(0.95) if found else None,
        f"{stem}_p99_s": found.quantile_s(0.99) if found else None,
        f"{stem}_samples": len(found.samples_s) if found else None,
    }
