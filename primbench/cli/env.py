"""`primbench env`: Show what is recorded of this place, or tells two apart."""

from __future__ import annotations

import click

from primbench.cli import CommandGroup
from primbench.cli.option_types import FILE
from primbench.cli.options import json_option, overwrite_option
from primbench.cli.request import RequestCommand, argument, carrying_out, dataclass, parameters

RANK = 140
HELP = """Show what would be recorded of this place, where it was read, and why what is missing is.

Libraries are those that this command loads, which are few: what a worker loads is in a results file.
`primbench help environment` says what each value is.

\b
primbench env --json host.json
primbench env diff host.json container.json
"""
DIFF_HELP = """Say whether two places have the same software stack, limits, confinement and machine, and what differs.

A and B are files by `env --json` or `doctor --json`, or results files, of which the first worker's place is taken.
A library that one side alone had loaded is a difference between workers of the same backend and device only.

Exit status: 0 whether they differ or not, 2 where a file cannot be read.
"""


@dataclass(frozen=True, kw_only=True)
class ShowPlace:
    """To show what would be recorded of this place."""

    json: str | None = json_option("one JSON document")
    overwrite: bool = overwrite_option()


@dataclass(frozen=True, kw_only=True)
class ComparePlaces:
    """To say what differs between two places, by files of such."""

    a: str = argument(type=FILE)
    b: str = argument(type=FILE)
    json: str | None = json_option("one JSON document")
    overwrite: bool = overwrite_option()


def _show(asked: ShowPlace) -> None:
    context = click.get_current_context()
    if context.invoked_subcommand is not None:
        if asked.json is not None or asked.overwrite:
            raise click.UsageError(f"{'--overwrite' if asked.json is None else '--json'} belongs behind diff", context)
        return
    from primbench.cli.outputs import check_files, publish
    from primbench.environment import fingerprint
    from primbench.report.environment import document

    check_files([asked.json], overwrite=asked.overwrite)
    publish(document(fingerprint.collect(gpus=True), fingerprint.sources()), {"json": asked.json})


def _diff(asked: ComparePlaces) -> None:
    from primbench.cli.outputs import check_files, publish
    from primbench.doctor.place import read
    from primbench.environment.difference import difference
    from primbench.report.environment import difference_document

    a, b = asked.a, asked.b
    one, other = read(a), read(b)
    check_files([asked.json], [a, b], overwrite=asked.overwrite)
    same_work = one.opened is not None and one.opened == other.opened
    found = difference(one.environment, other.environment, same_work=same_work)
    publish(difference_document(found, a, b), {"json": asked.json})


command = CommandGroup(
    "env",
    callback=carrying_out(ShowPlace, _show),
    params=[*parameters(ShowPlace)],
    help=HELP,
    invoke_without_command=True,
    subcommand_metavar="[diff A B]",
)
command.add_command(
    RequestCommand(
        "diff", ComparePlaces, _diff, help=DIFF_HELP, short_help="Say what is the same in two places, and what differs."
    )
)
