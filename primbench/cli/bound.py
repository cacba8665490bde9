"""`primbench bound`: Dose a captured step with harm, and foretell a place."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from msgspec.structs import replace as but

from primbench.cli.captured import threads_of
from primbench.cli.completing import complete_arm
from primbench.cli.echo import say
from primbench.cli.measuring import signals_unwind, writing
from primbench.cli.option_types import TIMEOUT, WholeNumber, parsed
from primbench.cli.options import Exports, OnDevice, Recorded, arm_in_words
from primbench.cli.outputs import check_outputs, publish
from primbench.cli.request import RequestCommand, argument, dataclass, option, part
from primbench.cli.study import neighbour_in_words
from primbench.cli.studying import HOST, time_budget
from primbench.distributed.world import launched
from primbench.errors import INTERRUPTED, InvalidRequest
from primbench.report.plain import printable
from primbench.spec.defaults import DEFAULT_TIMEOUT_S
from primbench.spec.study import with_neighbour

if TYPE_CHECKING:
    from primbench.doses.found import Bounds
    from primbench.report.document import Document
    from primbench.results.file import Results
    from primbench.spec.arm import Arm
    from primbench.spec.neighbour import Neighbour

RANK = 35
USUAL_BUDGET_S = 60.0


@dataclass(frozen=True, kw_only=True)
class BoundStep:
    """What would make a captured step slower, and by how much."""

    file: str = argument(metavar="STEP.toml")
    """A captured step."""
    places: tuple[Arm, ...] = option(
        "--in", group="Compare", multiple=True, type=parsed("arm", arm_in_words), metavar="ARM",
        shell_complete=complete_arm,
        help="Foretell what the step takes in this place, by slopes and by primitives that are measured there, before "
             "it runs there; then run it, and say whether it came so; repeatable.",
    )  # fmt: skip
    beside: Neighbour | None = option(
        "--beside", group="Compare", is_rare=True, type=parsed("words", neighbour_in_words), metavar="WORDS",
        help='The places of --in beside a neighbour: another process that does this over and over, such as "model '
             'mnist_cnn". Without --in: the host beside it.')  # fmt: skip
    where: OnDevice = part(OnDevice)
    time_budget_s: float = time_budget(
        "Give no dose that would end later than this; each place of --in takes half a minute more.", USUAL_BUDGET_S
    )
    timeout_s: float = option(
        "--timeout", group="Measure", is_rare=True, type=TIMEOUT, default=DEFAULT_TIMEOUT_S,
        help=f"Give up a process after so long. Default: {DEFAULT_TIMEOUT_S:g}s.")  # fmt: skip
    seed: int = option(
        "--seed", group="Measure", is_rare=True, type=WholeNumber(0), metavar="N", default=0,
        help="Of the order of processes. Default: 0.")  # fmt: skip
    record: Recorded = part(Recorded)
    exports: Exports = part(Exports)


def _run(asked: BoundStep) -> None:
    """Exit 1 where nothing was measured, or a place is not as it was foretold; 130 or 143 when interrupted."""
    import primbench.suites as suites
    from primbench.doses import report as words
    from primbench.doses.bounding import BoundQuestion, bound, here_of, step_of
    from primbench.results.file import Results
    from primbench.results.writer import header

    if started := launched():
        raise InvalidRequest(
            f"{started.size} processes by {started.launcher}, each of which would slow the others: start one alone"
        )
    places = _places(asked)
    check_outputs(asked.exports, [asked.file], record=asked.record)
    said = suites.study(asked.file)
    step = step_of(asked.file, suites.read(asked.file), said, asked.where.device)
    captured = {step.words: said.captured} if said.captured else {}
    found = Results(
        header=header(sys.argv, dict(asked.record.labels), captured=captured), workers=[], records=[]
    )  # fmt: skip
    asking = BoundQuestion(
        step=step, here=here_of(step, threads_of([said.captured])), places=places, budget_s=asked.time_budget_s,
        timeout_s=asked.timeout_s, seed=asked.seed, verbose=asked.record.verbose,
    )  # fmt: skip

    def tell(sentence: str) -> None:
        if not asked.record.quiet:
            say(printable(sentence), err=True)

    if step.why_alone:
        tell(f"one process makes the step, without its collectives: {step.why_alone}")
    with writing(asked.record, None, found.header, overwrite=asked.exports.overwrite) as writer, signals_unwind():
        bounds, ended = bound(asking, found, writer, tell)
    publish(words.document(bounds), asked.exports.files)
    if ended is not None:
        sys.exit(ended.code if isinstance(ended, SystemExit) else INTERRUPTED)
    if _is_bad(bounds):
        sys.exit(1)


def _places(asked: BoundStep) -> list[Arm]:
    """Raises InvalidRequest where two are not to be told apart, or one cannot be, before minutes of doses are given."""
    from primbench.doses.factors import UNDOSED
    from primbench.experiments.study import check_arms
    from primbench.workers.trial import why_not

    places = list(asked.places)
    if asked.beside is not None:
        every = with_neighbour(places or [HOST], asked.beside)
        places = [arm for arm in every if arm.neighbour is not None]
    check_arms([but(HOST, name=UNDOSED), *places, but(HOST, name="another")])
    for arm in places:
        if reason := why_not(arm.runtime)[0]:
            raise InvalidRequest(f"--in {arm.name}: {reason}: see `primbench arms`")
    return places


def _is_bad(bounds: Bounds) -> bool:
    return bounds.time_s is None or any(each.is_within is False for each in bounds.places)


def answered(results: Results) -> Document | None:
    """What a results file tells of a step that was dosed, for `primbench report`."""
    from primbench.doses.recalling import recalled
    from primbench.doses.report import document

    found = recalled(results)
    return document(found) if found else None


command = RequestCommand(
    "bound",
    BoundStep,
    _run,
    help="Run a captured step without and with doses of harm, in turn, and say what it loses by which: calls that "
         "begin 1, 2 and 4 us later, collectives of ranks on CPUs that begin 100, 200 and 400 us later, a CPU quota, "
         "fewer CPUs, a neighbour that keeps a CPU busy, one that moves memory; on a GPU neighbours on copies and on "
         "the multiprocessors.\n\n"
         "By these slopes, and by primitives that are measured there first, --in foretells what the step takes in "
         "another place before it runs there, and then says whether that came true.\n\n"
         "Exit status: 0, or 1 where a place is not as it was foretold or nothing was measured, 2 where the request is "
         "wrong.\n\n"
         "\b\n"
         "primbench bound step.toml\n"
         "primbench bound step.toml --in host:cpus=1 --in podman\n"
         "primbench bound step.toml --beside 'model mnist_cnn'",
)  # fmt: skip
