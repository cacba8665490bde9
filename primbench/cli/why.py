"""`primbench why`: Find the settings that make a place slower, and prove it."""

from __future__ import annotations

import sys
import time
from dataclasses import replace as but
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.cli.captured import threads_of
from primbench.cli.completing import complete_arm, complete_suite
from primbench.cli.consent import check_own
from primbench.cli.design import design_of, study_of
from primbench.cli.echo import say
from primbench.cli.measuring import signals_unwind, writing
from primbench.cli.option_types import parsed
from primbench.cli.options import Exports, OnDevice, Resumable, arm_in_words, primitives_option
from primbench.cli.outputs import check_outputs, publish
from primbench.cli.request import RequestCommand, argument, dataclass, option, part, typed
from primbench.cli.resuming import check_all_kernels, resuming
from primbench.cli.studying import (
    DEFAULT_SIZES,
    HowPaired,
    entries_of_study,
    lasting,
    refuse_beside_resume,
    time_budget,
)
from primbench.errors import INTERRUPTED, InvalidRequest
from primbench.experiments.why.ask import LASTING_S, USUAL_BUDGET_S, in_one_frame, of_records, place_in_words
from primbench.experiments.why.ingredients import Mixtures
from primbench.experiments.why.inquiry import inquire
from primbench.experiments.why.measuring import LOOK_PAIRS, Measuring
from primbench.experiments.why.recorded import worst
from primbench.experiments.why.replay import replayed
from primbench.report import why as words
from primbench.report.plain import printable
from primbench.results import file as results_file
from primbench.results.file import Results
from primbench.results.writer import header
from primbench.runtimes.programs import in_full
from primbench.spec.arm import Arm
from primbench.spec.naming import name_of, options_of
from primbench.spec.placement import Placement
from primbench.spec.study import IN_TURN, Study
from primbench.units import format_percent, format_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.cli.request import Mark
    from primbench.cli.resuming import Begun
    from primbench.experiments.why.inquiry import Asking
    from primbench.experiments.why.rounds import Purpose
    from primbench.spec.case import Case

RANK = 50
STAGES: dict[Purpose, str] = {
    "effect": "is there a difference",
    "search": "searching",
    "certificate": "proving",
    "repeat": "proving again",
}

_PLACE = parsed("place", lambda text: place_in_words(text, arm_in_words))


@dataclass(frozen=True, kw_only=True)
class HowAsked(HowPaired):
    """How the case is measured that is asked about."""

    min_time_s: float | None = lasting(LASTING_S)[0]
    max_time_s: float | None = lasting(LASTING_S)[1]
    time_budget_s: float = time_budget("Answer after so long with what is known by then.", USUAL_BUDGET_S)


@dataclass(frozen=True, kw_only=True)
class AskWhy:
    """Why one place is slower than another."""

    fast: Arm | str | None = argument(
        required=False, type=_PLACE, metavar="FAST|STUDY.jsonl", shell_complete=complete_arm
    )
    """The place that is faster, as an arm or a results file of it; or a study's file, in which both are."""
    slow: Arm | str | None = argument(required=False, type=_PLACE, metavar="SLOW", shell_complete=complete_arm)
    """The place that is slower, as an arm or a results file of it."""
    primitives: tuple[str, ...] = primitives_option(and_options=True, marks=("begun", "which"))
    sizes: str | None = option(
        "--sizes", group="Problem", metavar="NAME|FILE.toml", shell_complete=complete_suite, marks=("begun", "case"),
        help="Sizes to look at: small, medium, large, or a suite's name or file, such as a captured step. Default: "
             f"{DEFAULT_SIZES}.")  # fmt: skip
    own: bool = option(
        "--own", group="Compare", is_rare=True, is_flag=True,
        help="Results files that are named are yours: what their settings have run is run without being asked about, "
             "as in CI.")  # fmt: skip
    replay: bool = option(
        "--replay", group="Compare", is_flag=True,
        help="Measure what --resume's file has proven once more. In fresh pairs, once all is asked; it says whether "
             "it is there again.")  # fmt: skip
    where: OnDevice = part(OnDevice)
    how: HowAsked = part(HowAsked)
    record: Resumable = part(Resumable)
    exports: Exports = part(Exports)


