"""`primbench study`: the same cases in several arms, interleaved, and what the arms differ in."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

import click
from msgspec.structs import replace

from primbench.cli import compare as comparing
from primbench.cli.captured import threads_of
from primbench.cli.compare import gate_of, gate_options
from primbench.cli.completing import complete_arm, complete_suite
from primbench.cli.consent import check_own
from primbench.cli.design import DEFAULT_PAIRS, LASTING_S, MOST_UNTIL, design_of, ends_itself, study_of
from primbench.cli.echo import say
from primbench.cli.estimate import say_how_long_pairs_take, say_what_was_left_out
from primbench.cli.given import is_typed
from primbench.cli.measuring import (
    exit_as,
    next_worker,
    run_cases,
    say_of_trace,
    writing,
)
from primbench.cli.neighbour import neighbour_in_words
from primbench.cli.option_types import WholeNumber, parsed
from primbench.cli.options import (
    ALONE,
    GroupedCommand,
    arm_in_words,
    grouped,
    measuring_options,
    primitives_option,
)
from primbench.cli.outputs import check_outputs
from primbench.cli.problem import entries_in, entries_in_words, once
from primbench.cli.resuming import Begun, check_all_kernels, going_on, resuming
from primbench.compare.gate import Gate
from primbench.compare.pairs import compare
from primbench.compare.settled import unsettled
from primbench.compare.sides import sides_of
from primbench.environment.devices import has_gpu_node
from primbench.errors import InvalidRequest
from primbench.experiments.budget import Budget
from primbench.experiments.pairs import run
from primbench.experiments.sharing import Sharing
from primbench.experiments.standing_in import that_start
from primbench.experiments.study import LEAST_PAIRS, check_build, to_run, whole_pairs
from primbench.report.plain import printable
from primbench.results.file import Results
from primbench.results.writer import header
from primbench.runtimes.table import check, known
from primbench.spec.arm import Arm, arm_of
from primbench.spec.placement import Placement
from primbench.spec.study import IN_TURN, Pairing, with_neighbour
from primbench.suites.parse import MOST_PAIRS
from primbench.workers.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from primbench.cli.measuring import Entries
    from primbench.cli.progress import Progress
    from primbench.compare.comparison import Comparison
    from primbench.results.record import Record, Worker
    from primbench.spec.neighbour import Neighbour
    from primbench.spec.study import Study

DEFAULT_SIZES = "small"

PLACES = ("numa_node", "cpu_node", "cpu_kind", "mem_nodes", "mem_policy", "cpus", "threads")
"""Options that arms have instead."""
BEGUN_WITH = {
    "suite", "itself", "other_builds", "primitives", "sizes", "device", "backends", "cache", "pairing",
    "max_noise", "min_time", "max_time", "seed", "check", "output", "labels", "beside",
}  # fmt: skip
"""What a results file keeps, and --resume does not take anew."""
HOST = Arm(name="host")


def _run(suite: str | None, **values: Any) -> None:
    if values["resume"] is not None:
        refuse_beside_resume()
    with resuming(values["resume"]) as begun:
        carry_out(resumed(begun.held, values) if begun else _asked(suite, values), begun, values)


def _show(found: Results, comparison: Comparison, values: Mapping[str, Any], gate: Gate) -> None:
    comparing.show(comparison, [*sides_of(found).values()], [found], values, gate)


def carry_out(
    study: Study,
    begun: Begun | None,
    values: Mapping[str, Any],
    show: Callable[[Results, Comparison, Mapping[str, Any], Gate], None] = _show,
) -> None:
    """Run what is left of a study, and print what it shows. show: prints it, and exits by the gate.

    Exit 1 on a failed case, on a verdict of --fail-on, and where nothing was compared; 130 or 143 when interrupted.
    """
    gate = gate_of(values)
    check_outputs(values)
    first = replace(header(sys.argv, dict(values["labels"])), study=study)
    found = begun.held if begun else Results(header=first, workers=[], records=[])
    session = Session(
        timeout_s=values["timeout"],
        trace=values["trace"],
        verbose=values["verbose"],
        first_worker=next_worker(found),
        arms={arm.name: arm for arm in study.arms},
    )
    budget = Budget(values["time_budget"], found.records)
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

    say_of_trace(study.cases, asked=values["trace"])
    if not values["quiet"]:
        say_how_long_pairs_take(study, max(0, pairs - whole), values["time_budget"])
    with writing(values, begun, found.header) as writer:
        ended = run_cases(lines, total, session, writer=writer, found=found, values=values)
    say_what_was_left_out(budget, found, going_on(found, values))
    comparison = _compared(study, found)
    show(found, comparison, values, gate if ended is None else Gate("never"))
    exit_as(ended, found.records)
    arms = [*comparison.arms, *([comparison.again] if comparison.again else [])]
    if not any(case.estimates for arm in arms for case in arm.cases):
        sys.exit(1)


def _compared(study: Study, found: Results) -> Comparison:
    """study: as it is run now, which may end by itself though the file that it goes on with does not say so."""
    begun = found.header.study or study
    until_settled = study.until_settled or begun.until_settled
    return compare(replace(found, header=replace(found.header, study=replace(begun, until_settled=until_settled))))


def _asked(suite: str | None, values: Mapping[str, Any]) -> Study:
    """What the command line and the suite it names ask for. Raises InvalidRequest and FileError."""
    import primbench.suites as suites

    source = _source(suite, values)
    said = suites.study(source)
    values = {**values, "backends": values["backends"] or said.backends}
    arms = list(values["arms"]) or _arms_of(source, said.arms)
    if neighbour := values["beside"] or _neighbour_of(source, said.beside, values["device"]):
        arms = with_neighbour(arms or [HOST], neighbour)
    entries = entries_of_study(source, values["primitives"])
    design = design_of(values, said, Placement(threads=threads_of(values, [said.captured])))
    return study_of(arms, entries, design, said.title if said.arms else "", said.published)


def entries_of_study(source: str, primitives: Sequence[str]) -> Entries:
    """Those of a suite, of some primitives alone; a primitive with its options behind it is as these say."""
    named = [each for each in primitives if len(each.split()) == 1]
    entries = entries_in(source, named) if named or not primitives else []
    own = [entry for each in primitives if each not in named for entry in entries_in_words(each)]
    return [*once(entries), *own]


def _source(suite: str | None, values: Mapping[str, Any]) -> str:
    """The suite that cases come from."""
    import primbench.suites as suites

    sizes: str | None = values["sizes"]
    if suite is not None and sizes is not None:
        raise InvalidRequest(f"--sizes {sizes} and {suite}: one of them")
    if suite is None and sizes is None and not values["primitives"]:
        raise InvalidRequest(f"name a suite ({', '.join(suites.studies())}, a file), or primitives by --primitive")
    if suite is not None and suite.partition(":")[0] in known():
        raise InvalidRequest(f"{suite}: an arm is named by --arm, each by one of its own: --arm {suite}")
    return suite or sizes or DEFAULT_SIZES


def _arms_of(source: str, written: Sequence[str | dict[str, Any]]) -> list[Arm]:
    """Those of a suite that start here, or what stands in for them; nobody asked for these ones by name."""
    arms, told = that_start([_arm_of(source, each) for each in written])
    for sentence in told:
        say(printable(sentence), err=True)
    return arms


def _arm_of(source: str, written: str | dict[str, Any]) -> Arm:
    try:
        return arm_in_words(written) if isinstance(written, str) else arm_of(written, known())
    except InvalidRequest as error:
        raise InvalidRequest(f"{source}: {error}") from None


def _neighbour_of(source: str, beside: Mapping[str, str], device: str | None) -> Neighbour | None:
    """What a suite has as the neighbour of cases on the device; None is the first GPU, else the CPU."""
    on_cpu = device == "cpu" or (device is None and not has_gpu_node())
    written = beside.get("cpu" if on_cpu else "cuda")
    try:
        return None if written is None else neighbour_in_words(written)
    except InvalidRequest as error:
        raise InvalidRequest(f"{source}: beside: {error}") from None


def refuse_beside_resume() -> None:
    """Raises InvalidRequest where the command line asks for what the file says already."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = str(parameter.name)
        if name in BEGUN_WITH and is_typed(name):
            word = parameter.opts[0] if isinstance(parameter, click.Option) else parameter.human_readable_name
            raise InvalidRequest(f"{word} and --resume: a study goes on with the arms and cases it was begun with")


