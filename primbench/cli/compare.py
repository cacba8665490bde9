"""`primbench compare`: how the arms of a study, or two runs, differ, and whether that is certain."""

from __future__ import annotations

import sys
from typing import Any, Literal, get_args

import click

from primbench.cli.echo import say
from primbench.cli.options import FILE, GroupedCommand, GroupedOption
from primbench.cli.outputs import EXPORTS, check_outputs, write
from primbench.compare import Comparison, compare, compare_files
from primbench.errors import FileError, InvalidRequest
from primbench.results import file as results_file
from primbench.results.file import Results

FailOn = Literal["slower", "different", "inconclusive", "never"]
DIFFERENT = ("slower", "faster", "different-but-small")


def is_met(fail_on: FailOn, comparison: Comparison) -> bool:
    """Whether a comparison is what --fail-on names, by the verdicts of cases. Each of the levels includes those before.

    All are where no case could be told, since none was compared, or by but one process on a side, or while the machine
    was too busy, and where a case fails more often on one side.
    """
    if fail_on == "never":
        return False
    cases = comparison.cases
    verdicts = {case.verdict for case in cases}
    if "slower" in verdicts or any(case.fails_more for case in cases) or all(case.is_untellable for case in cases):
        return True
    if fail_on == "slower":
        return False
    return bool(verdicts.intersection(DIFFERENT)) or (fail_on == "inconclusive" and not comparison.is_decided)


def show(comparison: Comparison, values: dict[str, Any]) -> None:
    """Print the comparison, unless stdout was given to an export, and write the exports; exit 1 by --fail-on.

    Raises OutputError where an export cannot be written; the table is out by then.
    """
    from primbench.report import comparison as report

    publish(comparison, report, values)
    if is_met(values["fail_on"], comparison):
        sys.exit(1)


def publish(found: Any, report: Any, values: dict[str, Any]) -> None:
    """Print it, unless stdout was given to an export, and write the exports. report: the module that words them.

    Raises OutputError where one of them cannot be written; the others are out by then.
    """
    exports = {"csv_path": report.to_csv, "markdown_path": report.to_markdown, "json_path": report.to_json}
    try:
        for name, export in exports.items():
            if values[name] is not None:
                write(values[name], export(found))
    finally:
        if "-" not in [values[name] for name in EXPORTS]:
            say(report.text(found), nl=False)


def _compare(file: str, other: str | None, baseline: str | None, **values: Any) -> None:
    check_outputs({**values, "file": file, "output": other})
    one = _read(file)
    if other is None:
        comparison = compare(one, baseline)
    elif baseline is not None:
        raise InvalidRequest("--baseline and two files: the first file is the baseline")
    else:
        comparison = compare_files(one, _read(other), (file, other))
    show(comparison, values)


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


def _export(name: str, what: str) -> click.Option:
    help_ = f"Write {what}; - is stdout."
    return GroupedOption([f"--{name}", f"{name}_path"], group="Output", type=FILE, metavar="FILE", help=help_)


command = GroupedCommand(
    "compare",
    callback=_compare,
    params=[
        click.Argument(["file"], type=FILE, metavar="FILE.jsonl"),
        click.Argument(["other"], type=FILE, metavar="[FILE2.jsonl]", required=False),
        GroupedOption(["--baseline"], group="Compare", metavar="NAME",
                      help="The arm that others are set against. Default: the study's first."),
        fail_on_option(),
        _export("csv", "a row a case and metric, times in seconds"),
        _export("markdown", "the tables as Markdown"),
        _export("json", "one JSON document, with all that tells the places apart"),
    ],
    help="Compare the arms of a study's file, or two results files, the first of them the baseline.\n\n"
         "Ratios are of times: above 1 is slower. Exit status: 0, 1 where --fail-on is met, 2 where the request is "
         "wrong or the files hold unequal cases.",
)  # fmt: skip
