"""What becomes of records: the table on stdout, the exports in the files that were named."""

from __future__ import annotations

import itertools
import os
import shlex
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from primbench.baselines import named
from primbench.baselines.earlier import Earlier
from primbench.baselines.roof import roof_of
from primbench.cli.as_typed import as_options, kernels_options
from primbench.cli.echo import say
from primbench.cli.options import Resumable
from primbench.errors import FileError, InvalidRequest
from primbench.report import chosen, export, formats, over_time, table, text
from primbench.report.columns import WIDEST
from primbench.report.document import Document, Section
from primbench.report.ladder import ladders
from primbench.report.plain import printable
from primbench.report.step_totals import step_totals
from primbench.system import outputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from primbench.baselines.yardstick import Yardstick
    from primbench.cli.options import Exports, Here, Recorded, TableOptions
    from primbench.results.file import Results
    from primbench.results.record import Record
    from primbench.spec.case import Case


def check_outputs(
    exports: Exports, read: Iterable[str] = (), *, record: Recorded | None = None, against: Yardstick | None = None
) -> None:
    """Raise InvalidRequest before measuring where a file could not be written after it, or would be written twice.

    read: files that were. record: the results file, if one is written. against: what is set beside.
    Raises FileError where a file is there by now, and --overwrite is not given.
    """
    set_beside = [path for path in against.files if path != "-"] if isinstance(against, Earlier) else []
    held = [*read, resumed_file(record), *set_beside]
    results = record.output if record is not None else None
    check_files(exports.files.values(), held, results=results, overwrite=exports.overwrite)
    for name in exports.files:
        formats.known()[name].check()


def check_here(here: Here, read: Iterable[str] = ()) -> None:
    """The same of what is measured in one place, which may become a baseline."""
    check_outputs(here.exports, read, record=here.record, against=here.shown.against)
    if here.save_as is not None:
        if here.how.dry_run:
            raise InvalidRequest("--save-as and --dry-run: it times nothing that could be a baseline")
        named.check(here.save_as)


def resumed_file(record: Recorded | None) -> str | None:
    """What --resume names, of a command that has it."""
    return record.resume if isinstance(record, Resumable) else None


def check_files(
    written: Iterable[str | None], read: Iterable[str | None] = (), *, overwrite: bool, results: str | None = None
) -> None:
    """The same of any files, of which None is not asked for. results: the results file, which is written, too."""
    new = [path for path in (*written, results) if path is not None]
    uses = Counter(_whole(path) for path in [*new, *read] if path is not None)
    for path in new:
        if uses[_whole(path)] > 1:
            raise InvalidRequest(f"{'stdout' if path == '-' else path}: asked to hold two things, and holds one")
        if path != "-":
            check_file(path, overwrite=overwrite, is_results=path == results)


def check_file(path: str, *, overwrite: bool, is_results: bool = False) -> None:
    """Raises InvalidRequest where nothing can be written there, or what is there would be lost."""
    if reason := outputs.unwritable(path):
        raise InvalidRequest(f"{path}: {reason}")
    if is_results and os.path.lexists(path) and not outputs.is_file(path):
        raise FileError(f"{path}: no regular file, and a results file is added to and read back: --json writes there")
    if outputs.is_file(path) and not overwrite:
        options = click.get_current_context().command.params
        go_on = f"add to it with --resume {path}, or " if is_results and _has(options, "resume") else ""
        raise FileError(f"{path}: exists; {go_on}replace it with --overwrite")


def _has(options: Iterable[click.Parameter], name: str) -> bool:
    return any(each.name == name for each in options)


def _whole(path: str) -> str:
    """The path from the root, links followed."""
    try:
        return os.path.realpath(path)
    except FileNotFoundError:
        raise InvalidRequest(f"{path}: the folder that this was started in is not there any more") from None


