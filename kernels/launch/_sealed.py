"""Launches whose system calls are refused: whether those in steady state make any, and are right without them."""

from __future__ import annotations

import functools
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from primbench.errors import PrimbenchError, VerificationError
from primbench.problem import described, description_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.backends import Backend
    from primbench.kernels.launch.problem import Launch
    from primbench.measurement import Samples
    from primbench.problem import Setup, Step
    from primbench.spec.method import Method
    from primbench.system import seccomp

    Clock = Callable[[], int]

CALLS = 10_000
BURST = 10  # calls between two waits, so few that they never wait for the queue
SMALLEST, LARGEST = 0, 480  # bytes of those that Python takes from memory that it holds, 32 of their own aside
WARM_CALLS = 1000


@dataclass(frozen=True)
class Taken:
    """Times of the same calls by the same thread before and under the seal."""

    unsealed_s: Samples
    """Before the seal."""
    sealed_s: Samples
    """Under the seal."""
    refused: dict[str, int]
    """System call -> how often it was refused."""


def sealable(setup: Setup) -> Setup:
    """A setup whose step also takes ``refused_calls``, and more ``others``, where the problem asks for a seal.

    What is sealed is set up once more, in a thread of its own: streams and contexts are current to threads.
    """

    @functools.wraps(setup)
    def with_seal(backend: Backend, problem: Launch, *inputs: Any) -> Step:
        step = setup(backend, problem, *inputs)
        if problem.seal == "none":
            return step

        @functools.cache
        def taken(method: Method, clock: Clock) -> Taken:
            from primbench.backends import open_backend
            from primbench.system import seccomp

            def work(sealed: seccomp.Seal) -> Taken:
                opened = open_backend(backend.name, str(backend.device))
                return _take(sealed, opened, setup(opened, problem, *inputs), method.max_time_s, clock)

            return seccomp.run(work, cast("seccomp.Refuses", problem.seal))

        others = {
            "unsealed_s": lambda method, pace: taken(method, pace.clock).unsealed_s,
            "sealed_s": lambda method, pace: taken(method, pace.clock).sealed_s,
        }
        return described(
            step,
            others={**description_of(step).others, **others},
            refused_calls=lambda method, pace: taken(method, pace.clock).refused,
        )

    return with_seal


def _take(sealed: seccomp.Seal, backend: Backend, step: Step, max_time_s: float, clock: Clock) -> Taken:
    """Raises VerificationError for a wrong output under the seal, PrimbenchError where a call failed there."""
    from primbench.timing.verify import on_host, poison

    fill = functools.partial(_fill, step, backend.synchronize, clock, max_time_s)
    warm, before, under = (array("d", [-1.0]) * (calls // BURST) for calls in (WARM_CALLS, CALLS, CALLS))
    fill(warm)
    fill(before)
    output = step()
    backend.synchronize()
    expected = on_host(backend, output).copy() if hasattr(output, "dtype") else None  # an empty kernel has no output
    if expected is not None:
        poison(backend, output)
        backend.synchronize()
    failure = None
    spare = _spare_memory()
    with sealed.closed():
        try:
            fill(under)
        except Exception as error:  # whatever a framework makes of a system call that fails
            failure = error
    del spare
    refused = sealed.refused
    if failure is not None:
        done = f"after {len(_done(under))} bursts of {BURST} calls under the seal"
        raise PrimbenchError(f"{done} {type(failure).__name__}: {failure}{_said(refused)}")
    if expected is not None and (on_host(backend, output) != expected).any():
        raise VerificationError(f"wrong result of calls under the seal{_said(refused)}")
    return Taken(_samples(before, "host clock"), _samples(under, "host clock, sealed"), refused)


def _spare_memory() -> list[bytes]:
    """Objects between which Python has room for small ones of every size, while they live.

    Else it may have to ask the kernel for memory under the seal, holding the lock that whoever answers for the kernel
    waits for: both wait for ever.
    """
    return [each for size in range(SMALLEST, LARGEST, 8) for each in [bytes(size) for _ in range(512)][::8]]


def _fill(step: Step, synchronize: Callable[[], None], clock: Clock, max_time_s: float, times: array[float]) -> None:
    """Seconds a call of each burst, in place: to allocate could take a system call. What lasts too long stays -1."""
    end = clock() + max_time_s * 1e9
    for number in range(len(times)):
        start = clock()
        for _ in range(BURST):
            step()
        took = clock() - start
        synchronize()
        times[number] = took / 1e9 / BURST
        if clock() > end:
            return


def _done(times: array[float]) -> list[float]:
    return [each for each in times if each >= 0]


def _samples(times: array[float], taken_by: str) -> Samples:
    from primbench.measurement import Samples

    done = _done(times)
    stopped: Literal["count", "max time"] = "count" if len(done) == len(times) else "max time"
    return Samples(samples_s=done, calls_per_sample=BURST, taken_by=taken_by, stopped=stopped)


def _said(refused: dict[str, int]) -> str:
    return f"; refused: {', '.join(f'{name} ({count})' for name, count in refused.items())}" if refused else ""
