"""Functions of a script or a notebook, as they stand there: how long one takes, and which of several is faster."""

from __future__ import annotations

import os
import sys
import time as clock
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from primbench.backends import best_available
from primbench.compare.pairs import compare
from primbench.devices import CPU, nth_gpu
from primbench.environment.fingerprint import collect
from primbench.errors import InvalidRequest, VerificationError
from primbench.experiments.in_thread import InThread
from primbench.numa import placement
from primbench.problem import Problem
from primbench.results.file import Results
from primbench.results.record import Record, Worker
from primbench.results.writer import header
from primbench.spec.arm import Arm
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.spec.placement import Placement
from primbench.spec.study import IN_TURN, Study
from primbench.system import collector
from primbench.timing.case import make_second_context, measure_on
from primbench.timing.checking import refuse_kept
from primbench.timing.function import arguments_of, comparable, on_host, reference_of, with_inputs
from primbench.timing.sampling import garbage_kept
from primbench.timing.unwaited import refuse_unwaited
from primbench.timing.verify import check_output
from primbench.workers.protocol import Task
from primbench.workers.turns import take_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np

    from primbench.backends import Backend
    from primbench.compare.comparison import Comparison
    from primbench.measurement import Measurement
    from primbench.problem import Array, Reference, Step, Value
    from primbench.timing.turns import InTurn

ROUNDS = 8
"""In each of which inputs are made anew, and so lie elsewhere in memory."""
OF_A_ROUND = Method(min_time_s=0.02, max_time_s=0.1, unit="process", tails=False, check=False)
ON_A_GPU = replace(OF_A_ROUND, min_time_s=0.01, max_time_s=0.03)
"""A GPU's calls have five times, of which that of the GPU itself scatters less than a CPU's."""
TIMEOUT_S = 600.0
IN_ONE_PROCESS = (
    "all of it ran in one process: what differs from one process to the next is in no interval; "
    "`primbench time FILE.py::FUNCTION --versus FILE.py::FUNCTION` starts fresh ones"
)


@dataclass(frozen=True)
class _Called(Problem):
    """A function that only this process has."""

    primitive = "time"

    def bytes_moved(self) -> None:
        """Nobody says what it moves."""

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        return ()

    def why_unverifiable(self) -> str:
        return "no function is named whose output it has to equal"

    def reference(self, rng: np.random.Generator, *inputs: Any) -> Reference:
        raise NotImplementedError  # as it is unverifiable

    def tolerance(self) -> float:
        """That of its type is in the scale of what it is compared with."""
        return 1.0


class _Place(NamedTuple):
    backend: str
    device: str


def time(
    function: Callable[..., Any],
    *,
    setup: Callable[[], Any] | None = None,
    device: str | None = None,
    cache: str = "hot",
    method: Method | None = None,
) -> Measurement:
    """Time calls of a function as it stands, in this process.

    setup: makes its arguments, a tuple or one of them, once for each set of inputs, before anything is timed. device:
    "cpu" or "cuda:N"; default where the function's output lies, else the GPU that torch uses here, else the CPU.
    cache: "cold" goes round as many sets of inputs as exceed twice the last-level cache. method: how long, in place of
    the usual; it says the cache, too.

    >>> import primbench
    >>> primbench.time(lambda: sum(range(1000))).wall_s.median_s < 1
    True

    Raises BackendUnavailable, UnsupportedCase, and whatever the function raises.
    """
    with _opened(_call(function, setup)(), device) as backend:
        return _timed(backend, function, setup, method or _usual(cache))


