"""The summary of a record: one level deep, for CSV files and data frames. Times in seconds, unknown as None."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.errors import InvalidRequest
from primbench.measurement import Measurement, Samples
from primbench.measurement.over_time import SERIES, OverTime, split_unit
from primbench.problem import Problem
from primbench.registry import problem_class
from primbench.results.metrics import SAMPLED
from primbench.system.files import format_cpu_list

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas

    from primbench.results.record import Record

UNITS = ("_s", "_bytes", "_fraction", "_hz", "_samples", "_per_call")
"""Ends of names whose columns are of numbers, even where none is known."""
NOTHING_SAMPLED = OverTime(series={}, interval_s=0.0, cost_s=0.0)


def flat(record: Record) -> dict[str, object]:
    """The summary of a record, one level deep: case fields, status, and of each metric the median and tail.

    Every record of a primitive gives the same keys, whatever became of it, but for its labels.
    """
    place, found = _place(record), _found(record)
    taken, case = place.keys() | found.keys(), record.case
    fields = {f"problem_{name}" if name in taken else name: value for name, value in case.parameters.items()}
    return place | fields | {f"label_{name}": value for name, value in case.labels.items()} | found


def _place(record: Record) -> dict[str, object]:
    """What was called, and where."""
    case = record.case
    row: dict[str, object] = {"primitive": case.primitive, "backend": case.backend, "device": case.device}
    placement, nodes = case.placement, case.placement.mem_nodes
    row |= {"cache": record.cache, "numa_node": placement.numa_node, "cpu_node": placement.cpu_node}
    row |= {
        "cpu_kind": placement.cpu_kind,
        "mem_nodes": nodes and format_cpu_list(nodes),
        "mem_policy": placement.mem_policy,
    }
    return row | {"threads": placement.threads, "arm": case.arm, "process": case.process}


def _found(record: Record) -> dict[str, object]:
    """What became of it."""
    measured = record.measurement or Measurement()
    main = measured.main
    found: dict[str, object] = {"status": record.status, "reason": record.reason, "verified": measured.verified}
    found["compared_fraction"] = measured.output.compared_fraction if measured.output else None
    for metric in SAMPLED:
        found |= _quantiles(metric.name, metric.samples(measured))
    for name, others in measured.others.items():
        found |= _quantiles(name, others)
    return (
        found
        | figures_of(record)
        | {
            "noise_fraction": main.noise if main else None,
            "disturbed": "; ".join(record.disturbed_by) if main else None,
            "flop": measured.flop,
            "flop_per_s": measured.flop_per_s,
            "bytes_moved": measured.bytes_moved,
            "bytes_per_s": measured.bytes_per_s,
            "launch_bound_fraction": measured.launch_bound_fraction,
            "gap_per_kernel_s": measured.gap_per_kernel_s,
            "kernels_per_call": measured.trace.kernels_per_call if measured.trace else None,
            "nodes_per_call": measured.nodes_per_call,
            "longest_path_per_call": measured.longest_path_per_call,
            "sm_clock_hz": measured.gpu.sm_clock_hz if measured.gpu else None,
        }
        | _over_time(record)
    )


def _over_time(record: Record) -> dict[str, float | None]:
    """Mean and peak of every series that there can be, where they were asked for; the unit stays the end of a name."""
    if not record.case.method.over_time:
        return {}
    found = (record.measurement and record.measurement.over_time) or NOTHING_SAMPLED
    row: dict[str, float | None] = {}
    for name in SERIES:
        stem, unit = split_unit(name)
        row |= {f"{stem}_mean_{unit}": found.mean(name), f"{stem}_peak_{unit}": found.peak(name)}
    return row | {name: getattr(found, name) for name in ("host_peak_bytes", "gpu_allocated_peak_bytes")}


def frame_of(rows: Sequence[Mapping[str, object]]) -> pandas.DataFrame:
    """Rows of one level as a pandas DataFrame; a column of numbers is of floats where one of them is unknown.

    Raises ModuleNotFoundError where pandas is not installed.
    """
    try:
        import pandas
    except ModuleNotFoundError:
        raise ModuleNotFoundError("a data frame needs pandas: pip install 'primbench[report]'") from None

    frame = pandas.DataFrame(rows)
    for name in frame.columns:
        known = [row[name] for row in rows if row.get(name) is not None]
        has_unit = name.endswith(UNITS)
        if len(known) < len(rows) and (known or has_unit) and all(_is_number(value) for value in known):
            frame[name] = frame[name].astype(float)
    return frame


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def figures_of(record: Record) -> dict[str, float | None]:
    """What the primitive itself makes of its times; a file may hold a problem that this version refuses."""
    try:
        if problem_class(record.case.primitive).figures is Problem.figures:  # which has none, whatever its fields
            return {}
        return record.case.problem().figures(record.measurement or Measurement())
    except InvalidRequest:
        return {}


def _quantiles(metric: str, found: Samples | None) -> dict[str, float | None]:
    stem = metric.removesuffix("_s")
    return {
        f"{stem}_s": found.median_s if found else None,
        f"{stem}_p95_s": found.tail_s(0.95) if found else None,
        f"{stem}_p99_s": found.tail_s(0.99) if found else None,
        f"{stem}_samples": len(found.samples_s) if found else None,
    }
