"""One problem on one backend and device, and how to measure it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from primbench.devices import Device
from primbench.errors import InvalidRequest, near
from primbench.problem import Problem, Value, fields_of, in_field
from primbench.quantities import Whole
from primbench.registry import build, kernels_of, problem_class, required, why_no_kernel
from primbench.spec.method import Method
from primbench.spec.placement import Placement

if TYPE_CHECKING:
    from collections.abc import Mapping

OWN = ("backend", "kernel")
"""Beside a problem's fields what an arm may change of a case: fields of the case itself."""
USUAL = "usual"
"""The kernel of a backend that has no name."""


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
    kernel: str = ""
    """Which of the kernels that the backend has for the primitive; "" is the usual one."""
    instead: dict[str, Value] = {}
    """What its arm has otherwise than the study's case, as that has it: a field of the problem, or one of OWN."""

    @property
    def on(self) -> Device:
        """The device."""
        return Device.parse(self.device)

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
            return self.on.is_gpu or problem_class(self.primitive).sees_gpus
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
        """The same with other values: of fields of the problem, or of OWN.

        Raises InvalidRequest for what it has not, and for values that make no problem.
        """
        if not changes:
            return self
        own = {name: str(changes.get(name, self.value_of(name))) for name in OWN}
        own["kernel"] = own["kernel"].removeprefix(USUAL)
        if own["kernel"] not in kernels_of(self.primitive, own["backend"]):
            raise InvalidRequest(why_no_kernel(self.primitive, own["backend"], own["kernel"]))
        asked = self._read({name: word for name, word in changes.items() if name not in OWN})
        parameters = self._filled_in(self._said() | asked) if asked else self.parameters
        found = replace(self, parameters=parameters, **own)
        was = {name: self.value_of(name) for name in (*parameters, *OWN) if found.value_of(name) != self.value_of(name)}
        return replace(found, instead=was)

    def _read(self, words: Mapping[str, str]) -> dict[str, Value]:
        """Values of the problem's fields. Raises InvalidRequest."""
        fields = {field.name: field for field in fields_of(problem_class(self.primitive))}
        for name, word in words.items():
            if name not in fields:
                known = [*OWN, *fields]
                raise InvalidRequest(
                    f"case.{name}={word}: {self.primitive} has no such field: {near(name, known)}"
                    f"there are {', '.join(known)}"
                )
        return {name: in_field(self.primitive, fields[name], word) for name, word in words.items()}

    def _filled_in(self, parameters: Mapping[str, Value]) -> dict[str, Value]:
        return build(self.primitive, parameters).on(self.on).parameters()

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
        found: Value = getattr(self, name) if name in OWN else self.parameters[name]
        return found

    def word_of(self, name: str) -> str:
        """The same in a word, as changed() takes it."""
        return str(self.value_of(name)) or USUAL

    @property
    def implementation(self) -> str:
        """The backend, with the name of its kernel where that is not the usual one, as torch:compiled."""
        return ":".join(filter(None, (self.backend, self.kernel)))

    def as_asked(self) -> Case:
        """The study's case that it stands for in its arm."""
        if not self.instead:
            return self
        own = {name: str(self.instead.get(name, self.value_of(name))) for name in OWN}
        was = {name: value for name, value in self.instead.items() if name not in OWN}
        return replace(self, parameters=self.parameters | was, instead={}, **own)

    def key(self) -> bytes:
        """Bytes that are equal for two cases exactly when all their fields are."""
        return msgspec.json.encode(self, order="deterministic")


def _unknown_field(name: str) -> dataclasses.Field[Any]:
    found: dataclasses.Field[Any] = dataclasses.field()
    found.name = name
    return found
