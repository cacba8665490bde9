"""Refuse what cannot be measured before anything is allocated: what does not fit, and what would take minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.errors import UnsupportedCase
from primbench.system import memory
from primbench.timing import host_counters
from primbench.timing.calls import CallLoop
from primbench.timing.sampling import Clock, Take, host_timed

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.backends import Backend
    from primbench.problem import Problem, Setup
    from primbench.spec.method import Method

CPU_MIN_CALLS = 8  # one checked, one warm, six samples
HOPELESS_S = 120.0
PROBES_FLOP = (2**24, 2**28, 2**31)
TRUSTED_PROBE_S = 0.2
SMALL_BYTES = 2**20  # less than Python takes for itself: not worth reading what control groups have left


def check_memory(backend: Backend, problem: Problem, sets: int = 1) -> None:
    """Raise UnsupportedCase where the arrays cannot fit, before anything is allocated."""
    from primbench.units import format_bytes

    def check(need: int, free: Callable[[], int], where: str) -> None:
        if need > SMALL_BYTES and need > (free_bytes := free()):
            raise UnsupportedCase(f"needs {format_bytes(need)}, {format_bytes(free_bytes)} free on {where}")

    if not backend.device.is_gpu:
        check((sets + 1) * problem.memory_bytes(), memory.available_memory_bytes, "this host")
        return
    from primbench.gpu import vendor_of

    check(problem.memory_bytes(), memory.available_memory_bytes, "this host")
    check(sets * problem.memory_bytes(), vendor_of(backend.device).free_memory_bytes, str(backend.device))


def check_affordable(backend: Backend, problem: Problem, method: Method, clock: Clock, setup: Setup) -> None:
    """Time small problems of the same kind and raise UnsupportedCase where this one would take minutes.

    Only a probe that lasts 0.2 s may refuse: beside another busy process, a call of 0.1 ms can wait 16 ms for a CPU. So
    can one of 1 ms wait 0.4 s beside ten: what its threads waited for CPUs that others had does not count.
    """
    flop = problem.flop()
    if flop is None or flop <= PROBES_FLOP[0]:
        return
    for probe_flop in PROBES_FLOP:
        small = problem.probe(probe_flop)
        if small is None:
            return
        take = _probe(backend, small, method, clock, setup)
        probe_s = min(take()[0] for _ in range(3))
        call_s = probe_s * flop / (small.flop() or flop)
        if call_s * CPU_MIN_CALLS <= HOPELESS_S:
            return
        if probe_s >= TRUSTED_PROBE_S and _own_s(take) >= TRUSTED_PROBE_S:
            raise UnsupportedCase(
                f"about {call_s:.0f} s a call, judged by a problem of {small.flop()} flop: {CPU_MIN_CALLS} calls would "
                f"pass {HOPELESS_S:.0f} s; take a smaller size or another dtype or backend"
            )


def _probe(backend: Backend, small: Problem, method: Method, clock: Clock, setup: Setup) -> Take:
    import numpy as np

    inputs = small.inputs(np.random.default_rng(method.seed))
    calls = CallLoop([setup(backend, small, *map(backend.put, inputs))])
    return host_timed(calls, 1, clock)


def _own_s(take: Take) -> float:
    """How long a sample takes without what its thread waited for a CPU that waited longest.

    What a quota holds it back stays in: it does so all the time.
    """
    before = host_counters.start()
    (taken_s,) = take()
    found = host_counters.since(before)
    return taken_s - max(0.0, (found.waited_s or 0.0) - (found.throttled_s or 0.0))
