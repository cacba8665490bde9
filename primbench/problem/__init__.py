"""A Problem is one primitive at one size; a kernel is how one backend computes it.

Both register themselves when their file is imported: of a folder in ``kernels/``, or one file there. The command line,
``primbench list`` and the conformance test are derived from what is registered here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.problem.definition import (
    KERNELS,
    MEMORY,
    PROBLEMS,
    Bound,
    Exact,
    Problem,
    Reference,
    Work,
    checked_problem,
    fields_of,
    kernel,
)
from primbench.problem.fields import Value, in_field, named, option, size
from primbench.problem.outputs import Outputs
from primbench.problem.steps import Description, Setup, Step, described, description_of

if TYPE_CHECKING:
    from primbench.dtypes import Array as Array  # the type of inputs and references

__all__ = [
    "KERNELS", "MEMORY", "PROBLEMS", "Bound", "Description", "Exact", "Outputs", "Problem", "Reference", "Setup",
    "Step", "Value", "Work", "checked_problem", "described", "description_of", "fields_of", "in_field", "kernel",
    "named", "option", "size",
]  # fmt: skip
