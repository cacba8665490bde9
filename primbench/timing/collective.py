"""measure_on() for a call in which several processes take part: every rank runs this same code at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, cast

from msgspec.structs import replace

from primbench.errors import VerificationError
from primbench.measurement import Measurement
from primbench.problem import setup_of
from primbench.spec.method import Method
from primbench.timing import host_counters, pages
from primbench.timing.case import Phases, timed_on
from primbench.timing.feasibility import check_memory
from primbench.timing.inputs import first_calls, input_sets
from primbench.timing.pages import extents_of
from primbench.timing.sampling import CLOCK, Calls, Clock, Pace, garbage_kept
from primbench.timing.verify import on_host, poison

if TYPE_CHECKING:
    from primbench.backends import Backend
    from primbench.distributed.group import Group
    from primbench.numa.pages import Extent
    from primbench.problem import Array, Problem, Step

NOTICE_NS = 200_000  # from rank 0's word to a common start: for the word to reach all, one after the other


class Collective(Protocol):
    """What a problem of several ranks has beside what every problem has."""

    def inputs_of(self, rank: int, seed: int) -> tuple[Array, ...]:
        """Host arrays of one rank, from its number and the seed alone."""

    def count_wrong(self, output: Array, seed: int) -> int:
        """How many elements of a rank's output are not what the inputs of all ranks make."""


class Lockstep(Pace):
    """Every rank sees the largest value of all ranks and the clock of rank 0, and so decides the same."""

    def __init__(self, group: Group, clock: Clock = CLOCK) -> None:
        super().__init__(clock)
        self.loop = None  # that of one rank tells nothing of the rank that took longest
        self._group = group
        self._one_clock = group.on_one_host()

    def now(self) -> int:
        return int(self._group.agree(self.clock()))

    def slowest(self, values: list[float]) -> list[float]:
        found: list[float] = self._group.agree(
            values, lambda of_ranks: [max(each) for each in zip(*of_ranks, strict=True)]
        )
        return found

    def begin(self) -> None:
        """On one host all ranks wait for the same moment; on several, for rank 0's word, which takes some us more."""
        start = self._group.agree(None, lambda _: self.clock() + NOTICE_NS)
        if self._one_clock:
            while self.clock() < start:
                pass


def measure_on(
    backend: Backend,
    problem: Problem,
    method: Method,
    group: Group,
    clock: Clock = CLOCK,
    page_nodes: Sequence[int] | None = None,
) -> Measurement:
    """Time one collective on an open backend. Times are those of the slowest rank, pages those of this one.

    Raises as timing.measure_on() does; UnsupportedCase and VerificationError on all ranks at once.
    """
    phases = Phases(clock)
    sets = _fitting_sets(backend, problem, method, group)
    inputs = cast("Collective", problem).inputs_of(group.rank, method.seed)
    phases.end("inputs")
    steps, extents = _set_up(backend, problem, inputs, sets, group)
    extents += first_calls(backend, steps)
    calls = Calls(steps)
    phases.end("setup")
    if method.check:
        _check(backend, problem, steps[0], method, group)
        phases.end("check")
    timed = Measurement()
    if not method.dry_run:
        watched = pages.watch(steps, extents, page_nodes)
        before = host_counters.start()
        with garbage_kept():
            timed = timed_on(backend, problem, calls, steps, method, Lockstep(group, clock))
        host = host_counters.since(before)
        seen, why_no_pages = pages.pages_since(watched)
        timed = replace(timed, host=host, pages=seen, missing=timed.missing | why_no_pages)
        phases.end("timing")
        if method.check:
            _check(backend, problem, steps[0], method, group)
            phases.end("second check")
    return replace(
        timed,
        missing=timed.missing | {"trace": "several processes are not traced"},
        verified=True if method.check else None,
        error=0.0 if method.check else None,
        tolerance=problem.tolerance(),
        input_sets=sets,
        input_sets_bytes=sets * problem.memory_bytes(),
        flop=problem.flop(),
        bytes_moved=problem.bytes_moved(),
        phases_s=phases.ended_s,
    )


def _fitting_sets(backend: Backend, problem: Problem, method: Method, group: Group) -> int:
    """Input sets, as many on each rank as the rank with the largest cache needs. Nothing is allocated yet."""
    with group.refusing_together():
        sets = int(group.agree(input_sets(backend, problem, method), max))
        # The ranks of a host take their memory at the same time; how many there are on this one is not known.
        check_memory(backend, problem, sets * (group.size if backend.device == "cpu" else 1))
        group.agree()
    return sets


def _set_up(
    backend: Backend, problem: Problem, inputs: Sequence[Array], sets: int, group: Group
) -> tuple[list[Step], list[Extent]]:
    with group.refusing_together():
        kernel = setup_of(problem.primitive, backend.name)
        given = [[backend.put(each) for each in inputs] for _ in range(sets)]
        steps = [kernel(backend, problem, *arrays, group=group) for arrays in given]
        group.agree()
    return steps, [extent for arrays in given for extent in extents_of(backend, arrays)]


def _check(backend: Backend, problem: Problem, step: Step, method: Method, group: Group) -> None:
    """Raises VerificationError on every rank where one of them has a wrong element."""
    output = step()
    backend.synchronize()
    poison(backend, output)
    output = step()
    backend.synchronize()
    found = on_host(backend, output)
    wrong = group.agree([cast("Collective", problem).count_wrong(found, method.seed), int(found.size)], _summed)
    if wrong[0]:
        raise VerificationError(f"wrong result: {wrong[0]} of {wrong[1]} elements on {group.size} ranks")


def _summed(of_ranks: list[list[int]]) -> list[int]:
    return [sum(each) for each in zip(*of_ranks, strict=True)]
