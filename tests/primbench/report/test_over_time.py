"""What cases used over time: columns of the table, and curves in characters."""

from __future__ import annotations

from typing import Any

from primbench.measurement import Measurement, Samples
from primbench.measurement.over_time import OverTime, Series
from primbench.registry import build
from primbench.report import over_time
from primbench.report.over_time import LEVELS, WIDTH, curve
from primbench.report.table import tables
from primbench.report.text import of_table as text
from primbench.results.record import Record
from primbench.spec.case import Case

TIMES = Samples(samples_s=[2e-3] * 7, calls_per_sample=1, taken_by="graph", stopped="count")
GIB = 2.0**30


def series(*values: float) -> Series:
    return Series(times_s=[float(place) for place in range(len(values))], values=list(values))


def record(used: OverTime | None, **changes: Any) -> Record:
    parameters = build("gemm", {"m": 4, "n": 5, "k": 6}).parameters()
    case = Case(primitive="gemm", parameters=parameters, backend="torch", device="cuda:0", **changes)
    measured = Measurement(device_s=TIMES, verified=True, over_time=used, phases_s={"inputs": 0.25, "timing": 1.5})
    return Record(case=case, status="ok", measurement=measured, started_utc="", duration_s=1.0)


USED = OverTime(
    series={
        "host_rss_bytes": series(1 * GIB, 3 * GIB, 2 * GIB),
        "gpu_process_bytes": series(4 * GIB, 8 * GIB),
        "sm_active_fraction": series(0.2, 0.4),
        "dram_bandwidth_fraction": series(0.0, 0.5),
        "pcie_rx_bytes_per_s": series(0.0, 2e9),
        "of another version": series(1.0),
    },
    interval_s=0.05,
    cost_s=0.4e-3,
    host_peak_bytes=int(3.5 * GIB),
    gpu_allocated_peak_bytes=int(7 * GIB),
    missing={"tensor_active_fraction": "no such unit", "own": "of another version"},
)


def test_columns_are_the_most_memory_and_the_mean_shares() -> None:
    (found,) = tables([record(USED), record(None)])
    names = ["host mem", "GPU mem", "SM active", "DRAM"]
    assert [*names, "check"] == found.headings[-5:]
    shown = [dict(zip(found.headings, row, strict=True)) for row in found.rows]
    assert ["3.50 GiB", "8 GiB", "30.0%", "25.0%"] == [shown[0][name] for name in names]
    assert ["-"] * 4 == [shown[1][name] for name in names]


def test_nothing_sampled_is_no_column_and_no_curve() -> None:
    (found,) = tables([record(None)])
    assert not {"host mem", "GPU mem", "SM active", "tensor", "DRAM"} & set(found.headings)
    assert [] == over_time.tables([record(None), Record(**{**_fields(record(None)), "measurement": None})])


def _fields(found: Record) -> dict[str, Any]:
    return {name: getattr(found, name) for name in found.__struct_fields__}


def test_each_series_has_mean_peak_and_curve_and_the_unknown_a_reason() -> None:
    (found,) = over_time.tables([record(USED), record(None)])
    assert "gemm m=4 n=5 k=6 float32 on torch cuda:0, over 2.00 s" == found.title
    assert ["", "mean", "peak", "from 0 to the peak, 50.0 ms a character"] == found.headings
    assert [
        ["host rss", "2 GiB", "3 GiB"],
        ["gpu process", "6 GiB", "8 GiB"],
        ["sm active", "30.0%", "40.0%"],
        ["dram bandwidth", "25.0%", "50.0%"],
        ["pcie rx", "1 GB/s", "2 GB/s"],
    ] == [row[:3] for row in found.rows]
    assert [
        "sampled every 50.0 ms or less often by a process beside it, which took 400 us of CPU time each",
        "host memory of the process alone, at most: 3.50 GiB",
        "GPU memory handed out by torch's allocator, at most: 7 GiB",
        "tensor active unknown: no such unit",
        "phases: inputs 250 ms, timing 1.50 s",
    ] == [note.text for note in found.notes]
    assert "sm active" in text(found)


def test_processes_are_told_apart() -> None:
    (found,) = over_time.tables([record(USED, process=2)])
    assert ", process 2, over" in found.title


def test_a_curve_is_drawn_from_0_to_its_peak_and_holds_where_nothing_was_sampled() -> None:
    half = WIDTH // 2
    assert LEVELS[4] * half + LEVELS[-1] * half == curve(series(1, 2), 2.0)
    assert LEVELS[0] * half + LEVELS[-1] * half == curve(series(0, 2), 2.0)
    crowded = Series(times_s=[0.0, 0.01, 0.02, 1.0], values=[1.0, 4.0, 1.0, 1.0])
    drawn = curve(crowded, 1.0)
    assert (LEVELS[-1], WIDTH) == (drawn[0], len(drawn)), "the largest of those in one character"
    assert LEVELS[-1] * (WIDTH - 1) + LEVELS[2] == drawn


def test_a_curve_of_nothing_or_of_one_moment_is_flat() -> None:
    assert LEVELS[0] * WIDTH == curve(series(0, 0), 1.0)
    assert LEVELS[-1] * WIDTH == curve(series(5), 0.0)
    assert LEVELS[0] * WIDTH == curve(series(-3, -1), 1.0)
