"""The columns of a table: a value for every record and how it is written, those left out that would say nothing."""

from __future__ import annotations

import itertools
import re
from dataclasses import Field, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from primbench.measurement import Measurement, Samples
from primbench.measurement.over_time import split_unit
from primbench.report.document import Column
from primbench.report.layout import ROW
from primbench.results.disturbances import disturbs_main
from primbench.results.metrics import COLUMNS
from primbench.results.summary import figures_of
from primbench.system.files import format_cpu_list
from primbench.units import TimeUnit, format_bytes, format_frequency, format_percent, format_time, rate_format

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from primbench.baselines.yardstick import Yardstick
    from primbench.measurement.over_time import OverTime
    from primbench.results.record import Record

PLACEMENT: dict[str, Callable[[Record], object]] = {
    "node": lambda record: record.case.placement.numa_node,
    "cpus": lambda record: record.case.placement.cpus and format_cpu_list(record.case.placement.cpus),
    "cpu node": lambda record: record.case.placement.cpu_node,
    "cpu kind": lambda record: record.case.placement.cpu_kind,
    "mem node": lambda record: record.case.placement.mem_nodes and format_cpu_list(record.case.placement.mem_nodes),
    "mem policy": lambda record: record.case.placement.mem_policy,
    "threads": lambda record: record.case.placement.threads,
}
PLACES: dict[str, Callable[[Record], object]] = {
    "backend": lambda record: record.case.backend,
    "kernel": lambda record: record.case.kernel or None,
    "device": lambda record: record.case.device,
    "cache": lambda record: record.cache,
    **PLACEMENT,
    "process": lambda record: record.case.process,
}
_TAKEN = {*(metric.heading for metric in COLUMNS), *PLACES, "arm", "noise", "kernels", "check", ROW}
"""Headings of columns that are no field of a problem, of which one by the same name is told apart."""
FORMATS: dict[str, Callable[[float], str]] = {
    "fraction": format_percent,
    "bytes": lambda count: format_bytes(round(count)),
    "hz": format_frequency,
}
"""How a value is written, by the unit at the end of its name."""
WIDEST = 60  # characters of a field in a table; exports have all
_DECIMAL_OF_PERCENTILE = re.compile(r"\b(p\d\d)(?=\d)")  # p999 is p99.9


def columns_of(
    records: Sequence[Record],
    time_unit: TimeUnit | None = None,
    yardsticks: Sequence[Yardstick] = (),
    *,
    wanted: Sequence[str] = (),
) -> list[Column]:
    """wanted: fields of the cases that have a column even where they say nothing."""
    return [
        *_case_columns(records, wanted),
        *_time_columns(records, time_unit),
        *_noise_columns(records),
        *_rate_columns(records),
        *_figure_columns(records, time_unit, yardsticks),
        *_kernel_columns(records),
        *_over_time_columns(records),
        Column("check", [_check(record) for record in records]),
    ]


def _case_columns(records: Sequence[Record], wanted: Sequence[str]) -> list[Column]:
    """The columns of what was measured: parameters; labels and places where they vary."""
    return [
        *_parameters(records, wanted),
        *(column for name in ("file", "set", "application") if _varies(column := _label(records, name))),
        *_id_column(records),
        *_arm_column(records),
        *(column for name in PLACES if _varies(column := _place(records, name))),
    ]


def _parameters(records: Sequence[Record], wanted: Sequence[str]) -> list[Column]:
    """A column for the first field, sizes and dtype always; for others where one differs from its default."""
    fields = [each for each in records[0].case.fields() if each.name in wanted or not each.metadata.get("encoded")]
    always = {"dtype", *wanted, *(field.name for field in fields if field is fields[0] or field.metadata.get("size"))}
    return [_parameter(records, field) for field in fields if field.name in always or _unusual(records, field)]


def _parameter(records: Sequence[Record], field: Field[Any]) -> Column:
    values = [record.case.parameters.get(field.name) for record in records]
    heading = f"problem {field.name}" if field.name in _TAKEN else field.name
    return Column(heading, values, _size if field.metadata.get("unit") == "B" else _plain)


def _place(records: Sequence[Record], name: str) -> Column:
    return Column(name, [PLACES[name](record) for record in records], _plain)


def _label(records: Sequence[Record], name: str) -> Column:
    return Column(name, [record.case.labels.get(name) for record in records])


def _varies(column: Column) -> bool:
    return len(set(column.values)) > 1


def _unusual(records: Sequence[Record], field: Field[Any]) -> bool:
    """Whether a field tells rows apart from the ordinary. One that is filled in by the problem varies only by value."""
    values = {record.case.parameters.get(field.name) for record in records} - {None}  # a file older than the field
    return len(values) > 1 or (field.default != "" and not values <= {field.default})


def _id_column(records: Sequence[Record]) -> list[Column]:
    """The id in its suite; the folders that all ids share stand in the heading alone."""
    ids = [record.case.labels["id"] for record in records if "id" in record.case.labels]
    if not ids:
        return []
    folders = [each.split("/")[:-1] for each in ids]
    levels = itertools.takewhile(lambda names: len(set(names)) == 1, zip(*folders, strict=False))
    folder = "".join(f"{names[0]}/" for names in levels)
    return [replace(_label(records, "id"), heading=folder or "id", format=lambda found: found.removeprefix(folder))]


def _arm_column(records: Sequence[Record]) -> list[Column]:
    """The arm of each row, also where all rows share one: nothing else in the table names it."""
    column = Column("arm", [record.case.arm or None for record in records])
    return [] if column.is_empty else [column]


