"""`primbench compare`: how the arms of a study, or two runs, differ, and whether that is certain."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, get_args

import click

from primbench.cli.option_types import FILE
from primbench.cli.options import GroupedCommand, GroupedOption, export_options
from primbench.cli.outputs import check_outputs, publish, say_unknown
from primbench.compare.gate import FailOn, Gate
from primbench.compare.pairs import compare, compare_files
from primbench.errors import FileError, InvalidRequest
from primbench.results import file as results_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from primbench.compare.comparison import Comparison
    from primbench.results.file import Results


def show(comparison: Comparison, values: Mapping[str, Any], fail_on: FailOn) -> None:
    """Print the comparison and write the exports, as outputs.put_out() does; exit 1 by --fail-on."""
    from primbench.report import comparison as words

    publish(words.document(comparison), lambda: words.text(comparison), values)
    if not Gate(fail_on).passes(comparison):
        sys.exit(1)


def _compare(file: str, other: str | None, baseline: str | None, **values: Any) -> None:
    check_outputs({**values, "file": file, "output": other})
    one = _read(file)
    if other is None:
        say_unknown(one)
        comparison = compare(one, baseline)
    elif baseline is not None:
        raise InvalidRequest("--baseline and two files: the first file is the baseline")
    else:
        two = _read(other)
        say_unknown(one, two)
        comparison = compare_files(one, two, (file, other))
    show(comparison, values, values["fail_on"])


def _read(file: str) -> Results:
    results = results_file.read(file)
    if not results.records:
        raise FileError(f"{file}: holds no records: the run ended before its first case did")
    return results


def fail_on_option() -> click.Option:
    return GroupedOption(
        ["--fail-on"],
        group="Output",
        type=click.Choice(get_args(FailOn)),
        default="slower",
        show_default=True,
        help="Exit with 1 where a case is slower, different in any way, or not told, and, but for never, where it "
        "fails on one side more often, or nothing could be told.",
    )


command = GroupedCommand(
    "compare",
    callback=_compare,
    params=[
        click.Argument(["file"], type=FILE, metavar="FILE.jsonl"),
        click.Argument(["other"], type=FILE, metavar="[FILE2.jsonl]", required=False),
        GroupedOption(["--baseline"], group="Compare", metavar="NAME",
                      help="The arm that others are set against. Default: the study's first."),
        fail_on_option(),
        *export_options(),
    ],
    help="Compare the arms of a study's file, or two results files, the first of them the baseline.\n\n"
         "Ratios are of times: above 1 is slower. Exit status: 0, 1 where --fail-on is met, 2 where the request is "
         "wrong or the files hold unequal cases.",
)  # fmt: skip
