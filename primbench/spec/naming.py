"""What a case is called in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.units import format_bytes

if TYPE_CHECKING:
    from primbench.spec.case import Case


def name_of(case: Case, *, with_place: bool = True) -> str:
    """The primitive, its sizes and what is not as it is by default, on what; without what problems fill in."""
    words = [case.primitive]
    for field in case.fields():
        value = case.parameters.get(field.name, field.default)
        if field.metadata.get("unit") == "B" and isinstance(value, int):
            words.append(format_bytes(value).replace(" ", ""))
        elif field.metadata.get("size"):
            words.append(f"{field.name}={value}")
        elif field.name == "dtype" or (value not in (field.default, "") and field.default != ""):
            words.append(str(value) if isinstance(value, str) else f"{field.name}={value}")
    return " ".join([*words, *(["on", case.backend, case.device] if with_place else [])])
