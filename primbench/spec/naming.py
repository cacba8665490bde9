"""What a case is called in one line."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from primbench.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.spec.case import Case


LONGEST = 60  # characters of a field


def name_of(case: Case, *, with_place: bool = True) -> str:
    """The primitive, its sizes and what is not as it is by default, on what; without what problems fill in."""
    words = [case.primitive]
    for field in _said_fields(case):
        value = case.parameters.get(field.name, field.default)
        if field.metadata.get("unit") == "B" and isinstance(value, int):
            words.append(format_bytes(value).replace(" ", ""))
        elif field.metadata.get("size"):
            words.append(f"{field.name}={value}")
        elif field.name == "dtype" or _is_said(value, field.default, is_first=not words[1:]):
            words.append(_cut(value) if isinstance(value, str) else f"{field.name}={value}")
    return " ".join([*words, *(["on", case.implementation, case.device] if with_place else [])])


def _said_fields(case: Case) -> list[Any]:
    """Without what is encoded for programs."""
    return [field for field in case.fields() if not field.metadata.get("encoded")]


def names_of(cases: Sequence[Case]) -> list[str]:
    """name_of() each, with its place where they are of several backends or devices."""
    with_place = len({(case.implementation, case.device) for case in cases}) > 1
    return [name_of(case, with_place=with_place) for case in cases]


def _is_said(value: Any, default: Any, *, is_first: bool) -> bool:
    """Whether it is other than the default, and not filled in where that is empty."""
    return value not in (default, "") and (default != "" or is_first)


def _cut(text: str) -> str:
    """What lists a hundred tensors fits no line."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def options_of(case: Case) -> list[str]:
    """The options by which `study` and `why` run the case again."""
    kernel = ["--kernel", case.kernel] if case.kernel else []
    return ["--primitive", in_words(case), "--backend", case.backend, *kernel, "--device", case.device]


def in_words(case: Case) -> str:
    """The primitive with its options, as --primitive takes it."""
    words = [case.primitive]
    for field in case.fields():
        value = case.parameters.get(field.name, field.default)
        if "names" in field.metadata:
            words.append(str(value))
        elif value not in (field.default, "") or field.metadata.get("size"):
            words += _option(field.name.replace("_", "-"), value, str(field.metadata.get("unit") or ""))
    return shlex.join(words)


def _option(name: str, value: Any, unit: str) -> list[str]:
    if isinstance(value, bool):
        return [f"--{'' if value else 'no-'}{name}"]
    return [f"--{name}", f"{value}{unit}"]
