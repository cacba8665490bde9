"""`primbench env`: what would be recorded of this place, and what tells two places apart."""

from __future__ import annotations

import click

from primbench.cli import CommandGroup
from primbench.cli.option_types import FILE
from primbench.cli.options import overwrites


@overwrites
@click.group(cls=CommandGroup, invoke_without_command=True, subcommand_metavar="[diff A B]")
@click.option("--json", "json_path", type=FILE, metavar="FILE", help="Write one JSON document; - is stdout.")
@click.pass_context
def command(context: click.Context, *, json_path: str | None, overwrite: bool) -> None:
    """Show what would be recorded of this place, where it was read, and why what is missing is.

    Libraries are those that this command loads, which are few: what a worker loads is in a results file.
    `primbench help environment` says what each value is.
    """
    if context.invoked_subcommand is not None:
        if json_path is not None or overwrite:
            raise click.UsageError(f"{'--overwrite' if json_path is None else '--json'} belongs behind diff", context)
        return
    import msgspec

    from primbench.cli.outputs import check_files, put_out
    from primbench.environment import fingerprint
    from primbench.report.environment import listing
    from primbench.report.plain import json_of

    check_files([json_path], overwrite=overwrite)
    found, sources = fingerprint.collect(gpus=True), fingerprint.sources()
    document = msgspec.to_builtins(found) | {"sources": sources}
    put_out({json_path: lambda: json_of(document)}, lambda: listing(found, sources))


@overwrites
@command.command(short_help="Say what is the same in two places, and what differs.")
@click.argument("a", type=FILE)
@click.argument("b", type=FILE)
@click.option("--json", "json_path", type=FILE, metavar="FILE", help="Write one JSON document; - is stdout.")
def diff(*, a: str, b: str, json_path: str | None, overwrite: bool) -> None:
    """Say whether two places have the same software stack, limits, confinement and machine, and what differs.

    A and B are files by `env --json` or `doctor --json`, or results files, of which the first worker's place is taken.
    A library that one side alone had loaded is a difference between workers of the same backend and device only.

    Exit status: 0 whether they differ or not, 2 where a file cannot be read.
    """
    from primbench.cli.outputs import check_files, put_out
    from primbench.doctor.place import read
    from primbench.environment.difference import difference
    from primbench.report.environment import comparison
    from primbench.report.plain import json_of

    one, other = read(a), read(b)
    check_files([json_path], [a, b], overwrite=overwrite)
    same_work = one.opened is not None and one.opened == other.opened
    found = difference(one.environment, other.environment, same_work=same_work)
    put_out({json_path: lambda: json_of(found)}, lambda: comparison(found, a, b))
