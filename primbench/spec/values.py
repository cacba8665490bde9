"""How a value of an arm is read from a word, and written as one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from primbench.errors import InvalidRequest
from primbench.system.files import format_cpu_list, parse_cpu_list
from primbench.units import format_bytes, parse_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

UNLIMITED = "unlimited"
NO_LIMIT = -1
"""As getrlimit(2) has it in Python."""


def amount(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text, re.ASCII):
        raise InvalidRequest("CPUs' worth of time, such as 1.5; which CPUs is cpuset=0-3 or bind-cpus=0-3")
    return float(text)


def write_amount(value: float) -> str:
    return f"{value:.12g}"


def whole(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
        raise InvalidRequest("a whole number")
    return int(text)


def numbers(text: str) -> tuple[int, ...]:
    return parse_cpu_list(text.replace("+", ","))


def write_numbers(found: Iterable[int]) -> str:
    return format_cpu_list(found).replace(",", "+")


def write_size(size_bytes: int) -> str:
    short = format_bytes(size_bytes).replace(" ", "")
    return short if "." not in short and parse_size(short) == size_bytes else f"{size_bytes}B"


class OneOf:
    """Reads a value that is one of these words."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def __call__(self, text: str) -> str:
        if text not in self.words:
            raise InvalidRequest(f"there are {', '.join(self.words)}")
        return text


def node(text: str) -> int | str:
    return text if text == "auto" else whole(text)


def path(text: str) -> str:
    """None that an option of a runtime or a variable would split."""
    if not re.fullmatch(r"/[^,:+\s\0]+", text):
        raise InvalidRequest("a path in full, without space, comma, colon and plus")
    return text


def paths(text: str) -> tuple[str, ...]:
    return tuple(map(path, text.split("+")))


def names(text: str) -> tuple[str, ...]:
    return tuple(text.replace("+", ",").split(","))


def write_names(found: Iterable[str]) -> str:
    return "+".join(found)


def unlimited(parse: Callable[[str], int]) -> Callable[[str], int]:
    """The same, and NO_LIMIT for "unlimited"."""

    def read(text: str) -> int:
        try:
            return NO_LIMIT if text == UNLIMITED else parse(text)
        except InvalidRequest as error:
            raise InvalidRequest(f"{error}, or {UNLIMITED}") from None

    return read


def write_unlimited(write: Callable[[int], str]) -> Callable[[int], str]:
    return lambda value: UNLIMITED if value == NO_LIMIT else write(value)
