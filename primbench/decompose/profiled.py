"""Further steps of a script under torch's profiler: how long of each passes inside operators, between them, and in
collectives.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import itertools
import math
import operator
import re
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.decompose.ranks import of_ranks
from primbench.problem.operators import is_collective_kernel, is_under_way, is_wait_for_gpu
from primbench.timing.host_counters import queued_s as queued_s_so_far

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

STEPS = 6  # that are profiled, of whose median there is an interval
WARM_UP = 1  # before these, in which the profiler takes longer for its events
_END, _LOADING = "primbench: a step ends", "primbench: the data loader is at work"
_ROUNDS, _CALLS = 30, 200  # by which it is found out what profiling costs
_COLLECTIVES = ("gloo:", "mpi:")  # of backends that run on the host, from their call to their end
_DRIVER = re.compile(r"(cuda|cu|hip)[A-Z]\w*")  # calls of a driver, as the profiler names them
_KERNEL, _QUEUED = re.compile(r"Launch"), re.compile(r"Launch|MemcpyAsync|MemsetAsync")
_QUEUED_NS = 100_000  # one of these that takes longer waits for room among what the GPU has not begun


class ProfiledSteps(NamedTuple):
    """What such steps tell, in seconds, by step but for exposed_s. Neither inside_s nor between_s has the thread's wait
    for a CPU in it, which may come at any moment, so that each has its share of it, nor what the profiler took for its
    events, calls of the driver apart.
    """

    inside_s: list[float]
    """How long some operator was under way."""
    between_s: list[float]
    """How long none was, nor a collective, nor the data loader at work."""
    exposed_s: list[float]
    """By rank, how long collectives were under way and nothing beside them: no operator where they run on the host, no
    other kernel where they run on a GPU. [] of one rank.
    """
    blocked_s: list[float]
    """How long a thread that launches kernels waited for the GPU, or for room to launch another one, which is in
    neither inside_s nor between_s. [] of one rank, or of CPUs: of a GPU's step of one rank it is in them.
    """


class Inside:
    """Steps that run under the profiler, one after the other, once it is warm. told: given what they tell."""

    def __init__(self, told: Callable[[ProfiledSteps], None]) -> None:
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
            on_gpu = [ProfilerActivity.CUDA] if _is_rank_on_gpu() else []
            profiler = profile(activities=[ProfilerActivity.CPU, *on_gpu])
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
        on_host, on_gpu = _spans(profiler.profiler.kineto_results.events())
        steps = [*itertools.pairwise(sorted(each.start for each in on_host if each.name == _END))]
        ran = [*map(_ran_fraction, steps, itertools.pairwise(self._queued_s))]
        self._told(_apart(on_host, on_gpu, steps[WARM_UP:], ran[WARM_UP:]))


class _OnHost(NamedTuple):
    """Something that ran on the host."""

    start: int
    end: int
    name: str
    thread: int


class _OnGpu(NamedTuple):
    """Something that ran on a GPU."""

    start: int
    end: int
    name: str
    gpu: int
    launched: int
    """When the host launched it; its start where that is not known."""


def _is_rank_on_gpu() -> bool:
    """Whether this process is one of several ranks that have a GPU: only then is it asked what runs there, which takes
    a time of its own.
    """
    torch = sys.modules["torch"]
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return False
    tells_marks = hasattr(torch._C._autograd._KinetoEvent, "is_user_annotation")  # noqa: SLF001 - not in torch 2.4
    return bool(distributed.get_world_size() > 1 and torch.cuda.is_initialized() and tells_marks)


def _spans(events: Iterable[Any]) -> tuple[list[_OnHost], list[_OnGpu]]:
    """What ran on the host, and on GPUs: there the profiler repeats what a script marks on the host, too."""
    from torch.autograd import DeviceType

    on_host, on_gpu = list[_OnHost](), list[tuple[int, _OnGpu]]()
    launched, marks = dict[int, int](), set[str]()
    for each in events:
        start, name = each.start_ns(), each.name()
        end = start + each.duration_ns()
        if each.is_user_annotation():
            marks.add(name)
        if each.device_type() != DeviceType.CPU:
            on_gpu.append((each.correlation_id(), _OnGpu(start, end, name, each.device_index(), start)))
            continue
        on_host.append(_OnHost(start, end, name, each.start_thread_id()))
        if _DRIVER.fullmatch(name):
            launched[each.correlation_id()] = start
    ran = [(number, each) for number, each in on_gpu if each.name not in marks]
    return on_host, [each._replace(launched=launched.get(number, each.start)) for number, each in ran]


def _apart(
    on_host: list[_OnHost], on_gpu: Sequence[_OnGpu], steps: list[tuple[int, int]], ran: list[float]
) -> ProfiledSteps:
    """ran: of each step, in which its thread did not wait for a CPU."""
    spans = [(each.start, each.end, each.name) for each in on_host]
    operators = _named(spans, is_under_way)
    collectives = _named(spans, lambda name: name.startswith(_COLLECTIVES))
    loading = _named(spans, lambda name: name == _LOADING)
    blocked = _blocked(on_host) if on_gpu else []
    both_s = _lasting_s([*operators, *collectives], steps) if collectives else []
    exposed_s = [*map(operator.sub, both_s, _lasting_s(operators, steps))]
    if on_gpu:
        exposed_s = [*map(sum, itertools.zip_longest(exposed_s, _exposed_s(on_gpu, steps), fillvalue=0.0))]
    waits = [*loading, *blocked]
    seen = [*operators, *collectives, *waits]
    inside_s = map(operator.sub, _lasting_s([*operators, *waits], steps), _lasting_s(waits, steps))
    outside_s = map(operator.sub, [(end - start) * 1e-9 for start, end in steps], _lasting_s(seen, steps))
    nested, others = _events([each for each in spans if not _DRIVER.fullmatch(each[2])], seen, steps)
    return ProfiledSteps(
        inside_s=_corrected_s(inside_s, ran, nested),
        between_s=_corrected_s(outside_s, ran, others),
        exposed_s=of_ranks(exposed_s),
        blocked_s=_lasting_s(blocked, steps) if on_gpu else [],
    )


def _blocked(on_host: Iterable[_OnHost]) -> list[tuple[int, int]]:
    """When threads that launch kernels waited for a GPU in the driver; others, as of a data loader, hold up no step."""
    calls = [each for each in on_host if _DRIVER.fullmatch(each.name)]
    threads = {each.thread for each in calls if _KERNEL.search(each.name)}
    return [(each.start, each.end) for each in calls if each.thread in threads and _is_wait(each)]


def _is_wait(call: _OnHost) -> bool:
    is_long = call.end - call.start > _QUEUED_NS
    return is_wait_for_gpu(call.name) or (is_long and _QUEUED.search(call.name) is not None)


def _exposed_s(on_gpu: Sequence[_OnGpu], steps: Sequence[tuple[int, int]]) -> list[float]:
    """How long collectives that each step launched were under way on a GPU, and no other kernel there."""
    gpus = [[each for each in on_gpu if each.gpu == gpu] for gpu in {each.gpu for each in on_gpu}]
    return [*map(sum, zip(*(_exposed_there_s(of_one, steps) for of_one in gpus), strict=True))]


def _exposed_there_s(on_gpu: Sequence[_OnGpu], steps: Sequence[tuple[int, int]]) -> Iterator[float]:
    ever = [(-sys.maxsize, sys.maxsize)]
    others = [(each.start, each.end) for each in on_gpu if not is_collective_kernel(each.name)]
    (others_s,) = _lasting_s(others, ever)
    collectives = [each for each in on_gpu if is_collective_kernel(each.name)]
    for begun, ended in steps:
        of_step = [(each.start, each.end) for each in collectives if begun <= each.launched < ended]
        yield _lasting_s([*of_step, *others], ever)[0] - others_s


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


def seen_by_profiler() -> contextlib.AbstractContextManager[object]:
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
