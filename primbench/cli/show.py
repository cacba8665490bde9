"""`primbench show`: the table of a results file again."""

from __future__ import annotations

from typing import Any

import click
from msgspec.structs import replace

from primbench import record
from primbench.cli.measuring import check_outputs, report
from primbench.cli.options import GroupedCommand, output_options


def _show(file: str, **values: Any) -> None:
    check_outputs(values)
    results = record.read(file)
    report(replace(results, records=results.latest()), values)


command = GroupedCommand(
    "show",
    callback=_show,
    params=[click.Argument(["file"], metavar="FILE.jsonl"), *output_options()],
    help="Print the table of a results file again, or export it.",
)
