"""With what a page begins: a row a primitive and rooflines; of several files, a row a machine, and curves."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from primbench.report.columns import Noise, figures_beside
from primbench.report.document import Column, Section, Table
from primbench.report.figures.roofline import rooflines
from primbench.report.figures.sweeps import rates_of
from primbench.report.line import sweeps
from primbench.report.table import of_primitives
from primbench.results.record import model_of
from primbench.system.files import format_cpu_list
from primbench.units import format_percent, format_rate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from primbench.baselines.yardstick import Yardstick
    from primbench.environment.fingerprint import Environment
    from primbench.report.document import Figure
    from primbench.report.line import Sweep
    from primbench.results.file import Results
    from primbench.results.record import Record

LAUNCH_BOUND = 0.5
"""Of a Python loop's period, from which share on launching is what a case spends its time on."""
TITLE = "Overview"
T = TypeVar("T")


def of_records(results: Results, yardsticks: Sequence[Yardstick] = ()) -> Section:
    """A row a primitive, and the rooflines."""
    groups = of_primitives(results.records)
    columns = [
        _column("primitive", lambda each: each[0].case.primitive, groups),
        _column("on", _places, groups),
        _column("records", len, groups),
        _column("measured", _measured, groups),
        _column("known too badly", _noisy, groups),
        _column("launch-bound", _launch_bound, groups),
        _column("fastest FLOP/s", partial(_most, "flop_per_s"), groups, partial(format_rate, what="FLOP/s")),
        _column("fastest B/s", partial(_most, "bytes_per_s"), groups, partial(format_rate, what="B/s")),
        _column("of roof, at most", partial(_of_roof, yardsticks), groups, format_percent),
    ]
    table = Table("By primitive", [column for column in columns if not column.is_empty])
    return Section(TITLE, [*([table] if groups else []), *rooflines(results)])


def _column(
    heading: str, value: Callable[[T], object], rows: Sequence[T], format_: Callable[[Any], str] = str
) -> Column:
    return Column(heading, [*map(value, rows)], format_)


def _measured(records: Sequence[Record]) -> int:
    return sum(record.status == "ok" for record in records)


def _places(records: Sequence[Record]) -> str:
    return ", ".join(dict.fromkeys(f"{record.case.implementation} {record.case.device}" for record in records))


def _noisy(records: Sequence[Record]) -> int | None:
    """How many are known no better than was asked for; None where nothing was timed."""
    found = [noise.too_much for record in records if (noise := Noise.of(record))]
    return sum(found) if found else None


def launch_bound_share(record: Record) -> float | None:
    return record.measurement.launch_bound_fraction if record.measurement else None


def _launch_bound(records: Sequence[Record]) -> int | None:
    shares = [share for record in records if (share := launch_bound_share(record)) is not None]
    return sum(share > LAUNCH_BOUND for share in shares) if shares else None


def _most(name: str, records: Sequence[Record]) -> float | None:
    rates = [rate for record in records if record.measurement and (rate := getattr(record.measurement, name))]
    return max(rates, default=None)


def _of_roof(yardsticks: Sequence[Yardstick], records: Sequence[Record]) -> float | None:
    shares = [figures_beside(record, yardsticks).get("of_roof_fraction") for record in records]
    return max((share for share in shares if share is not None), default=None)


def of_files(files: Sequence[tuple[str, Results]]) -> Section:
    """A row a file, with its machine, and for each primitive a curve a file over sizes. files: by name."""
    every = [found for _, found in files]
    columns = [
        Column("file", [name for name, _ in files]),
        _column("measured on", _models, every),
        _column("CPUs", lambda found: _cpus(_place(found).limits.cpus_allowed), every),
        _column("kernel", lambda found: _place(found).machine.kernel, every),
        _column("primbench", lambda found: _place(found).primbench_version, every),
        _column("begun", lambda found: found.header.started_utc, every),
        _column("records", lambda found: len(found.records), every),
        _column("measured", lambda found: _measured(found.records), every),
    ]
    return Section(TITLE, [Table("By machine", columns), *_curves(files)])


def _place(found: Results) -> Environment:
    return found.workers[0].environment if found.workers else found.header.environment


def _cpus(allowed: Sequence[int] | None) -> str | None:
    return format_cpu_list(allowed) if allowed else None


def _models(results: Results) -> str | None:
    return ", ".join(dict.fromkeys(filter(None, map(model_of, results.workers)))) or None


def _curves(files: Sequence[tuple[str, Results]]) -> list[Figure]:
    found: dict[str, list[Sweep]] = {}
    for name, results in files:
        for records in of_primitives(results.records):
            named = [replace(each, name=f"{name}: {each.name}") for each in sweeps(records)]
            found.setdefault(records[0].case.primitive, []).extend(named)
    return [rates_of(primitive, each) for primitive, each in found.items() if each]
