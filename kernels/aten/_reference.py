"""The same operator on the CPU in float64, and whether there is one."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from primbench.errors import UnsupportedCase
from primbench.kernels.aten._call import NAN, Call, Called, operator_of, wide
from primbench.problem import Reference
from primbench.problem.generated import GENERATED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.problem import Array

INCOMPARABLE = {
    re.compile(r"aten\.(_?linalg_(svd|eigh?|qr)|geqrf)\..*"): "other signs or another order would be as right",
    re.compile(r"aten\.(_?fake_quantize\w*|(fmod|remainder|floor_divide)_?)\..*|aten\.div_?\.\w+_mode"):
        "it has steps, and in float64 another number is on the edge of one",
}  # fmt: skip
"""Operators that differ from themselves in float64 where both are right, and why."""
LARGEST = {"float16": 65504.0, "float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}
"""Finite numbers of types that end early: IEEE 754-2019 table 3.5; Micikevicius et al. 2022, arXiv 2209.05433."""


def why_not(called: Called) -> str | None:
    import numpy as np
    import torch

    if called.operator.startswith(f"{GENERATED}."):
        return "torch.compile has fused it of several operators"
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
    """What the operands' types cannot hold is not compared."""
    import numpy as np

    outputs = [each.reshape(-1) for each in _outputs(called, inputs)]
    most = min((LARGEST[each.dtype] for each in called.operands if each.dtype in LARGEST), default=math.inf)
    return Reference(..., np.concatenate(outputs), np.concatenate([_scale(each, most) for each in outputs]))


def _scale(output: Array, most: float) -> Array:
    """The largest element; without an end for those that are beyond ``most``, where infinity is as right."""
    import numpy as np

    size = np.abs(output)
    is_infinite = (size > most) & (size < NAN)
    largest = max(float(size[~is_infinite].max(initial=0.0)), float(np.finfo(np.float32).tiny))
    return np.where(is_infinite, math.inf, largest)
