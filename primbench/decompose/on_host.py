"""What torch's profiler notes of operators: how long of each step passes inside them, between them, and in collectives
that run on the host.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import itertools
import math
import operator
import os
import time
from collections import Counter, defaultdict
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from primbench import stats
from primbench.decompose.spans import Noted, lasting_s, least_s
from primbench.measurement.spans import around, by_thread, threads_inside
from primbench.problem.operators import is_collective_on_host, is_under_way, is_wait_for_ranks
from primbench.timing.queued import with_queued_s

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

_OWN = f"primbench {os.urandom(8).hex()}"  # as no script names a range
_END, _LOADING = f"{_OWN}: a step ends", f"{_OWN}: the data loader is at work"
_LEAST = 0.01  # of the time in operators, from which on that of one is told


class HostSteps(NamedTuple):
    """What steps tell whose operators are noted, in seconds, by step but for operators_s."""

    inside_s: Sequence[float] = ()
    between_s: Sequence[float] = ()
    others_s: Sequence[float] = ()
    """How long the data loader was at work, or a collective under way and no operator."""
    exposed_s: Sequence[float] = ()
    """How long of that a collective was; none where there was none."""
    operators_s: Mapping[str, float] = MappingProxyType({})


def seen_by_profiler() -> contextlib.AbstractContextManager[object]:
    """That the data loader is at work, if one is on."""
    import torch

    is_on = torch.autograd._profiler_enabled()  # noqa: SLF001 - nothing public tells
    return torch.profiler.record_function(_LOADING) if is_on else contextlib.nullcontext()


class ThreadTimes(NamedTuple):
    """Of a thread, so far."""

    queued_s: float
    """How long it has waited for a CPU; NaN where the kernel does not count it."""
    ran_s: float


def end_step(number: int) -> ThreadTimes:
    """A step ends, the one of this number. Of several marks of it the last one counts: beside the others its thread
    waited for a CPU.
    """
    import torch

    def marked() -> float:
        with torch.profiler.record_function(f"{_END} {number}"):
            return time.thread_time()

    ran_s, queued_s = with_queued_s(marked)
    return ThreadTimes(queued_s, ran_s)


def host_steps(
    log: Sequence[Noted], ends: Sequence[ThreadTimes], names: Collection[str] = (), *, warm_up: int = 0
) -> HostSteps:
    """ends: by each end of a step what the thread has done that makes them. names: of operators of which each is told
    apart. warm_up: steps at the beginning that do not count.
    """
    marks = {each.name: each.start for each in sorted(log, key=lambda each: each.start) if each.name.startswith(_END)}
    steps = [*itertools.pairwise(marks.values())]
    ran, asleep_s = (
        [of(*each) for each in zip(steps, itertools.pairwise(ends), strict=False)] for of in (_ran_fraction, _asleep_s)
    )
    return _apart(log, steps[warm_up:], ran[warm_up:], asleep_s[warm_up:], names)


def _apart(
    log: Sequence[Noted], steps: list[tuple[int, int]], ran: list[float], asleep_s: list[float],
    names: Collection[str] = (),
) -> HostSteps:  # fmt: skip
    """ran: of each step, in which its thread did not wait for a CPU. asleep_s: of each step, in which it did neither
    that nor run.
    """
    working, collectives = [*_working(log)], _collectives(log)
    loading = _named(log, lambda name: name == _LOADING)
    busy = [*(each.span for each in working), *loading]
    lasted_s = [(end - start) * 1e-9 for start, end in steps]
    loading_s, busy_s, seen_s = (lasting_s(each, steps) for each in (loading, busy, [*busy, *collectives]))
    # Who does not sleep does not wait for a collective: Python may run beside one.
    exposed_s = [
        min(seen - own, max(0.0, asleep - waited))
        for seen, own, asleep, waited in zip(seen_s, busy_s, asleep_s, loading_s, strict=True)
    ]
    nested, others = _events(log, [*_named(log, is_under_way), *collectives, *loading], steps)
    return HostSteps(
        inside_s=_corrected_s(map(operator.sub, busy_s, loading_s), ran, nested),
        between_s=_corrected_s(map(operator.sub, map(operator.sub, lasted_s, busy_s), exposed_s), ran, others),
        others_s=[*map(operator.add, loading_s, exposed_s)],
        exposed_s=exposed_s if collectives else [],
        operators_s=_operators_s(working, steps, names),
    )


def _collectives(log: Sequence[Noted]) -> list[tuple[int, int]]:
    """Those by CPUs, and the waits for them; none of GPUs, for which no host waits."""
    found = _named(log, is_collective_on_host)
    return [*found, *_named(log, is_wait_for_ranks)] if found else []


def _working(log: Sequence[Noted]) -> Iterator[Noted]:
    """Operators, each in the pieces in which it does not wait for other ranks; none of a collective's own, by CPUs."""
    operators = [each for each in log if is_under_way(each.name)]
    exchanging = _by_thread(log, is_collective_on_host)
    own = threads_inside(exchanging, ((each.thread, each.start) for each in operators))
    waits = _by_thread(log, is_wait_for_ranks) if exchanging else {}
    for each in operators:
        if each.thread not in own:
            for start, end in around(waits.get(each.thread, []), *each.span):
                yield each._replace(start=start, end=end)


