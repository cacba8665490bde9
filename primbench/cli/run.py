"""`primbench run`: a suite, shipped or of one's own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from primbench.cli.measuring import measure_and_report
from primbench.cli.options import GroupedCommand, GroupedOption, complete, complete_suite, measuring_options
from primbench.dtypes import ITEMSIZE_BYTES
from primbench.errors import InvalidRequest
from primbench.problem import Problem, build, fields_of, primitives

if TYPE_CHECKING:
    from primbench.suites import Entry


def _run(suite: str, **values: Any) -> None:
    import primbench.suites as suites

    overrides = {"dtype": values["dtype"]} if values["dtype"] else None
    entries = suites.read(suite, only=values["only"] or None, set=values["set_name"], overrides=overrides)
    if values["directions"]:
        entries = list(_directed(entries, values["directions"]))
    measure_and_report([(entry.problem, entry.labels) for entry in entries], values)


def _directed(entries: Sequence[Entry], wanted: Sequence[str]) -> Iterator[Entry]:
    """Each entry once in every wanted direction that its primitive has; as it is where its primitive has none.

    Raises InvalidRequest for a direction that no primitive has, and for a primitive that has none of those wanted.
    """
    for direction in wanted:
        if direction not in _all_directions():
            raise InvalidRequest(f"--direction {direction}: there are {', '.join(_all_directions())}")
    for entry in entries:
        primitive, parameters = entry.problem.primitive, entry.problem.parameters()
        its_own = _directions_of(type(entry.problem))
        chosen = [direction for direction in wanted if direction in its_own]
        if its_own and not chosen:
            raise InvalidRequest(f"--direction {', '.join(wanted)}: {primitive} has {', '.join(its_own)}: add one")
        if not its_own:
            yield entry
        for direction in chosen:
            yield replace(entry, problem=build(primitive, parameters | {"direction": direction}))


def _directions_of(problem: type[Problem]) -> tuple[str, ...]:
    """The choices of a primitive's field ``direction``; empty where it has no such field."""
    return next((field.metadata["choices"] for field in fields_of(problem) if field.name == "direction"), ())


def _all_directions() -> list[str]:
    return list(dict.fromkeys(itertools.chain.from_iterable(map(_directions_of, primitives().values()))))


command = GroupedCommand(
    "run",
    callback=_run,
    params=[
        click.Argument(["suite"], metavar="NAME|FILE.toml", shell_complete=complete_suite),
        GroupedOption(
            ["--only"],
            group="Problem",
            metavar="PRIMITIVE",
            multiple=True,
            shell_complete=complete(primitives),
            help="This primitive only; repeatable.",
        ),
        GroupedOption(
            ["--set", "set_name"], group="Problem", metavar="NAME", help="This set of the suite only, such as training."
        ),
        GroupedOption(
            ["--dtype"],
            group="Problem",
            metavar="NAME",
            multiple=True,
            shell_complete=complete(lambda: ITEMSIZE_BYTES),
            help="Instead of the suite's; repeatable.",
        ),
        GroupedOption(
            ["--direction", "directions"],
            group="Problem",
            metavar="NAME",
            multiple=True,
            shell_complete=complete(_all_directions),
            help="Such as forward or bwd_data, instead of the suite's, where a primitive has it; repeatable.",
        ),
        *measuring_options(),
    ],
    help="Run a suite: a shipped one (`primbench list suites`) or a TOML file.",
)  # fmt: skip