def _run(asked: AskWhy) -> None:
    if asked.record.resume is not None:
        refuse_beside_resume()
    elif asked.replay:
        raise InvalidRequest("--replay: of which file? primbench why --resume why.jsonl --replay")
    with resuming(asked.record.resume) as begun:
        study = _gone_on_with(begun.held, asked.record.resume or "", asked) if begun else _asked(asked)
        check_outputs(asked.exports, record=asked.record)
        _carry_out(study, begun, asked)


def _asked(asked: AskWhy) -> Study:
    """Raises InvalidRequest where no two places are named, nor a study of such, or no cases."""
    fast, slow = asked.fast, asked.slow
    if isinstance(fast, str) and slow is None:
        return _of_study(fast, asked)
    if fast is None or slow is None:
        raise InvalidRequest("two places are asked about, the faster one first, as in: primbench why host podman")
    if fast == slow:
        raise InvalidRequest("FAST and SLOW are the same place: no setting is different: nothing to ask")
    if isinstance(fast, Arm) and isinstance(slow, Arm):
        return _of_arms([fast, slow], asked)
    return _of_records([fast, slow], asked)


def _of_arms(arms: list[Arm], asked: AskWhy) -> Study:
    import primbench.suites as suites

    if not (asked.primitives or asked.sizes):
        raise InvalidRequest("of which case? --primitive launch, or --primitive 'gemm -m 64 -n 64 -k 64'")
    source = asked.sizes or DEFAULT_SIZES
    said = suites.study(source)
    how = but(asked.how, backends=asked.how.backends or said.backends)
    placement = Placement(threads=threads_of([said.captured]))
    design = design_of(asked.where, how, said, placement=placement, lasting_s=LASTING_S)
    return in_one_frame(study_of(arms, entries_of_study(source, asked.primitives), design))


def _of_study(path: str, asked: AskWhy) -> Study:
    """Of the case of a study in which two of its places differ most. Raises InvalidRequest, and FileError."""
    _refuse(path, "case", "which")
    held = results_file.read(path)
    fast, slow, case = worst(path, held)
    again = ["why", in_full(fast), in_full(slow), *options_of(case)]
    check_all_kernels([path], held.header.kernels)
    if not asked.own:
        check_own(path, [fast, slow], (), again)
    if not asked.record.quiet:
        say(printable(f"{path}: {name_of(case)}, in {slow.name} beside {fast.name}"), err=True)
    return in_one_frame(_study([fast, slow], case, asked))


def _study(arms: list[Arm], case: Case, asked: AskWhy) -> Study:
    return Study(arms=arms, cases=[case], pairs=LOOK_PAIRS, seed=asked.how.seed or 0, pairing=IN_TURN)


def _of_records(named: Sequence[Arm | str], asked: AskWhy) -> Study:
    """Of two places, one of which at least was recorded, and is settings here. Raises InvalidRequest, and FileError."""
    for path in (each for each in named if isinstance(each, str)):
        _refuse(path, "case")
    study = of_records(named, asked.primitives, asked.how.seed or 0, partial(_admit, own=asked.own))
    for note in study.notes * (not asked.record.quiet):
        say(printable(note), err=True)
    return in_one_frame(study)


def _admit(path: str, held: Results, arm: Arm, again: Sequence[str], *, own: bool) -> None:
    check_all_kernels([path], held.header.kernels)
    if not own:
        check_own(path, [arm], (), again)


def _refuse(path: str, *marks: Mark) -> None:
    """Raises InvalidRequest where an option of these is typed beside a file that says the same."""
    for word in typed(*marks):
        raise InvalidRequest(f"{word} and {path}: the case is measured as it was there: leave it out")


