"""One problem on one backend and device, and how to measure it."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from primbench.errors import InvalidRequest
from primbench.problem import Problem, Value, fields_of
from primbench.quantities import Whole
from primbench.registry import build, problem_class
from primbench.spec.method import Method
from primbench.spec.placement import Placement


class Case(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One problem on one backend and device, and how to measure it.

    parameters: every field of the problem. labels: where the problem comes from (set, application, id).
    process: which of the repeated fresh processes this is, from 0. arm: where the worker runs, by the name of one of a
    study's arms; "" outside of studies.
    """

    primitive: str
    parameters: dict[str, Value]
    backend: str
    device: str
    method: Method = Method()
    placement: Placement = Placement()
    labels: dict[str, str] = {}
    process: Whole = 0
    arm: str = ""

    @property
    def ranks(self) -> int:
        """Processes that take part in a call: the field of that name, in problems that have it."""
        found = self.parameters.get("ranks", 1)
        return found if isinstance(found, int) else 1

    def problem(self) -> Problem:
        """Raises InvalidRequest where the fields do not make a problem."""
        return build(self.primitive, self.parameters)

    def known_problem(self) -> Problem | None:
        """The problem; None where this installation lacks the primitive or refuses the fields."""
        try:
            return self.problem()
        except InvalidRequest:
            return None

    def sees_gpus(self) -> bool:
        """Whether a GPU may be used: the case's own, or by processes that it starts."""
        return self.device != "cpu" or ((problem := self.known_problem()) is not None and problem.sees_gpus)

    def why_alone(self) -> str | None:
        """Why it takes no turns with the same case in other places; None where it may, as far as the problem tells."""
        return problem.why_alone() if (problem := self.known_problem()) else None

    def fields(self) -> tuple[dataclasses.Field[Any], ...]:
        """The primitive's fields; where it is not installed here, fields that have only the parameters' names."""
        try:
            return fields_of(problem_class(self.primitive))
        except InvalidRequest:
            return tuple(map(_unknown_field, self.parameters))

    def key(self) -> bytes:
        """Bytes that are equal for two cases exactly when all their fields are."""
        return msgspec.json.encode(self, order="deterministic")


def _unknown_field(name: str) -> dataclasses.Field[Any]:
    found: dataclasses.Field[Any] = dataclasses.field()
    found.name = name
    return found
