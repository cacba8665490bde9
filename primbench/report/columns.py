"""The columns of a table: a heading and a cell for every record, those left out that would say nothing."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence

from primbench.baselines.yardstick import Yardstick
from primbench.problem import fields_of, problem_class
from primbench.results.disturbances import disturbances
from primbench.results.metrics import COLUMNS, Metric
from primbench.results.record import Record
from primbench.results.summary import figures_of
from primbench.spec.case import Case
from primbench.system.files import format_cpu_list
from primbench.units import TimeUnit, format_bytes, format_percent, format_time, rate_column

PLACES: dict[str, Callable[[Case], object]] = {
    "backend": lambda case: case.backend,
    "device": lambda case: case.device,
    "cache": lambda case: case.method.cache,
    "node": lambda case: case.placement.numa_node,
    "cpus": lambda case: case.placement.cpus and format_cpu_list(case.placement.cpus),
    "cpu node": lambda case: case.placement.cpu_node,
    "cpu kind": lambda case: case.placement.cpu_kind,
    "mem node": lambda case: case.placement.mem_nodes and format_cpu_list(case.placement.mem_nodes),
    "mem policy": lambda case: case.placement.mem_policy,
    "threads": lambda case: case.placement.threads,
    "process": lambda case: case.process,
}
UNKNOWN = "-"
_UNIT = re.compile("(_bytes_per_s|_s|_fraction)$")
_DECIMAL_OF_PERCENTILE = re.compile(r"\b(p\d\d)(?=\d)")  # p999 is p99.9

Column = tuple[str, Callable[[Record], str]]


def columns_of(
    records: list[Record], time_unit: TimeUnit | None = None, yardsticks: Sequence[Yardstick] = ()
) -> list[Column]:
    return [
        *_case_columns(records),
        *_time_columns(records, time_unit),
        *_noise_columns(records),
        *_rate_columns(records),
        *_figure_columns(records, time_unit, yardsticks),
        *_kernel_columns(records),
        ("check", _check),
    ]


def _case_columns(records: list[Record]) -> list[Column]:
    """The first field, sizes and dtype always; others where one differs from its default; places where they vary."""
    fields = fields_of(problem_class(records[0].case.primitive))

    def parameter(name: str, unit: str = "") -> Column:
        return name, lambda record: _parameter(record.case.parameters.get(name), unit)

    def place(name: str) -> Column:
        return name, lambda record: _parameter(PLACES[name](record.case))

    def label(name: str) -> Column:
        return name, lambda record: record.case.labels.get(name, UNKNOWN)

    shown = [
        parameter(field.name, field.metadata.get("unit", ""))
        for field in fields
        if field is fields[0]
        or field.metadata.get("size")
        or field.name == "dtype"
        or _unusual(records, field.name, field.default)
    ]
    labels = {name: {record.case.labels.get(name) for record in records} for name in ("set", "application")}
    shown += [label(name) for name, values in labels.items() if len(values) > 1]
    shown += _id_column(records)
    shown += _arm_column(records)
    return shown + [place(name) for name, of in PLACES.items() if len({of(record.case) for record in records}) > 1]


def _id_column(records: list[Record]) -> list[Column]:
    """The id in its suite; the folders that all ids share stand in the heading alone."""
    ids = [record.case.labels["id"] for record in records if "id" in record.case.labels]
    if not ids:
        return []
    folders = [each.split("/")[:-1] for each in ids]
    levels = itertools.takewhile(lambda names: len(set(names)) == 1, zip(*folders, strict=False))
    folder = "".join(f"{names[0]}/" for names in levels)
    return [(folder or "id", lambda record: record.case.labels.get("id", UNKNOWN).removeprefix(folder))]


def _arm_column(records: list[Record]) -> list[Column]:
    """Of a study even where all rows are of one arm: nothing else names it."""
    if not any(record.case.arm for record in records):
        return []
    return [("arm", lambda record: record.case.arm or UNKNOWN)]


def _unusual(records: list[Record], name: str, default: object) -> bool:
    """Whether a field tells rows apart from the ordinary. One that is filled in by the problem varies only by value."""
    values = {record.case.parameters.get(name) for record in records}
    return len(values) > 1 or (default != "" and values != {default})


def _parameter(value: object, unit: str = "") -> str:
    if unit == "B" and isinstance(value, int):
        return format_bytes(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return UNKNOWN if value is None else str(value)


def _time_columns(records: list[Record], time_unit: TimeUnit | None) -> list[Column]:
    def column(metric: Metric) -> Column:
        def cell(record: Record) -> str:
            found = metric.samples(record.measurement)
            return format_time(found.median_s, time_unit, found.noise) if found else UNKNOWN

        return metric.heading, cell

    return [column(metric) for metric in COLUMNS if any(metric.samples(record.measurement) for record in records)]


def _noise_columns(records: list[Record]) -> list[Column]:
    timed = any(record.measurement and record.measurement.main for record in records)
    return [("noise", noise_of)] if timed else []


def noise_of(record: Record) -> str:
    """Of the main metric; * above what was asked for, ! where something disturbed the case."""
    found = record.measurement and record.measurement.main
    if not found:
        return UNKNOWN
    noisy = found.noise is not None and found.noise > record.case.method.max_noise
    return f"{'!' * bool(disturbances_of(record))}{'*' * noisy}{format_percent(found.noise)}"


def disturbances_of(record: Record) -> list[str]:
    return disturbances(record.measurement) if record.measurement else []


def _rate_columns(records: list[Record]) -> list[Column]:
    """FLOP/s where the primitive counts operations, else bytes/s; one prefix for the whole column."""
    has_flop = any(record.measurement and record.measurement.flop for record in records)

    def rate(record: Record) -> float | None:
        measured = record.measurement
        if measured is None:
            return None
        return measured.flop_per_s if has_flop else measured.bytes_per_s

    unit, cells = rate_column([rate(record) for record in records], "FLOP/s" if has_flop else "B/s")
    if set(cells) == {UNKNOWN}:
        return []
    by_record = dict(zip(map(id, records), cells, strict=True))
    return [(unit, lambda record: by_record[id(record)])]


def _figure_columns(records: list[Record], time_unit: TimeUnit | None, yardsticks: Sequence[Yardstick]) -> list[Column]:
    """What the primitive makes of its times, and what they are set beside; the ends of the names are units."""
    figures = {id(record): figures_beside(record, yardsticks) for record in records}
    columns: list[Column] = []
    for name in dict.fromkeys(itertools.chain(*figures.values())):
        values = [figures[id(record)].get(name) for record in records]
        heading, cells = _with_unit(name, values, time_unit)
        if set(cells) != {UNKNOWN}:
            by_record = dict(zip(map(id, records), cells, strict=True))
            columns.append((heading, _looked_up(by_record)))
    return columns


def _looked_up(cells: dict[int, str]) -> Callable[[Record], str]:
    return lambda record: cells[id(record)]


def figures_beside(record: Record, yardsticks: Sequence[Yardstick]) -> dict[str, float | None]:
    """The primitive's own figures, then those of the yardsticks."""
    found = figures_of(record)
    for yardstick in yardsticks:
        found = found | yardstick.figures(record)
    return found


