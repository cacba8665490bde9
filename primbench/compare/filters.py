"""Whether a filter of system calls makes a case longer: what it costs of getppid, every worker has timed."""

from __future__ import annotations

import math
import os
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from primbench.doctor.cause import Suspect
from primbench.spec.settings.confinement import names_a_file
from primbench.units import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.compare.beside import Beside
    from primbench.compare.comparison import CaseComparison
    from primbench.compare.sides import Side

DEARER = 1.05  # times as much is another cost of a system call
MOST_BYTES = 2**20  # the largest profile read; those of engines have 20 kB
_UPSTREAM = 5  # before what is not timed
ROOM = 2.0  # factor left for the scatter of the time that a filter adds to a call


class _SyscallRule(msgspec.Struct):
    names: list[str] = []


class _Profile(msgspec.Struct):
    """What Docker, Podman and the section seccomp of an OCI configuration have in common."""

    default: str = msgspec.field(name="defaultAction", default="")
    syscalls: list[_SyscallRule] = []

    def looks_at(self, calls: Sequence[str]) -> bool:
        """The kernel remembers of a call whether it is always allowed."""
        named = any(name in calls for rule in self.syscalls for name in rule.names)
        return named or self.default != "SCMP_ACT_ALLOW"


class Filtered(NamedTuple):
    """How a side's workers are filtered, as the first of them says."""

    name: str
    setting: str | None
    seccomp: str | None
    filters: int | None
    call_s: float | None
    """Time that getppid takes there; None: unknown."""

    @property
    def words(self) -> str:
        setting = f"seccomp={self.setting}, " if self.setting else ""
        count = f", {self.filters} of them" if self.filters else ""
        return f"{setting}/proc/self/status: {self.seccomp}{count}"


def filters(beside: Beside) -> Iterator[Suspect]:
    """A filter on what a case calls that one side has, or has of another kind, where calls are dearer there."""
    case, calls = beside.case, beside.problem.system_calls() if beside.problem else ()
    one, other = (_filtered(case, each) for each in (beside.baseline, beside.side))
    if not calls or one is None or other is None or one[1:4] == other[1:4]:
        return
    case_s = case.primary.baseline_s if case.primary else 0.0
    yield from _longer_by(calls, other, one, case_s)
    yield from (cause.of_baseline() for cause in _longer_by(calls, one, other, case_s))


def dearer_s(case: CaseComparison, baseline: Side, side: Side) -> float | None:
    """By how much a cheap system call takes longer in one place than in the other; None where it is not known."""
    one, other = (_filtered(case, each) for each in (baseline, side))
    if one is None or other is None or one.call_s is None or other.call_s is None:
        return None
    return abs(other.call_s - one.call_s)


def _longer_by(calls: Sequence[str], here: Filtered, there: Filtered, case_s: float) -> Iterator[Suspect]:
    """The filter of one place, where it looks at the calls and makes them dearer than they are in the other."""
    if here.seccomp != "filter" or not _may_filter(here.setting, calls):
        return
    ratio = _most(calls, here, there, case_s)
    if ratio > 1:
        cost = f": {_cost(here, there)}" if calls == ("getppid",) else ""
        words = f"in {here.name} a seccomp filter looks at {' and '.join(calls)} ({here.words}){cost}"
        yield Suspect(
            words, at_least=1.0, at_most=ratio, title=f"the seccomp filter in {here.name}", upstream=_UPSTREAM
        )


def _filtered(case: CaseComparison, side: Side) -> Filtered | None:
    """What is known of a side's seccomp filter; None where it is not known whether there is one."""
    workers = [worker for _, worker in side.workers_of(case.case.backend, case.case.device)]
    found = [each.environment.confinement for each in sorted(workers, key=lambda worker: worker.worker)]
    if not found or found[0].seccomp is None:
        return None
    calls_s = [each.system_call_s for each in found if each.system_call_s is not None]
    return Filtered(
        name=side.name,
        setting=side.arm.seccomp if side.arm else None,
        seccomp=found[0].seccomp,
        filters=found[0].seccomp_filters,
        call_s=statistics.median(calls_s) if calls_s else None,
    )


def _may_filter(setting: str | None, calls: Sequence[str]) -> bool:
    """False only where a profile is still there to be read, and lets all the calls pass.

    The name may be of a file that somebody else made: what is no plain file, or large, is none.
    """
    if setting is None or not names_a_file(setting):
        return True
    try:
        if not os.path.isfile(setting) or os.path.getsize(setting) > MOST_BYTES:
            return True
        return msgspec.json.decode(Path(setting).read_bytes(), type=_Profile).looks_at(calls)
    except (OSError, msgspec.MsgspecError):
        return True


def _most(calls: Sequence[str], here: Filtered, there: Filtered, case_s: float) -> float:
    """How many times as long the filter can make a case; 1 where what was timed says that it costs nothing."""
    if "getppid" not in calls:  # the only call of which the filter's cost was timed
        return math.inf if names_a_file(here.setting) else 1.0
    if here.call_s is None or there.call_s is None:
        return math.inf
    if here.call_s <= DEARER * there.call_s:
        return 1.0
    return 1 + ROOM * (here.call_s - there.call_s) / case_s if case_s else math.inf


def _cost(here: Filtered, there: Filtered) -> str:
    if here.call_s is None or there.call_s is None:
        return "what it costs is not known"
    return f"a call takes {format_time(here.call_s)}, and {format_time(there.call_s)} in {there.name}"