def _gone_on_with(held: Results, path: str, asked: AskWhy) -> Study:
    """Raises InvalidRequest where the file is of something else, or of other places than are named."""
    study = held.header.study
    if study is None or not study.why:
        raise InvalidRequest(f"{path}: not of `primbench why`: go on with the command that began it")
    check_all_kernels(["--resume", path], held.header.kernels)
    named = [each for each in (asked.fast, asked.slow) if isinstance(each, Arm)]
    if named or not asked.own:
        check_own(path, study.arms[2:] or study.arms, named)
    return study


def _carry_out(study: Study, begun: Begun | None, asked: AskWhy) -> None:
    """Exit 1 where the second place is slower for certain, or that could not be told; 130 or 143 when interrupted."""
    mixtures = Mixtures(*study.arms[:2])
    first = replace(header(sys.argv, dict(asked.record.labels)), study=study)
    found = begun.held if begun else Results(header=first, workers=[], records=[])
    ends_s = time.monotonic() + asked.how.time_budget_s
    tell = partial(_tell, mixtures) if not asked.record.quiet else _tell_nothing
    with writing(asked.record, begun, found.header, overwrite=asked.exports.overwrite) as writer, signals_unwind():
        measuring = Measuring(
            study=study,
            mixtures=mixtures,
            found=found,
            writer=writer,
            timeout_s=asked.how.timeout_s,
            verbose=asked.record.verbose,
            tell=lambda words: say(printable(words), err=True),
            ends_s=ends_s,
        )
        inquiry, ended = inquire(measuring, tell)
        if asked.replay and ended is None:
            inquiry = replayed(inquiry, measuring)
    publish(words.document(inquiry), asked.exports.files)
    if ended is not None:
        sys.exit(ended.code if isinstance(ended, SystemExit) else INTERRUPTED)
    if not words.is_not_slower(inquiry):
        sys.exit(1)


def _tell(mixtures: Mixtures, asking: Asking) -> None:
    """One line a round: how far it is, and what is suspected."""
    testing = asking.round.testing
    found = asking.suspects[:2] if asking.round.stage == "search" else []
    suspected = [(testing, None)] if testing else [each for each in found if each[0]]
    likely = [
        " with ".join(mixtures.ingredients[number].words for number in sorted(each))
        + ("" if weight is None else f" {format_percent(weight)}")
        for each, weight in suspected
    ]
    doing = STAGES[asking.round.stage]
    say(printable(f"{format_time(asking.took_s)}: {doing}{': ' if likely else ''}{', '.join(likely)}"), err=True)


def _tell_nothing(asking: Asking) -> None:
    pass


command = RequestCommand(
    "why",
    AskWhy,
    _run,
    help="Find the settings that make one place slower than another, and prove it.\n\n"
         "FAST and SLOW are arms, as `primbench study` takes them. Of all that they differ in some is put into "
         "the fast place at a time, in fresh processes that take turns, until it is known what makes SLOW slow. "
         "Further pairs prove that in both directions: added to FAST it harms, taken from SLOW it heals. Of several "
         "cases that one is asked about in which the two differ most; of a captured step the whole, where it is a "
         "case, and of what is proven it is said by how much each part is longer. Of a study's file it is the case in "
         "which one of its places is slower than another by most, with these two places, as they were run there. A "
         "results file of one place may be FAST or SLOW, too: what is otherwise there is set here, as far as it can "
         "be.\n\n"
         "Exit status: 0 where SLOW is not slower, 1 where it is, or that could not be told, 2 where the request is "
         "wrong.\n\n"
         "\b\n"
         "primbench why host host:env.PYTHONMALLOC=debug,nice=5 --primitive files\n"
         "primbench why podman:seccomp=unconfined podman --primitive launch -o why.jsonl\n"
         "primbench why host podman --sizes step.toml\n"
         "primbench why study.jsonl\n"
         "primbench why host there.jsonl\n"
         "primbench why --resume why.jsonl\n"
         "primbench why --resume why.jsonl --replay",
)  # fmt: skip
