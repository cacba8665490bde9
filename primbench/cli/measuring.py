"""What every measuring command does once its cases are known: run them, show progress, print and write."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from primbench.backends import not_installed
from primbench.baselines import roof
from primbench.cli.as_typed import as_options
from primbench.cli.captured import as_in_step
from primbench.cli.echo import say
from primbench.cli.estimate import say_how_long, say_how_long_it_would_take, say_what_was_left_out
from primbench.cli.given import method_here, placement_of
from primbench.cli.outputs import check_here, report, save
from primbench.cli.progress import Progress, progress
from primbench.cli.resuming import Begun, check_machine, check_resume, going_on, resuming, say_what_changed
from primbench.distributed import world
from primbench.distributed.followers import Leader, follow
from primbench.errors import INTERRUPTED, InvalidRequest, PrimbenchError
from primbench.experiments.budget import Budget
from primbench.problem import Problem
from primbench.registry import backends_of
from primbench.report.plain import printable
from primbench.results.file import Results
from primbench.results.record import Header, Record, Worker
from primbench.results.writer import Writer, check_kept, header, left_to_do
from primbench.spec.defaults import ALL
from primbench.workers.plan import plan
from primbench.workers.records import without_worker
from primbench.workers.run import keep_all, on_its_machine
from primbench.workers.session import Session

if TYPE_CHECKING:
    from primbench.cli.options import Exports, Here, Recorded
    from primbench.spec.case import Case

SIGNALLED = 128  # and the number of the signal, as a shell would say it

Run = Callable[[Progress], Iterable[Worker | Record]]
"""What becomes of cases; shows each that begins, and what is to be told."""
Entries = Sequence[tuple[Problem, Mapping[str, str]]]


def measure_and_report(entries: Entries, here: Here) -> None:
    """Run the entries; exit 1 on a failed case, 130 or 143 when interrupted. In one process, as leading() says."""
    path = here.record.resume
    with leading(entries, verbose=here.record.verbose) as leader:
        check_resume(here.record)
        with resuming(path) as begun:
            check_here(here)
            if begun is not None and begun.held.header.study is not None:
                raise InvalidRequest(f"--resume {path}: of a study: go on with `primbench study --resume {path}`")
            _measure_the_rest(entries, here, leader, begun)


def leading(entries: Entries, *, verbose: bool) -> AbstractContextManager[Leader | None]:
    """For what measures entries and reports: of several processes that a launcher started for a collective, rank 0 does
    so; the others lend it their ranks and exit as it does. None where there are no others.
    """
    started = world.world() if any("ranks" in problem.parameters() for problem, _ in entries) else None
    if started is None:
        return nullcontext()
    if started.rank:
        sys.exit(follow(started, verbose=verbose))
    return Leader(started)


def _measure_the_rest(entries: Entries, here: Here, leader: Leader | None, begun: Begun | None) -> None:
    results, ended = measured(entries, here, leader, begun)
    report(results, here.shown, here.exports)
    if ended is None and here.save_as is not None:
        save(here.save_as, results)
    exit_as(ended, results.records)


def measured(
    entries: Entries,
    here: Here,
    leader: Leader | None,
    begun: Begun | None,
    first: Header | None = None,
    *,
    of_all: bool = False,
) -> tuple[Results, PrimbenchError | SystemExit | None]:
    """What became of the entries, and what ended it early. first: the header of a new results file, if it says more.

    of_all: keeps the order of the entries, and has a record, though none is written, of each case that --time-budget
    left out.
    """
    where, how, record = here.where, here.how, here.record
    planned = plan(
        entries,
        backends=how.backends,
        device=where.device,
        method=method_here(how),
        placement=placement_of(where),
        processes=how.processes,
        kernels=how.kernels,
    )
    cases = as_in_step(planned, how)
    if how.roof:
        cases = [*_roof_cases(cases, here), *cases]
    fresh = Results(header=first or header(sys.argv, dict(record.labels)), workers=[], records=[])
    found = begun.held if begun else fresh
    session = Session(
        timeout_s=how.timeout_s,
        trace=how.trace,
        skip_unavailable=_may_be_missing(how.backends, entries),
        verbose=record.verbose,
        first_worker=next_worker(found),
        leader=leader,
    )
    left, begun_with = left_to_do(cases, found), list(found.workers)
    budget = Budget(how.time_budget_s, found.records)
    in_order = left if of_all else budget.in_order(left)
    say_of_trace(cases, asked=how.trace)
    say_of_threads(where.threads, where.cpus)
    path = record.resume or ""
    if begun is not None:
        say_what_changed(path, left, found)

    def lines(shown: Progress) -> Iterator[Worker | Record]:
        return on_its_machine(
            session.run(announced(budget.within(in_order), shown)), begun_with, partial(check_machine, path)
        )

    if not record.quiet:
        say_how_long(left, how.time_budget_s)
    with writing(record, begun, found.header, overwrite=here.exports.overwrite) as writer:
        ended = run_cases(lines, len(left), session, writer=writer, found=found, record=record, exports=here.exports)
    say_what_was_left_out(budget, found, going_on(found, record, here.exports))
    say_how_long_it_would_take(found.records)
    left_out = [without_worker(case, "skipped", "--time-budget") for case in budget.left_out if of_all]
    return replace(found, records=[*found.latest(), *left_out]), ended


def _may_be_missing(backends: Sequence[str], entries: Entries) -> bool:
    """Whether a backend that is not here is a row that says so: all were asked for, or a suite names them."""
    return ALL in backends or any("backend" in labels for _, labels in entries)


def say_of_trace(cases: Iterable[Case], *, asked: bool) -> None:
    """On stderr, where there is nothing that --trace could log."""
    if asked and not any(case.on.is_gpu for case in cases):
        say("--trace: the log is a GPU's, and nothing here runs on one: nothing is traced", err=True)


def say_of_threads(threads: int | None, cpus: Sequence[int] | None) -> None:
    """On stderr, where there are more of them than CPUs."""
    there = len(cpus or os.sched_getaffinity(0))
    if threads is not None and threads > there:
        say(f"--threads {threads}: of CPUs there are {there}, so that threads wait for each other", err=True)


def next_worker(found: Results) -> int:
    """The number of the first worker that is added to a results file."""
    return 1 + max((worker.worker for worker in found.workers), default=-1)


def exit_as(ended: PrimbenchError | SystemExit | None, records: Iterable[Record]) -> None:
    """Raise what ended a run early; exit 1 where a case failed, or none was measured."""
    if ended is not None:
        raise ended
    every = [*records]
    if _is_nothing(every) or any(record.status == "failed" for record in every):
        sys.exit(1)


def _is_nothing(records: Sequence[Record]) -> bool:
    """Whether none of the cases that were asked for was measured, though the roof above them may be."""
    asked = [record for record in records if record.case.labels.get("set") != roof.ROOF] or records
    return not any(record.status == "ok" for record in asked)


def _say_if_nothing(records: Sequence[Record], node: str) -> None:
    """On stderr, unless cases failed, which their reasons say: why, and which backends would have to be installed."""
    if not _is_nothing(records) or any(record.status == "failed" for record in records):
        return
    first, *others = _reasons(records) or ["no case was run"]
    more = f", and {len(others)} more reason{'s' * (len(others) > 1)}" if others else ""
    ways = "".join(f". {way}" for way in _ways_out(_able(records)))
    say(printable(f"{node and f'{node}: '}Nothing was measured: {first}{more}{ways}"), err=True)


def _able(records: Iterable[Record]) -> list[Case]:
    """Those that another backend might measure: an arm that has no worker, as was told, would have none with it."""
    return [record.case for record in records if record.case.arm is None or record.worker is not None]


def _reasons(records: Iterable[Record]) -> list[str]:
    """Each once, in the words of the command's options."""
    options = click.get_current_context().command.params
    return [*dict.fromkeys(as_options(record.reason, options) for record in records if record.reason)]


