"""Operators that change their inputs, called over and over: how often, before these are to be as they were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from primbench.kernels.aten._call import Call

MOST = 8  # of 1 us, beside which the clock's 50 ns are little
LONG = 2**16  # elements, beside which the clock is nothing


def calls_in_a_row(call: Call) -> int:
    """As many, a power of two, as leave numbers neither infinite nor denormal; one where they are not after the first.

    Of these torch takes other times: on an EPYC of 2023 of denormal ones 27 times for a root and 10 for a logarithm, of
    infinite ones 3 times for an exponential and 12 for a sine.
    """
    changed = call.changed()
    if sum(each.numel() for each in changed) > LONG:
        return 1
    good = 0
    while good < MOST:
        call()
        if not all(map(_is_normal, changed)):
            break
        good += 1
    call.poison()
    return 1 << max(0, good.bit_length() - 1)


def _is_normal(tensor: Any) -> bool:
    import torch

    if not tensor.is_floating_point() or tensor.element_size() == 1:  # of which torch cannot tell
        return True
    size = tensor.abs()
    return bool((size.isfinite() & ((size == 0) | (size >= torch.finfo(tensor.dtype).tiny))).all())
