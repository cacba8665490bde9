"""The times of a case on a GPU: enqueue, wall, stream and device, each by the means that isolates it."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from primbench.gpu import vendor_of
from primbench.measurement import Measurement, Samples
from primbench.measurement.readings import GpuReading
from primbench.timing.device import MAX_QUEUED, DeviceSampler, chained, device_sampler, event_pair
from primbench.timing.sampling import (
    FEW_TURNS,
    MIN_TURNS,
    TOO_SHORT,
    Pace,
    StoppingRule,
    collect,
    main_rule,
    nothing,
    warm_up,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from primbench.backends import GpuBackend
    from primbench.devices import Device
    from primbench.gpu import GpuEvent
    from primbench.spec.method import Method
    from primbench.timing.calls import CallLoop
    from primbench.timing.sampling import Take

Result = TypeVar("Result")

BATCH_S = 500e-6  # an event's 0.5 us is 0.1 % of this
STREAM_ROUND_S = 5e-3  # shorter: a wait of 20 us between rounds lets no clock recover
LOAD_S = 2e-3  # work under which clocks and power are read, which takes 0.2 ms
ENQUEUE_CALLS = 64
ENQUEUE_S = 2e-3  # a batch, so that there are several of calls that take long to launch
LONG_S = 1e-3  # a call of which one says what several say
WARM_UP_S = 0.1  # until the power limit of an idle GPU is felt: its power is averaged over as long
CHUNK_S, CHUNKS = 5e-3, 8  # of warm-up, queued at once, and how many at least: six make a drift
ENERGY_S = 1.0  # the counter moves on every 0.1 s


class GpuTimer:
    """Of a case whose kernels have all run before.

    device_s is sampled first, after a warm-up in which clocks and power settle, and stream_s right behind it: a large
    product runs 10 % faster in its first milliseconds than once the board has reached its power limit.
    """

    def __init__(
        self, backend: GpuBackend, calls: CallLoop, method: Method, pace: Pace, *, copies: Sequence[CallLoop] = ()
    ) -> None:
        """copies: the same calls on other memory; where graphs can be made, device_s is sampled on all of them."""
        self._backend, self._calls, self._method, self._pace = backend, calls, method, pace
        self._gpu = vendor_of(backend.device)
        self._before = self._gpu.start(backend.device)
        self._missing = {"batch_s": "on a GPU stream_s is the period of back-to-back calls"}
        if (fault := self._gpu.clock_fault(backend.stream_handle)) is not None:
            self._missing["events"] = fault
        self._rough_s = _rough_time_s(calls, backend, pace)
        self._drift: float | None = None
        self._device = device_sampler(backend, [calls, *copies], self._rough_s, pace, self._missing)

    def settle(self, meanwhile: Callable[[], Result]) -> Result:
        """Warm up, and return what ``meanwhile`` does, which a thread works out on the host at the same time.

        The GPU is kept at work until that is done: what it is to be warm for comes next.
        """
        if self._device is None:
            self._missing["warm_up_drift"] = f"no warm-up: {self._missing['device_s']}"
            return meanwhile()
        pace, method = self._pace, self._method
        # Who asks for less has cases close behind each other. Others who begin after this one warm up for it, too.
        lasting_s = min(WARM_UP_S, method.max_time_s)
        window_s = 0.0 if pace.others_follow else max(method.min_time_s, lasting_s)
        with ThreadPoolExecutor(1) as thread:
            result = thread.submit(meanwhile)
            self._drift = warm_up(
                self._asleep(self._device, min(CHUNK_S, window_s / CHUNKS)),
                pace.now,
                window_s=window_s,
                max_time_s=max(method.max_time_s / 2, lasting_s),
                is_enough=lambda: not any(pace.slowest([float(not result.done())])),
            )
            if self._drift is None:
                self._missing["warm_up_drift"] = TOO_SHORT
            return result.result()

    def _asleep(self, device: DeviceSampler, sample_s: float) -> Take:
        """Samples of at least as long, the next one queued ahead, during which this thread sleeps.

        A BLAS that has all CPUs would wait for the one on which it spun.
        """
        stream, pace = self._backend.stream_handle, self._pace
        several = max(1, math.ceil(sample_s / (self._rough_s * device.calls_per_sample)))

        def end_of(chunks: int) -> GpuEvent:
            for _ in range(chunks * several):
                device.enqueue()
            event = self._gpu.Event(sleeps=True)
            event.record(stream)
            return event

        ends = [end_of(0), end_of(1)]

        def take() -> list[float]:
            ends.append(end_of(1))
            before, end = ends.pop(0), ends[0]
            end.wait()
            return pace.slowest([before.seconds_until(end) / (several * device.calls_per_sample)])

        return take

    def measure(self, rule_of: Callable[[str], StoppingRule]) -> Measurement:
        """All times. rule_of: when to stop sampling what is not device_s."""
        backend, calls, pace, device = self._backend, self._calls, self._pace, self._device
        if why_not := backend.second_context.visit():
            self._missing["second_context"] = f"{why_not}: kernels of graphs may follow on later than they need to"
        device_s, gpu = _device(backend, device, self._method, pace) if device else (None, GpuReading())
        stream_s = _stream(calls, backend, self._rough_s, rule_of("stream_s"), pace)
        wall_s, single_s = _round_trip(backend, calls, self._rough_s, rule_of("wall_s"), pace)
        timed = Measurement(
            places=device.places if device else 1,
            warm_up_drift=self._drift,
            wall_s=wall_s,
            stream_s=stream_s,
            device_s=device_s,
            gpu=self._gpu.since(self._before, gpu),
            missing=self._missing,
        )
        if calls.launches_nothing:
            enqueue_s = _enqueue(backend, calls, ENQUEUE_CALLS, rule_of("enqueue_s"), pace)
            return replace(timed, nodes_per_call=0.0, enqueue_s=enqueue_s, enqueue_single_s=single_s)
        if device is None or device_s is None:
            waits = dict.fromkeys(("enqueue_s", "enqueue_single_s"), self._missing["device_s"])
            return replace(timed, missing=self._missing | waits)
        count = _queueable(max(device_s.median_s, self._rough_s), nodes=device.nodes_per_call)
        if count > 1:
            enqueue_s = _enqueue(backend, calls, count, rule_of("enqueue_s"), pace)
        else:  # the round trips' calls were enqueued one by one; when a thread waited for a CPU is known of whole trips
            enqueue_s = replace(single_s, loops_s=wall_s.loops_s)
        return replace(
            timed,
            enqueue_s=enqueue_s,
            enqueue_single_s=single_s,
            nodes_per_call=device.nodes_per_call,
            longest_path_per_call=device.longest_path_per_call,
        )


def _device(backend: GpuBackend, sampler: DeviceSampler, method: Method, pace: Pace) -> tuple[Samples, GpuReading]:
    """device_s, with the energy it took and the clocks it ran at."""
    (before_j, reason), start = _energy_j(backend.device, method, pace), pace.clock()
    device_s = collect(
        sampler.take,
        main_rule(method, FEW_TURNS if sampler.leads_in else MIN_TURNS),
        pace,
        calls_per_sample=sampler.calls_per_sample,
        taken_by=sampler.taken_by,
        metric="device_s",
        uncounted=nothing if sampler.leads_in else None,
    )
    (after_j, _), energy_time_s = _energy_j(backend.device, method, pace), (pace.clock() - start) / 1e9
    gpu = _load(backend, sampler, device_s.median_s)
    if before_j is None or after_j is None:
        return device_s, replace(gpu, missing=gpu.missing | {"energy_j": reason or "the counter vanished"})
    return device_s, replace(gpu, energy_j=after_j - before_j, energy_time_s=energy_time_s)


def _energy_j(device: Device, method: Method, pace: Pace) -> tuple[float | None, str | None]:
    """The board's counter, or None and why it says nothing of these calls."""
    if pace.has_others:
        return None, "the board counts the energy of all processes that took turns"
    if method.min_time_s < ENERGY_S:
        return None, f"the board's counter moves on every 0.1 s: sample for {ENERGY_S:g} s or longer (--min-time)"
    return vendor_of(device).energy_j(device)


