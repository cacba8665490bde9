"""Calls in which several processes take part: every rank runs this same code at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

from primbench.errors import VerificationError
from primbench.registry import setup_of
from primbench.timing.feasibility import check_memory
from primbench.timing.inputs import elsewhere, input_turns
from primbench.timing.pages import extents_of
from primbench.timing.sampling import CLOCK, Clock, Pace
from primbench.timing.turns import InTurn
from primbench.timing.verify import on_host, rewritten

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from primbench.backends import Backend
    from primbench.distributed.group import Group
    from primbench.numa.pages import HostExtent
    from primbench.problem import Array, Problem, Step
    from primbench.spec.method import Method
    from primbench.timing.calls import CallLoop
    from primbench.timing.phases import Phases
    from primbench.timing.turns import GiveAway

NOTICE_NS = 200_000  # from rank 0's word to a common start: for the word to reach all, one after the other


class Collective(Protocol):
    """What a problem of several ranks has beside what every problem has."""

    def inputs_of(self, rank: int, seed: int) -> tuple[Array, ...]:
        """Host arrays of one rank, from its number and the seed alone."""

    def checked_of(self, rank: int, seed: int) -> tuple[Array, ...] | None:
        """Those that a step of its own is checked on; None where the timed step is, before and after."""

    def told_of(self, output: Array, rank: int, seed: int) -> list[float]:
        """What a rank tells rank 0 of its output, for error_of()."""

    def error_of(self, told: list[list[float | None]], seed: int) -> float:
        """The error, of what every rank told, NaN as None. Raises VerificationError where one has a wrong output."""


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


class LockstepInTurn(InTurn):
    """Ranks that take turns, all of them together, with those of other arms: while rank 0 waits for the next one, so do
    they, for its word. They call from any CPU; on one they would wait for each other.
    """

    def __init__(
        self, group: Group, give_away: GiveAway | None, clock: Clock = CLOCK, *, shares_s: Mapping[str, float]
    ) -> None:
        """give_away: of rank 0."""
        super().__init__(self._all_give_away, None, clock, shares_s=shares_s)
        self.loop = None
        self._group, self._lockstep, self._give_away_alone = group, Lockstep(group, clock), give_away

    def now(self) -> int:
        return int(self._group.agree(self.own()))

    def moment(self) -> int:
        return self._lockstep.now()

    def slowest(self, values: list[float]) -> list[float]:
        return self._lockstep.slowest(values)

    def begin(self) -> None:
        self._lockstep.begin()

    def others_are_awake(self) -> bool:
        return bool(self._group.agree(super().others_are_awake(), any))

    def _all_give_away(self, done: bool) -> bool:  # noqa: FBT001 - as GiveAway has it
        self._group.agree()  # threads of all ranks sleep now
        return bool(self._group.agree(self._give_away_alone(done) if self._give_away_alone else None))


class Together:
    """One call of several ranks: how this one sets up and checks its part, in step with the others.

    What one rank cannot do, UnsupportedCase and VerificationError, is raised on all ranks at once.
    """

    def __init__(self, backend: Backend, problem: Problem, method: Method, group: Group, kernel: str = "") -> None:
        self._backend, self._problem, self._method, self._group = backend, problem, method, group
        self._kernel = kernel
        self._collective = cast("Collective", problem)
        self._sets = 1
        self.missing = {"trace": "several processes are not traced", "output": "several processes share it"}
        why_not = problem.why_unverifiable()
        self._is_checked = method.check and not why_not
        if method.check and why_not:
            self.missing["verified"] = why_not

    def refuse_early(self, phases: Phases) -> None:
        """Agree on the sets of inputs: on each rank as many as the rank with the largest cache needs.

        Raises UnsupportedCase for what has no kernel or does not fit in memory; nothing is allocated yet.
        """
        backend, problem, group = self._backend, self._problem, self._group
        with group.refusing_together():
            setup_of(problem.primitive, backend.name, self._kernel)
            self._sets = int(group.agree(self._input_sets(), max))
            # The ranks of a host take their memory at the same time; how many there are on this one is not known.
            check_memory(backend, problem, self._sets * (1 if backend.device.is_gpu else group.size))
            group.agree()

    def _input_sets(self) -> int:
        """All inputs of a rank go round together."""
        size_bytes = self._problem.memory_bytes()
        return input_turns(self._backend, self._problem, self._method, [size_bytes], lambda: size_bytes).sets

    def pace(self, clock: Clock) -> Pace:
        return Lockstep(self._group, clock)

    def inputs(self) -> tuple[Array, ...]:
        return self._collective.inputs_of(self._group.rank, self._method.seed)

    def set_up(self, inputs: Sequence[Array]) -> tuple[list[Step], list[HostExtent]]:
        with self._group.refusing_together():
            given = [self._put(inputs) for _ in range(self._sets)]
            steps = [self._step(arrays) for arrays in given]
            self._group.agree()
        return steps, [extent for arrays in given for extent in extents_of(self._backend, arrays)]

    def elsewhere(self, inputs: Sequence[Array]) -> list[Step]:
        """More steps, on memory of their own, where that makes a difference."""
        kernel = setup_of(self._problem.primitive, self._backend.name, self._kernel)
        return elsewhere(self._backend, self._problem, inputs, kernel)

    def check(self, step: Step, output: Any = None) -> Callable[[], float | None]:
        """What returns the error, at once: ranks agree on it, and they do nothing else meanwhile.

        It is None where no check was asked for, or none can be. Raises VerificationError on all ranks where one is
        wrong.
        """
        if not self._is_checked:
            return lambda: None
        checked = self._checked()
        error = self._error(step if checked is None else self._step(self._put(checked)))
        return lambda: error

    def late_error(self, calls: CallLoop, step: Step) -> float | None:
        """The error of a call after all that were timed; None where these are not what is checked."""
        return self._error(step) if self._is_checked and self._checked() is None else None

    def output(self) -> None:
        """Of the parts of an output nothing is kept."""

    def _checked(self) -> tuple[Array, ...] | None:
        return self._collective.checked_of(self._group.rank, self._method.seed)

    def _put(self, inputs: Sequence[Array]) -> list[Any]:
        return [self._backend.put(each) for each in inputs]

    def _step(self, arrays: Sequence[Any]) -> Step:
        kernel = setup_of(self._problem.primitive, self._backend.name, self._kernel)
        return kernel(self._backend, self._problem, *arrays, group=self._group)

    def _error(self, step: Step) -> float:
        seed, found = self._method.seed, on_host(self._backend, rewritten(self._backend, step))

        def judged(told: list[list[float | None]]) -> tuple[float, str]:
            try:
                return self._collective.error_of(told, seed), ""
            except VerificationError as wrong:
                return 0.0, str(wrong)

        error, wrong = self._group.agree(self._collective.told_of(found, self._group.rank, seed), judged)
        if wrong:
            raise VerificationError(wrong)
        return float(error)