def say_unknown(*files: Results) -> None:
    """On stderr, which primitives and models of the files are not here, and what brings them if a command named it."""
    from primbench.registry import summaries

    cases = [record.case for results in files for record in results.records]
    named = dict.fromkeys(path for results in files for path in _kernels(results.header.command))
    has_them = f"primbench {shlex.join(kernels_options(named or ['FILE.py']))} has them"
    for what, unknown in (
        ("no primitive here", {case.primitive for case in cases} - summaries().keys()),
        ("no model here", _unknown_models(cases)),
    ):
        if unknown:
            names = ", ".join(f"{each:.{WIDEST}}" for each in sorted(unknown))
            say(printable(f"{names}: {what}, so without columns and margins of its own: {has_them}"), err=True)


def _unknown_models(cases: Iterable[Case]) -> set[str]:
    asked = {name for case in cases if isinstance(name := case.parameters.get("network"), str)}
    if not asked:
        return asked
    from primbench.registry import networks

    return asked - set(networks.names())


def _kernels(command: Sequence[str]) -> list[str]:
    """The files that a command line named by --kernels."""
    return [
        word.removeprefix("--kernels=")
        for before, word in itertools.pairwise(command)
        if before == "--kernels" or word.startswith("--kernels=")
    ]


def report(
    results: Results,
    shown: TableOptions,
    exports: Exports,
    *,
    sort: str | None = None,
    columns: Sequence[str] = (),
    curves: bool = False,
) -> None:
    """Print the table of a results file, and write its exports, as put_out() does.

    sort, columns: as ``show`` has them. curves: print below it what cases used over time, where that was sampled.
    What a kernel asks for by the name of a field, where it skips a case, the table asks for by the option of the
    command that prints it; a case fails with words of whatever program, which stay.
    """
    records, workers, unit = results.records, results.workers, shown.time_unit
    drawn = over_time.tables(records) if curves else []
    yardsticks = [yardstick for yardstick in (roof_of(results), shown.against) if yardstick is not None]
    rows = _as_asked(records)
    if sort:
        rows = chosen.in_order(rows, sort, yardsticks)
    made = table.tables(rows, workers, unit, yardsticks, wanted=columns)
    if columns:
        made = chosen.with_columns(made, columns)
    parts = [*ladders(records), *made, *step_totals(records), *drawn]
    printed = Document("", None, lambda: [Section("", parts)])
    publish(export.document(results, unit, yardsticks), exports.files, printed)


def _as_asked(records: Sequence[Record]) -> list[Record]:
    """Those that were skipped with reasons in the words of the command's options."""
    options = click.get_current_context().command.params
    skipped = {each.reason for each in records if each.reason and each.status == "skipped"}
    reasons = {reason: as_options(reason, options) for reason in skipped}
    return [
        replace(each, reason=reasons[each.reason]) if each.reason and each.status == "skipped" else each
        for each in records
    ]


def save(name: str, results: Results) -> None:
    """Add a run to the baseline of that name, unless it holds no time. Raises OutputError."""
    if any(record.status == "ok" for record in results.records):
        say(f"Saved as {name}: {named.save(name, results)}", err=True)
    else:
        say(f"Not saved as {name}: nothing was measured", err=True)


def publish(document: Document, files: Mapping[str, str | None], printed: Document | None = None) -> None:
    """Print a document and write its exports, as put_out() does. files: by format. printed: in its place."""
    made: dict[str | None, Callable[[], str | bytes]] = {
        path: partial(formats.known()[name].write, document) for name, path in files.items()
    }
    put_out(made, lambda: text.write(printed or document))


def put_out(exports: Mapping[str | None, Callable[[], str | bytes]], text: Callable[[], str]) -> None:
    """Write the exports, by file, of which None is not asked for; print the text unless stdout was given to one.

    text: steers no terminal.
    Raises OutputError where one of them cannot be written; the others are out by then.
    """
    try:
        for path, made in exports.items():
            if path is not None:
                write(path, made())
    finally:
        if "-" not in exports:
            click.echo(text(), nl=False)


def write(path: str, text: str | bytes) -> None:
    """Raises OutputError."""
    if path == "-":
        click.echo(text, nl=False)
    else:
        outputs.write(path, text if isinstance(text, bytes) else text.encode())