def recorded(
    name: str,
    function: Callable[..., Any],
    *,
    setup: Callable[[], Any] | None = None,
    device: str | None = None,
    cache: str = "hot",
    method: Method | None = None,
    number: int = 0,
) -> tuple[Record, Worker]:
    """What time() finds, as a results file has it, by a name that stands for the function. number: of the worker."""
    started, begun, method = _now(), clock.monotonic(), method or _usual(cache)
    with _opened(_call(function, setup)(), device) as backend:
        measured = _timed(backend, function, setup, method)
        (worker,) = _workers(backend, [None], number)
        case = _case(backend, name, method)
    took_s = clock.monotonic() - begun
    found = Record(
        case=case, status="ok", measurement=measured, worker=number, started_utc=started, duration_s=took_s
    )  # fmt: skip
    return found, worker


def versus(
    functions: Mapping[str, Callable[..., Any]],
    *,
    setup: Callable[[], Any] | None = None,
    check: bool = True,
    device: str | None = None,
    cache: str = "hot",
    method: Method | None = None,
    rounds: int = ROUNDS,
) -> Comparison:
    """Time several functions in turn, in this process, and say which of them are slower or faster than the first.

    functions: by the names that they have in the answer. setup, device, cache: as time() has them. check: whether all
    have to return what the first one does, an array or a tuple of arrays, for inputs made with the same seeds. method:
    how each of the rounds samples. rounds: how often, each with inputs of its own; intervals are over them.

    >>> import primbench
    >>> found = primbench.versus({"short": lambda: sum(range(100)), "long": lambda: sum(range(9999))}, check=False)
    >>> found.arms[0].cases[0].verdict
    'slower'

    Raises InvalidRequest, BackendUnavailable, UnsupportedCase, VerificationError where an output is another one, and
    whatever a function raises.
    """
    if len(functions) < 2 or rounds < 1:
        raise InvalidRequest(f"versus() sets two functions or more beside each other, there are {len(functions)}")
    calls = {name: _call(each, setup) for name, each in functions.items()}
    first, *_ = calls
    output = calls[first]()
    with _opened(output, device) as backend, garbage_kept(), collector.looking_at_new():
        usual = ON_A_GPU if backend.device.is_gpu else OF_A_ROUND
        method = replace(method or replace(usual, cache=_usual(cache).cache), unit="process")
        place = _Place(backend.name, str(backend.device))
        check_all = _check_of(list(calls.values()), output) if check else lambda backend: None
        check_all(backend)
        found = _results(backend, [*functions], method, rounds)
        make_second_context(backend, method)  # which all rounds share then
        for number in range(rounds):
            found.records.extend(_round(found, place, functions, setup, number))
        check_all(backend)
    compared = compare(found)
    return replace(compared, notes=[*compared.notes, IN_ONE_PROCESS])


def _check_of(calls: Sequence[Callable[[], Any]], output: Any) -> Callable[[Backend], None]:
    """What raises VerificationError where one returns something else, now or later. output: what it has to be."""
    first = next(iter(output), None) if isinstance(output, tuple | list) else output
    reference = reference_of(on_host(output)) if hasattr(first, "dtype") else None

    def check(backend: Backend) -> None:
        for call in calls:
            if reference is not None:
                step = comparable(backend, call)
                check_output(backend, _Called(), step, reference)
                refuse_kept(backend, step, arguments_of(call))
                refuse_unwaited(backend, step)
            elif (found := call()) != output:
                raise VerificationError(f"wrong result: {found!r:.60}, and the first one returns {output!r:.60}")

    return check


def _call(function: Callable[..., Any], setup: Callable[[], Any] | None) -> Callable[[], Any]:
    return with_inputs(function, setup) if setup else function


def _place_of(output: Any, device: str | None) -> _Place:
    """Which backend synchronizes and captures calls of a function that returned this."""
    first: Any = next(iter(output), None) if isinstance(output, tuple | list) else output
    owner = type(first).__module__.partition(".")[0]
    if owner == "cupy":
        return _Place(owner, device or str(nth_gpu(first.device.id)))
    return _Place(owner, device or str(first.device)) if owner == "torch" else _place_here(device)


