"""The table of records: one block a primitive, columns that say something, times with a unit in every cell."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from primbench.problem import fields_of, problem_class
from primbench.record import Case, Record, Worker
from primbench.summary import figures_of, samples
from primbench.topology import format_cpu_list
from primbench.units import TimeUnit, format_bytes, format_percent, format_time, rate_column

TIMES = {
    "enqueue": "enqueue_s",
    "stream": "stream_s",
    "device": "device_s",
    "busy": "busy_s",
    "batch": "batch_s",
    "wall": "wall_s",
}
PLACES: dict[str, Callable[[Case], object]] = {
    "backend": lambda case: case.backend,
    "device": lambda case: case.device,
    "cache": lambda case: case.method.cache,
    "node": lambda case: case.placement.numa_node,
    "cpus": lambda case: case.placement.cpus and format_cpu_list(case.placement.cpus),
    "threads": lambda case: case.placement.threads,
    "process": lambda case: case.process,
}
UNKNOWN = "-"
DISTURBED = 0.05  # a quiet machine shows 1 %


@dataclass(frozen=True)
class Table:
    """title: what all rows share. Cells are text; every column but the last is right-aligned. notes follow it."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[str]


def tables(records: Sequence[Record], workers: Iterable[Worker] = (), time_unit: TimeUnit | None = None) -> list[Table]:
    """One table a primitive, in order of first appearance."""
    found = list(workers)
    names = dict.fromkeys(record.case.primitive for record in records)
    return [_table([record for record in records if record.case.primitive == name], found, time_unit) for name in names]


def text(table: Table) -> str:
    """The table for a terminal."""
    return "\n".join([table.title, _grid(table.columns, table.rows, "plain"), *table.notes]) + "\n"


def markdown(table: Table) -> str:
    """The table as GitHub renders it."""
    rows = [[_escaped(cell) for cell in row] for row in table.rows]
    parts = [f"**{table.title}**", _grid(table.columns, rows, "pipe"), *map(_escaped, table.notes)]
    return "\n\n".join(parts) + "\n"


def _escaped(words: str) -> str:
    return re.sub(r"([|*\\])", r"\\\1", words)


def _grid(columns: list[str], rows: list[list[str]], format_name: str) -> str:
    from tabulate import tabulate

    align = ["right"] * (len(columns) - 1) + ["left"]
    return tabulate(rows, headers=columns, tablefmt=format_name, colalign=align, disable_numparse=True)


def _table(records: list[Record], workers: list[Worker], time_unit: TimeUnit | None) -> Table:
    columns = [
        *_case_columns(records),
        *_time_columns(records, time_unit),
        *_noise_columns(records),
        *_rate_columns(records),
        *_figure_columns(records, time_unit),
        *_kernel_columns(records),
        ("check", _check),
    ]
    names = [name for name, _ in columns]
    rows = [[cell(record) for _, cell in columns] for record in records]
    return Table(_title(records, workers), names, rows, _notes(records))


Column = tuple[str, Callable[[Record], str]]


def _case_columns(records: list[Record]) -> list[Column]:
    """Sizes and dtype always; other fields where one differs from its default; backend and place where they vary."""

    def parameter(name: str, unit: str = "") -> Column:
        return name, lambda record: _parameter(record.case.parameters.get(name), unit)

    def place(name: str) -> Column:
        return name, lambda record: _parameter(PLACES[name](record.case))

    def label(name: str) -> Column:
        return name, lambda record: record.case.labels.get(name, UNKNOWN)

    shown = [
        parameter(field.name, field.metadata.get("unit", ""))
        for field in fields_of(problem_class(records[0].case.primitive))
        if field.metadata.get("size") or field.name == "dtype" or _unusual(records, field.name, field.default)
    ]
    labels = {name: {record.case.labels.get(name) for record in records} for name in ("set", "application")}
    shown += [label(name) for name, values in labels.items() if len(values) > 1]
    return shown + [place(name) for name, of in PLACES.items() if len({of(record.case) for record in records}) > 1]


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
    def column(name: str, metric: str) -> Column:
        def cell(record: Record) -> str:
            found = samples(record.measurement, metric)
            return format_time(found.median_s, time_unit, found.noise) if found else UNKNOWN

        return name, cell

    return [
        column(name, metric)
        for name, metric in TIMES.items()
        if any(samples(record.measurement, metric) for record in records)
    ]


def _noise_columns(records: list[Record]) -> list[Column]:
    timed = any(record.measurement and record.measurement.main for record in records)
    return [("noise", _noise)] if timed else []


