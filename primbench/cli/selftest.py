"""`primbench selftest`: the host against itself, how often it is wrong and how small a difference it tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.cli.design import design_of, study_of
from primbench.cli.echo import say
from primbench.cli.options import GroupedCommand
from primbench.cli.outputs import publish
from primbench.cli.study import (
    HOST,
    carry_out,
    entries_of_study,
    pairs_option,
    shared_options,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import click

    from primbench.compare.comparison import Comparison
    from primbench.compare.gate import Gate
    from primbench.results.file import Results

SUITE = "selftest"
BUDGET_S = 60.0


def _run(**values: Any) -> None:
    import primbench.suites as suites

    said = suites.study(SUITE)
    asked = {**values, "itself": True}
    study = study_of([HOST], entries_of_study(SUITE, ()), design_of(asked, said), said.title)
    carry_out(study, None, asked, _show)


def _show(found: Results, comparison: Comparison, values: Mapping[str, Any], gate: Gate) -> None:
    """Raises InvalidRequest of too few pairs, and OutputError."""
    from primbench.experiments import selftest
    from primbench.report import selftest as words

    tested = selftest.self_test(found, comparison)
    publish(words.document(tested), lambda: words.text(tested), values)
    say(f"Kept in {selftest.keep(tested)}", err=True)


def _options() -> Iterator[click.Option]:
    yield pairs_option("as many as the time holds.")
    for option in shared_options():
        if option.name == "time_budget":
            option.default, option.show_default = f"{BUDGET_S:g}s", True
        if option.name not in ("resume", "save_as"):
            yield option


command = GroupedCommand(
    "selftest",
    callback=_run,
    params=list(_options()),
    help="Run the host against itself for a minute, and say what this machine can tell.\n\n"
    "How often a difference is told where there is none, by all ways to swap the processes of pairs, and the least "
    "difference that is found in one and in five minutes, for launches, copies, products, files and start-up. It is "
    "kept in the user's cache folder, and stands below undecided verdicts of studies on the same machine.\n\n"
    "\b\n"
         "primbench selftest\n"
         "primbench selftest --time-budget 5min --json selftest.json",
)  # fmt: skip
