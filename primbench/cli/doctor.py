"""`primbench doctor`: Look for what slows this place down, and say what to do."""

from __future__ import annotations

import sys

from primbench.cli.option_types import FILE
from primbench.cli.options import json_option, overwrite_option
from primbench.cli.request import RequestCommand, argument, dataclass, option

RANK = 150
HELP = """Find what in this place (limits, confinement, GPUs, libraries, variables) can distort results, and what to do.

PID is the number of another process to look at from here, such as a job that runs, CONTAINER the name of one of Docker
or Podman, whose first process is meant, slurm:JOB a job of Slurm, the first of its processes here: what it is
allowed, where its memory is, what it has loaded and open. What takes rights that are lacking is unknown.

No case is run and nothing is changed. Libraries are those that this command loads, which are few: a results
file tells what a worker loaded, and --against looks at these; of another process it is what that loaded by now.

`primbench help checks` lists the checks, `primbench help causes` what --against knows of.

Exit status: 0 with nothing worse than a warning, 1 with a problem, 2 where the request is wrong.

\b
primbench doctor
primbench doctor 4242
primbench doctor --against container.json
"""


@dataclass(frozen=True, kw_only=True)
class ExaminePlace:
    """To look for what slows a place down."""

    job: str | None = argument(required=False, metavar="[PID|CONTAINER|slurm:JOB]")
    fix: bool = option("--fix", is_flag=True, help="Print commands that change what was found; none is run.")
    against: str | None = option(
        "--against", type=FILE, metavar="FILE",
        help="Compare with another place: a file by `doctor --json` or `env --json`, or a results file.",
    )  # fmt: skip
    json: str | None = json_option("one JSON document")
    overwrite: bool = overwrite_option()


def _examine(asked: ExaminePlace) -> None:
    from primbench.cli.outputs import check_files, publish
    from primbench.cli.places import labels
    from primbench.cli.processes import processes_of
    from primbench.doctor import against as other
    from primbench.doctor import table
    from primbench.doctor.place import look, read
    from primbench.report.doctor import document

    there = read(asked.against) if asked.against is not None else None
    process = processes_of(asked.job)[0] if asked.job is not None else 0
    check_files([asked.json], [asked.against], overwrite=asked.overwrite)
    here = look(pid=process)
    findings = table.examine(here)
    if asked.against is not None and there is not None:
        (name,) = labels([asked.against])
        told = other.compare(here, there, name)
        differs = any(finding.cause.startswith(other.AGAINST) for finding in told)
        findings += told if differs else [*told, other.nothing_differs(name)]
    publish(document(here, findings, fix=asked.fix), {"json": asked.json})
    if any(finding.severity == "problem" for finding in findings):
        sys.exit(1)


command = RequestCommand(
    "doctor",
    ExaminePlace,
    _examine,
    help=HELP,
    moved={"--pid": "primbench doctor PID", "--container": "primbench doctor CONTAINER"},
)