def resumed(held: Results, values: Mapping[str, Any]) -> Study:
    """Raises InvalidRequest where the file holds no study, or arms that are not to be run or cannot be."""
    study = held.header.study
    if study is None:
        raise InvalidRequest(f"{values['resume']}: not of a study: go on with the command that began it")
    if study.why:
        raise InvalidRequest(f"{values['resume']}: of `primbench why`: go on with `primbench why --resume`")
    check_all_kernels(["--resume", values["resume"]], held.header.kernels)
    check_own(values["resume"], study.arms, values.get("arms", ()))
    for arm in study.arms:
        check(arm)
    until_settled = values["until"] is not None or (study.until_settled and values["pairs"] is None)
    whole = len(whole_pairs(study, held.records))
    more = MOST_UNTIL if ends_itself(values) and whole >= study.pairs else 0
    return replace(study, pairs=values["pairs"] or study.pairs + more, until_settled=until_settled)


def shared_options(lasting_s: Mapping[str, tuple[float, float]] = LASTING_S) -> Iterator[click.Option]:
    """Those of measuring that mean something where places are compared. lasting_s: as Design has it by default."""
    lasting = dict(zip(("min_time", "max_time"), zip(lasting_s["cpu"], lasting_s["cuda"], strict=True), strict=True))
    for option in measuring_options():
        if option.name in lasting:
            on_cpu_s, on_gpu_s = lasting[option.name]
            option.show_default = False
            option.help = f"{option.help} Default: {on_cpu_s:g}s, on a GPU {on_gpu_s:g}s."
        if option.name not in (*ALONE, *PLACES):
            yield option


