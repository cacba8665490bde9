"""measure(): one case in this process, from inputs to a Measurement."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from primbench.backends import Backend, GpuBackend, best_available
from primbench.distributed.group import ALONE, Group
from primbench.measurement import Measurement, Samples
from primbench.problem import Problem, Step, checked_problem, description_of
from primbench.registry import backends_of, setup_of
from primbench.spec.method import Method
from primbench.timing import host_counters, pages
from primbench.timing.alone import Alone
from primbench.timing.calls import CallLoop
from primbench.timing.collective import Together
from primbench.timing.cpu import CpuTimer
from primbench.timing.inputs import FirstCalls, first_calls
from primbench.timing.phases import Phases
from primbench.timing.references import NOTHING_KNOWN, KnownOfCase
from primbench.timing.sampling import CLOCK, Clock, Pace, garbage_kept, main_rule, secondary_rule, tail_rule
from primbench.timing.watcher import watched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from primbench.measurement.over_time import OverTime
    from primbench.measurement.readings import HostReading
    from primbench.problem import Array, Setup
    from primbench.timing.gpu import GpuTimer
    from primbench.timing.sampling import StoppingRule
    from primbench.timing.turns import InTurn


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
        return measure_on(chosen, problem, method or Method(), clock=clock)


@dataclass(frozen=True)
class PreparedCase:
    """A kernel ready to be called: each call enqueues the work once and returns the output, an array of the backend.

    ``backend.synchronize()`` waits for it, ``backend.get(output)`` brings it to the host, ``backend.close()`` undoes
    what opening the backend changed in the process. Some kernels return a host array, or an object whose own ``get()``
    brings the output: problem.Step.
    """

    backend: Backend
    step: Step

    def __call__(self) -> Any:
        return self.step()


def setup(problem: Problem, backend: str | None = None, device: str | None = None, *, seed: int = 0) -> PreparedCase:
    """Prepare a problem on random inputs, to be used without timing. Raises as measure() does."""
    chosen = best_available(backends_of(checked_problem(problem).primitive), backend, device)
    return setup_on(chosen, problem, seed=seed)


def setup_on(backend: Backend, problem: Problem, *, seed: int = 0) -> PreparedCase:
    """The same on an open backend."""
    import numpy as np

    problem = problem.on(backend.device)
    inputs = problem.inputs(np.random.default_rng(seed))
    return PreparedCase(backend, setup_of(problem.primitive, backend.name)(backend, problem, *map(backend.put, inputs)))


@contextmanager
def opened(problem: Problem, backend: str | None, device: str | None) -> Iterator[Backend]:
    """The backend that measure() uses, closed at the end."""
    chosen = best_available(backends_of(checked_problem(problem).primitive), backend, device)
    try:
        yield chosen
    finally:
        chosen.close()


def measure_on(
    backend: Backend,
    problem: Problem,
    method: Method,
    group: Group = ALONE,
    *,
    clock: Clock = CLOCK,
    page_nodes: Sequence[int] | None = None,
    turns: InTurn | None = None,
    inputs: tuple[Array, ...] = (),
    known: KnownOfCase = NOTHING_KNOWN,
    look: Callable[[], object] = lambda: None,
    kernel: str | Setup = "",
) -> Measurement:
    """Time one problem on an open backend. Raises as measure() does.

    kernel: by its name among those that the backend has, "" is the usual one; of one process also itself.

    group: of the ranks of a collective, each of which calls this. Times are those of the slowest rank, pages those of
    this one.

    page_nodes: memory nodes that host memory is to be on, EffectivePlacement's; [] is anywhere, None those that the
    memory policy of this thread names.

    turns: with other processes that time the same case, each of them alone in its group. inputs: of the problem where
    they are made by now, which ranks make themselves. look: called once all is timed, while threads and processes of
    the case are still there. known: of the check.
    """
    problem = problem.on(backend.device)
    case: Alone | Together
    case = (
        Together(backend, problem, method, group, str(kernel))
        if group.size > 1
        else Alone(backend, problem, method, inputs, known, kernel=kernel, has_others=turns is not None)
    )
    pace = turns or case.pace(clock)
    with watched(backend, _why_unwatched(method, group, pace), case.missing) as until_now:
        return _measured(
            case, backend, problem, method, pace=pace, page_nodes=page_nodes, until_now=until_now, look=look
        )


def _why_unwatched(method: Method, group: Group, pace: Pace) -> str | None:
    if not method.over_time:
        return "--over-time was not given"
    if pace.has_others:
        return "processes of other arms took turns with this one, and used the same device"
    return f"those of rank 0 are kept, this is rank {group.rank}" if group.rank else None


def _measured(
    case: Alone | Together,
    backend: Backend,
    problem: Problem,
    method: Method,
    *,
    pace: Pace,
    page_nodes: Sequence[int] | None,
    until_now: Callable[[], OverTime | None],
    look: Callable[[], object],
) -> Measurement:
    """until_now: ends the sampling of what is used, and returns it."""
    phases = pace.phases = Phases(pace.own)
    make_second_context(backend, method)
    case.refuse_early(phases)
    inputs = case.inputs()
    phases.end("inputs")
    steps, extents = case.set_up(inputs)
    calls = CallLoop(steps)
    phases.end("setup")
    first = FirstCalls([], None) if calls.are_processes else first_calls(backend, steps)
    phases.end("first calls")
    copies = case.elsewhere(inputs) if pace.has_others and len(steps) == 1 else []
    phases.end("setup")
    compare = case.check(steps[0], first.output)
    first = first._replace(output=None)  # whose memory may be wanted
    timer = timer_on(backend, calls, method, pace, copies)
    error = timer.settle(compare) if timer else compare()
    phases.end("check")
    host_pages = pages.watch(steps, [*extents, *first.extents], page_nodes)
    since = _counting(method)
    with _kept(method), pace.in_place(calls, backend.device):
        phases.end("own CPU")
        timed = timed_by(timer, problem, steps[0], method, pace) if timer else Measurement()
    turned = pace.turns()
    host = since(turned, is_alone=isinstance(case, Alone))
    seen, why_no_pages = pages.pages_since(host_pages)
    phases.end("timing")
    late = None if method.dry_run else case.late_error(calls, steps[0])
    if error is not None and late is not None:
        error = max(error, late)
        phases.end("second check")
    over_time = until_now()
    look()
    phases.end("look")
    return replace(
        timed,
        missing=timed.missing | case.missing | why_no_pages,
        verified=None if error is None else True,
        error=error,
        tolerance=problem.tolerance(),
        output=case.output(),
        input_sets=len(steps),
        input_sets_bytes=len(steps) * problem.memory_bytes(),
        algorithm=description_of(steps[0]).algorithm,
        implementations=first.implementations,
        flop=problem.flop(),
        bytes_moved=problem.bytes_moved(),
        phases_s=phases.ended_s,
        host=host,
        pages=seen,
        turns=turned,
        over_time=over_time,
    )


def _kept(method: Method) -> AbstractContextManager[None]:
    """garbage_kept(); in a dry run nothing, as there is no sample that a collection would land in."""
    return nullcontext() if method.dry_run else garbage_kept()


def _counting(method: Method) -> Callable[..., HostReading | None]:
    """What host_counters.since() gives from now on; of a dry run, in which there is nothing to disturb, None."""
    return (lambda *_, **__: None) if method.dry_run else partial(host_counters.since, host_counters.start())


def make_second_context(backend: Backend, method: Method) -> None:
    """Of a GPU, where a timer will visit it, and before memory is asked for: else the first case would find more."""
    if backend.device.is_gpu and not method.dry_run:
        cast("GpuBackend", backend).second_context.visit()


def timer_on(
    backend: Backend, calls: CallLoop, method: Method, pace: Pace, copies: Sequence[Step]
) -> CpuTimer | GpuTimer | None:
    """None where nothing is to be timed. copies: of the step on other memory, for a GPU's own time."""
    if method.dry_run:
        return None
    if not backend.device.is_gpu:
        return CpuTimer(calls, method, pace)
    from primbench.timing.gpu import GpuTimer

    return GpuTimer(cast("GpuBackend", backend), calls, method, pace, copies=[CallLoop([each]) for each in copies])


