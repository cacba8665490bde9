"""One problem on one backend and device, and how to measure it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from primbench.errors import InvalidRequest, near
from primbench.problem import Problem, Value, fields_of, in_field
from primbench.quantities import Whole
from primbench.registry import backends_of, build, problem_class, required
from primbench.spec.method import Method
from primbench.spec.placement import Placement

if TYPE_CHECKING:
    from collections.abc import Mapping

BACKEND = "backend"
"""Beside a problem's fields what an arm may change of a case."""


class Case(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One problem on one backend and device, and how to measure it."""

    primitive: str
    parameters: dict[str, Value]
    """Every field of the problem."""
    backend: str
    device: str
    method: Method = Method()
    placement: Placement = Placement()
    labels: dict[str, str] = {}
    """Where the problem comes from (set, application, id)."""
    process: Whole = 0
    """Which of the repeated fresh processes this is, from 0."""
    arm: str = ""
    """Where the worker runs, by the name of one of a study's arms; "" outside of studies."""
    instead: dict[str, Value] = {}
    """What its arm has otherwise than the study's case, as that has it: a field of the problem, or "backend"."""

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
        try:
            return self.device != "cpu" or problem_class(self.primitive).sees_gpus
        except InvalidRequest:
            return False

    def why_alone(self) -> str | None:
        """Why it takes no turns with the same case in other places; None where it may, as far as the problem tells."""
        return problem.why_alone() if (problem := self.known_problem()) else None

    def fields(self) -> tuple[dataclasses.Field[Any], ...]:
        """The primitive's fields; where it is not installed here, fields that have only the parameters' names."""
        try:
            return fields_of(problem_class(self.primitive))
        except InvalidRequest:
            return tuple(map(_unknown_field, self.parameters))

    def changed(self, changes: Mapping[str, str]) -> Case:
        """The same with other values: of fields of the problem, or "backend".

        Raises InvalidRequest for what it has not, and for values that make no problem.
        """
        fields = {field.name: field for field in fields_of(problem_class(self.primitive))}
        backend, asked = self.backend, dict[str, Value]()
        for name, word in changes.items():
            if name == BACKEND:
                backend = self._served_by(word)
            elif name in fields:
                asked[name] = in_field(self.primitive, fields[name], word)
            else:
                known = [BACKEND, *fields]
                raise InvalidRequest(
                    f"case.{name}={word}: {self.primitive} has no such field: {near(name, known)}"
                    f"there are {', '.join(known)}"
                )
        parameters = self._filled_in(self._said() | asked) if asked else self.parameters
        instead = {name: value for name, value in self.parameters.items() if value != parameters[name]}
        if backend != self.backend:
            instead[BACKEND] = self.backend
        return replace(self, backend=backend, parameters=parameters, instead=instead)

    def _filled_in(self, parameters: Mapping[str, Value]) -> dict[str, Value]:
        return build(self.primitive, parameters).on(self.device).parameters()

    def _said(self) -> dict[str, Value]:
        """The parameters without those that the problem fills in by itself, from the others."""
        said = dict(self.parameters)
        needed = required(problem_class(self.primitive))
        for name in self.parameters:
            less = {other: value for other, value in said.items() if other != name}
            if name not in needed and self._follow_from(less):
                said = less
        return said

    def _follow_from(self, some: Mapping[str, Value]) -> bool:
        """Whether the parameters are what the problem fills in of some of them."""
        try:
            return self._filled_in(some) == self.parameters
        except InvalidRequest:
            return False

    def value_of(self, name: str) -> Value:
        """What an arm may change, as it is here."""
        return self.backend if name == BACKEND else self.parameters[name]

    def _served_by(self, backend: str) -> str:
        if backend not in (known := backends_of(self.primitive)):
            raise InvalidRequest(f"case.{BACKEND}={backend}: {self.primitive} has kernels for {', '.join(known)}")
        return backend

    def as_asked(self) -> Case:
        """The study's case that it stands for in its arm."""
        if not self.instead:
            return self
        was = {name: value for name, value in self.instead.items() if name != BACKEND}
        return replace(
            self, backend=str(self.instead.get(BACKEND, self.backend)), parameters=self.parameters | was, instead={}
        )

    def key(self) -> bytes:
        """Bytes that are equal for two cases exactly when all their fields are."""
        return msgspec.json.encode(self, order="deterministic")


def _unknown_field(name: str) -> dataclasses.Field[Any]:
    found: dataclasses.Field[Any] = dataclasses.field()
    found.name = name
    return found
