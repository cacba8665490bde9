"""`primbench doctor`: what in this place can slow a GPU down."""

from __future__ import annotations

import sys

import click

from primbench.cli.option_types import FILE, WholeNumber
from primbench.cli.options import overwrites

HELP = """Find what in this place (limits, confinement, GPUs, libraries, variables) can distort results, and what to do.

--pid looks at another process from here, such as a job that runs, and --container at the first process of one: what
it is allowed, where its memory is, what it has loaded and open. What takes rights that are lacking is unknown.

No case is run and nothing is changed. Libraries are those that this command loads, which are few: a results
file tells what a worker loaded, and --against looks at these; --pid, what a process loaded by now.

`primbench help checks` lists the checks, `primbench help causes` what --against knows of.

Exit status: 0 with nothing worse than a warning, 1 with a problem, 2 where the request is wrong.
"""


@overwrites
@click.command("doctor", help=HELP)
@click.option("--fix", is_flag=True, help="Print commands that change what was found; none is run.")
@click.option(
    "--against",
    type=FILE,
    metavar="FILE",
    help="Compare with another place: a file by `doctor --json` or `env --json`, or a results file.",
)
@click.option("--pid", type=WholeNumber(1), metavar="PID", help="Look at this process in place of this command.")
@click.option("--container", metavar="NAME", help="Look at the first process of a container of Docker or Podman.")
@click.option("--json", "json_path", type=FILE, metavar="FILE", help="Write one JSON document; - is stdout.")
def command(
    *, fix: bool, against: str | None, pid: int | None, container: str | None, json_path: str | None, overwrite: bool
) -> None:
    from primbench.cli.outputs import check_files, put_out
    from primbench.cli.places import labels
    from primbench.cli.processes import process_of
    from primbench.doctor import against as other
    from primbench.doctor import table
    from primbench.doctor.place import look, read
    from primbench.report.doctor import to_json, to_text

    there = read(against) if against is not None else None
    process = process_of(pid, container)
    check_files([json_path], [against], overwrite=overwrite)
    here = look(pid=process)
    findings = table.examine(here)
    if against is not None and there is not None:
        (name,) = labels([against])
        told = other.compare(here, there, name)
        differs = any(finding.cause.startswith(other.AGAINST) for finding in told)
        findings += told if differs else [*told, other.nothing_differs(name)]
    put_out({json_path: lambda: to_json(here, findings)}, lambda: to_text(here, findings, fix=fix), click.echo)
    if any(finding.severity == "problem" for finding in findings):
        sys.exit(1)
