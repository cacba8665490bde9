"""The processes of a pair: in turn, sample by sample, where they can, else one after the other.

Either way they start at the same time, before any is timed, unless --pairing asks otherwise or an arm has a neighbour.

In turn they find CPUs and clocks in the same state, which lasts a second or two where others share the machine: beside
an H200 the ratio of two processes' launch times scattered by 3 %, and by 14 % where the processes followed one another.
"""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from primbench.compare.sides import identity
from primbench.errors import PrimbenchError
from primbench.experiments.taking_turns import bound_to_cpus, shared_cpus, why_not
from primbench.results.record import Record, Worker
from primbench.spec.study import IN_TURN
from primbench.workers.records import without_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from primbench.experiments.sharing import Shares
    from primbench.experiments.study import Block
    from primbench.spec.case import Case
    from primbench.spec.study import Study
    from primbench.workers.session import Session

NO_OTHER = "no other arm runs anything here, so that there is nothing to compare with"


def run(
    session: Session,
    study: Study,
    blocks: Iterable[Block],
    *,
    tell: Callable[[str], None],
    announce: Callable[[Case], None] = lambda case: None,
    admit: Callable[[Worker], None] = lambda worker: None,
    share: Callable[[Case], Shares] = lambda case: {},
    may_begin: Callable[[Sequence[Case]], bool] = lambda cases: True,
) -> Iterator[Worker | Record]:
    """What becomes of the blocks. Where an arm lacks a backend or device, its cases there are skipped, others go on.

    A case for which no worker comes up, after some have, has failed.

    tell: is given a sentence of each such arm, at its first case; another one only for another reason. announce: is
    shown each case before it runs, admit each worker; where admit raises a PrimbenchError, the arm has no worker.
    share: says how long processes that take turns sample which metrics of a case. may_begin: is asked of each case, as
    it is in all arms, before the first of them runs it; of those for which it says no nothing becomes.
    """
    pairs = _Pairs(session, study, tell, announce, admit, share, may_begin)
    for block in blocks:
        yield from pairs.block(block)


