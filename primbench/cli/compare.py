"""`primbench compare`: Compare the arms of a study, or two results files."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, get_args

import click
from msgspec.structs import replace

from primbench.cli.completing import complete_saved
from primbench.cli.echo import say
from primbench.cli.option_types import FILE
from primbench.cli.options import Exports, fail_above
from primbench.cli.outputs import check_outputs, publish, say_unknown
from primbench.cli.places import read_places
from primbench.cli.request import RequestCommand, argument, dataclass, option, part
from primbench.compare.gate import SLOWER, FailOn, Gate
from primbench.compare.pairs import compare, compare_runs
from primbench.compare.runs import side_of
from primbench.compare.sides import sides_of
from primbench.errors import InvalidRequest
from primbench.report.arm_tables import MOST_CASES
from primbench.results.file import read_by
from primbench.results.lines import left_in_file
from primbench.units import format_percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.compare.comparison import Comparison
    from primbench.compare.sides import Side
    from primbench.results.file import Results


RANK = 70


@dataclass(frozen=True, kw_only=True)
class Failing:
    """What a comparison fails by."""

    fail_on: FailOn = option(
        "--fail-on", group="Output", type=click.Choice(get_args(FailOn)), default="slower", show_default=True,
        help="Exit with 1 where a case is slower, different in any way, or not told, and, but for never, where it "
             "fails on one side more often, or nothing could be told.")  # fmt: skip
    fail_above: float | None = fail_above("Output")


@dataclass(frozen=True, kw_only=True)
class CompareFiles:
    """To compare the arms of a study's file, or two places by their runs."""

    file: str = argument(type=FILE, metavar="FILE.jsonl|FOLDER|NAME")
    other_files: tuple[str, ...] = argument(type=FILE, metavar="[OTHER]", nargs=-1)
    baseline: str | None = option(
        "--baseline", group="Compare", metavar="NAME",
        help="The arm that others are set against. Default: the study's first.")  # fmt: skip
    against: str | None = option(
        "--against", group="Compare", type=FILE, metavar="NAME|FILE|FOLDER", shell_complete=complete_saved,
        help="Set FILE against this, as if it were named first.")  # fmt: skip
    every_row: bool = option(
        "--all", group="Output", is_flag=True,
        help=f"Show a row for every case; of more than {MOST_CASES} there are else sums by primitive, and those that "
             "differ most.")  # fmt: skip
    failing: Failing = part(Failing)
    exports: Exports = part(Exports)


def show(
    comparison: Comparison,
    sides: Sequence[Side],
    files: Sequence[Results],
    exports: Exports,
    gate: Gate,
    *,
    every_row: bool = False,
) -> None:
    """Print the comparison and write the exports, as outputs.put_out() does; exit as pass_or_exit() does.

    sides: what was compared, which is in the files.
    """
    from primbench.experiments import selftest
    from primbench.report import compared
    from primbench.report import comparison as words

    known = selftest.notes(comparison, files[-1].header.environment)
    comparison = replace(comparison, notes=[*comparison.notes, *known])
    made = partial(compared.page, comparison, sides, files)
    publish(words.document(comparison, gate, made, every_row=every_row), exports.files)
    pass_or_exit(comparison, gate)


def pass_or_exit(comparison: Comparison, gate: Gate) -> None:
    """Exit 1 where the gate does not let the comparison pass, and say on stderr by which case."""
    if gate.passes(comparison):
        return
    from primbench.report.comparison import checks
    from primbench.report.plain import printable

    failed = [check for check in checks(comparison, gate) if check.state == "failed"]
    words = [f"{each.name}, {each.group}: {each.words}" for each in failed[:1]] or ["nothing was compared"]
    more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
    say(printable(f"Failed{_by(gate)}: {words[0]}{more}"), err=True)
    sys.exit(1)


def _by(gate: Gate) -> str:
    """The option that asks for more or less than all commands that compare do."""
    if gate.above is not None:
        return f" by --fail-above {format_percent(gate.above)}"
    return "" if gate == SLOWER else f" by --fail-on {gate.fail_on}"


def gate_of(failing: Failing) -> Gate:
    """What a command's options ask for. Raises InvalidRequest where they contradict each other."""
    if failing.fail_above is not None and failing.fail_on != "slower":
        raise InvalidRequest(f"--fail-above and --fail-on {failing.fail_on}: one of them")
    return Gate(failing.fail_on, failing.fail_above)


def _compare(asked: CompareFiles) -> None:
    gate = gate_of(asked.failing)
    places = read_places(_named(asked), read=_read)
    check_outputs(asked.exports, [each for place in places for each in place.files])
    say_unknown(*(run for place in places for run in place.runs))
    if len(places) == 1:
        _show_study(places[0].runs, asked, gate)
        return
    one, other = places
    comparison = compare_runs(one.runs, other.runs, (one.label, other.label), (one.files[-1], other.files[-1]))
    gate.check(comparison)
    sides = [side_of(each.runs, each.label) for each in places]
    show(comparison, sides, [*one.runs, *other.runs], asked.exports, gate, every_row=asked.every_row)


def _read(path: str) -> Results:
    """One case is looked at after the other."""
    return read_by(path, left_in_file(path))


def _named(asked: CompareFiles) -> list[str]:
    """One or two places, the baseline first. Raises InvalidRequest."""
    other_files, against = asked.other_files, asked.against
    if len(other_files) > 1:
        raise InvalidRequest("two are compared: several places by `primbench study`, several runs of one by a folder")
    if against is not None and other_files:
        raise InvalidRequest(f"--against {against} and two files: name the baseline once")
    found = [*([] if against is None else [against]), asked.file, *other_files]
    if asked.baseline is not None and len(found) > 1:
        raise InvalidRequest("--baseline and two files: the first file is the baseline")
    return found


def _show_study(runs: Sequence[Results], asked: CompareFiles, gate: Gate) -> None:
    if len(runs) > 1:
        raise InvalidRequest(f"{asked.file}: runs of one place alone, nothing to compare: name another")
    comparison, sides = compare(runs[0], asked.baseline), [*sides_of(runs[0]).values()]
    show(comparison, sides, runs, asked.exports, gate, every_row=asked.every_row)


command = RequestCommand(
    "compare",
    CompareFiles,
    _compare,
    help="Compare the arms of a study's file, or two places by a results file or a folder of several runs each, the "
         "first of them the baseline; NAME is of a baseline in .primbench/baselines. One run each tells that they "
         "are alike, and never that they differ.\n\n"
         "Ratios are of times: above 1 is slower. Exit status: 0, 1 where --fail-on or --fail-above is met, 2 where "
         "the request is wrong or the files hold unequal cases.\n\n"
         "\b\n"
         "primbench compare study.jsonl\n"
         "primbench compare host.jsonl container.jsonl\n"
         "primbench compare main/ branch/ --fail-above 5%",
)  # fmt: skip
