"""Steps of a script as they run: how long each takes, and how long of that the script waits for its data loader."""

from __future__ import annotations

import bisect
import contextlib
import functools
import itertools
import math
import operator
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.decompose.faults import faults_so_far
from primbench.decompose.ranks import of_ranks
from primbench.problem.operators import is_under_way
from primbench.timing.host_counters import queued_s as queued_s_so_far

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

LEAST_TIMED = 5  # steps, the last ones after the captured one where there were fewer before it
MOST = 10  # steps that are kept, the last ones before the captured one
STEPS = 6  # that are profiled, of whose median there is an interval
WARM_UP = 1  # before these, in which the profiler takes longer for its events
_END, _LOADING = "primbench: a step ends", "primbench: the data loader is at work"
_ROUNDS, _CALLS = 30, 200  # by which it is found out what profiling costs
_COLLECTIVES = ("gloo:", "mpi:")  # of backends that run on the host, from their call to their end


class Lap(NamedTuple):
    """A step of a script, timed as it ran."""

    seconds: float
    waited_s: float
    """Time that it waited for its data, while it is loaded by this process or by others."""
    queued_s: float | None
    """Time that it waited for a CPU, by the thread that makes steps; None where the kernel does not count it."""
    faults: int
    """Pages that its thread was the first to touch."""
    module_calls: Counter[str]
    """How many calls it made of outermost modules, by their kind."""


class Laps:
    """Moments at which steps of a thread end, and what lies between them. is_loading: whether the data loader is at
    work. module_calls: of outermost modules, by their kind, since the last of these moments.
    """

    def __init__(self) -> None:
        self._laps: list[tuple[Any, Any, float, float, int, Counter[str]]] = []
        self._begun: Any = None
        self._faults = 0
        self._waited_s = self._queued_s = 0.0
        self.is_loading = False
        self.module_calls = Counter[str]()

    def __len__(self) -> int:
        return len(self._laps)

    def forget(self) -> None:
        """What has run up to now was no step."""
        self._laps.clear()
        self._begun = None

    def end(self, *, is_timed: bool = True) -> None:
        """A step ends, and the next one begins. is_timed: whether it ran as it does by itself."""
        now, queued_s, faults = _moment(), queued_s_so_far(), faults_so_far()
        if self._begun is not None and is_timed:
            queue_s = queued_s - self._queued_s
            lap_faults = faults - self._faults
            self._laps.append((self._begun, now, self._waited_s, queue_s, lap_faults, self.module_calls))
        self._begun, self._waited_s, self._queued_s, self.module_calls = now, 0.0, queued_s, Counter()
        self._faults = faults

    def are_enough(self, module_calls: Counter[str], *, most: int) -> bool:
        """Whether so many called these modules as often, given the same, or there are ``most`` at all."""
        return len(self._like(module_calls)) >= LEAST_TIMED or len(self._laps) >= most

    def _like(self, module_calls: Counter[str]) -> list[Any]:
        return [each for each in self._laps if each[-1] == module_calls]

    def last(self, module_calls: Counter[str]) -> list[Lap]:
        """At most MOST of them, of those that called these modules as often if they are enough; in training on a GPU by
        its own clock, of whose work calls do not wait for the end.
        """
        like = self._like(module_calls)
        laps = like if len(like) >= LEAST_TIMED else self._laps
        return [
            Lap(seconds, waited_s, None if math.isnan(queued_s) else queued_s, faults, module_calls)
            for begun, ended, waited_s, queued_s, faults, module_calls in laps[-MOST:]
            if (seconds := _between_s(begun, ended)) is not None
        ]

    def loading(self, original: Callable[[Any], Any], loader: Any) -> Any:
        """What the data loader gives, timed."""
        if self.is_loading:
            return original(loader)
        self.is_loading, begun_s, queued_s = True, time.perf_counter(), queued_s_so_far()
        try:
            with _seen_by_profiler():
                return original(loader)
        finally:
            self.is_loading = False
            self._waited_s += time.perf_counter() - begun_s
            self._queued_s += queued_s_so_far() - queued_s  # which is in the wait for data


@contextlib.contextmanager
def following_loaders(laps: Callable[[], Laps]) -> Iterator[None]:
    """Inside, torch's DataLoader is timed, its start and each batch. laps: of the thread that calls it."""
    from torch.utils.data import dataloader

    places = [(dataloader.DataLoader, "__iter__"), (dataloader._BaseDataLoaderIter, "__next__")]  # noqa: SLF001
    originals = [(kind, name, getattr(kind, name)) for kind, name in places]
    for kind, name, original in originals:
        setattr(kind, name, _timed(original, laps))
    try:
        yield
    finally:
        for kind, name, original in originals:
            setattr(kind, name, original)


def _timed(original: Callable[[Any], Any], laps: Callable[[], Laps]) -> Callable[[Any], Any]:
    @functools.wraps(original)
    def timed(loader: Any) -> Any:
        return laps().loading(original, loader)

    return timed


def kind_of(module: Any) -> str:
    """By which modules of two steps are alike, though each step may make some anew: its class, and a first shape."""
    from torch.nn.parameter import is_lazy

    first = next(module.parameters(), None)
    return f"{type(module).__qualname__} {[] if first is None or is_lazy(first) else [*first.shape]}"


def lasting(call: Callable[[], Any]) -> tuple[Any, float | None]:
    """What it returns, and the seconds that it took; on a CPU without those in which its thread waited for one."""
    begun, queued_s = _moment(), queued_s_so_far()
    result, ended = call(), _moment()
    seconds, waited_s = _between_s(begun, ended), queued_s_so_far() - queued_s
    if isinstance(begun, float) and seconds is not None and not math.isnan(waited_s):
        seconds = max(0.0, seconds - waited_s)
    return result, seconds