def pairs_option(default: str) -> click.Option:
    """default: what is run without it, in words."""
    help_words = f"Fresh processes of every arm; intervals are over them. Default: {default}"
    return grouped("Compare", "--pairs", type=WholeNumber(1, MOST_PAIRS), metavar="N", help=help_words)


def _options() -> list[click.Option]:
    """Pairs, when to end, which cases, and how they are measured."""
    return [
        pairs_option(f"{DEFAULT_PAIRS}, or at most {MOST_UNTIL} where the study is to end by itself. "
                     f"With --resume: as many as before, or at most {MOST_UNTIL} more where these are done."),
        grouped("Compare", "--until", type=click.Choice(["settled"]),
                help=f"End once no verdict is inconclusive: after {LEAST_PAIRS} pairs, run only cases that are."),
        grouped("Compare", "--pairing", type=click.Choice(get_args(Pairing)), default=IN_TURN, show_default=True,
                help="in-turn: the processes of a pair take turns sample by sample, so that what the machine does "
                     "falls on all alike; where they cannot (several GPUs, a CPU quota, no CPU or not "
                     "memory enough for all) they follow one another, and the record says why."),
        grouped("Compare", "--tails", is_flag=True,
                help="Compare rare slow calls, too (p99), where a primitive has such: launches and copies then take "
                     "2.5 times --min-time for each metric."),
        primitives_option(and_options=True),
        grouped("Problem", "--sizes", metavar="NAME|FILE.toml", shell_complete=complete_suite,
                help=f"Sizes to run: small, medium, large, or a suite's name or file. Default: {DEFAULT_SIZES}."),
        *shared_options(),
        *gate_options(),
    ]  # fmt: skip


command = GroupedCommand(
    "study",
    callback=_run,
    params=[
        click.Argument(["suite"], required=False, metavar="[NAME|FILE.toml]", shell_complete=complete_suite),
        grouped("Compare", "--arm", "arms", type=parsed("arm", arm_in_words), multiple=True, metavar="ARM",
                shell_complete=complete_arm,
                help="host, podman:cpus=2, docker:image=mine,seccomp=unconfined, or elsewhere ssh:HOST, "
                     "ssh:HOST,runtime=podman, slurm:NODE, k8s:IMAGE; the first is the baseline; repeatable. "
                     "`primbench arms` tells which there are. Default: those of the suite."),
        grouped("Compare", "--beside", type=parsed("words", neighbour_in_words), metavar="WORDS",
                help='Each arm once more, with a neighbour: another process that does this over and over, such as '
                     '"model alexnet". Without --arm: the host alone, and beside it.'),
        grouped("Compare", "--self", "itself", is_flag=True,
                help="Add the first arm once more: what differs between these two is noise."),
        grouped("Compare", "--other-builds", is_flag=True,
                help="Run arms whose framework is another build than the baseline's, too: a stack effect."),
        *_options(),
    ],
    help="Run the same cases in several arms, interleaved, and say what the arms differ in.\n\n"
         "Pair after pair, every arm runs every case in a fresh process, in an order that is mirrored from one pair to "
         "the next. An arm that cannot be had is left out with the reason.\n\n"
         "\b\n"
         "primbench study containers\n"
         "primbench study --arm host --arm podman --primitive launch --primitive gemm -o study.jsonl\n"
         "primbench study --resume study.jsonl --pairs 20",
)  # fmt: skip
