"""What options take, as it is typed: files, durations, shares, CPUs and memory nodes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from primbench import units
from primbench.cli.completing import complete_listed
from primbench.devices import KINDS, Device
from primbench.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    Choice = click.Choice[str]
else:
    Choice = click.Choice  # which takes no type before click 8.2

LONGEST_TIMEOUT_S = 8760 * 3600.0  # a year; select(2) refuses what its clock cannot hold


class Choices(Choice):
    """One of several words, or a list of them; a dtype also goes by a shorter name."""

    def __init__(self, words: Sequence[str], *, of_dtypes: bool = False) -> None:
        super().__init__(words)
        self._full = dtype if of_dtypes else str

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return tuple(super(Choices, self).convert(self._full(each), param, ctx) for each in value.split(","))

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [*map(CompletionItem, complete_listed(lambda: self.choices)(ctx, param, incomplete))]


class WholeNumber(click.IntRange):
    name = "whole number"  # in messages, where click's own says "integer range"


class FileName(click.Path):
    """Refuses "", which an unset shell variable becomes: what was to be written there would be lost unseen.

    Of a results file that is read, - is standard input.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "-" and param is not None and param.name in ("output", "resume"):
            self.fail("a results file is appended to, so it cannot be stdout: use --json -", param, ctx)
        if value == "-" and param is not None and param.name in ("file", "files", "other_files"):
            return "/dev/stdin"
        if value == "" or "\0" in str(value):
            self.fail(f"{value!r} names no file", param, ctx)
        return super().convert(value, param, ctx)


FILE = FileName()


OTHERS = {".csv": "csv", ".json": "json", ".md": "markdown", ".html": "report", ".xml": "junit", ".parquet": "parquet"}
"""Ends of names that say another format than a results file's, and the option that writes it."""
NO_OPTION_WRITES = (".toml", ".svg")


class ResultsFile(FileName):
    """A new one. What another program or `primbench run` would take for something else is not called so."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        name, end = os.path.splitext(str(value))
        if end in OTHERS or end in NO_OPTION_WRITES:
            option = f"--{OTHERS.get(end)}"
            has_one = ctx is not None and any(option in each.opts for each in ctx.command.params)
            there = f": {option} {value} writes that" if has_one else ""
            self.fail(f"{value}: -o writes a results file, as {name}.jsonl{there}", param, ctx)
        return super().convert(value, param, ctx)


RESULTS_FILE = ResultsFile()


def parsed(name: str, parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """An option type that one of primbench's parsers reads; its InvalidRequest becomes click's usage error."""

    def convert(text: Any) -> Any:
        if not isinstance(text, str):  # a default
            return text
        try:
            return parse(text)
        except InvalidRequest as error:
            raise click.BadParameter(str(error)) from None

    convert.__name__ = name  # click shows it in --help
    return convert


def dtype(text: str) -> str:
    """A dtype's name here."""
    from primbench.dtypes import full_name  # which --help does without

    try:
        return full_name(text)
    except InvalidRequest as error:
        raise click.BadParameter(str(error)) from None


def dtypes(text: str) -> tuple[str, ...]:
    """One dtype's name here, or those of a list."""
    return tuple(map(dtype, text.split(",")))


def device(text: str) -> str:
    """A device; "cuda" is the first GPU, as for torch."""
    return str(Device.parse(text)) if text in KINDS else text


def numa_node(text: str) -> int | str | None:
    """A node number, "auto" for the device's node, or "none"."""
    if text == "none":
        return None
    if text == "auto":
        return text
    if not text.isascii() or not text.isdigit():
        raise InvalidRequest(f"{text!r} is no memory node: a number, auto or none")
    return int(text)


def cpus(text: str) -> tuple[int, ...]:
    """CPUs, in the kernel's list format."""
    from primbench.system.files import parse_cpu_list  # which --help does without

    return parse_cpu_list(text)


def numa_nodes(text: str) -> tuple[int, ...]:
    """Memory nodes, in the kernel's list format."""
    try:
        return cpus(text)
    except InvalidRequest:
        raise InvalidRequest(f"{text!r} is no list of memory nodes: numbers and ranges, as in 0 or 0-1,8") from None


def timeout(text: str) -> float:
    timeout_s = units.parse_duration(text)
    if not 0 < timeout_s <= LONGEST_TIMEOUT_S:
        raise InvalidRequest(f"{text!r}: more than 0, at most {LONGEST_TIMEOUT_S / 3600:g}h")
    return timeout_s


def noise(text: str) -> float:
    share = units.parse_fraction(text)
    if not 0 < share < 1:
        raise InvalidRequest(f"{text!r}: more than 0%, less than 100%")
    return share


def key_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise InvalidRequest(f"{text!r}: write KEY=VALUE")
    return key, value


DURATION = parsed("duration", units.parse_duration)


TIMEOUT = parsed("duration", timeout)


PERCENT = parsed("percent", units.parse_fraction)


NOISE = parsed("percent", noise)


DEVICE = parsed("device", device)


CPUS = parsed("list", cpus)


NODES = parsed("list", numa_nodes)


NODE = parsed("node", numa_node)


LABEL = parsed("key=value", key_value)