def _stream(calls: CallLoop, backend: GpuBackend, call_s: float, rule: StoppingRule, pace: Pace) -> Samples:
    """The period of back-to-back calls, launched as they come; of calls before which something is done, each alone."""
    if calls.is_prepared:
        return _one_by_one(calls, backend, rule, pace)
    count = math.ceil(BATCH_S / call_s)
    take = chained(lambda: calls(count), backend, count, STREAM_ROUND_S, pace, sample_s=count * call_s)
    if call_s < LONG_S:
        take()
    return collect(
        take, rule, pace, calls_per_sample=count, taken_by="event pair", metric="stream_s", uncounted=nothing
    )


def _one_by_one(calls: CallLoop, backend: GpuBackend, rule: StoppingRule, pace: Pace) -> Samples:
    def take() -> list[float]:
        calls.prepare()
        backend.synchronize()
        return pace.slowest([event_pair(calls, backend, 1, ahead=0)])

    return collect(take, rule, pace, calls_per_sample=1, taken_by="event pair", metric="stream_s", uncounted=nothing)


def _rough_time_s(calls: CallLoop, backend: GpuBackend, pace: Pace) -> float:
    (call_s,) = pace.slowest([event_pair(calls, backend, 1, ahead=0)])
    if call_s < LONG_S:  # else what the first launch took is lost in it
        (call_s,) = pace.slowest([event_pair(calls, backend, 3)])
    return max(call_s, 1e-7)


