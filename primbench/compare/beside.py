"""A case in two places: what the functions of causes are given that look at both."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from primbench.compare.criteria import problem_of
from primbench.doctor.against import by_cause
from primbench.environment.comparable import meaning_of
from primbench.results.metrics import METRICS
from primbench.timing.cpu import BATCH_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from primbench.compare.comparison import ArmComparison, CaseComparison
    from primbench.compare.evidence import Seen
    from primbench.compare.ratio import Estimate
    from primbench.compare.sides import Side
    from primbench.doctor.cause import Cause, Suspect
    from primbench.environment.difference import Change, Difference
    from primbench.problem import Problem
    from primbench.results.record import Record, Worker
    from primbench.spec.setting import Activity

MOST_TIMES_A_CHEAP_CALL = 5
_LAUNCHES = ("launch", "data loading")  # of which it is known what they call


class Beside(NamedTuple):
    """One case of an arm and of the baseline."""

    case: CaseComparison
    arm: ArmComparison
    baseline: Side
    side: Side
    seen: Seen
    """The records of both."""
    differing: Difference | None
    """The places, as those saw them that served the case's backend on its device."""
    parts: Sequence[Activity]
    """What of the case can have moved."""
    dearer_s: float | None
    """By how much a cheap system call takes longer in one place; None where that is not known."""
    stops: Sequence[Suspect]
    """What stopped threads in any case of the arm."""

    def workers(self, side: Side) -> list[Worker]:
        """Of one of the two, those that served the case's backend on its device."""
        return [worker for _, worker in side.workers_of(self.case.case.backend, self.case.case.device)]

    def worker(self, side: Side) -> Worker | None:
        """The first of these."""
        return next(iter(self.workers(side)), None)

    def records(self, side: Side) -> Sequence[Record]:
        """Of the case, in one of the two."""
        return self.seen.of_other if side is self.side else self.seen.of_one

    def time_s(self, side: Side) -> float:
        """What the case takes in one of the two, by its primary metric; 0 where that is not known."""
        primary = self.case.primary
        return 0.0 if primary is None else primary.arm_s if side is self.side else primary.baseline_s

    def each_way(self, shows: Callable[[Side, Side], Iterable[Suspect]]) -> Iterator[Suspect]:
        """shows: what makes a case longer in the place that is given first, and not in the one that comes second."""
        yield from shows(self.side, self.baseline)
        yield from (each.of_baseline() for each in shows(self.baseline, self.side))

    @property
    def problem(self) -> Problem | None:
        return self.case.case.known_problem()

    @property
    def has_moved(self) -> bool:
        """Whether anything did for certain."""
        return any(each.has_moved for each in self.case.estimates)

    @property
    def by_cause(self) -> list[tuple[Cause, list[Change]]]:
        """What is known to differ and to move results, the most upstream first."""
        return by_cause(self.differing) if self.differing else []

    def comes_under(self, cause: Cause) -> bool:
        """Whether a cause slows what can have moved."""
        case = self.case.case
        is_part = not set(cause.slows).isdisjoint(self.parts)
        works = (cause.works or {}).get(case.backend, (cause.works or {}).get(""))
        if not case.on.is_gpu and works is not None:
            return is_part and problem_of(case.primitive).work in works
        return is_part

    def makes_calls_of(self, cause: Cause) -> bool:
        """Whether it makes one of the system calls by which a cause slows, as far as it is known which it makes."""
        if not cause.calls or problem_of(self.case.case.primitive).work not in _LAUNCHES:
            return True
        return self.problem is None or not set(cause.calls).isdisjoint(self.problem.system_calls())

    def concerns(self, cause: Cause, change: Change) -> bool:
        """Whether a change that is this cause slows what can have moved, and is none that doctor tells better."""
        slows = cause.slows_by_key.get(str(change.field[-1]), self.parts)
        is_told = meaning_of(change.field).by_doctor
        return self.makes_calls_of(cause) and not is_told and not set(slows).isdisjoint(self.parts)

    def most(self, cause: Cause, reading_s: float | None = None, each: float = 1.0) -> float:
        """How many times as long a cause can make it. reading_s: what each of what it adds to was seen to take.

        each: how many more there are of what is counted.
        """
        problem, primary = self.problem, self.case.primary
        reading_s = self._beyond(cause) if reading_s is None else reading_s
        times = 1 + each * (cause.times - 1) if reading_s is None else math.inf
        if problem is None or primary is None or not primary.baseline_s:
            return times
        of_calls = (
            (_read(cause.a_call_s, reading_s), problem.library_calls()),
            (self._a_system_call_s(cause, reading_s), problem.system_call_count()),
            (_read(cause.a_sample_s, reading_s), 1 / self._fewest_calls()),
            (_read(cause.a_file_s, reading_s), problem.opened_files()),
        )
        more = [each * each_s * calls for each_s, calls in of_calls if each_s is not None and calls is not None]
        return min([times, *(1 + more_s / primary.baseline_s for more_s in more)])

    def _beyond(self, cause: Cause) -> float | None:
        """What a system call was seen to take longer, where that is more than the row knows: a program is asked."""
        seen_s = self.dearer_s or 0.0
        return seen_s if cause.a_system_call_s is not None and seen_s > cause.a_system_call_s else None

    def _fewest_calls(self) -> float:
        """Of a sample of what moved: a batch on a CPU has as many as last long enough."""
        moved = [each for each in self.case.estimates if each.has_moved]
        batches = [BATCH_S / each.baseline_s for each in moved if _is_of_batches(each) and each.baseline_s]
        return max(1.0, min(batches)) if batches and len(batches) == len(moved) else 1.0

    def _a_system_call_s(self, cause: Cause, reading_s: float | None) -> float | None:
        """Some are dearer than the cheap one that was timed, of which the kernel remembers that filters let it pass."""
        if cause.a_system_call_s is None:
            return None
        if reading_s is not None:
            return MOST_TIMES_A_CHEAP_CALL * reading_s
        if self.dearer_s is None:
            return cause.a_system_call_s
        return min(cause.a_system_call_s, MOST_TIMES_A_CHEAP_CALL * self.dearer_s)


def _is_of_batches(estimate: Estimate) -> bool:
    sampled = METRICS[METRICS[estimate.metric].samples_of or estimate.metric]
    return sampled.gives_rates and sampled.whose == "CPU"


def _read(each_s: float | None, reading_s: float | None) -> float | None:
    """What a cause adds to each, by what was read of it where that was."""
    return each_s if each_s is None or reading_s is None else reading_s
