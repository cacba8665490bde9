"""`primbench selftest`: Say how small a difference this machine tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.cli.design import design_of, study_of
from primbench.cli.echo import say
from primbench.cli.options import Exports, OnDevice, Recorded
from primbench.cli.outputs import publish
from primbench.cli.request import RequestCommand, dataclass, part
from primbench.cli.studying import HOST, HowPaired, carry_out, entries_of_study, pairs_option, time_budget

if TYPE_CHECKING:
    from primbench.compare.comparison import Comparison
    from primbench.compare.gate import Gate
    from primbench.results.file import Results

RANK = 60
SUITE = "selftest"
BUDGET_S = 60.0


@dataclass(frozen=True, kw_only=True)
class HowTried(HowPaired):
    """How the host is set beside itself."""

    time_budget_s: float | None = time_budget(
        "Say what is known after so long, and three pairs of processes.", BUDGET_S
    )


@dataclass(frozen=True, kw_only=True)
class HostItself:
    """To set the host beside itself."""

    pairs: int | None = pairs_option("as many as the time holds.")
    where: OnDevice = part(OnDevice)
    how: HowPaired = part(HowTried)
    record: Recorded = part(Recorded)
    exports: Exports = part(Exports)


def _run(asked: HostItself) -> None:
    import primbench.suites as suites
    from primbench.experiments.selftest import LEAST_PAIRS

    said = suites.study(SUITE)
    design = design_of(asked.where, asked.how, said, pairs=asked.pairs, itself=True)
    study = study_of([HOST], entries_of_study(SUITE, ()), design, said.title)
    carry_out(study, None, asked.how, asked.record, asked.exports, least_pairs=LEAST_PAIRS, show=_show)


def _show(found: Results, comparison: Comparison, exports: Exports, gate: Gate) -> None:
    """Raises InvalidRequest of too few pairs, and OutputError."""
    from primbench.experiments import selftest
    from primbench.report import selftest as words

    tested = selftest.self_test(found, comparison)
    publish(words.document(tested), exports.files)
    say(f"Kept in {selftest.keep(tested)}", err=True)


command = RequestCommand(
    "selftest",
    HostItself,
    _run,
    help="Run the host against itself for a minute, and say what this machine can tell.\n\n"
    "How often a difference is told where there is none, by all ways to swap the processes of pairs, and the least "
    "difference that is found in one and in five minutes, for launches, copies, products, files and start-up. It is "
    "kept in the user's cache folder, and stands below undecided verdicts of studies on the same machine.\n\n"
    "\b\n"
         "primbench selftest\n"
         "primbench selftest --time-budget 5min --json selftest.json",
)  # fmt: skip
