"""What is said on stderr while cases are run: one line on a terminal that says how far they are, and sentences."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from primbench.report.plain import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from primbench.spec.case import Case


@dataclass(frozen=True)
class Progress:
    """announce: a case that begins. tell: a sentence, on a line of its own."""

    announce: Callable[[Case], None]
    tell: Callable[[str], None]


@contextmanager
def progress(total: int, *, quiet: bool, verbose: bool, node: str = "") -> Iterator[Progress]:
    """A line a case where workers write to the same stderr; else a bar where that is a terminal, and nothing in files.

    total: of the cases, where more may follow as far as that is known. quiet: sentences alone.
    node: of a fleet, which every line then begins with.
    """
    before = f"{node}: " if node else ""

    def tell(sentence: str) -> None:
        click.echo(_one_line(before + sentence), err=True)

    if verbose and not quiet:
        yield Progress(lambda case: tell(_name(case)), tell)
    elif quiet or not sys.stderr.isatty() or not total:
        yield Progress(lambda case: None, tell)
    else:
        with _bar(total, before) as shown:
            yield shown


@contextmanager
def _bar(total: int, before: str) -> Iterator[Progress]:
    """Drawn between cases only: a refreshing thread would disturb what is timed."""
    from rich import progress as columns
    from rich.console import Console
    from rich.table import Column
    from rich.text import Text

    with columns.Progress(
        columns.BarColumn(),
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
            bar.update(task, completed=started, description=before + _name(case))
            started += 1
            bar.update(task, total=max(total, started), refresh=True)

        yield Progress(announce, lambda sentence: bar.console.print(Text(_one_line(before + sentence)), soft_wrap=True))


def _one_line(sentence: str) -> str:
    return printable(" ".join(sentence.splitlines()))


def _name(case: Case) -> str:
    shown = (str(value) for value in case.parameters.values() if not isinstance(value, bool | float) and value != "")
    where = f"pair {case.process + 1}, {case.arm}: " if case.arm else ""
    return printable(f"{where}{case.primitive} {' '.join(shown)} on {case.backend} {case.device}")
