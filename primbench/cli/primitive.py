"""One command a primitive, its options made from the fields of the problem."""

from __future__ import annotations

import inspect
from typing import Any

import click

from primbench.cli.options import GroupedCommand, fleet_options, measuring_options, versus_options
from primbench.cli.problem import entries_of, problem_options
from primbench.problem import Problem, fields_of

PRODUCT = (
    "An option of the problem may be given several times, and a size as a sweep MIN:MAX:FACTOR: every combination is "
    "run."
)


def command_of(problem: type[Problem]) -> click.Command:
    """The command of a primitive: ``--sizes`` or its dimensions, then where, how, and what becomes of it."""
    names = {field.name for field in fields_of(problem)}

    def run(**values: Any) -> None:
        from primbench.cli.versus import measure_or_compare  # after --help, which takes no longer than click itself

        measure_or_compare(entries_of(problem, values), values)

    return GroupedCommand(
        problem.primitive,
        callback=run,
        params=[*problem_options(problem), *versus_options(), *fleet_options(), *measuring_options()],
        help=f"{inspect.getdoc(problem)}\n\n{PRODUCT}",
        # A convolution's -h is its height.
        context_settings={"help_option_names": ["--help"] if "h" in names else ["-h", "--help"]},
    )
