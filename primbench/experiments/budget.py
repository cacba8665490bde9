"""How long cases take, before they are run and while they are; and which may still begin within a time."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from primbench.compare.sides import identity
from primbench.errors import InvalidRequest
from primbench.problem import Problem
from primbench.registry import problem_class

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from primbench.results.record import Record
    from primbench.spec.case import Case

START_S = {"numpy": 0.7}
"""Of a worker, until it takes its first case, by backend; OTHER_START_S of one that imports more."""
OTHER_START_S = 3.0
JOINED_S = 3.0
"""Of a case whose ranks start for it alone, as those of a network do; the ranks of a collective start once for all."""
METRICS_ON_GPU = 5  # that are sampled for the least time each, as few are noisy there; on a CPU one is, or for longer
TRIED_FLOP_PER_S, MOST_TRIED_S = 1e11, 8.0
"""Of a step of a model for which cuDNN tries algorithms, at most for so long."""


def expected_s(case: Case) -> float:
    """How long a case may take, by its primitive, device and method. The kept results files hold these to a factor
    of two in all.
    """
    set_up_s = _set_up_s(case) + _tried_s(case)
    return set_up_s if case.method.dry_run else set_up_s + sampled_s(case)


def _set_up_s(case: Case) -> float:
    try:
        problem = problem_class(case.primitive)
    except InvalidRequest:  # of an installation with more primitives
        return Problem.set_up_s[case.on.is_gpu]
    joined_s = JOINED_S if case.ranks > 1 and problem.work != "collective" else 0.0
    return problem.set_up_s[case.on.is_gpu] + joined_s


def _tried_s(case: Case) -> float:
    if not case.parameters.get("cudnn_benchmark") or (problem := case.known_problem()) is None:
        return 0.0
    try:
        return min(MOST_TRIED_S, (problem.flop() or 0) / TRIED_FLOP_PER_S)
    except ImportError:  # the network is made by a framework that is not installed here, where its step was planned
        return MOST_TRIED_S


def sampled_s(case: Case) -> float:
    """How long a case may be sampled."""
    method = case.method
    if case.on.is_gpu:
        return min(METRICS_ON_GPU * method.min_time_s, method.max_time_s + method.min_time_s)
    return (method.min_time_s + method.max_time_s) / 2


def all_expected_s(cases: Collection[Case]) -> float:
    """How long they may take, with the start of a worker for each backend, device and process."""
    started = {(case.process, case.backend, case.device, case.ranks) for case in cases}
    starts_s = sum(START_S.get(backend, OTHER_START_S) for _, backend, _, _ in started)
    return starts_s + sum(map(expected_s, cases))


class Budget:
    """Of a time that is to be kept: says of cases whether they may still begin.

    By what the same case took before, else by what cases of its primitive, or all, took beside what was expected of
    them. left_out: the cases that it said no of.
    """

    def __init__(
        self,
        limit_s: float | None,
        records: Sequence[Record],
        clock: Callable[[], float] = time.monotonic,
        *,
        least_pairs: int = 0,
    ) -> None:
        """limit_s: None is as long as it takes. records: of a file that is gone on with, then what is measured.

        least_pairs: of a study, that are measured however long they take, since fewer answer nothing.
        """
        self._least_pairs = least_pairs
        self.left_out: list[Case] = []
        self._records, self._read, self.clock = records, 0, clock
        self._ends = clock() + (math.inf if limit_s is None else limit_s)
        self._begun = False
        self._took = defaultdict[bytes, list[float]](list)  # by the case's identity
        self._beside = defaultdict[str, list[float]](lambda: [0.0, 0.0])  # by primitive; "" of all: taken, expected
        self._promised: dict[bytes, Case] = {}  # of later arms, which follow for certain

    def in_order(self, cases: Sequence[Case]) -> list[Case]:
        """As they are; spread where some may be left out."""
        return [*cases] if math.isinf(self._ends) else spread(cases)

    def may_begin(self, cases: Sequence[Case]) -> bool:
        """Whether these would end in time, and all that were let begin before them. The first ones always may.

        cases: the same one in each of several arms, or one.
        """
        if not self.suffices(cases):
            self.left_out += cases
            return False
        self._begun = True
        self._promised |= {case.key(): case for case in cases}
        return True

    def suffices(self, cases: Collection[Case]) -> bool:
        """Whether may_begin() would say yes of them."""
        self._look()
        if not self._begun or all(case.process < self._least_pairs for case in cases):
            return True
        return sum(map(self._expected_s, (*self._promised.values(), *cases))) <= self.left_s

    def holds(self, pair: int, takes_s: float) -> bool:
        """Whether a pair of a study is to be begun, by how long it may take."""
        return pair < self._least_pairs or takes_s <= self.left_s

    @property
    def left_s(self) -> float:
        return self._ends - self.clock()

    def within(self, cases: Iterable[Case]) -> Iterator[Case]:
        """Those that may begin, asked one by one."""
        return (case for case in cases if self.may_begin([case]))

    def _look(self) -> None:
        """At what has ended since."""
        for record in self._records[self._read :]:
            self._promised.pop(record.case.key(), None)
            if record.status == "ok":
                self._took[identity(record.case)].append(record.duration_s)
                for name in (record.case.primitive, ""):
                    self._beside[name][0] += record.duration_s
                    self._beside[name][1] += expected_s(record.case)
        self._read = len(self._records)

    def _expected_s(self, case: Case) -> float:
        if took := self._took.get(identity(case)):
            return sum(took) / len(took)
        taken_s, thought_s = self._beside.get(case.primitive) or self._beside.get("") or (1.0, 1.0)
        return expected_s(case) * taken_s / thought_s


def spread(cases: Sequence[Case]) -> list[Case]:
    """First one case of each primitive, then the others in turn, so that what is cut off has something of each.

    Cases of one worker stay together but for the first of each primitive.
    """
    firsts = {case.primitive: case for case in reversed(cases)}
    first = [case for case in cases if firsts.get(case.primitive) is case]
    groups: dict[object, dict[str, list[Case]]] = {}
    for case in cases:
        if firsts[case.primitive] is not case:
            worker = (case.process, case.backend, case.device, case.ranks, case.placement)
            groups.setdefault(worker, {}).setdefault(case.primitive, []).append(case)
    return [*first, *(case for group in groups.values() for case in _in_turn([*group.values()]))]


def _in_turn(lists: Sequence[list[Case]]) -> Iterator[Case]:
    for number in range(max(map(len, lists))):
        yield from (each[number] for each in lists if number < len(each))
