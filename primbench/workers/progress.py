"""How far a run is, for programs and notebooks that start one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from primbench.spec.naming import name_of

if TYPE_CHECKING:
    from primbench.spec.case import Case

OnProgress = Callable[[int, int, "Case | None"], None]
"""Is told how many cases are done, of how many, and which one begins; None once all are done."""
WIDTH = 78


def one_line(done: int, of: int, case: Case | None) -> None:
    """One line on stderr that is written over, in a terminal or a notebook; nothing where stderr is a file."""
    if sys.stderr.isatty() or "ipykernel" in sys.modules:
        said = f"[{done}/{of}] {name_of(case)}" if case else ""
        shown = "".join(each if each.isprintable() else "?" for each in said)
        sys.stderr.write(f"\r{shown[:WIDTH]:<{WIDTH}}" + ("" if case else "\r"))
        sys.stderr.flush()


def told(cases: Sequence[Case], progress: OnProgress | None) -> Iterator[Case]:
    """The cases, of each of which ``progress`` is told before it begins."""
    for done, case in enumerate(cases):
        if progress is not None:
            progress(done, len(cases), case)
        yield case
    if progress is not None and cases:
        progress(len(cases), len(cases), None)
