"""What is said on stderr while cases are run: one line on a terminal that says how far they are, and sentences."""

from __future__ import annotations

import sys
import textwrap
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from primbench.cli.echo import say
from primbench.report import layout
from primbench.report.plain import printable
from primbench.results.metrics import COLUMNS
from primbench.spec.naming import name_of
from primbench.units import format_time, minutes, rate_column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from primbench.results.record import Record
    from primbench.spec.case import Case

PERIOD_S = 120.0
BAR = 16  # characters


@dataclass(frozen=True)
class Progress:
    """How a command says how far it is."""

    announce: Callable[[Case], None]
    """Says which case begins."""
    finish: Callable[[Record], None]
    """Says what became of one that is done."""
    tell: Callable[[str], None]
    """Says a sentence, on a line of its own."""


@contextmanager
def progress(total: int, *, quiet: bool, verbose: bool, node: str = "") -> Iterator[Progress]:
    """A line a case where workers write to the same stderr; else a bar where that is a terminal, what is done above it,
    and in files a line now and then that says how far they are.

    total: of the cases, where more may follow as far as that is known. quiet: sentences alone.
    node: of a fleet, which every line then begins with.
    """
    before = f"{node}: " if node else ""

    def tell(sentence: str) -> None:
        say(_one_line(before + sentence), err=True)

    if verbose and not quiet:
        yield Progress(lambda case: tell(_name(case)), lambda record: None, tell)
    elif quiet or not total:
        yield Progress(lambda case: None, lambda record: None, tell)
    elif not sys.stderr.isatty():
        yield Progress(lambda case: None, _now_and_then(total, tell), tell)
    else:
        with _bar(total, before) as shown:
            yield shown


def _now_and_then(total: int, tell: Callable[[str], None]) -> Callable[[Record], None]:
    """Told of each case that is done, says at most every PERIOD_S how far they are."""
    began_s = told_s = time.monotonic()
    done = 0

    def finish(record: Record) -> None:
        nonlocal told_s, done
        done, now_s = done + 1, time.monotonic()
        if now_s - told_s >= PERIOD_S:
            told_s = now_s
            took, left = now_s - began_s, (now_s - began_s) / done * max(0, total - done)
            tell(f"{done} of {max(total, done)} cases after {minutes(took)}, about {minutes(left)} left")

    return finish


def _outcome(record: Record) -> str:
    """The main metric of a case, and its rate."""
    measured = record.measurement
    if record.status != "ok" or measured is None or measured.main is None:
        return f"{record.status}: {record.reason}" if record.reason else record.status
    metric = next(each for each in COLUMNS if each.samples(measured) is measured.main)
    time = f"{metric.heading} {format_time(measured.main.median_s, None, measured.main.noise)}"
    rate = measured.flop_per_s or measured.bytes_per_s
    unit, (cell,) = rate_column([rate], "FLOP/s" if measured.flop_per_s else "B/s")
    return f"{time}, {cell} {unit}" if rate else time


@contextmanager
def _bar(total: int, before: str) -> Iterator[Progress]:
    """Drawn between cases only: a refreshing thread would disturb what is timed."""
    from rich import progress as columns
    from rich.console import Console
    from rich.table import Column
    from rich.text import Text

    with columns.Progress(
        columns.BarColumn(bar_width=BAR),
        columns.MofNCompleteColumn(table_column=Column(no_wrap=True, min_width=len(f"{total}/{total}"))),
        columns.TimeRemainingColumn(table_column=Column(no_wrap=True, min_width=len("0:00:00"))),
        columns.TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis"), markup=False),
        console=Console(stderr=True),
        auto_refresh=False,
        transient=True,
    ) as bar:
        task = bar.add_task("", total=total)
        started = 0

        def announce(case: Case) -> None:
            nonlocal started
            fits = bar.console.width - BAR - len(f"{total}/{total}") - len("0:00:00") - 3
            shown = textwrap.shorten(before + _name(case), max(BAR, fits), placeholder=" ...")
            bar.update(task, completed=started, description=shown)
            started += 1
            bar.update(task, total=max(total, started), refresh=True)

        def tell(sentence: str) -> None:
            bar.console.print(Text(layout.wrapped(_one_line(before + sentence), bar.console.width)), soft_wrap=True)

        yield Progress(announce, lambda record: tell(f"{_name(record.case)}: {_outcome(record)}"), tell)


def _one_line(sentence: str) -> str:
    return printable(" ".join(sentence.splitlines()))


def _name(case: Case) -> str:
    return printable((f"pair {case.process + 1}, {case.arm}: " if case.arm else "") + name_of(case))
