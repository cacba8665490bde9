"""`primbench show`: the table of a results file again."""

from __future__ import annotations

from typing import Any

import click
from msgspec.structs import replace

from primbench.cli.option_types import FILE
from primbench.cli.options import GroupedCommand, output_options
from primbench.cli.outputs import check_outputs, report, say_unknown
from primbench.errors import FileError
from primbench.results import file as results_file


def _show(file: str, **values: Any) -> None:
    check_outputs({**values, "file": file})
    results = results_file.read(file)
    if not results.records:
        raise FileError(f"{file}: holds no records: the run ended before its first case did")
    say_unknown(results)
    report(replace(results, records=results.latest()), values)


command = GroupedCommand(
    "show",
    callback=_show,
    params=[click.Argument(["file"], type=FILE, metavar="FILE.jsonl"), *output_options()],
    help="Print the table of a results file again, or export it.",
)
