"""Which clock of a GPU is right, on a stand-in for the driver whose kernels write what a made-up timer says."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from primbench.errors import PrimbenchError
from primbench.gpu.nvidia import clock, driver
from primbench.gpu.nvidia.clock import ClockTimes, check

LATER_S = 0.25  # between two kernels of the stand-in


@pytest.mark.parametrize(
    ("events_s", "timer_s", "host_s", "right"),
    [
        (5.01e-3, 5e-3, 5.2e-3, "both"),
        (-3e-3, 5e-3, 5.2e-3, "timer"),
        (0.0, 5e-3, 5.2e-3, "timer"),
        (2.5e-3, 5e-3, 2.6e-3, "events"),
        (1e-3, 5e-3, 40e-3, "neither"),
    ],
)
def test_the_hosts_clock_says_which_is_right(events_s: float, timer_s: float, host_s: float, right: str) -> None:
    found = check([ClockTimes(events_s, timer_s, host_s)])
    assert (right, right == "both") == (found.right, found.fault is None)


def test_one_try_that_agrees_will_do() -> None:
    assert check([ClockTimes(9e-3, 5e-3, 9e-3), ClockTimes(5e-3, 5e-3, 5e-3)]).fault is None


class Driver:
    """Of the CUDA Driver API what is called here: its kernels write as they are launched."""

    def __init__(self, event_s: float) -> None:
        self._event_s, self._now_ns, self._memory = event_s, 10**9, list[Any]()
        self._functions = {
            "cuMemHostAlloc": self._allocate,
            "cuMemHostGetDevicePointer_v2": self._find,
            "cuModuleGetFunction": self._look_up,
            "cuLaunchKernel": self._launch,
            "cuEventElapsedTime": self._elapsed,
        }

    def call(self, function: str, *given: Any) -> None:
        if function in self._functions:
            self._functions[function](*given)

    def _allocate(self, host: Any, size: Any, flags: Any) -> None:
        self._memory.append((ctypes.c_ubyte * size.value)())
        host._obj.value = ctypes.addressof(self._memory[-1])

    def _find(self, device: Any, host: Any, flags: Any) -> None:
        device._obj.value = host.value

    def _look_up(self, found: Any, module: Any, name: Any) -> None:
        found._obj.value = {b"stamp": 1, b"spin": 2}[name.value]

    def _launch(self, function: Any, *rest: Any) -> None:
        """A function writes as many numbers as its handle says."""
        arguments = rest[-2]
        at = ctypes.c_ulonglong.from_address(arguments[0]).value
        for number in range(function.value):
            ctypes.c_ulonglong.from_address(at + 8 * number).value = self._now_ns + number * int(1e9 * clock.LASTING_S)
        self._now_ns += int(1e9 * LATER_S)

    def _elapsed(self, milliseconds: Any, before: Any, after: Any) -> None:
        milliseconds._obj.value = 1e3 * self._event_s


class Freeing:
    """What is freed as objects end."""

    cuMemFreeHost = cuModuleUnload = cuEventDestroy_v2 = staticmethod(lambda handle: 0)  # noqa: N815


class Held:
    """Stands for the kernel that holds the stream."""

    def __init__(self, stream: int) -> None:
        pass

    def hold(self) -> None:
        pass

    release = hold


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Driver]:
    def make(event_s: float) -> Driver:
        found = Driver(event_s)
        monkeypatch.setattr(driver, "call", found.call)
        monkeypatch.setattr(clock, "Blocker", Held)
        monkeypatch.setattr(clock, "_checks", {})
        monkeypatch.setattr(clock.TimerEvent, "_stamps", {})
        monkeypatch.setattr(driver, "_library", lambda: Freeing)
        times = itertools.cycle([0.0, clock.LASTING_S])  # of the host's clock, which is asked twice a try
        monkeypatch.setattr(clock, "perf_counter", lambda: next(times))
        return found

    return make


def test_events_that_agree_are_taken(stand_in: Callable[..., Driver]) -> None:
    stand_in(clock.LASTING_S)
    assert clock.clock_fault(1) is None
    assert isinstance(clock.Event(), driver.Event)


def test_a_trial_that_is_refused_says_nothing(stand_in: Callable[..., Driver], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(ptx: bytes) -> None:
        raise PrimbenchError("cuModuleLoadData: CUDA_ERROR_INVALID_PTX")

    stand_in(clock.LASTING_S)
    monkeypatch.setattr(driver, "Module", refused)
    assert clock.clock_fault(1) is None


def test_where_events_are_wrong_the_timer_is_asked(stand_in: Callable[..., Driver]) -> None:
    stand_in(-1.0)
    fault = clock.clock_fault(1)
    assert fault is not None
    assert "by the GPU's timer" in fault
    before, after = clock.Event(), clock.Event(sleeps=True)
    before.record(1)
    after.record(1)
    after.wait()
    assert LATER_S == pytest.approx(before.seconds_until(after))
