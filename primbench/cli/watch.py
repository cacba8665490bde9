"""`primbench watch`: Follow a job that runs, and say what holds it back."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from primbench.cli.option_types import FILE, TIMEOUT
from primbench.cli.options import overwrite_option
from primbench.cli.processes import OF_SLURM, processes_of
from primbench.cli.request import RequestCommand, argument, dataclass, option
from primbench.errors import INTERRUPTED, InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from primbench.doctor.job import Stretch
    from primbench.report.document import Document
    from primbench.watching.members import Others
    from primbench.watching.ranks import RankWatches
    from primbench.watching.watch import Watch

RANK = 160
KEEPS = "job"
USUAL_S = 60.0
HELP = """Follow a job that runs, without touching it, and say what holds it back, the likeliest cause first.

PID is the number of a process, CONTAINER the name of one of Docker or Podman, whose first process is meant, slurm:JOB a
job of Slurm, or a step of one, on this node. What it started is followed, too, what others start in the container, and
the job's steps one after the other. Each cause comes with its evidence, what it makes longer, and a study that would
prove it.

What the job's files in /proc, its control groups and NVML say is read once a second. As root, launches of a job with
CUDA are counted too, by uprobes that are there for 1 % of the time. Of ranks that wait for each other, as those of
torchrun, the one is told that is late, since when, and what holds it back. Ctrl-C ends it early. What a job is held to
and was given, `primbench doctor` tells of its number.

\b
primbench watch 4242
primbench watch training --for 10min -o watched.jsonl
primbench watch slurm:4711.0

Exit status: 0 whatever is found, 2 where there is no such job, 130 when interrupted.
"""


@dataclass(frozen=True, kw_only=True)
class FollowJob:
    """To follow a job that runs."""

    job: str = argument(metavar="PID|CONTAINER|slurm:JOB")
    lasting_s: float = option(
        "--for", type=TIMEOUT, default=USUAL_S, metavar="DURATION",
        help=f"How long, unless the job ends before. Default: {USUAL_S:g}s.")  # fmt: skip
    lines: str | None = option(
        "-o", "--output", type=FILE, metavar="FILE",
        help="Write JSON lines: one a second as they come, then what was found, which `show` prints; - is stdout.",
    )  # fmt: skip
    prometheus: str | None = option(
        "--prometheus", type=FILE, metavar="FILE",
        help="Write the counters in Prometheus' text format, anew each second, so that a reader sees whole files only.",
    )  # fmt: skip
    openmetrics: str | None = option(
        "--openmetrics", type=FILE, metavar="FILE", help="The same in OpenMetrics' text format.")  # fmt: skip
    overwrite: bool = overwrite_option()


def _watch(asked: FollowJob) -> None:
    from primbench.cli.outputs import check_files
    from primbench.watching.ranks import RankWatches
    from primbench.watching.watch import Watch

    counters = {"prometheus": asked.prometheus, "openmetrics": asked.openmetrics}
    for name, path in counters.items():
        if path == "-":
            raise InvalidRequest(f"--{name} -: a file that is written anew each second cannot be stdout")
    pids = processes_of(asked.job)
    check_files([asked.lines, *counters.values()], overwrite=asked.overwrite)
    watch = Watch(pids, asked.lasting_s, others=others_of(asked.job, pids[0]))
    with _opened(asked.lines) as write:
        ranks = RankWatches(Path("/"), pids, asked.lasting_s)
        interrupted = _follow(watch, ranks, write, counters, on_stdout=asked.lines == "-")
    if interrupted:
        sys.exit(INTERRUPTED)


def others_of(job: str, first: int) -> Others | None:
    """Who joins the job later on; None where its first process tells when it ends."""
    from primbench.runtimes.slurm import goes_on, is_of
    from primbench.watching.members import Others, in_groups_of

    if job.startswith(OF_SLURM):
        name = job.removeprefix(OF_SLURM)
        return Others(lambda pid: is_of(name, pid), lambda: goes_on(name))
    return None if job.isdecimal() else in_groups_of(Path("/"), first)


@contextlib.contextmanager
def _opened(path: str | None) -> Iterator[Callable[[str, object], None]]:
    """What writes a line of a kind, at once."""
    from primbench.system.outputs import growing
    from primbench.watching.report import line_of

    if path is None:
        yield lambda kind, value: None
    elif path == "-":
        yield lambda kind, value: click.echo(line_of(kind, value), nl=False)
    else:
        with growing(path) as file:

            def write(kind: str, value: object) -> None:
                file.write(line_of(kind, value).encode())
                file.flush()

            yield write


def _follow(
    watch: Watch,
    ranks: RankWatches,
    write: Callable[[str, object], None],
    counters: Mapping[str, str | None],
    *,
    on_stdout: bool,
) -> bool:
    """Watch, write what comes, and show what was found unless that went to stdout. Whether it was interrupted."""
    from primbench.report import text
    from primbench.watching.causes import hindrances
    from primbench.watching.kept import Kept
    from primbench.watching.report import document
    from primbench.watching.watch import Watched

    write("job", watch.job)
    whole, interrupted = _sampled(watch, ranks, write, counters)
    if whole is not None:
        whole = replace(whole, neighbours=watch.neighbours())
    cost = watch.cost  # the table of causes, loaded now, is none of what watching took
    found = hindrances(whole, watch.job) if whole is not None else []
    for hindrance in found:
        write("hindrance", hindrance)
    late = None if interrupted else ranks.late()
    if late is not None:
        write("late", late)
    watched = Watched(ended=watch.ended, whole=whole, cost=cost)
    write("watched", watched)
    if not on_stdout:
        click.echo(text.write(document(Kept(watch.job, whole, found, late, watched))), nl=False)
    return interrupted


def _sampled(
    watch: Watch, ranks: RankWatches, write: Callable[[str, object], None], counters: Mapping[str, str | None]
) -> tuple[Stretch | None, bool]:
    """All that was watched, and whether that was interrupted."""
    from primbench.system import outputs
    from primbench.watching.prometheus import to_openmetrics, to_prometheus
    from primbench.watching.stretch import joined

    formats = {"prometheus": to_prometheus, "openmetrics": to_openmetrics}
    whole: Stretch | None = None
    try:
        ranks.look()
        for stretch in watch:
            ranks.look()
            whole = stretch if whole is None else joined([whole, stretch])
            write("sample", stretch)
            for name, path in counters.items():
                if path is not None:
                    outputs.write(path, formats[name](watch.job.pid, whole, stretch.gpus or []).encode())
    except KeyboardInterrupt:
        return whole, True
    return whole, False


def shown(path: Path) -> Document:
    """What a file of KEEPS holds, for `primbench show`. Raises FileError."""
    from primbench.watching.kept import read
    from primbench.watching.report import document

    return document(read(path))


command = RequestCommand("watch", FollowJob, _watch, help=HELP, moved={"--json": "primbench watch JOB -o FILE"})