def _noise(record: Record) -> str:
    found = record.measurement and record.measurement.main
    if not found or found.noise is None:
        return UNKNOWN
    marks = ("!" if _disturbed(record) else "") + ("*" if found.noise > record.case.method.max_noise else "")
    return marks + format_percent(found.noise)


def _disturbed(record: Record) -> bool:
    """Whether tasks waited for a CPU, or the quota ran out, so long that a CPU's times may be theirs."""
    host = record.measurement.host if record.measurement and record.measurement.main else None
    if host is None or record.case.device != "cpu":
        return False
    return max(host.cpu_pressure_some_s or 0.0, host.throttled_s or 0.0) > DISTURBED * host.duration_s


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


def _figure_columns(records: list[Record], time_unit: TimeUnit | None) -> list[Column]:
    """What the primitive makes of its times; the ends of the names are units."""
    figures = {id(record): figures_of(record) for record in records}
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


def _with_unit(name: str, values: list[float | None], time_unit: TimeUnit | None) -> tuple[str, list[str]]:
    if name.endswith("_bytes_per_s"):
        unit, cells = rate_column(values, "B/s")
        return f"{name.removesuffix('_bytes_per_s')} {unit}", cells
    if name.endswith("_s"):
        return name.removesuffix("_s"), [format_time(value, time_unit) for value in values]
    if name.endswith("_fraction"):
        return name.removesuffix("_fraction"), [format_percent(value) for value in values]
    return name, [UNKNOWN if value is None else f"{value:g}" for value in values]


def _kernel_columns(records: list[Record]) -> list[Column]:
    def cell(record: Record) -> str:
        trace = record.measurement.trace if record.measurement else None
        return f"{trace.kernels_per_call:g}" if trace else UNKNOWN

    return [("kernels", cell)] if any(cell(record) != UNKNOWN for record in records) else []


def _check(record: Record) -> str:
    if record.status != "ok":
        return f"{record.status}: {record.reason}"
    return "ok" if record.measurement and record.measurement.verified else "not checked"


def _title(records: list[Record], workers: list[Worker]) -> str:
    """What all rows share; a version, a model or a place only where every worker says the same."""
    cases = [record.case for record in records]
    used = {record.worker for record in records}
    ran = [worker for worker in workers if worker.worker in used]
    parts = [cases[0].primitive]
    if len({case.backend for case in cases}) == 1:
        parts.append(_named(cases[0].backend, {worker.versions.get(cases[0].backend) for worker in ran}))
    if len({case.device for case in cases}) == 1:
        parts.append(_named(cases[0].device, {_model(worker) for worker in ran}))
    places = {_place(worker) for worker in ran}
    parts += places if len(places) == 1 else []
    parts += ["cold cache"] if {case.method.cache for case in cases} == {"cold"} else []
    timed = any(samples(record.measurement, metric) for record in records for metric in TIMES.values())
    return "  ".join(filter(None, parts)) + ("  (times: median a call)" if timed else "")


def _named(name: str, descriptions: set[str | None]) -> str:
    described = descriptions.pop() if len(descriptions) == 1 else None
    return f"{name} {described}" if described else name


def _model(worker: Worker) -> str | None:
    """The CPU's or the GPU's name."""
    kind, _, number = worker.device.partition(":")
    if kind == "cpu":
        return worker.environment.cpu_model
    gpus = worker.environment.gpus or []
    return gpus[int(number)].name if number.isdecimal() and int(number) < len(gpus) else None


def _place(worker: Worker) -> str:
    """The memory node where one was bound, and the threads where they do the computing."""
    placement = worker.placement
    counted = placement.threads if worker.device == "cpu" else None
    threads = f"{counted} thread{'s' * (counted > 1)}" if counted else ""
    nodes = placement.memory_nodes if placement.rung != "none" else None
    bound = f"node {','.join(map(str, nodes))}" if nodes else ""
    return "  ".join(part for part in (bound, threads) if part)


def _notes(records: list[Record]) -> list[str]:
    notes = []
    if any(_disturbed(record) for record in records):
        notes.append(
            f"! tasks waited for a CPU for more than {format_percent(DISTURBED)} of the case, beside other processes "
            "or under a quota: the times may be too long"
        )
    noisy = [record for record in records if "*" in _noise(record)]
    if noisy:
        limit = format_percent(noisy[0].case.method.max_noise)
        notes.append(
            f"* the median is known no better than this, --max-noise asked {limit}: raise --max-time, quiet the machine"
        )
    throttled = {
        reason
        for record in records
        if record.measurement and record.measurement.gpu
        for reason in record.measurement.gpu.clocks_event_reasons or []
    }
    if throttled:
        notes.append(f"clocks held back in some cases by: {', '.join(sorted(throttled))}")
    return notes