def _queueable(call_s: float, *, nodes: float | None) -> int:
    """How many calls make a batch that never finds the queue full. nodes: of a call; None is unknown."""
    return max(1, int(min(ENQUEUE_CALLS, MAX_QUEUED / max(1.0, nodes or 8.0), ENQUEUE_S / call_s)))


def _enqueue(backend: GpuBackend, calls: CallLoop, count: int, rule: StoppingRule, pace: Pace) -> Samples:
    """Host time of ``count`` calls, each batch starting from an idle stream.

    On one set of inputs: which of them lie in the GPU's cache makes no difference to a launch, to go round a thousand
    closures does.
    """
    timed = pace.host_timed(calls.of_one_set(), count)

    def take() -> list[float]:
        backend.synchronize()
        return timed()

    take()
    return collect(take, rule, pace, calls_per_sample=count, taken_by="host clock", metric="enqueue_s", loop=pace.loop)


def _round_trip(
    backend: GpuBackend, calls: CallLoop, call_s: float, rule: StoppingRule, pace: Pace
) -> tuple[Samples, Samples]:
    """One call and a wait, from an idle stream, and within it the time until the call returned."""
    singles: list[float] = []
    clock = pace.clock

    def take() -> list[float]:
        calls.prepare()
        backend.synchronize()
        pace.begin()
        start = clock()
        calls(1)
        returned = clock()
        backend.synchronize()
        end = clock()
        single_s, wall_s = pace.slowest([(returned - start) / 1e9, (end - start) / 1e9])
        singles.append(single_s)
        return [wall_s]

    def uncounted() -> None:
        take()
        singles.pop()

    for _ in range(3 if call_s < LONG_S else 1):
        uncounted()
    wall_s = collect(
        take,
        rule,
        pace,
        calls_per_sample=1,
        taken_by="host clock",
        metric="wall_s",
        loop=pace.loop,
        uncounted=uncounted,
    )
    single_s = replace(wall_s, samples_s=singles, loops_s=[], queued_s=[])
    return wall_s, single_s


def _load(backend: GpuBackend, sampler: DeviceSampler, call_s: float) -> GpuReading:
    """Clocks, power and what holds them back, read while the case's own calls run."""
    for _ in range(max(1, math.ceil(LOAD_S / (call_s * sampler.calls_per_sample)))):
        sampler.enqueue()
    gpu = vendor_of(backend.device)
    load = gpu.read_load(backend.device)
    gpu.synchronize(backend.stream_handle)
    return load
