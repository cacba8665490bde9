"""What a suite says of the step that it was made of."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec

WHOLE, PARTS = "whole", "parts"
"""Sets of such a suite: the step, and the calls that it is taken apart into."""


class StepPlace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where a step ran, by what its time hangs on; None is not known, or none."""

    boot_id: str | None = None
    """Of the kernel that runs, which tells machines apart."""
    cpu_model: str | None = None
    cpus: int | None = None
    """How many CPUs it might run on."""
    cpu_quota: float | None = None
    """CPUs that its control group was granted."""
    runtime: str | None = None
    """Name of what started its container; "host" outside."""
    gpu: str | None = None
    """Name of its GPU."""


class NotCalledAgain(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Calls of one operator that cannot be made again, for one reason."""

    name: str
    """Of the operator, without namespace and overload."""
    calls: Annotated[int, msgspec.Meta(ge=1)]
    """How many a step makes."""
    reason: str
    seconds: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """What all of them took in the captured step, timed once while it was recorded; None is not known."""


_TIMES = ("times_s", "waits_s", "queues_s", "faults_s", "inside_s", "between_s", "exposed_s", "host_s", "on_gpu_s")
_ONE_FOR_EACH = {
    "waits_s": "times_s",
    "queues_s": "times_s",
    "faults_s": "times_s",
    "between_s": "inside_s",
    "on_gpu_s": "host_s",
}


class Captured(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a suite says of the step that it was made of."""

    step: str
    """Whose step it is, and where it begins and ends."""
    calls: int = 0
    """Calls of operators, views included."""
    parts: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Calls that the entries make together when they are written; 0 is not known."""
    left_out: Annotated[int, msgspec.Meta(ge=0)] | list[NotCalledAgain] = 0
    """Calls that no entry makes, since they cannot be made again; of older files how many alone."""
    torch: str = ""
    """Version of torch."""
    threads: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Threads of torch's pool, by which an operator on the CPU computes; None is not known."""
    times_s: list[float] = []
    """Times of steps like it that were not captured, in seconds; [] where there were none."""
    waits_s: list[float] = []
    """How long each step of ``times_s`` waited for its data loader, in seconds."""
    queues_s: list[float] = []
    """How long each step of ``times_s`` waited for a CPU, in seconds; [] is not known."""
    faults_s: list[float] = []
    """How long the thread of each step of ``times_s`` waited for pages that it was the first to touch, in seconds, as
    many as it touched times what one costs; [] is not known.
    """
    inside_s: list[float] = []
    """How long some operator was under way in each of further steps, in seconds."""
    between_s: list[float] = []
    """How long in each step of ``inside_s`` none was, nor a collective or the data loader, in seconds; both without the
    time of the profiler that told it. [] is not known: in older files ``inside_s`` has the profiler's time in it.
    """
    exposed_s: list[float] = []
    """How long of such a step collectives were under way and nothing beside them, in seconds, by rank; rank 0's step is
    this one. [] is not known.
    """
    host_s: list[float] = []
    """How long the host had to do in each of still further steps of a GPU, in seconds: without what it waited for that
    or for room to launch, which ``inside_s`` and ``between_s`` are without then, too. [] is not known: it is in them.
    """
    on_gpu_s: list[float] = []
    """How long in each step of ``host_s`` a GPU ran what the step launched, in seconds. [] is not known."""
    operators_s: dict[str, float] = {}
    """How long all calls of an operator took in a step of ``inside_s``, in seconds, by its name, those that take most:
    medians, in which there is what they waited for the GPU, and the time of the profiler.
    """
    unlike: Annotated[int, msgspec.Meta(ge=0)] = 0
    """How many steps of ``times_s`` called other modules than the captured one, or them other times."""
    compiled: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Graphs of operators that torch had compiled, which were captured as if it had not."""
    cuda_graphs: Annotated[int, msgspec.Meta(ge=0)] = 0
    """CUDA graphs that the step replayed, of whose operators none was captured."""
    helpers: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Threads that the step started within calls of modules, as DataParallel does for each GPU: what they called may
    have run at the same time as others.
    """
    place: StepPlace = StepPlace()
    """Where all that was."""

    def __post_init__(self) -> None:
        """Raises ValueError, which makes a suite that is not so be refused."""
        if not all(each > 0 for each in self.times_s):
            raise ValueError("times_s: finite numbers above 0")
        for name in (*_TIMES, "operators_s"):
            found = getattr(self, name)
            if not all(0 <= each < math.inf for each in (found.values() if isinstance(found, dict) else found)):
                raise ValueError(f"{name}: finite numbers of at least 0")
        for name, of in _ONE_FOR_EACH.items():
            if len(getattr(self, name)) not in (0, len(getattr(self, of))):
                raise ValueError(f"{name}: one for each of {of}")