def _by_thread(log: Iterable[Noted], is_one: Callable[[str], bool]) -> Mapping[object, list[tuple[int, int]]]:
    return by_thread((each.thread, *each.span) for each in log if is_one(each.name))


def _operators_s(log: Iterable[Noted], steps: Sequence[tuple[int, int]], names: Collection[str]) -> dict[str, float]:
    """Of each of these names but where one is called by another of them, those that take most."""
    outermost = [*_outermost(each for each in log if each.name in names)]
    found = [_by_name(outermost, *step) for step in steps]
    labels = {name.partition("::")[2] for name in names}
    told = {name: stats.quantile([of_step[name] for of_step in found], 0.5) for name in labels if found}
    least_s = _LEAST * sum(told.values())
    return {name: told[name] for name in sorted(told, key=lambda name: -told[name]) if told[name] > least_s}


def _outermost(log: Iterable[Noted]) -> Iterator[Noted]:
    """Of each thread."""
    until: Counter[int] = Counter()
    for each in sorted(log, key=lambda each: (each.start, -each.end)):
        if each.start >= until[each.thread]:
            until[each.thread] = each.end
            yield each


def _by_name(log: Iterable[Noted], begun: int, ended: int) -> defaultdict[str, float]:
    """How long those took that began in a step, in seconds, by their names without a namespace."""
    found: defaultdict[str, float] = defaultdict(float)
    for each in log:
        if begun <= each.start < ended:
            found[each.name.partition("::")[2]] += (each.end - each.start) * 1e-9
    return found


def _named(log: Iterable[Noted], is_one: Callable[[str], bool]) -> list[tuple[int, int]]:
    return [each.span for each in log if is_one(each.name)]


def _corrected_s(spans_s: Iterable[float], ran: Iterable[float], events: Iterable[int]) -> list[float]:
    """Without the wait for a CPU, and what the profiler took for so many events."""
    event_s = _event_s()
    return [max(0.0, each_s * part - count * event_s) for each_s, part, count in zip(spans_s, ran, events, strict=True)]


def _events(
    log: Iterable[Noted], seen: Iterable[tuple[int, int]], steps: Sequence[tuple[int, int]]
) -> tuple[list[int], list[int]]:
    """How many of each step begin within one of ``seen``, and how many of the others: the profiler's time for these,
    but for the tenth of a microsecond that is in an event itself, passes outside.
    """
    nested, others, covered = [0] * len(steps), [0] * len(steps), 0
    covers = {(start, end) for start, end in seen}
    begins = [start for start, _ in steps]
    for start, end in sorted((each.span for each in log), key=lambda span: (span[0], -span[1])):
        number = bisect.bisect_right(begins, start) - 1
        if 0 <= number < len(steps) and start < steps[number][1]:
            (nested if start < covered else others)[number] += 1
        if (start, end) in covers:
            covered = max(covered, end)
    return nested, others


@functools.cache
def _event_s() -> float:
    """What torch's profiler takes for an event: of a call that does next to nothing, with it and without."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    plain_s = least_s(lambda: torch.empty(0))
    with profile(activities=[ProfilerActivity.CPU]):
        return max(0.0, least_s(lambda: torch.empty(0)) - plain_s)


def _asleep_s(step: tuple[int, int], ends: tuple[ThreadTimes, ThreadTimes]) -> float:
    """Of a step, in which its thread neither ran nor waited for a CPU, as far as the kernel tells."""
    (begun, ended), (before, after) = step, ends
    wait_s = after.queued_s - before.queued_s
    return 1e-9 * (ended - begun) - (after.ran_s - before.ran_s) - (0.0 if math.isnan(wait_s) else wait_s)


def _ran_fraction(step: tuple[int, int], ends: tuple[ThreadTimes, ThreadTimes]) -> float:
    """Of a step, in which its thread did not wait for a CPU; all of it where the kernel does not tell."""
    (begun, ended), (before, after) = step, ends
    wait_s = after.queued_s - before.queued_s
    return 1.0 if math.isnan(wait_s) or begun == ended else max(0.0, 1 - wait_s / (1e-9 * (ended - begun)))
