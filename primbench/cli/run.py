"""`primbench run`: Run a suite: deepbench, or a TOML file of your own."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from primbench.cli import ways
from primbench.cli.captured import threads_of
from primbench.cli.completing import complete_listed, complete_set, complete_suite
from primbench.cli.option_types import dtypes
from primbench.cli.options import Here, primitives_option
from primbench.cli.problem import once
from primbench.cli.request import RequestCommand, argument, dataclass, option, part, parts
from primbench.dtypes import ITEMSIZE_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

RANK = 10


@dataclass(frozen=True, kw_only=True)
class RunSuite:
    """To measure the cases of a suite."""

    suite: str = argument(metavar="NAME|FILE.toml", shell_complete=complete_suite)
    primitives: tuple[str, ...] = primitives_option()
    set_name: str | None = option(
        "--set", group="Problem", metavar="NAME", shell_complete=complete_set,
        help="This set of the suite only, such as training.")  # fmt: skip
    dtype: tuple[tuple[str, ...], ...] = option(
        "--dtype", group="Problem", type=dtypes, metavar="NAME", multiple=True,
        shell_complete=complete_listed(lambda: ITEMSIZE_BYTES),
        help="Instead of the suite's, or a list of them; repeatable.")  # fmt: skip
    elsewhere: Mapping[str, Any] = parts(ways.requests)
    """What is asked of each way to measure not here alone."""
    here: Here = part(Here)


def _run(asked: RunSuite) -> None:
    import primbench.suites as suites

    overrides = {"dtype": tuple(dict.fromkeys(itertools.chain(*asked.dtype)))} if asked.dtype else None
    entries = suites.read(asked.suite, only=asked.primitives or None, set=asked.set_name, overrides=overrides)
    here = asked.here
    if asked.suite.endswith(".toml"):
        said = suites.study(asked.suite)
        how = replace(here.how, backends=here.how.backends or said.backends)
        where = replace(here.where, threads=threads_of([said.captured], here.where))
        here = replace(here, how=how, where=where)
    ways.measure(once(entries), here, asked.elsewhere)


command = RequestCommand(
    "run",
    RunSuite,
    _run,
    help="Run a suite: a shipped one (`primbench list suites`) or a TOML file.\n\n"
         "\b\n"
         "primbench run quick -o results.jsonl\n"
         "primbench run deepbench --set training --dtype float16\n"
         "primbench run quick --versus podman",
)  # fmt: skip
