"""What every measuring command does once its cases are known: run them, show progress, print and write."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from primbench import record as records_file
from primbench.cli import INTERRUPTED
from primbench.cli.options import method_of, placement_of
from primbench.errors import InvalidRequest, OutputError, PrimbenchError
from primbench.problem import Problem
from primbench.record import Case, Header, Record, Results, Worker, Writer
from primbench.report import export, table
from primbench.running import ALL, execute, header, left_to_do, plan
from primbench.session import Session

Entries = Sequence[tuple[Problem, Mapping[str, str]]]


def measure_and_report(entries: Entries, values: dict[str, Any]) -> None:
    """Run the entries with the options in ``values``; exit 1 on a failed case, 130 when interrupted."""
    check_outputs(values)
    if values["output"] and values["resume"]:
        raise InvalidRequest("--output and --resume: one file, --resume goes on writing to it")
    cases = plan(
        entries,
        backends=values["backends"],
        device=values["device"],
        method=method_of(values),
        placement=placement_of(values),
        processes=values["processes"],
    )
    held = records_file.read(values["resume"]) if values["resume"] else None
    first = held.header if held else header(sys.argv, dict(values["labels"]))
    todo = left_to_do(cases, held) if held else cases
    with _writer(values, first) as writer:
        found, ended = _run(todo, values, writer, held)
    results = Results(header=first, workers=found.workers, records=found.latest())
    report(results, values)
    if ended is not None:
        raise ended
    if any(record.status == "failed" for record in results.records):
        sys.exit(1)


@contextmanager
def _writer(values: dict[str, Any], first: Header) -> Iterator[Writer | None]:
    """The results file that was named, if one was, opened before anything is measured."""
    if values["resume"]:
        writer = Writer(values["resume"], append=True)
    elif values["output"]:
        writer = Writer(values["output"], append=False)
        writer.write(first)
    else:
        yield None
        return
    try:
        yield writer
    finally:
        writer.close()


class _Found:
    """Everything seen so far, kept when a run ends early."""

    def __init__(self, held: Results | None) -> None:
        self.workers: list[Worker] = list(held.workers) if held else []
        self.records: list[Record] = list(held.records) if held else []

    def latest(self) -> list[Record]:
        return list({record.case.key(): record for record in self.records}.values())


def _run(
    cases: list[Case], values: dict[str, Any], writer: Writer | None, held: Results | None
) -> tuple[_Found, BaseException | None]:
    """What was measured, and what ended it early: an error to report after the table, or an interrupt."""
    found = _Found(held)
    session = Session(
        timeout_s=values["timeout"],
        trace=values["trace"],
        skip_unavailable=ALL in values["backends"],
        verbose=values["verbose"],
        first_worker=1 + max((worker.worker for worker in found.workers), default=-1),
    )
    try:
        with session, _progress(len(cases), values) as announce:
            for line in execute(session, _announced(cases, announce), writer):
                (found.records if isinstance(line, Record) else found.workers).append(line)  # type: ignore[arg-type]
    except KeyboardInterrupt:
        return found, SystemExit(INTERRUPTED)
    except PrimbenchError as error:
        return found, error
    return found, None


def _announced(cases: list[Case], announce: Callable[[Case], None]) -> Iterator[Case]:
    for case in cases:
        announce(case)
        yield case


@contextmanager
def _progress(total: int, values: dict[str, Any]) -> Iterator[Callable[[Case], None]]:
    """One line on a terminal, drawn between cases only: a refreshing thread would disturb what is timed."""
    if values["quiet"] or not sys.stderr.isatty() or not total:
        yield lambda case: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), auto_refresh=False, transient=True) as bar:
        task = bar.add_task("", total=total)
        started = 0

        def announce(case: Case) -> None:
            nonlocal started
            bar.update(task, completed=started, description=_name(case), refresh=True)
            started += 1

        yield announce


def _name(case: Case) -> str:
    shown = (str(value) for value in case.parameters.values() if not isinstance(value, bool | float) and value != "")
    return f"{case.primitive} {' '.join(shown)} on {case.backend} {case.device}"


def check_outputs(values: Mapping[str, Any]) -> None:
    """Raise before measuring where a file could not be written after it."""
    paths = [values[name] for name in ("csv_path", "markdown_path", "json_path") if values[name]]
    if paths.count("-") > 1:
        raise InvalidRequest("only one of --csv, --markdown, --json can go to stdout")
    for path in paths:
        folder = Path(path).parent
        if path != "-" and (Path(path).is_dir() or not folder.is_dir()):
            raise InvalidRequest(f"{path}: {'is a folder' if Path(path).is_dir() else f'there is no folder {folder}'}")


def report(results: Results, values: Mapping[str, Any]) -> None:
    """Print the table, unless stdout was given to an export, and write the exports."""
    records, workers = results.records, results.workers
    exports: dict[str, Callable[[], str]] = {
        "csv_path": lambda: export.to_csv(records),
        "markdown_path": lambda: export.to_markdown(records, workers, values["time_unit"]),
        "json_path": lambda: export.to_json(results.header, workers, records),
    }
    for name, render in exports.items():
        if values[name]:
            _write(values[name], render())
    if "-" not in [values[name] for name in exports]:
        found = table.tables(records, workers, values["time_unit"])
        click.echo("\n".join(table.text(each) for each in found), nl=False)


def _write(path: str, text: str) -> None:
    if path == "-":
        click.echo(text, nl=False)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from None