def _moment() -> Any:
    """An event in the GPU's stream where one is used, else the host's time in seconds."""
    import torch

    if not torch.cuda.is_initialized() or torch.cuda.is_current_stream_capturing():
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _between_s(begun: Any, ended: Any) -> float | None:
    """None between an event and a time of the host."""
    if isinstance(begun, float) and isinstance(ended, float):
        return ended - begun
    if isinstance(begun, float) or isinstance(ended, float):
        return None
    ended.synchronize()
    return float(begun.elapsed_time(ended)) * 1e-3  # of milliseconds


class Inside:
    """Steps that run under the profiler, one after the other, once it is warm.

    told: given what they tell, in seconds: how long of each some operator was under way; by rank, how long a collective
    of a backend that runs on the host was, and no operator; and how long of each neither was, nor the data loader at
    work. The first and the last are without the thread's wait for a CPU, which may come at any moment, so that each has
    its share of it, and without what the profiler took for its events.
    """

    def __init__(self, told: Callable[[list[float], list[float], list[float]], None]) -> None:
        self._told = told
        self._profile: Any = None
        self._queued_s: list[float] = []  # so far, at each end

    @property
    def is_enough(self) -> bool:
        return len(self._queued_s) > WARM_UP + STEPS

    def end(self) -> None:
        """A step ends, and the next one begins. Raises RuntimeError where the script has a profiler of its own."""
        from torch.profiler import ProfilerActivity, profile, record_function

        if self._profile is None:
            profiler = profile(activities=[ProfilerActivity.CPU])
            profiler.__enter__()
            self._profile = profiler
        with record_function(_END):
            self._queued_s.append(queued_s_so_far())
        if self.is_enough:
            self.tell()

    def tell(self) -> None:
        """What they tell, once, while the job that this process is a rank of is still there."""
        profiler, self._profile = self._profile, None
        if profiler is None:
            return
        profiler.__exit__(None, None, None)
        # events() of torch.profiler makes a tree of them, which takes half a minute where these take a second.
        events = profiler.profiler.kineto_results.events()
        spans = [(each.start_ns(), each.start_ns() + each.duration_ns(), each.name()) for each in events]
        steps = [*itertools.pairwise(sorted(start for start, _, name in spans if name == _END))]
        ran = [*map(_ran_fraction, steps, itertools.pairwise(self._queued_s))]
        self._told(*_apart(spans, steps[WARM_UP:], ran[WARM_UP:]))


def _apart(
    spans: list[tuple[int, int, str]], steps: list[tuple[int, int]], ran: list[float]
) -> tuple[list[float], list[float], list[float]]:
    """What Inside tells. ran: of each step, in which its thread did not wait for a CPU."""
    operators = _named(spans, is_under_way)
    collectives = _named(spans, lambda name: name.startswith(_COLLECTIVES))
    loading = _named(spans, lambda name: name == _LOADING)
    both_s = _lasting_s([*operators, *collectives], steps) if collectives else []
    exposed_s = of_ranks([*map(operator.sub, both_s, _lasting_s(operators, steps))])
    seen = [*operators, *collectives, *loading]
    inside_s = map(operator.sub, _lasting_s([*operators, *loading], steps), _lasting_s(loading, steps))
    outside_s = map(operator.sub, [(end - start) * 1e-9 for start, end in steps], _lasting_s(seen, steps))
    nested, others = _events(spans, seen, steps)
    return _corrected_s(inside_s, ran, nested), exposed_s, _corrected_s(outside_s, ran, others)


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

    def least_s() -> float:
        found = []
        for _ in range(_ROUNDS):
            begun = time.perf_counter()
            for _ in range(_CALLS):
                torch.empty(0)
            found.append(time.perf_counter() - begun)
        return min(found) / _CALLS

    plain_s = least_s()
    with profile(activities=[ProfilerActivity.CPU]):
        return max(0.0, least_s() - plain_s)


def _seen_by_profiler() -> contextlib.AbstractContextManager[object]:
    """That the data loader is at work, if one is on."""
    import torch

    is_on = torch.autograd._profiler_enabled()  # noqa: SLF001 - nothing public tells
    return torch.profiler.record_function(_LOADING) if is_on else contextlib.nullcontext()


def _lasting_s(spans: Iterable[tuple[int, int]], steps: Iterable[tuple[int, int]]) -> list[float]:
    """How long of each step some of them lasted."""
    ordered = sorted(spans)
    return [1e-9 * sum(_lengths(ordered, *step)) for step in steps]


def _ran_fraction(step: tuple[int, int], queued_s: tuple[float, float]) -> float:
    """Of a step, in which its thread did not wait for a CPU; all of it where the kernel does not tell."""
    (begun, ended), (before_s, after_s) = step, queued_s
    wait_s = after_s - before_s
    return 1.0 if math.isnan(wait_s) or begun == ended else max(0.0, 1 - wait_s / (1e-9 * (ended - begun)))


def _lengths(spans: Iterable[tuple[int, int]], begun: int, ended: int) -> Iterator[int]:
    """Of what spans, in their order, cover together between two moments: they nest, and several threads have some."""
    covered = begun
    for start, end in spans:
        if start >= ended:
            break
        if end > covered:
            yield min(end, ended) - max(start, covered)
            covered = min(end, ended)
