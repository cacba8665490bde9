"""An operator of torch that is no case of another primitive: the same one again."""

from __future__ import annotations

from typing import Any

from primbench.kernels.aten.problem import Aten
from primbench.problem.operands import written
from primbench.problem.operators import OperatorCase, said


def again(operator: str, positional: list[Any], *, host_only: bool = False, **named: Any) -> OperatorCase:
    """The operator with these arguments."""
    fields = {
        "operator": operator, "arguments": written(positional), "keywords": written(named), "host_only": host_only,
    }  # fmt: skip
    return OperatorCase(Aten.primitive, said(fields, keywords="{}", host_only=False))