def timed_by(timer: CpuTimer | GpuTimer, problem: Problem, step: Step, method: Method, pace: Pace) -> Measurement:
    """The times of every call, and what the step itself takes or tells: others, counts, refused_calls, data, learnt."""
    timed = timer.measure(rules_of(problem, method))
    described = description_of(step)
    take_refused, read, learnt = described.refused_calls, described.data, described.learnt
    return replace(
        timed,
        others={name: _taken(name, take, method, pace) for name, take in described.others.items()},
        counts=dict(described.counts),
        refused_calls=take_refused and take_refused(method, pace),
        data=read and read(),
        learnt=learnt and learnt(),
    )


def _taken(name: str, take: Callable[[Method, Pace], Samples], method: Method, pace: Pace) -> Samples:
    """Of a time that only this primitive has."""
    samples = take(method, pace)
    pace.phases.end(name)
    return samples


def rules_of(problem: Problem, method: Method) -> Callable[[str], StoppingRule]:
    """Of each metric beside the main one, by its name in Measurement.

    They have a few percent of its time, unless their rare slow calls are asked for.

    One by which a problem is compared before all others has as long as the main one.
    """
    has_tails = problem.has_tails and method.tails
    besides = tail_rule(method) if has_tails else secondary_rule(method)
    judging = () if has_tails else problem.preferred[:1]
    return lambda metric: main_rule(method) if metric in judging else besides
