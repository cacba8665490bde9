"""What every backend's kernel has: the check of who takes part, and the output of a sum in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from primbench.errors import UnsupportedCase

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.distributed.group import Group
    from primbench.kernels.allreduce.problem import Allreduce
    from primbench.problem import Array


@dataclass(frozen=True)
class InPlace:
    """A buffer that a call reduces in place, as the output of a step.

    poison: fills it with the inputs again, so that an element which the next call leaves out is no sum.
    """

    poison: Callable[[], object]
    get: Callable[[], Array]


def check_group(problem: Allreduce, group: Group) -> None:
    """Raise UnsupportedCase unless as many processes take part as the problem says."""
    if group.size != problem.ranks:
        raise UnsupportedCase(
            f"{problem.ranks} ranks are {problem.ranks} processes: primbench.run and the command line start them"
        )
