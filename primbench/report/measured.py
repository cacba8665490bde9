"""The sections of a page of records: their tables and pictures, where they were measured, and how to do so again."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from primbench import stats
from primbench.compare.criteria import problem_of
from primbench.report import environment, explained, step_totals, table
from primbench.report.document import Document, Note, Section, Table
from primbench.report.figures.heat import heat_maps
from primbench.report.figures.sweeps import rates
from primbench.report.figures.tails import tails
from primbench.report.figures.timeline import timelines
from primbench.report.figures.times import times
from primbench.report.figures.topology import topology
from primbench.report.ladder import ladders
from primbench.report.overview import LAUNCH_BOUND, launch_bound_share, of_records
from primbench.results import step_sums
from primbench.results.metrics import METRICS
from primbench.results.record import model_of
from primbench.spec.naming import names_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.baselines.yardstick import Yardstick
    from primbench.report.document import Figure
    from primbench.results.file import Results
    from primbench.results.record import Record

MOST_CURVES = 6


def answer(results: Results) -> str:
    """What became of the cases, in a sentence."""
    records = results.records
    if not records:
        return "Nothing was measured: the file holds no records."
    ok = [record for record in records if record.status == "ok"]
    clauses = [f"{len(ok)} of {len(records)} {_counted(records)} were measured{_where(results)}"]
    for status in ("failed", "skipped"):
        if count := sum(record.status == status for record in records):
            clauses.append(f"{count} {status}")
    return "; ".join([*clauses, *_launch_bound(ok)]) + "."


def _counted(records: Sequence[Record]) -> str:
    """What there are so many of: cases, or runs of them by several processes or in several places."""
    cases = len({msgspec.structs.replace(record.case, process=0, arm="").key() for record in records})
    return "cases" if cases == len(records) else f"runs of {cases} case{'s' * (cases != 1)}"


def _where(results: Results) -> str:
    models = list(dict.fromkeys(filter(None, map(model_of, results.workers))))
    return f" on {' and '.join(models)}" if models else ""


def _launch_bound(records: Sequence[Record]) -> Iterator[str]:
    shares = [share for record in records if (share := launch_bound_share(record)) is not None]
    if shares:
        count = sum(share > LAUNCH_BOUND for share in shares)
        yield f"{count} of {len(shares)} are launch-bound: a loop in Python waits longer for launches than for the GPU"


def sections(
    results: Results, yardsticks: Sequence[Yardstick] = (), *, is_folded: bool = False, file: str = ""
) -> Iterator[Section]:
    """A section for each primitive. is_folded: of a study, whose records are not what it is read for.

    file: its name where those of several files are on a page.
    """
    of_primitive: dict[str, list[Record]] = {}
    for record in results.records:
        of_primitive.setdefault(record.case.primitive, []).append(record)
    for name, records in of_primitive.items():
        title = f"All records of {name}{f' in {file}' if file else ''}" if is_folded else name
        figures = [] if is_folded else [*_figures(records)]
        yield Section(title, [*figures, _numbers(records, results, yardsticks)], is_folded=is_folded)
    if not is_folded and (figures := [*timelines(results.records)]):
        yield Section("Over time", figures)


def _figures(records: Sequence[Record]) -> Iterator[Figure]:
    """Of the records of one primitive, outside of studies."""
    yield from filter(None, [times(records), rates(records)])
    yield from heat_maps(records)
    yield from filter(None, [_tails(records)])


def _tails(records: Sequence[Record]) -> Figure | None:
    """Of the cases whose slow calls are furthest from their median, where slow calls are themselves a finding."""
    if not problem_of(records[0].case.primitive).has_tails:
        return None
    single = {name: found for name, each in _named(records).items() if (found := single_calls([each]))}
    worst = sorted(single, key=lambda name: -stats.quantile(single[name], 0.99) / stats.quantile(single[name], 0.5))
    kept = worst[:MOST_CURVES]
    return tails(f"Slow calls of {records[0].case.primitive}", {name: single[name] for name in kept}, len(single))


def _named(records: Sequence[Record]) -> dict[str, Record]:
    """By names of their own: alike are those of several processes, which their row in the table tells apart."""
    names = names_of([record.case for record in records])
    counts = Counter(names)
    return {
        name if counts[name] == 1 else f"{name}, row {row}": record
        for row, (name, record) in enumerate(zip(names, records, strict=True), 1)
    }


def single_calls(records: Sequence[Record]) -> list[float]:
    """Seconds of calls that were timed one by one, of all processes together: what the first of the tails is of."""
    tail = next(metric for metric in METRICS.values() if metric.is_tail)
    found = [samples for record in records if (samples := tail.samples(record.measurement))]
    return [sample for each in found if each.calls_per_sample == 1 for sample in each.samples_s]


def _numbers(records: Sequence[Record], results: Results, yardsticks: Sequence[Yardstick]) -> Table:
    """The table that a terminal has, its rows numbered, since notes name them so."""
    (found,) = table.tables(records, results.workers, None, yardsticks)
    return replace(found, columns=table.numbered(found.columns))


def places(results: Results) -> Iterator[Section]:
    """Where it was measured: what the first worker, else the command itself found around it."""
    found = results.workers[0].environment if results.workers else results.header.environment
    yield Section("The place", [topology(found)], is_folded=True)
    yield Section("Environment", environment.tables(found, {}), is_folded=True)


def again(files: Sequence[Results]) -> Section:
    """The commands that measured what the files hold."""
    commands = dict.fromkeys(shlex.join(results.header.command) for results in files)
    told = dict.fromkeys(
        f"primbench {results.header.environment.primbench_version}, begun {results.header.started_utc}"
        for results in files
    )
    return Section("How to do it again", [Note("\n".join(commands), "code"), *map(Note, told)])


def page(
    results: Results, yardsticks: Sequence[Yardstick] = (), title: str = "", files: Sequence[Results] = ()
) -> Document:
    """Of one file, or of several whose records are in one. title: its name. files: the several."""
    parts = [
        of_records(results, yardsticks),
        *_layers(results),
        *_step(results),
        *sections(results, yardsticks),
        *places(results),
        again(files or [results]),
    ]
    return Document(title_of(title, *(files or [results])), Note(answer(results)), lambda: parts)


def _layers(results: Results) -> list[Section]:
    """What each adds to the one below, where entries stand on each other."""
    found = ladders(results.records)
    return [Section("What each layer adds", found)] if found else []


def _step(results: Results) -> list[Section]:
    """Where the time of a step goes, where the file has its parts."""
    steps = {place: step_sums.explained(records) for place, records in step_totals.places(results.records).items()}
    figures = [
        each for place, found in steps.items() if found for each in explained.drawn(f"The step {place}".rstrip(), found)
    ]
    return [Section("Where the time of the step goes", figures)] if figures else []


def title_of(name: str, *files: Results) -> str:
    """The name, else that of the study, and the days on which it was measured."""
    study = next((results.header.study for results in files if results.header.study), None)
    told = name or (study.title if study else "")
    return ", ".join(filter(None, [told, *dict.fromkeys(results.header.started_utc[:10] for results in files)]))
