"""What a cause of slowness is, one row, and what it shows: in one place, between two, and in a job that runs.

A row says what a cause slows, how far, which facts show it, and what is not told beside it; and it has up to three
functions, from which doctor, a comparison, watching a job and a fleet tell of it. Rows stand in ``primbench/causes/``,
a file a topic, and are found there (``primbench/doctor/table.py``): who adds a row edits that file alone.

Causes are known by their ids. No code decides by the words that a row or a function of it has for people.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from primbench.quantities import Amount
from primbench.spec.setting import Activity
from primbench.system.meaning import FactId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from primbench.doctor.place import Place
    from primbench.problem import Work

Severity = Literal["ok", "note", "warning", "problem", "unknown"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one cause shows in one place.

    Two findings are the same by their cause, severity, facts, values and reading, and never by their words.
    """

    cause: str = msgspec.field(name="check", default="")
    """The id of its cause, which who walks the table fills in."""
    severity: Severity = "warning"
    """"problem" makes results wrong or far slower, "warning" can move them, "note" is worth knowing, "unknown" could
    not be seen, and the evidence says why.
    """
    summary: str
    about: list[FactId] = []
    """The facts that show it; as its cause's row has them where a function leaves them out."""
    values: Sequence[str | float] = ()
    """What the summary says beside constant words, by which it is the same as another one's or is not."""
    reading: float | None = None
    """The number in the summary that is another one at each look, in SI units; None where there is none."""
    evidence: list[str] = []
    """What was read, and where."""
    distorts: list[Activity] | None = None
    """What it would change; None, until the table is walked, is what its cause's row says."""
    at_least: float = 1.0
    """How many times as long that would take at least; below 1 is what can make it faster."""
    at_most: float | None = None
    """How many times as long at most; None has no bound."""
    advice: str | None = None
    """What to do, in words."""
    fix: list[str] = []
    """Commands that do it, never run here."""


LATE = 20
"""Of what is told after all of which it is known how far it goes."""
SYMPTOM = LATE + 1
"""Of what was read in one place: it is as slow as it is for some cause, which may be told before it."""
OF_UNKNOWN_EFFECT = LATE + 2
"""Of what arms set, and nobody knows who reads it."""


class Suspect(NamedTuple):
    """A cause that may be at work in a case of two places."""

    words: str
    at_least: float = 0.0
    """Between this and ``at_most`` the ratio of the arm to the baseline can come to lie by this cause alone."""
    at_most: float = math.inf
    title: str = ""
    """The same in few words, where there are more."""
    upstream: float | None = None
    """As the row of its cause has it, and from there where it is None."""
    stops: bool = False
    """As the row has it, too."""
    cause: str = ""
    """The id of its cause, which who walks the table fills in."""
    is_bystander: bool = False
    """Whether nothing is known to make it one, so that it is told, but is never the likely one."""
    about: tuple[FactId, ...] = ()
    """What differs and its words tell of, as Differing has it."""

    def rank(self) -> float:
        """By which causes are told one after the other."""
        return self.upstream or 0.0

    def works_towards(self, ratio: float) -> bool:
        return self.at_most > 1 if ratio > 1 else self.at_least < 1

    def suffices_for(self, ratio: float) -> bool:
        return self.at_least <= ratio <= self.at_most

    def of_baseline(self) -> Suspect:
        """The same cause where it is the baseline that it works on: the bounds of the ratio are upside down."""
        return self._replace(at_least=1 / self.at_most, at_most=1 / self.at_least if self.at_least else math.inf)

    def falling_short_of(self, ratio: float) -> str:
        """The cause in words, and the largest or smallest ratio of times that it can account for."""
        bound = f"{self.at_most:.3g}, no more" if ratio > self.at_most else f"{self.at_least:.3g}, no less"
        return f"{self.words}; that makes a ratio of {bound}"


class Hindrance(msgspec.Struct, frozen=True, kw_only=True):
    """What one cause shows in a job."""

    cause: str = ""
    """The id of its cause, such as "cpu-quota", which who walks the table fills in."""
    share: Amount
    """Of the time, that it cost the job's busiest thread, as far as the numbers tell."""
    summary: str
    evidence: list[str]
    """The numbers, and where they were read."""
    distorts: list[Activity] | None = None
    """What it makes longer; None, until the table is walked, is what its cause's row says."""
    effect: str
    """How it does that."""
    study: str | None = None
    """The command that measures it with and without, the job's own settings filled in; None where no arm has it."""


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

    Of what differs between two places this is what is found in one of them alone, and the other way round; of two that
    are found in one alone, the less upstream one. Where a difference and what is found in one place alone would both
    tell of one cause, the latter is told; the difference, where the cause names itself.
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

    between: Callable[[Any], Iterator[Suspect]] | None = None
    """What shows it between two places beside a difference in its facts: ``Beside`` -> each ``Suspect``, of which it
    leaves out the cause, and ``upstream`` where that is the row's.
    """

    in_outputs: Callable[[Any], Iterator[Any]] | None = None
    """What shows it in the outputs of one case: each ``SeenOutput`` of all processes -> each ``Deviation``, of which it
    leaves out the cause.
    """

    in_job: Callable[[Any, Any], Iterator[Hindrance]] | None = None
    """What shows it in a job that is watched: the ``Stretch`` of all and the ``Job`` -> each ``Hindrance``,
    of which it leaves out the cause, and what it distorts where that is what it slows.
    """
    order_in_job: int = 0
    """-1 is told before what costs a job more, as it distorts all other numbers; 1 after what costs less."""


def of(part: str, *fields: str) -> tuple[FactId, ...]:
    """Ids of fields of one part of a place, for ``reads``."""
    return tuple(FactId(part, field) for field in fields)


def listed(names: Sequence[object]) -> str:
    """``[1, 2, 3]`` as "1, 2 and 3"."""
    words = [str(name) for name in names]
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
