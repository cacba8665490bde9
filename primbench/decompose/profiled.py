"""Further steps of a script under torch's profiler: how long of each passes inside operators, between them, and in
collectives; and of a script that uses a GPU, how long that is busy, and the host waits for it.

What the profiler notes of operators makes steps longer, in which the host waits less for its GPU: its notes of the GPU
are of steps of their own.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import itertools
import math
import operator
import time
from collections import Counter, defaultdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench import stats
from primbench.decompose.on_gpu import GpuSteps, gpu_steps
from primbench.decompose.ranks import of_ranks
from primbench.decompose.spans import Noted, lasting_s, noted
from primbench.problem.operators import is_under_way
from primbench.timing.host_counters import queued_s as queued_s_so_far

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

STEPS = 6  # that are profiled, of whose median there is an interval
WARM_UP = 1  # before these, in which the profiler takes longer for its events
_END, _LOADING = "primbench: a step ends", "primbench: the data loader is at work"
_ROUNDS, _CALLS = 30, 200  # by which it is found out what profiling costs
_COLLECTIVES = ("gloo:", "mpi:")  # of backends that run on the host, from their call to their end
_LEAST = 0.01  # of the time in operators, from which on that of one is told


class ProfiledSteps(NamedTuple):
    """What such steps tell, in seconds, by step where nothing else is said. Neither inside_s nor between_s has the
    thread's wait for a CPU in it, which may come at any moment, so that each has its share of it, nor what the profiler
    took for its events, nor what the host waited for a GPU.
    """

    inside_s: list[float]
    """How long some operator was under way."""
    between_s: list[float]
    """How long none was, nor a collective, nor the data loader at work."""
    operators_s: dict[str, float]
    """Medians of how long those took that take most, by the name of an operator, all its calls in a step together, with
    what the profiler took for events in them and what they waited for a GPU or a CPU.
    """
    exposed_s: list[float]
    """By rank, how long collectives were under way and nothing beside them: no operator where they run on the host, no
    other kernel where they run on a GPU. [] of one rank.
    """
    host_s: list[float]
    """How long each of a GPU's steps lasted on the host, without what that waited for the GPU or for room to launch. []
    of CPUs.
    """
    on_gpu_s: list[float]
    """How long in each of these a GPU ran what the step launched."""


class Inside:
    """Steps that run under the profiler, one after the other, once it is warm. told: given what they tell. names: of
    operators as the profiler has them, of which each is told apart.
    """

    def __init__(self, told: Callable[[ProfiledSteps], None], names: Collection[str] = ()) -> None:
        import torch

        self._told, self._names = told, names
        # The GPU's last: once the profiler has noted what runs there, launches take longer for good.
        self._due = [_Log(), *([_Log(of_gpu=True)] if torch.cuda.is_initialized() else [])]
        self._done = list[_Log]()
        self.is_enough = False

    def end(self) -> None:
        """A step ends, and the next one begins. Raises RuntimeError where the script has a profiler of its own."""
        if self.is_enough:
            return
        self._due[0].end()
        if self._due[0].is_enough:
            self._close()
            if self._due:
                self._due[0].end()
            else:
                self.tell()

    def _close(self) -> None:
        self._due[0].close()
        self._done.append(self._due.pop(0))

    def tell(self) -> None:
        """What they tell, once, while the job that this process is a rank of is still there."""
        if self.is_enough:
            return
        self.is_enough = True
        if self._due:
            self._close()
        host = next((log.of_host(self._names) for log in self._done if not log.is_of_gpu), _HostSteps())
        gpu = next((log.of_gpu() for log in self._done if log.is_of_gpu), GpuSteps())
        self._told(_both(host, gpu))


class _Log:
    """What the profiler notes of steps: operators, or what runs on a GPU and which calls of the driver the host makes
    for that.
    """

    def __init__(self, *, of_gpu: bool = False) -> None:
        self.is_of_gpu = of_gpu
        self._profiler: Any = None
        self._queued_s: list[float] = []  # so far, at each end
        self._ends_ns: list[int] = []
        self._noted: list[Noted] = []
        self._launch_s = 0.0  # that the profiler takes for one

    @property
    def is_enough(self) -> bool:
        return len(self._ends_ns) > WARM_UP + STEPS

    def end(self) -> None:
        import torch
        from torch.profiler import ProfilerActivity, profile, record_function

        if self._profiler is None:
            plain_s = _launch_s() if self.is_of_gpu else 0.0
            profiler = profile(activities=[ProfilerActivity.CUDA if self.is_of_gpu else ProfilerActivity.CPU])
            profiler.__enter__()
            self._profiler = profiler
            self._launch_s = max(0.0, _launch_s() - plain_s) if self.is_of_gpu else 0.0
        self._ends_ns.append(time.time_ns())
        if not self.is_of_gpu:
            with record_function(_END):
                self._queued_s.append(queued_s_so_far())
        elif not torch.cuda.is_current_stream_capturing():
            torch.cuda.current_stream().query()  # noted as on_gpu.MARK

    def close(self) -> None:
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            profiler.__exit__(None, None, None)
            # events() of torch.profiler makes a tree of them, which takes half a minute where these take a second.
            self._noted = noted(profiler.profiler.kineto_results.events())

    def of_host(self, names: Collection[str]) -> _HostSteps:
        steps = [*itertools.pairwise(sorted(each.start for each in self._noted if each.name == _END))]
        ran = [*map(_ran_fraction, steps, itertools.pairwise(self._queued_s))]
        return _apart(self._noted, steps[WARM_UP:], ran[WARM_UP:], names)

    def of_gpu(self) -> GpuSteps:
        return gpu_steps(self._noted, self._ends_ns, warm_up=WARM_UP, launch_s=self._launch_s)


class _HostSteps(NamedTuple):
    """What steps tell whose operators are noted, in seconds, by step but for operators_s."""

    inside_s: Sequence[float] = ()
    between_s: Sequence[float] = ()
    others_s: Sequence[float] = ()
    """How long the data loader was at work, or a collective under way and no operator."""
    exposed_s: Sequence[float] = ()
    """How long of that a collective was; none where there was none."""
    operators_s: Mapping[str, float] = MappingProxyType({})


def _apart(
    log: Sequence[Noted], steps: list[tuple[int, int]], ran: list[float], names: Collection[str] = ()
) -> _HostSteps:
    """ran: of each step, in which its thread did not wait for a CPU."""
    spans = [(each.start, each.end, each.name) for each in log]
    operators = _named(spans, is_under_way)
    collectives = _named(spans, lambda name: name.startswith(_COLLECTIVES))
    loading = _named(spans, lambda name: name == _LOADING)
    seen = [*operators, *collectives, *loading]
    seen_s = lasting_s(seen, steps)
    inside_s = [*map(operator.sub, lasting_s([*operators, *loading], steps), lasting_s(loading, steps))]
    outside_s = map(operator.sub, [(end - start) * 1e-9 for start, end in steps], seen_s)
    nested, others = _events(spans, seen, steps)
    both_s = lasting_s([*operators, *collectives], steps) if collectives else []
    return _HostSteps(
        inside_s=_corrected_s(inside_s, ran, nested),
        between_s=_corrected_s(outside_s, ran, others),
        others_s=[*map(operator.sub, seen_s, inside_s)],
        exposed_s=[*map(operator.sub, both_s, lasting_s(operators, steps))],
        operators_s=_operators_s(log, steps, names),
    )


def _operators_s(log: Iterable[Noted], steps: Sequence[tuple[int, int]], names: Collection[str]) -> dict[str, float]:
    """Of each of these names but where one is called by another of them, those that take most."""
    outermost = [*_outermost(each for each in log if each.name in names)]
    found = [_by_name(outermost, *step) for step in steps]
    told = {name: stats.quantile([of_step[name] for of_step in found], 0.5) for name in names if found}
    least_s = _LEAST * sum(told.values())
    largest = sorted((name for name in told if told[name] > least_s), key=lambda name: -told[name])
    return {name.partition("::")[2]: told[name] for name in largest}


def _outermost(log: Iterable[Noted]) -> Iterator[Noted]:
    """Of each thread."""
    until: Counter[int] = Counter()
    for each in sorted(log, key=lambda each: (each.start, -each.end)):
        if each.start >= until[each.thread]:
            until[each.thread] = each.end
            yield each


def _by_name(log: Iterable[Noted], begun: int, ended: int) -> defaultdict[str, float]:
    """How long those took that began in a step, in seconds."""
    found: defaultdict[str, float] = defaultdict(float)
    for each in log:
        if begun <= each.start < ended:
            found[each.name] += (each.end - each.start) * 1e-9
    return found


def _both(host: _HostSteps, gpu: GpuSteps) -> ProfiledSteps:
    exposed_s = [stats.quantile(each, 0.5) for each in (host.exposed_s, gpu.exposed_s) if each]
    waits_s, outside_s = _waits_s(host, gpu) if gpu.host_s and host.inside_s else (0.0, 0.0)
    return ProfiledSteps(
        inside_s=[max(0.0, each_s - waits_s) for each_s in host.inside_s],
        between_s=[max(0.0, each_s - outside_s) for each_s in host.between_s],
        operators_s={**host.operators_s},
        exposed_s=of_ranks(sum(exposed_s)) if exposed_s else [],
        host_s=[*gpu.host_s],
        on_gpu_s=[*gpu.on_gpu_s],
    )


def _waits_s(host: _HostSteps, gpu: GpuSteps) -> tuple[float, float]:
    """What the host waited for the GPU in the steps whose operators are noted, in these and outside: by how much they
    are longer than what it has to do, since the profiler's time may hide in them what it waits in others.
    """
    blocked_s, outside_s, host_s = (stats.quantile(each, 0.5) for each in (gpu.blocked_s, gpu.between_s, gpu.host_s))
    all_s = [sum(each) for each in zip(host.inside_s, host.between_s, host.others_s, strict=True)]
    waits_s = min(max(0.0, stats.quantile(all_s, 0.5) - host_s), blocked_s)
    share = outside_s / blocked_s if blocked_s else 0.0
    return waits_s * (1 - share), waits_s * share


def _named(spans: Iterable[tuple[int, int, str]], is_one: Callable[[str], bool]) -> list[tuple[int, int]]:
    return [(start, end) for start, end, name in spans if is_one(name)]


def _corrected_s(spans_s: Iterable[float], ran: Iterable[float], events: Iterable[int]) -> list[float]:
    """Without the wait for a CPU, and what the profiler took for so many events."""
    event_s = _event_s()
    return [max(0.0, each_s * part - count * event_s) for each_s, part, count in zip(spans_s, ran, events, strict=True)]


def _events(
    spans: Iterable[tuple[int, int, str]], seen: Iterable[tuple[int, int]], steps: Sequence[tuple[int, int]]
) -> tuple[list[int], list[int]]:
    """How many of each step begin within one of ``seen``, and how many of the others: the profiler's time for these,
    but for the tenth of a microsecond that is in an event itself, passes outside.
    """
    nested, others, covered = [0] * len(steps), [0] * len(steps), 0
    covers = {(start, end) for start, end in seen}
    begins = [start for start, _ in steps]
    for start, end, _ in sorted(spans, key=lambda span: (span[0], -span[1])):
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

    plain_s = _least_s(lambda: torch.empty(0))
    with profile(activities=[ProfilerActivity.CPU]):
        return max(0.0, _least_s(lambda: torch.empty(0)) - plain_s)


def _launch_s() -> float:
    """What a launch takes now."""
    import torch

    x = torch.zeros(1, device="cuda")
    return _least_s(lambda: x.add_(1), torch.cuda.synchronize)


def _least_s(call: Callable[[], object], begin: Callable[[], object] = bool) -> float:
    """Of a call, in rounds that begin with ``begin``."""
    found = []
    for _ in range(_ROUNDS):
        begin()
        begun = time.perf_counter()
        for _ in range(_CALLS):
            call()
        found.append(time.perf_counter() - begun)
    return min(found) / _CALLS


def seen_by_profiler() -> contextlib.AbstractContextManager[object]:
    """That the data loader is at work, if one is on."""
    import torch

    is_on = torch.autograd._profiler_enabled()  # noqa: SLF001 - nothing public tells
    return torch.profiler.record_function(_LOADING) if is_on else contextlib.nullcontext()


def _ran_fraction(step: tuple[int, int], queued_s: tuple[float, float]) -> float:
    """Of a step, in which its thread did not wait for a CPU; all of it where the kernel does not tell."""
    (begun, ended), (before_s, after_s) = step, queued_s
    wait_s = after_s - before_s
    return 1.0 if math.isnan(wait_s) or begun == ended else max(0.0, 1 - wait_s / (1e-9 * (ended - begun)))