def _place_here(device: str | None) -> _Place:
    """The same of an output that tells nothing."""
    torch = sys.modules.get("torch")
    if device is None:
        device = str(nth_gpu(torch.cuda.current_device())) if torch and torch.cuda.is_initialized() else CPU
    return _Place("numpy" if device == CPU else "torch" if torch else "cupy", device)


def _timed(
    backend: Backend,
    function: Callable[..., Any],
    setup: Callable[[], Any] | None,
    method: Method,
    turns: InTurn | None = None,
) -> Measurement:
    def made(backend: Backend, problem: Problem) -> Step:
        return _call(function, setup)

    return measure_on(backend, _Called(), method, turns=turns, kernel=made)


def _usual(cache: str) -> Method:
    if cache not in ("hot", "cold"):
        raise InvalidRequest(f"cache={cache!r}: hot or cold")
    return Method(cache="cold" if cache == "cold" else "hot")


def _opened(output: Any, device: str | None) -> closing[Backend]:
    """The backend of a function that returned this, closed at the end."""
    place = _place_of(output, device)
    return closing(best_available([place.backend], place.backend, place.device))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _case(backend: Backend, name: str, method: Method) -> Case:
    parameters: dict[str, Value] = {"function": name}
    return Case(
        primitive="time", parameters=parameters, backend=backend.name, device=str(backend.device), method=method
    )  # fmt: skip


def _workers(backend: Backend, arms: Sequence[Arm | None], first: int = 0) -> list[Worker]:
    """This process, once for each arm. first: the number of the first one."""
    environment, versions = collect(gpus=backend.device.is_gpu), backend.versions()
    placed = placement.apply(Placement(), backend.device)
    return [
        Worker(
            worker=number, pid=os.getpid(), backend=backend.name, device=str(backend.device), environment=environment,
            placement=placed, versions=versions, arm=arm,
        )
        for number, arm in enumerate(arms, first)
    ]  # fmt: skip


def _results(backend: Backend, names: list[str], method: Method, rounds: int) -> Results:
    """The head of what such a study would write, with a worker for each of its arms."""
    first, *others = names
    arms = [Arm(name=first), *(Arm(name=name, case={"function": name}) for name in others)]
    case = _case(backend, first, method)
    study = Study(title="versus", arms=arms, cases=[case], pairs=rounds, pairing=IN_TURN, other_builds=True)
    head = replace(header(["primbench.versus"], {}), study=study)
    return Results(header=head, workers=_workers(backend, arms), records=[])


def _round(
    found: Results,
    place: _Place,
    functions: Mapping[str, Callable[..., Any]],
    setup: Callable[[], Any] | None,
    number: int,
) -> Iterator[Record]:
    """All functions in turn, the first one first in every other round. Raises what a function raised."""
    study = found.header.study
    assert study is not None
    (case,) = study.cases
    arms = list(enumerate(study.arms))[:: -1 if number % 2 else 1]
    started, begun = _now(), clock.monotonic()

    def measure(name: str, turns: InTurn) -> Measurement:
        with closing(best_available([place.backend], place.backend, place.device)) as backend:
            return _timed(backend, functions[name], setup, case.method, turns)

    threads = [InThread(partial(measure, arm.name)) for _, arm in arms]
    own = [replace(case, arm=arm.name, process=number) for _, arm in arms]
    tasks = [Task(case=each, in_turn=True) for each in own]
    outcomes = take_turns(list(zip(threads, tasks, strict=True)), TIMEOUT_S)
    for (worker, arm), each, thread, (outcome, _) in zip(arms, own, threads, outcomes, strict=True):
        if thread.raised is not None:
            raise thread.raised
        name = {"function": arm.name}
        yield Record(
            case=replace(each, parameters=each.parameters | name, instead=dict(each.parameters) if arm.case else {}),
            status=outcome.status, reason=outcome.reason, measurement=outcome.measurement, worker=worker,
            started_utc=started, duration_s=clock.monotonic() - begun,
        )  # fmt: skip