@dataclass
class _Pairs:
    """How the pairs of a study come along; a place is an arm with a backend and device."""

    session: Session
    study: Study
    tell: Callable[[str], None]
    announce: Callable[[Case], None]
    admit: Callable[[Worker], None]
    share: Callable[[Case], Shares]
    may_begin: Callable[[Sequence[Case]], bool]
    workers: dict[tuple[str, str, str], Worker] = field(default_factory=dict)
    """The last worker of each place."""
    absent: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """Place -> why nothing runs there."""
    alone: dict[tuple[str, str, int], str] = field(default_factory=dict)
    """Why the processes of a pair cannot take turns, by backend, device and ranks."""
    told: set[tuple[str, str]] = field(default_factory=set)
    begun: int | None = None
    """The number of processes that started before their block was known, None where none did."""
    shared_out: set[bytes] = field(default_factory=set)
    """Cases, by identity, whose calls go to threads on other CPUs in every arm, which takes a tenth of a second to find
    out.
    """

    def block(self, block: Block) -> Iterator[Worker | Record]:
        firsts = [cases[0] for cases in block.by_arm]
        self._end_others(firsts[0].process)
        reason = self._known_to_be_alone(firsts)
        if reason is not None:
            is_waiting = self._may_wait(firsts) and (yield from self._found_to_wait(firsts))
        else:
            is_waiting, reason = False, (yield from self._found_to_be_alone(firsts))
        if len({*map(_place, firsts)} - self.absent.keys()) < 2:
            yield from self._not_compared(block)
        elif reason is not None:
            yield from self._one_by_one(block, reason, is_waiting=is_waiting)
        else:
            for group in zip(*block.by_arm, strict=True):
                if self.may_begin(group):
                    yield from self._in_turn(group)
        if is_waiting or reason is None:
            self._begin(block.following)

    def _end_others(self, process: int) -> None:
        """Than those that began before their block was known: the last arm's process would go on, and others begin."""
        if process != self.begun:
            self.session.end_all()
        self.begun = None

    def _begin(self, firsts: Sequence[Case]) -> None:
        """Start workers while nothing is timed and all that is to be done is to find out what they will run."""
        for case in firsts:
            self.begun = case.process
        self.session.start([case for case in firsts if _place(case) not in self.absent])

    def _not_compared(self, block: Block) -> Iterator[Record]:
        """Nothing is measured where one arm is left, or none."""
        for case in (case for cases in block.by_arm for case in cases):
            yield without_worker(case, "skipped", self.absent.get(_place(case), NO_OTHER))

    def _one_by_one(self, block: Block, reason: str, *, is_waiting: bool) -> Iterator[Worker | Record]:
        """is_waiting: every arm has its worker by now."""
        waiting = [cases[0].arm for cases in block.by_arm] if is_waiting else []
        for case in self._begun(block):
            self.announce(case)
            waiting = [arm for arm in waiting if arm != case.arm]
            waiting = yield from self._while_waiting(case, reason, waiting)

    def _begun(self, block: Block) -> Iterator[Case]:
        """The cases of the first arm that may begin, then the same ones of the others."""
        groups = []
        for group in zip(*block.by_arm, strict=True):
            if self.may_begin(group):
                groups.append(group)
                yield group[0]
        yield from (group[number] for number in range(1, len(block.by_arm)) for group in groups)

    def _while_waiting(
        self, case: Case, reason: str, waiting: list[str]
    ) -> Generator[Worker | Record, None, list[str]]:
        """Run a case while workers of arms to come wait; returns which still do.

        They may hold the memory that it lacks: where it is skipped, it is tried without them.
        """
        for line in self._alone(case, reason, waiting):
            if waiting and isinstance(line, Record) and line.status == "skipped" and line.worker is not None:
                yield from self._alone(case, reason)
                return []
            yield line
        return waiting

    def _known_to_be_alone(self, cases: Sequence[Case]) -> str | None:
        """Why processes do not take turns, as far as that is known before any runs."""
        case = cases[0]
        if self.study.pairing != IN_TURN:
            return f"the study's --pairing is {self.study.pairing}"
        if (bound := bound_to_cpus(self.study.arms)) is not None:
            return bound
        if any(arm.neighbour for arm in self.study.arms):
            return "the neighbour of an arm would slow the others, too"
        if case.ranks > 1 and case.on.is_gpu:
            return "several ranks take part in a call, each with a GPU"
        return self._refused_ranks(cases) or case.why_alone() or self.alone.get(_shared(case))

    def _refused_ranks(self, cases: Sequence[Case]) -> str | None:
        return next(filter(None, map(self.session.too_many_or_few, cases)), None)

    def _may_wait(self, cases: Sequence[Case]) -> bool:
        """Whether processes that follow one another may start together, those of later arms waiting for their time.

        Nothing is timed while they start, and while they wait they do nothing.
        """
        if self.study.pairing != IN_TURN or any(arm.neighbour for arm in self.study.arms):
            return False
        return self._refused_ranks(cases) is None and _shared(cases[0]) not in self.alone

    def _found_to_wait(self, cases: Sequence[Case]) -> Generator[Worker | Record, None, bool]:
        """Start a worker in every arm and have it prepare for its first case; whether all are there together."""
        reason = yield from self._not_beside(cases)
        if reason is not None:
            self.alone[_shared(cases[0])] = reason
            return False
        there = [case for case in cases if _place(case) not in self.absent]
        for case in there:  # what came up was ended where another was tried alone
            if (yield from self._open(case)) is not None:
                return False
        self.session.prepare(there)
        return True

    def _found_to_be_alone(self, cases: Sequence[Case]) -> Generator[Worker | Record, None, str | None]:
        """Start a worker in every arm; why these cannot take turns, None where they can."""
        reason = (yield from self._not_beside(cases)) or why_not(
            [self.workers[place] for case in cases if (place := _place(case)) in self.workers], cases[0].ranks
        )
        if reason is not None:
            self.session.end_all()
            self.alone[_shared(cases[0])] = reason
        return reason

    def _not_beside(self, cases: Sequence[Case]) -> Generator[Worker | Record, None, str | None]:
        """Start workers; one that does not start beside others is tried alone: a device may serve one process only."""
        wanted = [case for case in cases if _place(case) not in self.absent]
        self.session.start(wanted)
        for case in wanted:
            beside = yield from self._open(case)
            if beside is None or _place(case) in self.absent:
                continue
            self.session.end_all()
            alone = yield from self._open(case)
            if alone is None:
                return f"{case.arm} starts alone, and not beside other arms: {beside}"
            self._is_absent(case, alone)
        return None

    def _open(self, case: Case) -> Generator[Worker | Record, None, str | None]:
        """Start the worker of a case, unless it runs; returns why there is none."""
        return (yield from self._admitted(case, self.session.open(case)))

    def _admitted(
        self, case: Case, opened: Generator[Worker | Record, None, None] | Generator[Worker, None, None]
    ) -> Generator[Worker | Record, None, str | None]:
        """The lines that a session makes of a case; returns why it has no worker."""
        has_started = False
        try:
            with closing(opened) as lines:
                for line in lines:
                    yield line
                    if isinstance(line, Worker):
                        has_started = True
                        self.admit(line)
                        self.workers[_place(case)] = line
        except PrimbenchError as refusal:
            reason = refusal.reason
            if has_started:
                self._is_absent(case, reason)  # alone it would be refused as well
            return reason
        return None

    def _in_turn(self, group: Sequence[Case]) -> Iterator[Worker | Record]:
        """The same case in all arms. Where one does not fit beside the others, it is run alone."""
        ready = []
        for case in group:
            self.announce(case)
            refusal = self.absent.get(_place(case))
            if refusal is None:
                refusal = yield from self._open(case)
            if refusal is None:
                ready.append(case)
            else:
                yield self._refused(case, refusal)
        if not ready:
            return
        records = self.session.run_in_turn(ready, self._cpu(ready), self.share(ready[0]))
        if all(map(_went_where_it_was_put, records)):
            self.shared_out.add(identity(ready[0]))
        is_possible = any(record.status == "ok" for record in records)
        for record in records:
            if record.status == "skipped" and is_possible:
                yield from self._alone(record.case, f"not beside other arms: {record.reason}")
            else:
                yield record

    def _cpu(self, cases: Sequence[Case]) -> int | None:
        """The CPU on which the processes of a pair call, drawn for each pair anew; ranks and many threads have any."""
        if cases[0].ranks > 1 or identity(cases[0]) in self.shared_out:
            return None
        workers = [self.workers[_place(case)] for case in cases]
        return random.Random(f"{self.study.seed} cpu {cases[0].process}").choice(shared_cpus(workers))

    def _alone(self, case: Case, reason: str, waiting: Sequence[str] = ()) -> Iterator[Worker | Record]:
        """waiting: as Session.run() has it."""
        refusal = self.absent.get(_place(case))
        if refusal is None:
            refusal = yield from self._admitted(case, self.session.run([case], reason, waiting))
        if refusal is not None:
            yield self._refused(case, refusal)

    def _refused(self, case: Case, reason: str) -> Record:
        return without_worker(case, "skipped" if self._is_absent(case, reason) else "failed", reason)

    def _is_absent(self, case: Case, reason: str) -> bool:
        """Whether nothing runs there from now on; where a worker has been, the next one may come up again."""
        if _place(case) in self.workers:
            return False
        self.absent[_place(case)] = reason
        if (case.arm, reason) not in self.told:
            self.tell(f"{case.arm} runs nothing with {case.backend} on {case.device}: {reason}")
            self.told.add((case.arm, reason))
        return True


def _went_where_it_was_put(record: Record) -> bool:
    """Whether it took turns, and not on one CPU."""
    turns = record.measurement.turns if record.measurement else None
    return turns is not None and turns.cpu is None


def _place(case: Case) -> tuple[str, str, str]:
    return case.arm, case.backend, case.device


def _shared(case: Case) -> tuple[str, str, int]:
    """What cases have in common that take turns, or do not, all alike."""
    return case.backend, case.device, case.ranks
