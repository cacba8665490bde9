"""What a suite says of the step that it was made of."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec

WHOLE, PARTS = "whole", "parts"
"""Sets of such a suite: the step, and the calls that it is taken apart into."""


class StepPlace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where a step ran, by what its time hangs on; None is not known, or none.

    boot_id: of the kernel, which tells machines apart. cpus: that it might run on. cpu_quota: CPUs that its control
    group was granted. runtime: of its container, "host" outside. gpu: by name.
    """

    boot_id: str | None = None
    cpu_model: str | None = None
    cpus: int | None = None
    cpu_quota: float | None = None
    runtime: str | None = None
    gpu: str | None = None


class Captured(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """step: whose it is, and where it begins and ends. calls: of operators, views included. parts: as many as the
    entries make together when they are written; 0 is not known. left_out: calls that no entry makes, since they cannot
    be made again. torch: its version.

    threads: of torch's pool, by which an operator on the CPU computes; None is not known. times_s: of steps like it
    that were not captured, in seconds; [] where there were none. waits_s: of each of these, for its data loader.
    queues_s: likewise, for a CPU; [] is not known. inside_s: of further steps, how long of each some operator was under
    way. unlike: how many of times_s called other modules than the captured one, or them other times. compiled: graphs
    of operators that torch had compiled, which were captured as if it had not. cuda_graphs: that the step replayed, of
    whose operators none was captured. place: where all that was.
    """

    step: str
    calls: int = 0
    parts: Annotated[int, msgspec.Meta(ge=0)] = 0
    left_out: Annotated[int, msgspec.Meta(ge=0)] = 0
    torch: str = ""
    threads: Annotated[int, msgspec.Meta(ge=1)] | None = None
    times_s: list[float] = []
    waits_s: list[float] = []
    queues_s: list[float] = []
    inside_s: list[float] = []
    unlike: Annotated[int, msgspec.Meta(ge=0)] = 0
    compiled: Annotated[int, msgspec.Meta(ge=0)] = 0
    cuda_graphs: Annotated[int, msgspec.Meta(ge=0)] = 0
    place: StepPlace = StepPlace()

    def __post_init__(self) -> None:
        """Raises ValueError, which makes a suite that is not so be refused."""
        if not all(each > 0 for each in self.times_s):
            raise ValueError("times_s: finite numbers above 0")
        for name in ("times_s", "waits_s", "queues_s", "inside_s"):
            if not all(0 <= each < math.inf for each in getattr(self, name)):
                raise ValueError(f"{name}: finite numbers of at least 0")
        for name in ("waits_s", "queues_s"):
            if len(getattr(self, name)) not in (0, len(self.times_s)):
                raise ValueError(f"{name}: one for each of times_s")
