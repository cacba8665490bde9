"""What a GPU does for a call elsewhere than on the stream that is timed, or keeps for it in its cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.errors import VerificationError
from primbench.gpu import vendor_of
from primbench.timing.sampling import CLOCK
from primbench.units import format_bytes, format_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.backends import Backend

TRIES = 3  # the quietest of which counts
SHARE, LEAST_S = 0.2, 50e-6  # of a call, and at least so long: a wait for streams that are done takes some us


def refuse_unwaited(backend: Backend, call: Callable[[], Any], *, is_cold: bool = False) -> None:
    """Raises VerificationError where work of a call goes on once its stream is done: no time of the stream has it.

    is_cold: whether its inputs are to be in no cache, where none may be set aside.
    """
    if not backend.device.is_gpu:
        return
    gpu = vendor_of(backend.device)
    if is_cold and (kept_bytes := gpu.l2_set_aside_bytes()):
        raise VerificationError(f"{format_bytes(kept_bytes)} of the L2 cache are set aside: no cache is cold")
    tries = []
    for _ in range(TRIES):
        gpu.finish()
        start = CLOCK()
        call()
        backend.synchronize()
        waited = CLOCK()
        gpu.finish()
        tries.append(((CLOCK() - waited) / 1e9, (waited - start) / 1e9))
        if tries[-1][0] <= LEAST_S:
            return
    left_s, call_s = min(tries)
    if left_s > LEAST_S + SHARE * call_s:
        raise VerificationError(
            f"work goes on for {format_time(left_s)} once the stream is done that calls are made on: on another one, "
            "which it does not wait for"
        )
