"""What many records of a file have alike, held once: a third of the memory that they take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import force_setattr

from primbench.measurement import Measurement, Samples
from primbench.measurement.readings import GpuReading, HostReading
from primbench.spec.case import Case

if TYPE_CHECKING:
    from collections.abc import Hashable

MOST_HELD = 10_000
"""Of a file whose records are all unlike, what is compared with would itself take memory."""
FIELDS: dict[type[msgspec.Struct], tuple[str, ...]] = {
    Case: ("primitive", "backend", "device", "method", "placement", "labels"),
    Measurement: ("missing", "counts", "algorithm"),
    Samples: ("taken_by",),
    GpuReading: ("missing", "held_back_s"),
    HostReading: ("missing",),
}
"""Texts, tables of texts or numbers of one type, and parts that can be hashed, of which there are few in a file."""
MOSTLY_NOTHING: dict[type[msgspec.Struct], tuple[str, ...]] = {
    Case: ("instead",),
    Measurement: ("others", "phases_s"),
    Samples: ("loops_s", "queued_s"),
    GpuReading: ("clocks_event_reasons", "foreign_processes"),
    HostReading: ("slow_cpus",),
}
"""Lists that mostly are empty or hold nothing but zeros, and tables that mostly are empty."""


class Alike:
    """Gives records that are read the parts that an earlier one had, where they are equal."""

    def __init__(self) -> None:
        self._held: dict[Hashable, Any] = {}

    def add_case(self, case: Case) -> None:
        """Changes the case, which nobody else has seen yet."""
        self._share(case)
        parameters = case.parameters
        found = self._first(msgspec.json.encode(parameters), parameters)
        if found is not parameters:
            force_setattr(case, "parameters", found)
            return
        for name, value in parameters.items():
            if type(value) is str:
                parameters[name] = self._first(value, value)

    def add_measurement(self, measured: Measurement) -> None:
        """Changes what nobody else has seen yet."""
        self._share(measured)
        for name in measured.__struct_fields__:
            if type(part := getattr(measured, name)) in _INNER:
                self._share(part)

    def _share(self, part: msgspec.Struct) -> None:
        for name in FIELDS[type(part)]:
            value = getattr(part, name)
            if value is not None:
                key = (name, *value.items()) if type(value) is dict else value
                force_setattr(part, name, self._first(key, value))
        for name in MOSTLY_NOTHING.get(type(part), ()):
            value = getattr(part, name)
            if value is not None and not (value if type(value) is dict else any(value)):
                force_setattr(part, name, self._first((name, len(value)), value))

    def _first(self, key: Hashable, value: Any) -> Any:
        found = self._held.get(key)
        if found is None:
            if len(self._held) < MOST_HELD:
                self._held[key] = value
            return value
        return found


_INNER = {Samples, GpuReading, HostReading}
