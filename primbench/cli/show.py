"""`primbench show`: Print the table of a results file again, or export it."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from primbench.cli import commands
from primbench.cli.option_types import FILE, parsed
from primbench.cli.options import Exports, TableOptions
from primbench.cli.outputs import check_outputs, publish, report, say_unknown
from primbench.cli.places import as_one, read_places, shown_whole
from primbench.cli.request import RequestCommand, argument, dataclass, option, part, typed
from primbench.errors import InvalidRequest
from primbench.report import chosen, export, steps, text
from primbench.results import file as results_file
from primbench.system.jsonlines import first_kind

if TYPE_CHECKING:
    from types import ModuleType

RANK = 170


@dataclass(frozen=True, kw_only=True)
class ShowFile:
    """To print the table of a results file."""

    file: str | None = argument(required=False, type=FILE, metavar="FILE.jsonl|FOLDER|NAME")
    steps: bool = option(
        "--steps", group="Table", is_flag=True,
        help="Print the steps of whole models as tf_cnn_benchmarks prints its own: images/sec.")  # fmt: skip
    only: tuple[str, ...] = option(
        "--only", group="Table", multiple=True, metavar="PRIMITIVE|FIELD=VALUE",
        help="Records of a primitive, or whose case has such a field, as dtype=float16 or arm=host; repeatable.",
    )  # fmt: skip
    sort: str | None = option(
        "--sort", group="Table", metavar="COLUMN",
        help="By a column, such as device; a minus before it has the longest first.")  # fmt: skip
    columns: list[str] | None = option(
        "--columns", group="Table", type=parsed("list", lambda text: [each.strip() for each in text.split(",")]),
        metavar="LIST", help="These columns alone, as m,n,device,check.")  # fmt: skip
    schema: bool = option(
        "--schema", group="Output", is_flag=True, is_rare=True,
        help="Print the JSON Schema of a results file's lines, of no file.")  # fmt: skip
    shown: TableOptions = part(TableOptions)
    exports: Exports = part(Exports)


def _show(asked: ShowFile) -> None:
    if asked.schema:
        click.echo(json.dumps(results_file.schema(), indent=1))
    elif asked.file is None:
        raise InvalidRequest("of which file? primbench show results.jsonl")
    elif (keeper := _keeper(asked.file)) is not None:
        _show_kept(asked.file, *keeper)
    else:
        _show_records(asked.file, asked)


def _show_records(file: str, asked: ShowFile) -> None:
    (place,) = read_places(
        [file], read=partial(results_file.read, is_whole=None if _needs_all(asked) else shown_whole())
    )
    check_outputs(asked.exports, place.files, against=asked.shown.against)
    say_unknown(*place.runs)
    results = as_one(place)
    records = chosen.kept(results.records, asked.only) if asked.only else results.records
    found = replace(results, records=records)
    if asked.steps:
        publish(export.document(found), asked.exports.files, steps.document(records))
    else:
        report(found, asked.shown, asked.exports, sort=asked.sort, columns=asked.columns or (), curves=True)


def _needs_all(asked: ShowFile) -> bool:
    """Whether more of a file is asked for than the first rows of its tables."""
    return bool(asked.steps or asked.only or asked.sort or any(asked.exports.files.values()))


def _keeper(file: str) -> tuple[str, ModuleType] | None:
    """The command that wrote a file of a kind of its own; None of a results file, and of a pipe: it is read but once.

    Raises FileError where it cannot be read.
    """
    return commands.keeper(first_kind(Path(file))) if os.path.isfile(file) else None


def _show_kept(file: str, name: str, command_file: ModuleType) -> None:
    """What another command found, in its own words; raises InvalidRequest where a table is asked for."""
    for word in typed():
        raise InvalidRequest(f"{file}: by `primbench {name}`, which makes no table: it is shown without {word}")
    click.echo(text.write(command_file.shown(Path(file))), nl=False)


command = RequestCommand(
    "show",
    ShowFile,
    _show,
    help="Print the table of a results file (- is stdin) again, with what was sampled over time, or export it; of all "
    "runs in a folder or of a baseline NAME in .primbench/baselines, in one; of a file of `watch`, what that found.\n\n"
    "\b\n"
    "primbench show results.jsonl\n"
    "primbench show results.jsonl --only gemm --sort device --csv gemm.csv",
)
