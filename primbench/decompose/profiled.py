"""Further steps of a script under torch's profiler: how long of each passes inside operators, between them, and in
collectives; and of a script that uses a GPU, how long that is busy, and the host waits for it.

What the profiler notes of operators makes steps longer, in which the host waits less for its GPU: its notes of the GPU
are of steps of their own.
"""

from __future__ import annotations

import ctypes
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench import stats
from primbench.decompose import on_gpu, on_host
from primbench.decompose.on_gpu import GpuSteps, gpu_steps
from primbench.decompose.on_host import HostSteps, ThreadTimes, host_steps
from primbench.decompose.ranks import of_ranks
from primbench.decompose.spans import Noted, noted

if TYPE_CHECKING:
    from collections.abc import Collection

STEPS = 6  # that are profiled, of whose median there is an interval
WARM_UP = 1  # before these, in which the profiler takes longer for its events


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
    """Steps that run under the profiler, one after the other, once it is warm. told: what they tell; None before they
    do. names: of operators as the profiler has them, of which each is told apart. has_helpers: whether threads compute
    for a step of which the profiler does not tell, so that nobody knows how long one passes inside operators.
    """

    def __init__(self, names: Collection[str] = (), *, has_helpers: bool = False) -> None:
        self._names = names
        # The GPU's last: once the profiler has noted what runs there, launches take longer for good.
        self._due = [*([] if has_helpers else [_Log()]), *([_Log(of_gpu=True)] if on_gpu.is_noted() else [])]
        self._done = list[_Log]()
        self.told = None if self._due else _both(HostSteps(), GpuSteps())

    def end(self) -> None:
        """A step ends, and the next one begins. Raises RuntimeError where the script has a profiler of its own."""
        if self.told is not None:
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
        if self.told is not None:
            return
        if self._due:
            self._close()
        host = next((log.of_host(self._names) for log in self._done if not log.is_of_gpu), HostSteps())
        gpu = next((log.of_gpu() for log in self._done if log.is_of_gpu), GpuSteps())
        self.told = _both(host, gpu)


class _Log:
    """What the profiler notes of steps: operators, or what runs on a GPU and which calls of the driver the host makes
    for that.
    """

    def __init__(self, *, of_gpu: bool = False) -> None:
        self.is_of_gpu = of_gpu
        self._profiler: Any = None
        self._ends: list[ThreadTimes] = []
        self._ends_ns: list[int] = []
        self._noted: list[Noted] = []
        self._launch_s = 0.0  # that the profiler takes for one

    @property
    def is_enough(self) -> bool:
        return len(self._ends_ns) > WARM_UP + STEPS

    def end(self) -> None:
        from torch.profiler import ProfilerActivity, profile

        if self._profiler is None:
            plain_s = on_gpu.launch_s() if self.is_of_gpu else 0.0
            profiler = profile(activities=[ProfilerActivity.CUDA if self.is_of_gpu else ProfilerActivity.CPU])
            profiler.__enter__()
            self._profiler = profiler
            self._launch_s = max(0.0, on_gpu.launch_s() - plain_s) if self.is_of_gpu else 0.0
        self._ends_ns.append(time.time_ns())
        if self.is_of_gpu:
            on_gpu.mark()
        else:
            self._ends.append(on_host.end_step(len(self._ends)))

    def close(self) -> None:
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            if self.is_of_gpu:
                on_gpu.await_gpus()
            profiler.__exit__(None, None, None)
            results = profiler.profiler.kineto_results
            # Never freed: that may end the process where another profiler has run meanwhile, as at the end of Python.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(results))
            # events() of torch.profiler makes a tree of them, which takes half a minute where these take a second.
            self._noted = noted(results.events())

    def of_host(self, names: Collection[str]) -> HostSteps:
        return host_steps(self._noted, self._ends, names, warm_up=WARM_UP)

    def of_gpu(self) -> GpuSteps:
        return gpu_steps(self._noted, self._ends_ns, warm_up=WARM_UP, launch_s=self._launch_s)


def _both(host: HostSteps, gpu: GpuSteps) -> ProfiledSteps:
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


def _waits_s(host: HostSteps, gpu: GpuSteps) -> tuple[float, float]:
    """What the host waited for the GPU in the steps whose operators are noted, in these and outside: by how much they
    are longer than what it has to do, since the profiler's time may hide in them what it waits in others.
    """
    blocked_s, outside_s, host_s = (stats.quantile(each, 0.5) for each in (gpu.blocked_s, gpu.between_s, gpu.host_s))
    all_s = [sum(each) for each in zip(host.inside_s, host.between_s, host.others_s, strict=True)]
    waits_s = min(max(0.0, stats.quantile(all_s, 0.5) - host_s), blocked_s)
    share = outside_s / blocked_s if blocked_s else 0.0
    return waits_s * (1 - share), waits_s * share
