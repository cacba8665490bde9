"""Steps of a script, timed as they ran, and what those told that ran under torch's profiler."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from primbench import stats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.spec.captured import Captured

LONGER_PROFILED = 1.5
"""Times as long as others, from which on steps under the profiler tell nothing of these."""


HARDLY = 0.05
"""Share of a step that is next to nothing: steps differ, of which some tell one thing, and others another."""


class Timed(msgspec.Struct, frozen=True, kw_only=True):
    """Steps of a script, timed as they ran while one like them was captured."""

    steps: int
    """How many there were."""
    median_s: float
    interval: tuple[float, float] | None
    """95 % interval of the median; None for fewer than six."""
    least_s: float
    most_s: float
    waits_s: float
    """The median of how long the script waited for its data loader."""
    queues_s: float | None = None
    """By how much the median is longer since its thread waited for a CPU; None where that is not known."""
    faults_s: float = 0.0
    """The median of how long it waited for pages of memory that it was the first to touch, as far as that is known."""
    ranks_s: list[float] = []
    """How long collectives were under way in such a step and nothing beside them, by rank; [] of one rank, or where
    that is not known. Whom all wait for has the least; this step is rank 0's.
    """
    between_s: float | None = None
    """The median of how long no operator was under way, in Python, modules and autograd; None where it is not known, or
    steps differ.
    """
    between_interval: tuple[float, float] | None = None
    """95 % interval of it; None of fewer than six steps."""
    inside_s: float | None = None
    """The median of how long some operator was, in the same steps; None where it is not known, steps differ, or parts
    were measured in another place.
    """
    between_share: tuple[float, float] | None = None
    """95 % interval of the share that between_s has of both; None of fewer than six steps, or where inside_s is not
    known.
    """
    operators_s: dict[str, float] = {}
    """Medians of how long all calls of an operator took in the same steps, by its name, those that take most."""
    host_s: float | None = None
    """The median of how long the host had to do in such a step, without what it waited for the GPU; None where that is
    not known, and is in inside_s and between_s, and on a CPU.
    """
    on_gpu_s: float | None = None
    """The median of how long the GPU computed in such a step; None where it is not known, and on a CPU."""
    profiled_s: float | None = None
    """How long steps under the profiler took, where that is so much longer that they do not tell of the others; None
    where it is not.
    """
    helpers: int = 0
    """Threads that the captured step started within calls of modules."""
    unlike: int = 0
    """How many of these steps called other modules than the one whose parts were measured, or them other times."""
    elsewhere: list[str] = []
    """In what the place where parts were measured is another, in words."""

    @property
    def left_s(self) -> float:
        """What the median has for operators and for what lies between them: it, without waits and collectives, of which
        a host waits for those on its GPU as for other kernels.
        """
        others_s = self.waits_s + (self.queues_s or 0.0)
        if self.host_s is None:
            return max(0.0, self.median_s - others_s - sum(self.ranks_s[:1]))
        return max(0.0, min(self.median_s, self.host_s) - others_s)

    def of_step(self, time_s: float) -> float:
        """A part of between_s and inside_s, where both take longer than there is for them, as much less as both."""
        both_s = (self.between_s or 0.0) + (self.inside_s or 0.0)
        return time_s if self.inside_s is None or both_s <= self.left_s else time_s * self.left_s / both_s

    @property
    def never_waits(self) -> bool:
        """Whether the host next to never waits for its GPU, as far as that is known."""
        return self.host_s is not None and self.host_s >= self.median_s * (1 - HARDLY)

    @property
    def work_s(self) -> float | None:
        """What a host beside a GPU has to do in a step, waits for data and for a CPU apart; None where host_s is."""
        return None if self.host_s is None else self.left_s

    @property
    def tells_all_of_host(self) -> bool:
        """Whether it is known how long a host has to do beside its GPU, and not how long of that in Python."""
        return self.host_s is not None and self.between_s is None

    @property
    def collectives_s(self) -> float:
        """How long collectives were under way, and nothing beside them, in the rank that all wait for, but no longer
        than a step: profiled ones told it.
        """
        return min(*self.ranks_s, self.median_s) if self.ranks_s else 0.0

    @property
    def waits_for_rank_s(self) -> float:
        """How much longer collectives were under way so in this rank."""
        return min(self.ranks_s[0], self.median_s) - self.collectives_s if self.ranks_s else 0.0


def of_device(timed: Timed, *, on_gpu: bool) -> Timed:
    """Without what a GPU alone has, where none is."""
    return timed if on_gpu else replace(timed, host_s=None, on_gpu_s=None)


def slower_s(timed: Timed | None, parts_s: float, *, is_least: bool, may_wait_s: float = 0.0) -> float:
    """By how much operators take longer in the step than alone, where they take ``parts_s``, beyond new memory.

    is_least: whether more than that is not known of them. may_wait_s: how long the host may wait for its GPU in them,
    where how long it does is not known.
    """
    if timed is None or is_least:
        return 0.0
    waits_s = may_wait_s if timed.host_s is None else 0.0
    return max(0.0, timed.of_step(timed.inside_s or 0.0) - parts_s - waits_s - timed.faults_s)


def timed(captured: Captured | None, elsewhere: list[str] | None = None) -> Timed | None:
    """None where no step was timed."""
    if captured is None or not captured.times_s:
        return None
    times_s = captured.times_s
    ran_s = [time_s - queued_s for time_s, queued_s in zip(times_s, captured.queues_s, strict=False)]
    median_s = stats.quantile(times_s, 0.5)
    return Timed(
        steps=len(times_s),
        median_s=median_s,
        interval=stats.median_interval(times_s),
        least_s=min(times_s),
        most_s=max(times_s),
        waits_s=stats.quantile(captured.waits_s, 0.5) if captured.waits_s else 0.0,
        queues_s=median_s - stats.quantile(ran_s, 0.5) if ran_s else None,
        faults_s=stats.quantile(captured.faults_s, 0.5) if captured.faults_s else 0.0,
        ranks_s=captured.exposed_s,
        helpers=captured.helpers,
        unlike=captured.unlike,
        elsewhere=elsewhere or [],
        **_between(captured, ran_s or times_s, elsewhere),
    )


def _between(captured: Captured, ran_s: Sequence[float], elsewhere: list[str] | None) -> dict[str, Any]:
    """What is known of the time in operators and between them."""
    if captured.unlike:
        return {"between_s": None}
    host_s, on_gpu_s = (stats.quantile(each, 0.5) if each else None for each in (captured.host_s, captured.on_gpu_s))
    of_gpu: dict[str, Any] = {"host_s": host_s, "on_gpu_s": on_gpu_s}
    if not captured.between_s:
        return {**of_gpu, "between_s": _between_s(captured, ran_s)}
    between_s, inside_s = stats.quantile(captured.between_s, 0.5), stats.quantile(captured.inside_s, 0.5)
    profiled_s = between_s + inside_s
    if profiled_s > LONGER_PROFILED * stats.quantile(ran_s, 0.5):
        return {**of_gpu, "profiled_s": profiled_s}
    return {
        **of_gpu,
        "operators_s": {} if elsewhere else captured.operators_s,
        "between_s": between_s,
        "between_interval": stats.median_interval(captured.between_s),
        "inside_s": None if elsewhere else inside_s,
        "between_share": None if elsewhere else stats.median_interval(_shares(captured)),
    }


def _shares(captured: Captured) -> list[float]:
    """Of each step under the profiler, how much of it passed between operators."""
    both = zip(captured.between_s, captured.inside_s, strict=False)
    return [between_s / (between_s + inside_s) for between_s, inside_s in both if between_s + inside_s > 0]


def _between_s(captured: Captured, ran_s: Sequence[float]) -> float | None:
    """Of a file that has no ``between_s``, what is known from below. ran_s: how long each step lasted, without what it
    waited for a CPU. None where their scatter hides it, too.
    """
    if not captured.inside_s:
        return None
    active_s = [each - waited_s for each, waited_s in itertools.zip_longest(ran_s, captured.waits_s, fillvalue=0.0)]
    known_s = stats.quantile(captured.inside_s, 0.5) + sum(captured.exposed_s[:1])
    between_s = stats.quantile(active_s, 0.5) - known_s
    low_s, high_s = stats.median_interval(active_s) or (0.0, 0.0)
    return None if 0 < between_s < high_s - low_s else max(0.0, between_s)
