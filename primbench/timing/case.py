"""measure(): one case in this process, from inputs to a Measurement."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from primbench.backends import Backend, CudaBackend, best_available
from primbench.errors import Unverifiable
from primbench.measurement import Measurement, Samples
from primbench.problem import Problem, Step, backends_of, setup_of
from primbench.spec.method import Method
from primbench.timing import host_counters, pages
from primbench.timing.cpu import measure_cpu
from primbench.timing.feasibility import check_affordable, check_memory
from primbench.timing.inputs import first_calls, set_up
from primbench.timing.sampling import CLOCK, Calls, Clock, Pace, garbage_kept, secondary_rule, tail_rule
from primbench.timing.verify import check_output

if TYPE_CHECKING:
    from primbench.problem import Array


TakeOther = Callable[[Method, Clock], Samples]
"""Takes one of ``Measurement.others``; a step offers them by name in its attribute ``others``."""


def measure(
    problem: Problem,
    backend: str | None = None,
    device: str | None = None,
    *,
    method: Method | None = None,
    clock: Clock = CLOCK,
) -> Measurement:
    """Time one problem in this process.

    backend: default the best one installed that reaches the device. device: "cpu" or "cuda:N", default the first
    GPU where a backend reaches one, else the CPU.

    Raises BackendUnavailable, UnsupportedCase (the backend has no such operation, or it does not fit in memory),
    VerificationError, and whatever the framework raises.
    """
    with opened(problem, backend, device) as chosen:
        return measure_on(chosen, problem, method or Method(), clock)


@dataclass(frozen=True)
class Prepared:
    """A kernel ready to be called: each call enqueues the work once and returns the output, an array of the backend.

    ``backend.synchronize()`` waits for it, ``backend.get(output)`` brings it to the host, ``backend.close()`` undoes
    what opening the backend changed in the process. Some kernels return a host array, or an object whose own ``get()``
    brings the output: problem.Step.
    """

    backend: Backend
    step: Step

    def __call__(self) -> Any:
        return self.step()


def setup(problem: Problem, backend: str | None = None, device: str | None = None, *, seed: int = 0) -> Prepared:
    """Prepare a problem on random inputs, to be used without timing. Raises as measure() does."""
    import numpy as np

    chosen = best_available(backends_of(problem.primitive), backend, device)
    problem = problem.on(chosen.device)
    inputs = problem.inputs(np.random.default_rng(seed))
    return Prepared(chosen, setup_of(problem.primitive, chosen.name)(chosen, problem, *map(chosen.put, inputs)))


@contextmanager
def opened(problem: Problem, backend: str | None, device: str | None) -> Iterator[Backend]:
    """The backend that measure() uses, closed at the end."""
    chosen = best_available(backends_of(problem.primitive), backend, device)
    try:
        yield chosen
    finally:
        chosen.close()


def measure_on(
    backend: Backend,
    problem: Problem,
    method: Method,
    clock: Clock = CLOCK,
    page_nodes: Sequence[int] | None = None,
) -> Measurement:
    """Time one problem on an open backend. Raises as measure() does.

    page_nodes: memory nodes that host memory is to be on, EffectivePlacement's; [] is anywhere, None those that the
    memory policy of this thread names.
    """
    import numpy as np

    phases = Phases(clock)
    problem = problem.on(backend.device)
    check_memory(backend, problem)
    if backend.device == "cpu":
        check_affordable(backend, problem, method, clock)
        phases.end("estimate")
    inputs = problem.inputs(np.random.default_rng(method.seed))
    phases.end("inputs")
    steps, extents = set_up(backend, problem, inputs, method)
    extents += first_calls(backend, steps)
    calls = Calls(steps)
    phases.end("setup")
    rng = np.random.default_rng(method.seed + 1)
    missing = {"trace": "--trace was not given"}
    reference, error = None, None
    if method.check:
        checked = problem.check_inputs(rng, inputs)
        try:
            reference = problem.reference(rng, *checked)
        except Unverifiable as reason:
            missing["verified"] = str(reason)
    if reference is not None:
        error = check_output(backend, problem, _checked_step(backend, problem, steps[0], inputs, checked), reference)
    phases.end("check")
    watched = pages.watch(steps, extents, page_nodes)
    before = host_counters.start()
    with garbage_kept():
        timed = Measurement() if method.dry_run else timed_on(backend, problem, calls, steps, method, Pace(clock))
    host = host_counters.since(before)
    seen, why_no_pages = pages.pages_since(watched)
    phases.end("timing")
    if problem.check_again and reference is not None and not method.dry_run:
        error = max(error or 0.0, check_output(backend, problem, steps[0], reference))
        phases.end("second check")
    return replace(
        timed,
        missing=timed.missing | missing | why_no_pages,
        verified=None if error is None else True,
        error=error,
        tolerance=problem.tolerance(),
        input_sets=len(steps),
        input_sets_bytes=len(steps) * problem.memory_bytes(),
        algorithm=getattr(steps[0], "algorithm", None),
        flop=problem.flop(),
        bytes_moved=problem.bytes_moved(),
        phases_s=phases.ended_s,
        host=host,
        pages=seen,
    )


def _checked_step(
    backend: Backend, problem: Problem, timed: Step, inputs: Sequence[Array], checked: Sequence[Array]
) -> Step:
    """The timed step, or one of its own where the problem is checked on other inputs."""
    if checked is inputs:
        return timed
    return setup_of(problem.primitive, backend.name)(backend, problem, *map(backend.put, checked))


class Phases:
    """What a case spent its time on."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._last = clock, clock()
        self.ended_s: dict[str, float] = {}

    def end(self, name: str) -> None:
        now = self._clock()
        self.ended_s[name] = (now - self._last) / 1e9
        self._last = now


def timed_on(
    backend: Backend, problem: Problem, calls: Calls, steps: Sequence[Step], method: Method, pace: Pace
) -> Measurement:
    """The times of every call, and what the step itself knows how to take: its attributes others, refused_calls."""
    secondary = tail_rule(method) if problem.has_tails else secondary_rule(method)
    if backend.device == "cpu":
        timed = measure_cpu(calls, method, secondary, pace)
    else:
        from primbench.timing import cuda as cuda_timing

        timed = cuda_timing.measure(cast("CudaBackend", backend), calls, len(steps), method, secondary, pace)
    take_others: Mapping[str, TakeOther] = getattr(steps[0], "others", {})
    others = {name: take(method, pace.clock) for name, take in take_others.items()}
    take_refused: Callable[[Method, Clock], dict[str, int]] | None = getattr(steps[0], "refused_calls", None)
    return replace(timed, others=others, refused_calls=take_refused and take_refused(method, pace.clock))
