"""One command a primitive, its options made from the fields of the problem."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from primbench.cli import ways
from primbench.cli.options import Here
from primbench.cli.problem import OfProblem, SizeOption, entries_of, needed, request_of
from primbench.cli.request import RequestCommand, dataclass, part, parts
from primbench.errors import InvalidRequest
from primbench.problem import Problem, fields_of
from primbench.units import parse_counts

if TYPE_CHECKING:
    from collections.abc import Mapping

    import click

PRODUCT = (
    "An option of the problem may be given several times, and numbers and choices as a list, 16,4K or fp16,bf16, or a "
    "whole number as a sweep, MIN:MAX:FACTOR: every combination is run."
)


@dataclass(frozen=True, kw_only=True)
class MeasurePrimitive(OfProblem):
    """To measure problems of one primitive."""

    elsewhere: Mapping[str, Any] = parts(ways.requests)
    """What is asked of each way to measure not here alone."""
    here: Here = part(Here)


class PrimitiveCommand(RequestCommand[MeasurePrimitive]):
    """Sizes have options: of words that are none it says which."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            ctx.fail(f"Got unexpected extra argument{'s' * (len(rest) > 1)} ({' '.join(rest)}){self._meant(rest)}")
        return rest

    def _meant(self, words: list[str]) -> str:
        """The options that sizes which stand alone may have been meant for."""
        flags = [each.opts[0] for each in self.params if isinstance(each, SizeOption)]
        if len(words) > len(flags) or not all(map(_is_size, words)):
            return ""
        return f": write {' '.join(f'{flag} {word}' for flag, word in zip(flags, words, strict=False))}"


def _is_size(word: str) -> bool:
    try:
        return bool(parse_counts(word, "B" if word.endswith("B") else ""))
    except InvalidRequest:
        return False


def _examples(problem: type[Problem]) -> str:
    """As click leaves them: its own sizes, the user's, and beside another place."""
    name, sized = problem.primitive, " ".join(needed(problem))
    lines = (
        [f"{name} {sized}"]
        if "NAME" in sized.split()
        else [f"{name} --sizes small", *([f"{name} {sized}"] * bool(sized))]
    )
    return "\n".join(["\b", *(f"primbench {line}" for line in [*lines, f"{lines[-1]} --versus podman"])])


def command_of(problem: type[Problem]) -> click.Command:
    """The command of a primitive: ``--sizes`` or its dimensions, then where, how, and what becomes of it."""
    names = {field.name for field in fields_of(problem)}

    def run(asked: MeasurePrimitive) -> None:
        entries = entries_of(problem, asked.problem, on_many_nodes=ways.is_on_many_nodes(asked.elsewhere))
        ways.measure(entries, asked.here, asked.elsewhere)

    return PrimitiveCommand(
        problem.primitive,
        request_of(problem, MeasurePrimitive),
        run,
        help=f"{inspect.getdoc(problem)}\n\n{PRODUCT}\n\n{_examples(problem)}",
        # A convolution's -h is its height.
        context_settings={
            "help_option_names": ["--help"] if "h" in names else ["-h", "--help"],
            "allow_extra_args": True,
        },
    )