def _with_unit(name: str, values: list[float | None], time_unit: TimeUnit | None) -> tuple[str, list[str]]:
    heading = _DECIMAL_OF_PERCENTILE.sub(r"\1.", _UNIT.sub("", name).replace("_", " "))
    if name.endswith("_bytes_per_s"):
        unit, cells = rate_column(values, "B/s")
        return f"{heading} {unit}", cells
    if name.endswith("_s"):
        return heading, [format_time(value, time_unit) for value in values]
    if name.endswith("_fraction"):
        return heading, [format_percent(value) for value in values]
    if name == "ratio":
        return heading, [_ratio(value) for value in values]
    return heading, [UNKNOWN if value is None else f"{value:g}" for value in values]


def _ratio(value: float | None) -> str:
    """Thousandths near 1, where a small difference is the finding; 3 digits far below."""
    return UNKNOWN if value is None else f"{value:.3f}" if value >= 0.1 else f"{value:.3g}"


def _kernel_columns(records: list[Record]) -> list[Column]:
    def cell(record: Record) -> str:
        trace = record.measurement.trace if record.measurement else None
        return f"{trace.kernels_per_call:g}" if trace else UNKNOWN

    return [("kernels", cell)] if any(cell(record) != UNKNOWN for record in records) else []


def _check(record: Record) -> str:
    if record.status != "ok":
        return f"{record.status}: {record.reason}"
    return "ok" if record.measurement and record.measurement.verified else "not checked"
