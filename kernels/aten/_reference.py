"""The same operator on the CPU in float64, and whether there is one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from primbench.errors import UnsupportedCase
from primbench.kernels.aten._call import Call, Called, operator_of, wide
from primbench.problem import Reference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.problem import Array

INCOMPARABLE = {
    re.compile(r"aten\.(_?linalg_(svd|eigh?|qr)|geqrf)\..*"): "other signs or another order would be as right",
    re.compile(r"aten\.(_?fake_quantize\w*|(fmod|remainder|floor_divide)_?)\..*|aten\.div_?\.\w+_mode"):
        "it has steps, and in float64 another number is on the edge of one",
}  # fmt: skip
"""Operators that differ from themselves in float64 where both are right, and why."""


def why_not(called: Called) -> str | None:
    import numpy as np
    import torch

    for names, reason in INCOMPARABLE.items():
        if names.fullmatch(called.operator):
            return reason
    try:
        if torch.Tag.nondeterministic_seeded in operator_of(called.operator).tags:
            return "it draws random numbers"
        if not _outputs(called, [each.array(np.random.default_rng(0)) for each in called.operands]):
            return "it gives no numbers that could be compared"
    except (RuntimeError, TypeError, ValueError, UnsupportedCase) as error:  # whatever torch says of it
        return f"a CPU does not do it in float64: {str(error).partition(chr(10))[0][:200]}"
    return None


def _outputs(called: Called, inputs: Sequence[Array]) -> list[Array]:
    call = Call(called, "cpu", [wide(*each) for each in zip(called.operands, inputs, strict=True)], is_wide=True)
    call()
    return call.outputs()


def reference(called: Called, inputs: Sequence[Array]) -> Reference:
    import numpy as np

    outputs = _outputs(called, inputs)
    least = float(np.finfo(np.float32).tiny)
    scales = [np.full(each.size, max(float(np.abs(each).max()), least)) for each in outputs]
    return Reference(..., np.concatenate([each.reshape(-1) for each in outputs]), np.concatenate(scales))
