"""What a cause of slowness is: one row, from which doctor, a comparison, watching a job and a fleet tell of it.

A row says what a cause slows, how far, which facts show it, and what is not told beside it; and it has up to three
functions: what shows it in one place, between two places, and in a job that runs. Rows stand in ``primbench/causes/``,
a file a topic, and are found there (``primbench/doctor/table.py``): who adds a row edits that file alone.

Causes are known by their ids. No code decides by the words that a row or a function of it has for people.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

from primbench.system.meaning import FactId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from primbench.doctor.finding import Finding, Severity
    from primbench.doctor.place import Place
    from primbench.problem import Work
    from primbench.spec.setting import Activity


@dataclass(frozen=True)
class Cause:
    """One that is known. All but its id may be left out."""

    id: str
    """By which rows, findings, the ``rule`` of a Fact and results name it: "cpu-quota"."""
    _: KW_ONLY
    title: str | None = None
    """What a comparison calls a difference in its facts, in few words; None where that is none of what is measured."""

    counts: str | None = None
    """What its facts are numbers of, as in "more CPUs", where a comparison says that; None: of nothing."""

    slows: tuple[Activity, ...] = ()
    """What of a case it makes longer; () is nothing."""
    slows_by_key: Mapping[str, tuple[Activity, ...]] = field(default_factory=dict)
    """The same by the last part of a fact's id, where that is known more exactly for it."""
    works: Mapping[str, tuple[Work, ...]] | None = None
    """Backend, "" for all others -> on a CPU, what a case has to do to be slowed; None: whatever it does."""
    calls: tuple[str, ...] = ()
    """System calls of which a case has to make one to be slowed, where it is known which it makes."""

    times: float = math.inf
    """So many times as long in one place as in the other, at most."""
    a_call_s: float | None = None
    """So much is added to each call of a library, at most; None is not by these."""
    a_system_call_s: float | None = None
    """The same, to each system call."""
    a_sample_s: float | None = None
    """The same, to each sample, which begins and ends with a look at the clock."""
    a_file_s: float | None = None
    """The same, for each file that is opened."""
    by_each: bool = False
    """Whether these bounds are for each that there is more of what its facts count."""
    power: float | None = None
    """Where its facts count: n times as many take at most 1 / n to this power of the time; None: what they save is not
    known."""
    source: str = ""
    """Where the bounds are from."""

    upstream: float = 12
    """Causes with smaller numbers are told first: who has another CPU has other kernels of the same libraries."""
    stops: bool = False
    """Whether it stops threads now and then, which shows in means and tails, and only after long in medians."""
    under: str | None = None
    """The id of a cause that has its bounds, order and ``stops``: it is one of several ways to that."""
    explains_away: tuple[str, ...] = ()
    """Ids of causes that are not told beside it, since it tells the same and better.

    Of what differs between two places this is what is found in one of them alone, and the other way round. Where both
    would tell of one cause, what is found in one place alone is told; the difference, where the cause names itself.
    """
    is_by_fact: bool = False
    """Whether what is found in one place alone is not told where the facts that it is about differ, and are told."""
    refuses: str | None = None
    """A pattern of what other programs say where it lets a case fail: the C library's words for errno, Python's, a
    signal's."""

    severity: Severity = "note"
    """Of a difference in its facts, as `doctor --against` tells it."""
    effect: str = ""
    """What such a difference does, in a clause."""

    reads: tuple[FactId, ...] = ()
    """Facts that ``here`` goes by; of those that could not be read an "unknown" is told."""
    where: Callable[[Place], bool] | None = None
    """Whether there is anything to look at in a place; None: in each."""
    here: Callable[[Place], Iterator[Finding]] | None = None
    """What shows it in one place, each ``Finding`` without its cause. The docstring says what is well without any."""
    is_of_loaded: bool = False
    """Whether ``here`` tells of libraries that a process has loaded: `doctor --against` tells it of both places."""

    between: Callable[[Any], Iterator[Any]] | None = None
    """What shows it between two places beside a difference in its facts: ``Beside`` -> each ``Suspect``, of which it
    leaves out the cause, and ``upstream`` where that is the row's.
    """

    in_job: Callable[[Any, Any], Iterator[Any]] | None = None
    """What shows it in a job that is watched: the ``Stretch`` of all and the ``Job`` -> each ``Hindrance``,
    of which it leaves out the cause, and what it distorts where that is what it slows.
    """
    order_in_job: int = 0
    """-1 is told before what costs a job more, as it distorts all other numbers; 1 after what costs less."""


def of(part: str, *fields: str) -> tuple[FactId, ...]:
    """Ids of fields of one part of a place, for ``reads``."""
    return tuple(FactId(part, field) for field in fields)