def _ways_out(cases: Iterable[Case]) -> Iterator[str]:
    """What is not installed here and has kernels for the cases."""
    having: dict[tuple[str, str], dict[str, None]] = {}
    for case in cases:
        arithmetic = [str(case.parameters[name]) for name in ("dtype", "math_mode") if name in case.parameters]
        for absent in not_installed(backends_of(case.primitive), case.on, arithmetic).items():
            having.setdefault(absent, {})[case.primitive] = None
    for (name, reason), primitives in having.items():
        yield f"{name} has kernels for {', '.join(primitives)}: {reason}"


def _roof_cases(cases: list[Case], here: Here) -> list[Case]:
    """What bounds the cases, once a device and on the backend that is best there, whichever they run on."""
    found: list[Case] = []
    for device in dict.fromkeys(case.device for case in cases):
        needed = roof.needed([case for case in cases if case.device == device])
        found += plan(
            [(entry.problem, entry.labels) for entry in needed],
            backends=[],
            device=device,
            method=method_here(here.how),
            placement=placement_of(here.where),
            processes=1,
        )
    return found


@contextmanager
def writing(record: Recorded, begun: Begun | None, first: Header, *, overwrite: bool) -> Iterator[Writer | None]:
    """The results file that was named, if one was, opened before anything is measured."""
    if begun is not None:
        yield begun.writer
    elif record.output is None:
        yield None
    else:
        with closing(Writer(record.output, first, overwrite=overwrite)) as writer:
            yield writer


