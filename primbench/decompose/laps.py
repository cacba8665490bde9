"""Steps of a script as they run: how long each takes, and how long of that the script waits for its data loader."""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.decompose.faults import faults_so_far
from primbench.decompose.on_host import seen_by_profiler
from primbench.timing.queued import queued_s as queued_s_so_far
from primbench.timing.queued import with_queued_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LEAST_TIMED = 5  # steps, the last ones after the captured one where there were fewer before it
MOST = 10  # steps that are kept, the last ones before the captured one


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
        (now, faults), queued_s = with_queued_s(lambda: (_moment(), faults_so_far()))
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
            with seen_by_profiler():
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
