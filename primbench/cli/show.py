"""`primbench show`: the table of a results file again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from primbench.cli.echo import say
from primbench.cli.option_types import FILE, parsed
from primbench.cli.options import GroupedCommand, grouped, output_options
from primbench.cli.outputs import check_outputs, report, say_unknown
from primbench.cli.places import as_one, read_places
from primbench.errors import InvalidRequest
from primbench.report import chosen, steps
from primbench.report.watch import to_text
from primbench.watching.kept import is_kept, read

if TYPE_CHECKING:
    from collections.abc import Mapping


def _show(file: str, **values: Any) -> None:
    if is_kept(Path(file)):
        _show_watched(file, values)
        return
    (place,) = read_places([file])
    check_outputs(values, place.files)
    say_unknown(*place.runs)
    results = as_one(place)
    records = chosen.kept(results.records, values["only"]) if values["only"] else results.records
    if values["steps"]:
        say(steps.text(records))
    else:
        report(replace(results, records=records), values, curves=True)


def _show_watched(file: str, values: Mapping[str, Any]) -> None:
    """What `watch` found, in its own words; raises InvalidRequest where a table is asked for."""
    given = [name for name, value in values.items() if value]
    if given:
        option = f"--{given[0].removesuffix('_path').replace('_', '-')}"
        raise InvalidRequest(f"{file}: by `primbench watch`, which makes no table: it is shown without {option}")
    say(to_text(read(Path(file))), nl=False)


SHOWN = [
    grouped("Table", "--only", multiple=True, metavar="PRIMITIVE|FIELD=VALUE",
            help="Records of a primitive, or whose case has such a field, as dtype=float16 or arm=host; repeatable."),
    grouped("Table", "--sort", metavar="COLUMN",
            help="By a column, such as device; a minus before it has the longest first."),
    grouped("Table", "--columns", type=parsed("list", lambda text: [each.strip() for each in text.split(",")]),
            metavar="LIST", help="These columns alone, as m,n,device,check."),
]  # fmt: skip
STEPS = click.Option(
    ["--steps"], is_flag=True, help="Print the steps of whole models as tf_cnn_benchmarks prints its own: images/sec."
)
command = GroupedCommand(
    "show",
    callback=_show,
    params=[click.Argument(["file"], type=FILE, metavar="FILE.jsonl|FOLDER|NAME"), STEPS, *SHOWN, *output_options()],
    help="Print the table of a results file (- is stdin) again, with what was sampled over time, or export it; of all "
    "runs in a folder or of a baseline NAME in .primbench/baselines, in one; of a file of `watch`, what that found.",
)
