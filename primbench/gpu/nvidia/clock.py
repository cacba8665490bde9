"""Whether events tell the time as the GPU's own timer does, and events by that timer where they do not.

Of places where memory is kept secret even from the host (confidential computing) events are reported that tell negative
times. So each process has a kernel run for 5 ms by the timer, between two events and two looks at the host's clock:
where events and the timer disagree, the host's clock says which of them is right.

On H200s events and the timer agreed, so that events by the timer have run on no GPU yet; ptxas takes their kernel for
sm_75 and sm_90.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from ctypes import c_uint, c_ulonglong, c_void_p
from time import perf_counter
from typing import TYPE_CHECKING, Literal, NamedTuple

from primbench.errors import PrimbenchError
from primbench.gpu.nvidia import driver
from primbench.gpu.nvidia.blocker import Blocker
from primbench.units import format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from primbench.gpu import GpuEvent

LASTING_S = 5e-3  # against which what an event and a wait take is little
TRIES = 3  # of which one that agrees will do: another process may have the GPU in between
ALIKE = 0.02  # of the timer's time, by which events may tell another one
LIKE_HOST = 0.2  # of the host's, which also counts until it is told of the end

# spin runs for so long by the timer, or for 200 million cycles where that stands still, and writes when it began and
# ended; stamp writes when it ran. PTX of an old target runs on every later GPU.
PTX = b"""
.version 6.0
.target sm_60
.address_size 64
.visible .entry spin(.param .u64 times, .param .u64 lasting_ns)
{
    .reg .pred %early;
    .reg .u64 %address, %lasting, %start, %now, %ran, %first, %cycles;
    ld.param.u64 %address, [times];
    ld.param.u64 %lasting, [lasting_ns];
    cvta.to.global.u64 %address, %address;
    mov.u64 %first, %clock64;
    mov.u64 %start, %globaltimer;
NEXT:
    mov.u64 %cycles, %clock64;
    sub.u64 %cycles, %cycles, %first;
    mov.u64 %now, %globaltimer;
    sub.u64 %ran, %now, %start;
    setp.lt.u64 %early, %ran, %lasting;
    setp.lt.and.u64 %early, %cycles, 200000000, %early;
    @%early bra NEXT;
    st.volatile.global.u64 [%address], %start;
    st.volatile.global.u64 [%address+8], %now;
    ret;
}
.visible .entry stamp(.param .u64 at)
{
    .reg .u64 %address, %now;
    ld.param.u64 %address, [at];
    cvta.to.global.u64 %address, %address;
    mov.u64 %now, %globaltimer;
    st.volatile.global.u64 [%address], %now;
    ret;
}
"""

Right = Literal["both", "events", "timer", "neither"]


class ClockTimes(NamedTuple):
    """How long one run of a kernel took, by each clock, in seconds."""

    events_s: float
    timer_s: float
    host_s: float


class ClockCheck(NamedTuple):
    """Which clocks of a GPU tell the time."""

    right: Right
    fault: str | None
    """What is wrong, in words, and what times are taken by; None where nothing is, or could not be tried."""


_checks: dict[int, ClockCheck] = {}
"""Of each context by its handle."""


def clock_fault(stream: int) -> str | None:
    """What is wrong with events in the current context, tried once; None where nothing is. It raises nothing."""
    try:
        context = driver.current_context()
        if context not in _checks:
            _checks[context] = ClockCheck("both", None)  # where the trial is refused, which is then not tried again
            _checks[context] = check(_tries(stream))
    except PrimbenchError:  # what is timed is refused, too, and says so then
        return None
    return _checks[context].fault


def Event(*, sleeps: bool = False) -> GpuEvent:  # noqa: N802 - a class, of which there are two
    """By the driver's own clock, or by the GPU's timer where that alone is right in the current context."""
    found = _checks.get(driver.current_context()) if _checks else None
    return TimerEvent(sleeps=sleeps) if found is not None and found.right == "timer" else driver.Event(sleeps=sleeps)


def check(tries: Sequence[ClockTimes]) -> ClockCheck:
    """Events and the timer agree where they do in one try; else the host's shortest time tells which is right."""
    if any(abs(each.events_s - each.timer_s) <= ALIKE * each.timer_s for each in tries):
        return ClockCheck("both", None)
    told = min(tries, key=lambda each: each.host_s)
    are_right, is_right = (abs(each - told.host_s) <= LIKE_HOST * told.host_s for each in told[:2])
    right: Right = "timer" if is_right and not are_right else "events" if are_right and not is_right else "neither"
    taken = {
        "timer": "times are taken by the GPU's timer",
        "events": "times are taken by events, and no kernel is held for as long as it should be",
    }
    return ClockCheck(
        right,
        f"events say that a kernel took {format_time(told.events_s)}, the GPU's own timer {format_time(told.timer_s)}, "
        f"the host's clock {format_time(told.host_s)}: {taken.get(right, 'times of this GPU are not to be trusted')}",
    )


def _tries(stream: int) -> list[ClockTimes]:
    """One where it agrees, as it does nearly always."""
    spin = _kernel("spin")
    times, lasting_ns = driver.MappedMemory(16), c_ulonglong(1)
    began_ns, ended_ns = (c_ulonglong.from_address(times.host + at) for at in (0, 8))
    before, after, blocker = driver.Event(), driver.Event(), Blocker(stream)
    spin(stream, times.device, lasting_ns)  # which loads it
    driver.synchronize(stream)
    lasting_ns = c_ulonglong(int(LASTING_S * 1e9))
    found: list[ClockTimes] = []
    while len(found) < TRIES and (not found or check(found).fault):
        blocker.hold()  # so that the kernel is there when the first event is reached
        before.record(stream)
        spin(stream, times.device, lasting_ns)
        after.record(stream)
        began = perf_counter()
        blocker.release()
        after.wait()
        host_s = perf_counter() - began
        found.append(ClockTimes(before.seconds_until(after), (ended_ns.value - began_ns.value) / 1e9, host_s))
    return found


def _kernel(name: str) -> Callable[..., None]:
    """What launches one thread of a kernel on a stream, with arguments of ctypes."""
    module = driver.Module(PTX)
    function = c_void_p(module.function(name))

    def launch(stream: int, *values: c_ulonglong, held: driver.Module = module) -> None:
        arguments = (c_void_p * len(values))(*map(ctypes.addressof, values))
        one, none = c_uint(1), c_uint(0)
        driver.call("cuLaunchKernel", function, *[one] * 6, none, c_void_p(stream), arguments, None)

    return launch


class TimerEvent:
    """As ``primbench.gpu.GpuEvent`` has it: a kernel of one thread writes what the timer says."""

    _stamps: dict[int, Callable[..., None]] = {}  # noqa: RUF012 - of each context, which all events of it share

    def __init__(self, *, sleeps: bool = False) -> None:
        self._reached, self._memory = driver.Event(sleeps=sleeps), driver.MappedMemory(8)
        self._now_ns = c_ulonglong.from_address(self._memory.host)
        context = driver.current_context()
        if context not in self._stamps:
            self._stamps[context] = _kernel("stamp")
        self._stamp = self._stamps[context]

    def record(self, stream: int) -> None:
        self._stamp(stream, self._memory.device)
        self._reached.record(stream)

    def wait(self) -> None:
        self._reached.wait()

    def seconds_until(self, later: TimerEvent) -> float:
        """Time from this event to ``later``, both of them reached."""
        return (later._now_ns.value - self._now_ns.value) / 1e9

    def __del__(self) -> None:
        with suppress(PrimbenchError, AttributeError):  # the kernel may still be to write there
            self._reached.wait()
