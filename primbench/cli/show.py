"""`primbench show`: the table of a results file again."""

from __future__ import annotations

from typing import Any

import click
from msgspec.structs import replace

from primbench.cli.echo import say
from primbench.cli.option_types import FILE
from primbench.cli.options import GroupedCommand, output_options
from primbench.cli.outputs import check_outputs, report, say_unknown
from primbench.errors import FileError
from primbench.report import steps
from primbench.results import file as results_file


def _show(file: str, **values: Any) -> None:
    check_outputs({**values, "file": file})
    results = results_file.read(file)
    if not results.records:
        raise FileError(f"{file}: holds no records: the run ended before its first case did")
    say_unknown(results)
    if values["steps"]:
        say(steps.text(results.latest()))
    else:
        report(replace(results, records=results.latest()), values, curves=True)


STEPS = click.Option(
    ["--steps"], is_flag=True, help="Print the steps of whole models as tf_cnn_benchmarks prints its own: images/sec."
)
command = GroupedCommand(
    "show",
    callback=_show,
    params=[click.Argument(["file"], type=FILE, metavar="FILE.jsonl"), STEPS, *output_options()],
    help="Print the table of a results file again, with what was sampled over time, or export it.",
)
