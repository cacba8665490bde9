"""The parent's side of a neighbour: how it is started for a case, and what it did while the case was timed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.devices import CPU
from primbench.errors import PrimbenchError, WorkerError
from primbench.measurement.readings import NeighbourReading
from primbench.registry import backends_of, named_files, problem_class
from primbench.workers.protocol import Outcome, Start

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.spec.case import Case
    from primbench.spec.neighbour import Neighbour
    from primbench.workers.process import WorkerProcess
    from primbench.workers.protocol import Called


class NeighbourGone(WorkerError):
    """The neighbour could not start, died, or did not answer; the message says which."""


def start_of(neighbour: Neighbour, case: Case) -> Start:
    """On the case's device and by its backend, unless the neighbour names others or its primitive lacks them."""
    found = problem_class(neighbour.primitive)
    backends = backends_of(neighbour.primitive)
    device = neighbour.device or (case.device if found.on_gpus else CPU)
    own = found.cpu_backend if device == CPU else None
    return Start(
        backend=neighbour.backend or (case.backend if case.backend in backends else own),
        candidates=list(backends),
        device=device,
        placement=case.placement,
        purpose="neighbour",
        kernels=named_files(),
        neighbour=neighbour,
    )


def timed_beside(neighbour: Neighbour, there: WorkerProcess, timeout_s: float, timed: Callable[[], Outcome]) -> Outcome:
    """What a worker makes of its case while the neighbour calls, with how often that was. Raises NeighbourGone.

    timed: has the case timed.
    """
    before = _called(neighbour, there, timeout_s)
    outcome = timed()
    after = _called(neighbour, there, timeout_s)
    if outcome.measurement is None:
        return outcome
    reading = NeighbourReading(
        words=neighbour.words,
        backend=there.ready.backend,
        device=there.ready.device,
        calls=after.calls - before.calls,
        duration_s=after.time_s - before.time_s,
    )
    return replace(outcome, measurement=replace(outcome.measurement, neighbour=reading))


def _called(neighbour: Neighbour, there: WorkerProcess, timeout_s: float) -> Called:
    try:
        return there.called(timeout_s)
    except PrimbenchError as error:
        raise NeighbourGone(f"neighbour {neighbour.words}: {error}") from None
