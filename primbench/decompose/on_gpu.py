"""What torch's profiler notes of a GPU and of calls of its driver: how long the GPU is busy in each step, how long the
host waits for it, and how long collectives run there and nothing beside them.
"""

from __future__ import annotations

import itertools
import re
import sys
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from primbench.decompose.spans import lasting_s, least_s
from primbench.problem.operators import is_collective_kernel, is_wait_for_gpu

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from primbench.decompose.spans import Noted

_MARK = re.compile(r"(cuda|hip)StreamQuery")  # of mark()

_DRIVER = re.compile(r"(cuda|cu|hip)[A-Z]\w*")  # calls of a driver, as the profiler names them
_KERNEL, _QUEUED = re.compile(r"Launch"), re.compile(r"Launch\w*Kernel|MemcpyAsync|MemsetAsync")
_QUEUED_NS = 100_000  # one of these that takes longer waits for room among what the GPU has not begun
_OF_SCRIPT = re.compile(r"(Device|Event|Ctx)Synchronize")  # operators wait for a stream
_EVER = (-sys.maxsize, sys.maxsize)


class GpuSteps(NamedTuple):
    """What such steps tell, in seconds, by step."""

    host_s: Sequence[float] = ()
    """How long it lasted on the host, which may be far ahead of its GPU, without what that waited for it, and what the
    profiler took for launches.
    """
    on_gpu_s: Sequence[float] = ()
    """How long a GPU ran what the step launched."""
    exposed_s: Sequence[float] = ()
    """How long collectives that the step launched ran, and nothing beside them."""
    blocked_s: Sequence[float] = ()
    """How long a thread that launches kernels waited for the GPU, or for room to launch another one."""
    between_s: Sequence[float] = ()
    """How long of that it did so outside operators."""


def is_noted() -> bool:
    """Whether this process uses a GPU of which the profiler tells."""
    import torch
    from torch.profiler import ProfilerActivity, supported_activities

    return torch.cuda.is_initialized() and ProfilerActivity.CUDA in supported_activities()


def mark() -> None:
    """A step ends: a call of the driver, since of what a script marks nothing is noted without its operators."""
    import torch

    if not torch.cuda.is_current_stream_capturing():
        torch.cuda.current_stream().query()


def launch_s() -> float:
    """What a launch takes now; 0 where none would run."""
    import torch

    if torch.cuda.is_current_stream_capturing():
        return 0.0
    x = torch.zeros(1, device="cuda")
    return least_s(lambda: x.add_(1), torch.cuda.current_stream().synchronize)


def await_gpus() -> None:
    """All that the process uses: what they have not run when the profiler ends is not noted."""
    import torch

    for gpu in range(torch.cuda.device_count()):
        if torch.cuda.memory_reserved(gpu):
            torch.cuda.synchronize(gpu)


def gpu_steps(log: Sequence[Noted], ends_ns: Sequence[int], *, warm_up: int = 0, launch_s: float = 0.0) -> GpuSteps:
    """ends_ns: when a step ended or the first began, by the system's clock, which is not the profiler's to the last
    millisecond. warm_up: steps at the beginning that do not count. launch_s: what the profiler takes for a launch.
    Nothing is told where none of them ran anything on a GPU.
    """
    calls, ran = _calls(log), [each for each in log if each.gpu is not None]
    begins = {each.number: each.start for each in calls}
    steps, waits = _steps(calls, ends_ns)[warm_up:], _waits(calls)
    blocked_s = lasting_s([each.span for each in waits], steps)
    on_gpu_s = [lasting_s(_launched(ran, begins, step), [_EVER])[0] for step in steps]
    if not any(on_gpu_s):
        return GpuSteps()
    return GpuSteps(
        host_s=_host_s(calls, steps, blocked_s, launch_s),
        on_gpu_s=on_gpu_s,
        exposed_s=_exposed_s(ran, begins, steps),
        blocked_s=blocked_s,
        between_s=lasting_s([each.span for each in filter(_is_of_script, waits)], steps),
    )


def _calls(log: Iterable[Noted]) -> list[Noted]:
    """Of the driver."""
    return [each for each in log if each.gpu is None and _DRIVER.fullmatch(each.name)]


def _steps(calls: Iterable[Noted], ends_ns: Sequence[int]) -> list[tuple[int, int]]:
    """Between marks: all of them, or where a script makes the same call, those next to the ends; [] where one has none
    of its own.
    """
    marks = sorted(each.start for each in calls if _MARK.fullmatch(each.name))
    if len(marks) > len(ends_ns):
        marks = sorted({min(marks, key=lambda mark: abs(mark - end)) for end in ends_ns})
    return [*itertools.pairwise(marks)] if len(marks) == len(ends_ns) else []


def _host_s(
    calls: Iterable[Noted], steps: Sequence[tuple[int, int]], blocked_s: Sequence[float], launch_s: float
) -> list[float]:
    queued = sorted(each.start for each in calls if _QUEUED.search(each.name))
    launches = [bisect_left(queued, ended) - bisect_left(queued, begun) for begun, ended in steps]
    return [
        max(0.0, 1e-9 * (ended - begun) - waits_s - count * launch_s)
        for (begun, ended), waits_s, count in zip(steps, blocked_s, launches, strict=True)
    ]


def _launched(ran: Iterable[Noted], begins: Mapping[int, int], step: tuple[int, int]) -> list[tuple[int, int]]:
    """begins: of calls of the driver, by their numbers; what none of them launched counts to when it ran."""
    begun, ended = step
    return [each.span for each in ran if begun <= begins.get(each.number, each.start) < ended]


def _waits(calls: Sequence[Noted]) -> list[Noted]:
    """Of threads that launch kernels; others, as of a data loader, hold up no step."""
    threads = {each.thread for each in calls if _KERNEL.search(each.name)}
    return [each for each in calls if each.thread in threads and _is_wait(each)]


def _is_of_script(wait: Noted) -> bool:
    return _OF_SCRIPT.search(wait.name) is not None


def _is_wait(call: Noted) -> bool:
    is_long = call.end - call.start > _QUEUED_NS
    return is_wait_for_gpu(call.name) or (is_long and _QUEUED.search(call.name) is not None)


def _exposed_s(ran: Sequence[Noted], begins: Mapping[int, int], steps: Sequence[tuple[int, int]]) -> list[float]:
    gpus = [[each for each in ran if each.gpu == gpu] for gpu in {each.gpu for each in ran}]
    return [*map(sum, zip(*(_exposed_there_s(of_one, begins, steps) for of_one in gpus), strict=True))]


def _exposed_there_s(
    ran: Sequence[Noted], begins: Mapping[int, int], steps: Sequence[tuple[int, int]]
) -> Iterator[float]:
    others = [each.span for each in ran if not is_collective_kernel(each.name)]
    (others_s,) = lasting_s(others, [_EVER])
    collectives = [each for each in ran if is_collective_kernel(each.name)]
    for step in steps:
        yield lasting_s([*_launched(collectives, begins, step), *others], [_EVER])[0] - others_s
