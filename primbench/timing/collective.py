"""Calls in which several processes take part: every rank runs this same code at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from primbench.errors import VerificationError
from primbench.registry import setup_of
from primbench.timing.feasibility import check_memory
from primbench.timing.inputs import input_sets
from primbench.timing.pages import extents_of
from primbench.timing.sampling import CLOCK, Clock, Pace
from primbench.timing.verify import on_host, rewritten

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from primbench.backends import Backend
    from primbench.distributed.group import Group
    from primbench.numa.pages import Extent
    from primbench.problem import Array, Problem, Step
    from primbench.spec.method import Method
    from primbench.timing.phases import Phases

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


class Together:
    """One call of several ranks: how this one sets up and checks its part, in step with the others.

    What one rank cannot do, UnsupportedCase and VerificationError, is raised on all ranks at once.
    """

    def __init__(self, backend: Backend, problem: Problem, method: Method, group: Group) -> None:
        self._backend, self._problem, self._method, self._group = backend, problem, method, group
        self._sets = 1
        self.missing = {"trace": "several processes are not traced"}

    def refuse_early(self, phases: Phases) -> None:
        """Agree on the sets of inputs: on each rank as many as the rank with the largest cache needs.

        Raises UnsupportedCase for what does not fit in memory; nothing is allocated yet.
        """
        backend, problem, group = self._backend, self._problem, self._group
        with group.refusing_together():
            self._sets = int(group.agree(input_sets(backend, problem, self._method), max))
            # The ranks of a host take their memory at the same time; how many there are on this one is not known.
            check_memory(backend, problem, self._sets * (group.size if backend.device == "cpu" else 1))
            group.agree()

    def pace(self, clock: Clock) -> Pace:
        return Lockstep(self._group, clock)

    def inputs(self) -> tuple[Array, ...]:
        return cast("Collective", self._problem).inputs_of(self._group.rank, self._method.seed)

    def set_up(self, inputs: Sequence[Array]) -> tuple[list[Step], list[Extent]]:
        backend, problem, group = self._backend, self._problem, self._group
        with group.refusing_together():
            kernel = setup_of(problem.primitive, backend.name)
            given = [[backend.put(each) for each in inputs] for _ in range(self._sets)]
            steps = [kernel(backend, problem, *arrays, group=group) for arrays in given]
            group.agree()
        return steps, [extent for arrays in given for extent in extents_of(backend, arrays)]

    def check(self, step: Step) -> Callable[[], float | None]:
        """What returns the error, at once: ranks agree on it, and they do nothing else meanwhile."""
        error = self.check_again(step)
        return lambda: error

    def check_again(self, step: Step) -> float | None:
        """The error, 0; None where no check was asked for. Raises VerificationError on all ranks where one is wrong."""
        if not self._method.check:
            return None
        found = on_host(self._backend, rewritten(self._backend, step))
        mine = [cast("Collective", self._problem).count_wrong(found, self._method.seed), int(found.size)]
        wrong, of = self._group.agree(mine, _summed)
        if wrong:
            raise VerificationError(f"wrong result: {wrong} of {of} elements on {self._group.size} ranks")
        return 0.0


def _summed(of_ranks: list[list[int]]) -> list[int]:
    return [sum(each) for each in zip(*of_ranks, strict=True)]