@contextmanager
def signals_unwind() -> Iterator[None]:
    """SIGTERM and SIGHUP end a run as Ctrl-C does, table and all, but for what ``nohup`` has ignored.

    The first process of a container would not even notice SIGTERM. With SIGHUP the terminal is gone: what is said there
    is said to nobody, so that files are still written.
    """
    terminals = [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]

    def unwind(number: int, frame: object) -> None:
        if number == signal.SIGHUP:
            with open(os.devnull, "wb") as nobody:
                for descriptor in terminals:
                    os.dup2(nobody.fileno(), descriptor)
        sys.exit(SIGNALLED + number)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, unwind)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_cases(
    run: Run,
    total: int,
    session: Session,
    *,
    writer: Writer | None,
    found: Results,
    record: Recorded,
    exports: Exports,
) -> PrimbenchError | SystemExit | None:
    """Add what is measured to ``found``; returns what ended it early, to be raised after the table.

    run: makes the lines of the cases, by the session. total: how many there are, as far as that is known.
    """
    held_count = len(found.records)
    node = found.header.member.name if found.header.member else ""
    try:
        try:
            said = progress(total, quiet=record.quiet, verbose=record.verbose, node=node)
            with signals_unwind(), said as shown:
                keep_all(session, _each_shown(run(shown), shown), writer, found)
        except (KeyboardInterrupt, SystemExit) as stop:
            done = len(found.records) - held_count
            click.echo(
                f"{node and f'{node}: '}Stopped after {done}{f' of {total}' if done <= total else ''} cases.", err=True
            )
            check_kept(writer, found)
            if writer is not None and not node and (command := going_on(found, record, exports)):
                say("Go on with:", err=True, command=command)
            return stop if isinstance(stop, SystemExit) else SystemExit(INTERRUPTED)
    except PrimbenchError as error:
        return error
    _say_if_nothing(found.records, node)
    return None


def _each_shown(lines: Iterable[Worker | Record], shown: Progress) -> Iterator[Worker | Record]:
    for line in lines:
        yield line
        if isinstance(line, Record):
            shown.finish(line)


def announced(cases: Iterable[Case], shown: Progress) -> Iterator[Case]:
    for case in cases:
        shown.announce(case)
        yield case
