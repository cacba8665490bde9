"""`primbench run`: a suite, shipped or of one's own."""

from __future__ import annotations

import itertools
from typing import Any

import click

from primbench.cli.captured import threads_of
from primbench.cli.completing import complete_listed, complete_set, complete_suite
from primbench.cli.option_types import dtypes
from primbench.cli.options import (
    GroupedCommand,
    GroupedOption,
    fleet_options,
    measuring_options,
    primitives_option,
    versus_options,
)
from primbench.cli.problem import once
from primbench.cli.versus import measure_or_compare
from primbench.dtypes import ITEMSIZE_BYTES


def _run(suite: str, **values: Any) -> None:
    import primbench.suites as suites

    overrides = {"dtype": tuple(dict.fromkeys(itertools.chain(*values["dtype"])))} if values["dtype"] else None
    entries = suites.read(suite, only=values["primitives"] or None, set=values["set_name"], overrides=overrides)
    if suite.endswith(".toml"):
        said = suites.study(suite)
        values["backends"] = values["backends"] or said.backends
        values["threads"] = threads_of(values, [said.captured])
    measure_or_compare(once(entries), values)


command = GroupedCommand(
    "run",
    callback=_run,
    params=[
        click.Argument(["suite"], metavar="NAME|FILE.toml", shell_complete=complete_suite),
        primitives_option(),
        GroupedOption(
            ["--set", "set_name"], group="Problem", metavar="NAME", shell_complete=complete_set,
            help="This set of the suite only, such as training."
        ),
        GroupedOption(
            ["--dtype"],
            group="Problem",
            type=dtypes,
            metavar="NAME",
            multiple=True,
            shell_complete=complete_listed(lambda: ITEMSIZE_BYTES),
            help="Instead of the suite's, or a list of them; repeatable.",
        ),
        *versus_options(),
        *fleet_options(),
        *measuring_options(),
    ],
    help="Run a suite: a shipped one (`primbench list suites`) or a TOML file.",
)  # fmt: skip
