"""A call of one process: how it is set up, and its output checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.problem import description_of
from primbench.registry import setup_of
from primbench.registry.sources import PACKAGE
from primbench.timing.checking import OutputCheck, leave_behind, refuse_kept
from primbench.timing.feasibility import check_affordable, check_memory
from primbench.timing.inputs import elsewhere, set_up
from primbench.timing.references import NOTHING_KNOWN, KnownOfCase
from primbench.timing.sampling import CLOCK, Clock, Pace, host_timed
from primbench.timing.unwaited import refuse_unwaited
from primbench.timing.verify import poison, refuse_deferred

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from primbench.backends import Backend
    from primbench.measurement.outputs import Output
    from primbench.numa.pages import HostExtent
    from primbench.problem import Array, Exact, Problem, Reference, Setup, Step
    from primbench.spec.method import Method
    from primbench.timing.calls import CallLoop
    from primbench.timing.phases import Phases

LATE_CALLS = 3  # each of which finds the output of the one before poisoned, and so the memory that it may be given


class Alone:
    """A call of this process alone: how it is set up and checked. ``Together`` is the same of several ranks."""

    def __init__(
        self,
        backend: Backend,
        problem: Problem,
        method: Method,
        inputs: tuple[Array, ...] = (),
        known: KnownOfCase = NOTHING_KNOWN,
        *,
        kernel: str | Setup = "",
        has_others: bool = False,
    ) -> None:
        """inputs: () where they are still to be made. known: of the check. kernel: by its name, or itself. has_others:
        whether other processes take turns with this one, on the same GPU.
        """
        import numpy as np

        self._backend, self._problem, self._method = backend, problem, method
        self._rng = np.random.default_rng(method.seed + 1)
        self._inputs = inputs
        self._known = known
        self._kernel, self._has_others = kernel, has_others
        self._is_checked_elsewhere = False
        self._given: tuple[Any, ...] = ()
        self._check: OutputCheck | None = None
        self.missing = {"trace": "--trace was not given"}

    def pace(self, clock: Clock) -> Pace:
        return Pace(clock)

    def refuse_early(self, phases: Phases) -> None:
        """Raises UnsupportedCase for what has no kernel, does not fit in memory or would take minutes.

        Nothing is allocated yet, and nothing asked of the problem for which another backend may be needed.
        """
        setup = self._setup()
        check_memory(self._backend, self._problem)
        if not self._backend.device.is_gpu:
            check_affordable(self._backend, self._problem, self._method, phases.clock, setup)
            phases.end("estimate")

    def _setup(self) -> Setup:
        if isinstance(self._kernel, str):
            return setup_of(self._problem.primitive, self._backend.name, self._kernel)
        return self._kernel

    def inputs(self) -> tuple[Array, ...]:
        import numpy as np

        self._inputs = self._inputs or self._problem.inputs(np.random.default_rng(self._method.seed))
        return self._inputs

    def set_up(self, inputs: Sequence[Array]) -> tuple[list[Step], list[HostExtent]]:
        setup = self._setup()

        def noted(backend: Backend, problem: Problem, *arrays: Any) -> Step:
            self._given = self._given or arrays
            return setup(backend, problem, *arrays)

        return set_up(self._backend, self._problem, inputs, self._method, noted)

    def elsewhere(self, inputs: Sequence[Array]) -> list[Step]:
        """More steps, on memory of their own, where that makes a difference."""
        return elsewhere(self._backend, self._problem, inputs, self._setup())

    def check(self, step: Step, output: Any = None) -> Callable[[], float | None]:
        """Make a call, and return what compares its output, which may go on beside further calls.

        It returns the error; None where there is nothing to compare with, or that was not asked for. output: of an
        earlier call of the step, if there was one.

        What is checked again later is refused here where its work goes on elsewhere: thousands of calls would be queued
        there once they are timed.
        """
        if self._is_checked_again:
            self._refuse_unwaited(step)
        if not self._method.check:
            self.missing["output"] = "no check was asked for"
            return lambda: None
        if reason := self._problem.why_unverifiable():
            self.missing |= {"verified": reason, "output": reason}
            return lambda: None
        checked = self._problem.check_inputs(self._rng, self._inputs)
        self._is_checked_elsewhere = checked is not self._inputs
        if self._is_checked_elsewhere:  # then checked by a step set up for these inputs
            arrays = map(self._backend.put, checked)
            step, output = self._setup()(self._backend, self._problem, *arrays), None
        problem, rng, seed = self._problem, self._rng, self._method.seed

        def reference() -> Reference | Exact:  # without this object, which would be in a circle with what it checks
            return problem.reference(rng, *checked)

        self._check = OutputCheck(self._backend, problem, step, reference, known=self._known, seed=seed)
        return self._check.begin(output)

    @property
    def _is_brought(self) -> bool:
        """Whether it is no kernel of primbench's own, which are known to compute what they give."""
        return not self._setup().__module__.startswith(f"{PACKAGE}.")

    @property
    def _is_checked_again(self) -> bool:
        """Whether calls are looked at after all that were timed, too."""
        return self._is_brought or self._problem.check_again

    def _refuse_unwaited(self, step: Step) -> None:
        if not self._has_others and not description_of(step).is_process:
            refuse_unwaited(self._backend, step, is_cold=self._method.cache == "cold")

    def late_error(self, calls: CallLoop, step: Step) -> float | None:
        """Of calls after all that were timed, made as these were; None where that is not asked for.

        So it is for problems that ask for it, and for kernels that are brought. These, and a user's functions, are
        called with NaN in their inputs in the end.
        """
        if not self._is_checked_again:
            return None
        self._refuse_unwaited(step)
        check, given = self._check, self._given if self._is_brought else description_of(step).inputs
        if check is None or self._is_checked_elsewhere:
            return None
        if calls.are_processes:
            return check.error_of_late(self._late(calls))
        output, errors = self._late(calls), list[float]()
        for _ in range(LATE_CALLS):
            poison(self._backend, output)
            leave_behind(output)
            output = self._late(calls)
            errors.append(check.error_of_late(output))
        refuse_kept(self._backend, step, given)
        return max(errors)

    def _late(self, calls: CallLoop) -> Any:
        outputs: list[Any] = []
        host_timed(calls.keeping(outputs), 1, CLOCK)()
        self._backend.synchronize()
        output = outputs.pop()
        if self._is_brought and hasattr(output, "dtype"):
            refuse_deferred(output)
        return output

    def output(self) -> Output | None:
        """What calls gave; None where nothing was checked."""
        return self._check.output() if self._check else None
