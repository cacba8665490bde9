"""Fields of a request in words, as their options are typed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PLAIN = r"'([\w.:+-]+)'"  # needs no quotes


def as_options(message: str, parameters: Iterable[click.Parameter]) -> str:
    """NAME=VALUE of an InvalidField as it is written on the command line, where that has such an option."""
    options = by_name(parameters)
    field = r"(?<![\w:,.-])(?P<name>[a-z]\w*)=(?P<value>'[^']*'|[^\s,;:()]*)"
    return re.sub(field, lambda found: as_option(options, found["name"], found["value"]), message)


def by_name(parameters: Iterable[click.Parameter]) -> dict[str, click.Option]:
    """The options by the names of their fields."""
    options: dict[str, click.Option] = {}
    for each in parameters:
        if isinstance(each, click.Option):
            names = [str(each.name), *(flag.lstrip("-").replace("-", "_") for flag in each.opts)]
            options |= dict.fromkeys(names, each)
    return options


def as_option(options: Mapping[str, click.Option], name: str, value: object) -> str:
    """A field as it is typed; NAME=VALUE where it is none of these."""
    found = options.get(name)
    if found is None:
        return f"{name}={value}"
    if found.is_flag:
        return found.opts[0] if str(value) == "True" else (found.secondary_opts or found.opts)[0]
    plain = re.fullmatch(_PLAIN, str(value))
    return f"{found.opts[0]} {plain[1] if plain else value}".rstrip()


def kernels_options(paths: Iterable[str]) -> list[str]:
    """The words of the options that name these files."""
    return [word for path in paths for word in ("--kernels", path)]