def _size(value: object) -> str:
    return format_bytes(value) if isinstance(value, int) else _plain(value)


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    words = str(value)
    return words if len(words) <= WIDEST else f"{words[: WIDEST - 3]}..."


def _time_columns(records: Sequence[Record], time_unit: TimeUnit | None) -> list[Column]:
    columns = (
        Column(metric.heading, [metric.samples(each.measurement) for each in records], partial(_time, unit=time_unit))
        for metric in COLUMNS
    )
    return [column for column in columns if not column.is_empty]


def _time(found: Samples, unit: TimeUnit | None) -> str:
    return format_time(found.median_s, unit, found.noise)


def _noise_columns(records: Sequence[Record]) -> list[Column]:
    column = Column("noise", [Noise.of(record) for record in records])
    return [] if column.is_empty else [column]


@dataclass(frozen=True)
class Noise:
    """The noise of a record's main metric."""

    fraction: float | None
    """Half of the median's 95 % interval over the median; None below 6 samples."""
    too_much: bool
    """Whether it is more than was asked for."""
    disturbed: bool
    """Whether something may have made it longer."""

    @staticmethod
    def of(record: Record) -> Noise | None:
        """The noise of a record's main metric; None where nothing was timed."""
        found = record.measurement and record.measurement.main
        if not found:
            return None
        too_much = found.noise is not None and found.noise > record.case.method.max_noise
        return Noise(found.noise, too_much, record.measurement is not None and disturbs_main(record.measurement))

    def __str__(self) -> str:
        return f"{'!' * self.disturbed}{'*' * self.too_much}{format_percent(self.fraction)}"


def number_of(value: object) -> float | None:
    """By which a cell is sorted; None of what is no number."""
    if isinstance(value, Samples):
        return value.median_s
    if isinstance(value, Noise):
        return value.fraction
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _rate_columns(records: Sequence[Record]) -> list[Column]:
    """FLOP/s where the primitive counts operations, else bytes/s; one prefix for the whole column."""
    measured = [record.measurement or Measurement() for record in records]
    has_flop = any(each.flop for each in measured)
    rates = [each.flop_per_s if has_flop else each.bytes_per_s for each in measured]
    unit, format_ = rate_format(rates, "FLOP/s" if has_flop else "B/s")
    column = Column(unit, rates, format_)
    return [] if column.is_empty else [column]


def _figure_columns(
    records: Sequence[Record], time_unit: TimeUnit | None, yardsticks: Sequence[Yardstick]
) -> list[Column]:
    """What the primitive makes of its times, and what they are set beside; the ends of the names are units."""
    figures = [figures_of(record) | figures_beside(record, yardsticks) for record in records]
    columns = (
        _figure(name, [of_record.get(name) for of_record in figures], time_unit)
        for name in dict.fromkeys(itertools.chain(*figures))
    )
    return [column for column in columns if not column.is_empty]


def figures_beside(record: Record, yardsticks: Sequence[Yardstick]) -> dict[str, float | None]:
    """Column -> value, of all yardsticks; None where one has nothing to compare this record with."""
    found: dict[str, float | None] = {}
    for yardstick in yardsticks:
        found |= yardstick.figures(record)
    return found


def _figure(name: str, values: Sequence[float | None], time_unit: TimeUnit | None) -> Column:
    stem, unit = split_unit(name)
    heading = _DECIMAL_OF_PERCENTILE.sub(r"\1.", stem.replace("_", " "))
    if unit == "bytes_per_s":
        prefixed, format_ = rate_format(values, "B/s")
        return Column(f"{heading} {prefixed}", values, format_)
    if unit == "s":
        return Column(heading, values, partial(format_time, unit=time_unit))
    return Column(heading, values, FORMATS.get(unit, _ratio if name == "ratio" else "{:g}".format))


def _ratio(value: float) -> str:
    """A ratio with three decimals; below 0.1 with three significant digits."""
    return f"{value:.3f}" if value >= 0.1 else f"{value:.3g}"


def _kernel_columns(records: Sequence[Record]) -> list[Column]:
    traces = [record.measurement.trace if record.measurement else None for record in records]
    column = Column("kernels", [trace and trace.kernels_per_call for trace in traces], "{:g}".format)
    return [] if column.is_empty else [column]


def _over_time_columns(records: Sequence[Record]) -> list[Column]:
    columns = [
        Column(heading, [_over_time(record, use) for record in records], format_) for heading, use, format_ in _USES
    ]
    return [column for column in columns if not column.is_empty]


def _over_time(record: Record, use: Callable[[OverTime], float | None]) -> float | None:
    found = record.measurement and record.measurement.over_time
    return use(found) if found else None


_USES: list[tuple[str, Callable[[OverTime], float | None], Callable[[float], str]]] = [
    ("host mem", lambda used: used.most_host_bytes, FORMATS["bytes"]),
    ("GPU mem", lambda used: used.peak("gpu_process_bytes"), FORMATS["bytes"]),
    ("SM active", lambda used: used.mean("sm_active_fraction"), format_percent),
    ("tensor", lambda used: used.mean("tensor_active_fraction"), format_percent),
    ("DRAM", lambda used: used.mean("dram_bandwidth_fraction"), format_percent),
]
"""Of what is sampled over time: the heading, the largest of a memory or the mean of a share, and its format."""


def _check(record: Record) -> str:
    if record.status != "ok":
        return f"{record.status}: {record.reason}"
    return "ok" if record.measurement and record.measurement.verified else "not checked"
