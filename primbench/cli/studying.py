"""What commands share that set processes of several arms beside each other: options, and how a study is carried out."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from primbench.cli import compare as comparing
from primbench.cli.design import LASTING_S
from primbench.cli.estimate import say_how_long_pairs_take, say_what_was_left_out
from primbench.cli.measuring import exit_as, next_worker, run_cases, say_of_trace, writing
from primbench.cli.option_types import TIMEOUT, WholeNumber
from primbench.cli.options import How, max_time, min_time
from primbench.cli.outputs import check_outputs
from primbench.cli.problem import entries_in, entries_in_words, once
from primbench.cli.request import dataclass, option, typed
from primbench.cli.resuming import going_on
from primbench.compare.gate import SLOWER, Gate
from primbench.compare.pairs import compare
from primbench.compare.settled import unsettled
from primbench.compare.sides import sides_of
from primbench.errors import InvalidRequest
from primbench.experiments.budget import Budget
from primbench.experiments.pairs import run
from primbench.experiments.sharing import Sharing
from primbench.experiments.study import LEAST_PAIRS, check_build, to_run, whole_pairs
from primbench.results.file import Results
from primbench.results.writer import header
from primbench.spec.arm import Arm
from primbench.suites.parse import MOST_PAIRS
from primbench.units import format_time
from primbench.workers.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from primbench.cli.measuring import Entries
    from primbench.cli.options import Exports, Recorded
    from primbench.cli.progress import Progress
    from primbench.cli.resuming import Begun
    from primbench.compare.comparison import Comparison
    from primbench.results.record import Record, Worker
    from primbench.spec.study import Study

DEFAULT_SIZES = "small"
HOST = Arm(name="host")


def lasting(lasting_s: Mapping[str, tuple[float, float]]) -> tuple[Any, Any]:
    """--min-time and --max-time of a study. lasting_s: as Design has it by default."""
    words = (f"{on_cpu_s:g}s, on a GPU {on_gpu_s:g}s" for on_cpu_s, on_gpu_s in zip(*lasting_s.values(), strict=True))
    return min_time(next(words)), max_time(next(words))


def time_budget(words: str, default_s: float) -> Any:
    """--time-budget of a command that answers after a while."""
    return option("--time-budget", group="Measure", type=TIMEOUT, metavar="DURATION", default=default_s,
                  help=f"{words} Default: {format_time(default_s)}.")  # fmt: skip


def pairs_option(default: str) -> Any:
    """default: what is run without it, in words."""
    help_words = f"Fresh processes of every arm. Intervals are over them. Default: {default}"
    return option("--pairs", group="Compare", type=WholeNumber(1, MOST_PAIRS), metavar="N", help=help_words)


@dataclass(frozen=True, kw_only=True)
class HowPaired(How):
    """How cases are measured where processes of several arms are set beside each other."""

    min_time_s: float | None = lasting(LASTING_S)[0]
    max_time_s: float | None = lasting(LASTING_S)[1]


def entries_of_study(source: str, primitives: Sequence[str]) -> Entries:
    """Those of a suite, of some primitives alone; a primitive with its options behind it is as these say."""
    named = [each for each in primitives if len(each.split()) == 1]
    entries = entries_in(source, named) if named or not primitives else []
    own = [entry for each in primitives if each not in named for entry in entries_in_words(each)]
    return [*once(entries), *own]


def refuse_beside_resume() -> None:
    """Raises InvalidRequest where the command line asks for what the file says already."""
    for word in typed("begun"):
        raise InvalidRequest(f"{word} and --resume: a study goes on with the arms and cases it was begun with")


def _show(found: Results, comparison: Comparison, exports: Exports, gate: Gate) -> None:
    comparing.show(comparison, [*sides_of(found).values()], [found], exports, gate)


def carry_out(
    study: Study,
    begun: Begun | None,
    how: How,
    record: Recorded,
    exports: Exports,
    *,
    gate: Gate = SLOWER,
    least_pairs: int = 0,
    show: Callable[[Results, Comparison, Exports, Gate], None] = _show,
) -> None:
    """Run what is left of a study, and print what it shows. show: prints it, and exits by the gate.

    least_pairs: are measured even beyond how.time_budget_s.

    Exit 1 on a failed case, on a verdict of the gate, and where nothing was compared; 130 or 143 when interrupted.
    """
    check_outputs(exports, record=record)
    first = replace(header(sys.argv, dict(record.labels)), study=study)
    found = begun.held if begun else Results(header=first, workers=[], records=[])
    session = Session(
        timeout_s=how.timeout_s,
        trace=how.trace,
        verbose=record.verbose,
        first_worker=next_worker(found),
        arms={arm.name: arm for arm in study.arms},
    )
    budget = Budget(how.time_budget_s, found.records, least_pairs=least_pairs)
    blocks = to_run(
        study, found, unsettled=lambda found: unsettled(_compared(study, found), study.cases), budget=budget
    )
    whole = len(whole_pairs(study, found.records))
    pairs = min(study.pairs, max(LEAST_PAIRS, whole + 1)) if study.until_settled else study.pairs
    total = max(0, pairs - whole) * len(study.arms) * len(study.cases)

    share = Sharing(found.records)

    def lines(shown: Progress) -> Iterator[Worker | Record]:
        admit = partial(check_build, study, found)
        return run(
            session, study, blocks, tell=shown.tell, announce=shown.announce, admit=admit, share=share,
            may_begin=budget.may_begin,
        )  # fmt: skip

    say_of_trace(study.cases, asked=how.trace)
    if not record.quiet:
        say_how_long_pairs_take(study, max(0, pairs - whole), how.time_budget_s)
    with writing(record, begun, found.header, overwrite=exports.overwrite) as writer:
        ended = run_cases(lines, total, session, writer=writer, found=found, record=record, exports=exports)
    say_what_was_left_out(budget, found, going_on(found, record, exports))
    comparison = _compared(study, found)
    show(found, comparison, exports, gate if ended is None else Gate("never"))
    exit_as(ended, found.records)
    arms = [*comparison.arms, *([comparison.again] if comparison.again else [])]
    if not any(case.estimates for arm in arms for case in arm.cases):
        sys.exit(1)


def _compared(study: Study, found: Results) -> Comparison:
    """study: as it is run now, which may end by itself though the file that it goes on with does not say so."""
    begun = found.header.study or study
    until_settled = study.until_settled or begun.until_settled
    return compare(replace(found, header=replace(found.header, study=replace(begun, until_settled=until_settled))))
