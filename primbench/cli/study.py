"""`primbench study`: Run the same cases on the host and in containers, in turn."""

from __future__ import annotations

import shlex
from dataclasses import replace as but
from typing import TYPE_CHECKING, Any, Literal, get_args

import click
from msgspec.structs import replace

from primbench.cli.captured import threads_of
from primbench.cli.compare import Failing, gate_of
from primbench.cli.completing import complete_arm, complete_suite
from primbench.cli.consent import check_own
from primbench.cli.design import DEFAULT_PAIRS, MOST_UNTIL, design_of, ends_itself, study_of
from primbench.cli.echo import say
from primbench.cli.option_types import parsed
from primbench.cli.options import Exports, OnDevice, Resumable, arm_in_words, primitives_option
from primbench.cli.problem import OfProblem, entries_of, in_words
from primbench.cli.request import RequestCommand, argument, dataclass, option, part
from primbench.cli.resuming import check_all_kernels, resuming
from primbench.cli.studying import (
    DEFAULT_SIZES,
    HOST,
    HowPaired,
    carry_out,
    entries_of_study,
    pairs_option,
    refuse_beside_resume,
)
from primbench.devices import CPU, CUDA, Device, is_device
from primbench.environment.devices import has_gpu_node
from primbench.errors import InvalidRequest
from primbench.experiments.standing_in import that_start
from primbench.experiments.study import LEAST_PAIRS, whole_pairs
from primbench.registry import backends_of
from primbench.report.plain import printable
from primbench.runtimes.table import check, known
from primbench.spec.arm import Arm, arm_of
from primbench.spec.neighbour import Neighbour
from primbench.spec.placement import Placement
from primbench.spec.study import IN_TURN, Pairing, with_neighbour

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from primbench.problem import Problem
    from primbench.results.file import Results
    from primbench.spec.study import Study

RANK = 40


@dataclass(frozen=True, kw_only=True)
class NeighbourWords(OfProblem):
    """What is called over and over, and where."""

    where: OnDevice = part(OnDevice)
    backends: tuple[str, ...] = option("--backend", multiple=True)


def neighbour_in_words(text: str) -> Neighbour:
    """The neighbour of words such as "gemm -m 4096 -n 4096 -k 4096", read as the command line reads them.

    Raises InvalidRequest, also for words that mean several problems.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InvalidRequest(f"{text!r}: {error}") from None
    if not words:
        raise InvalidRequest('a neighbour is a primitive and its options, as in "gemm -m 4096 -n 4096 -k 4096"')
    try:
        return _neighbour(shlex.join(words), *in_words(words, NeighbourWords))
    except (click.UsageError, InvalidRequest) as error:
        said = error.format_message() if isinstance(error, click.UsageError) else str(error)
        raise InvalidRequest(f"{text!r}: {said}") from None


def _neighbour(words: str, problem: type[Problem], asked: NeighbourWords) -> Neighbour:
    entries = list(entries_of(problem, asked.problem))
    if len(entries) != 1:
        raise InvalidRequest(f"these are {len(entries)} problems, and a neighbour does one: name its dimensions")
    parameters = entries[0][0].parameters()
    if parameters.get("ranks", 1) != 1:
        raise InvalidRequest(f"ranks={parameters['ranks']}: a neighbour is one process")
    return Neighbour(
        words=words,
        primitive=problem.primitive,
        parameters=parameters,
        backend=_backend(problem, asked.backends),
        device=_device(asked.where.device),
    )


def _backend(problem: type[Problem], named: Sequence[str]) -> str | None:
    having = backends_of(problem.primitive)
    if len(named) > 1 or any(name not in having for name in named):
        raise InvalidRequest(f"--backend {' '.join(named)}: one of {', '.join(having)}")
    return named[0] if named else None


def _device(device: str | None) -> str | None:
    if device is not None and not is_device(device):
        raise InvalidRequest(f"--device {device}: cpu or cuda:N (N from 0)")
    return device


@dataclass(frozen=True, kw_only=True)
class CompareArms:
    """To run the same cases in several arms, or to go on with that."""

    suite: str | None = argument(
        required=False, metavar="[NAME|FILE.toml]", shell_complete=complete_suite, marks=("begun",)
    )
    arms: tuple[Arm, ...] = option(
        "--arm", group="Compare", type=parsed("arm", arm_in_words), multiple=True, metavar="ARM",
        shell_complete=complete_arm,
        help="host, podman:cpus=2, ssh:HOST, k8s:IMAGE, ... The first is the baseline; repeatable. Also "
             "docker:image=mine,seccomp=unconfined, and elsewhere ssh:HOST,runtime=podman, slurm:NODE. `primbench "
             "arms` tells which there are. Default: those of the suite.")  # fmt: skip
    beside: Neighbour | None = option(
        "--beside", group="Compare", is_rare=True, type=parsed("words", neighbour_in_words),
        metavar="WORDS", marks=("begun",),
        help='Each arm once more, with a neighbour: another process that does this over and over, such as '
             '"model alexnet". Without --arm: the host alone, and beside it.')  # fmt: skip
    itself: bool = option(
        "--self", group="Compare", is_flag=True, marks=("begun",),
        help="Add the first arm once more. What differs between these two is noise.")  # fmt: skip
    other_builds: bool = option(
        "--other-builds", group="Compare", is_rare=True, is_flag=True, marks=("begun",),
        help="Run arms whose framework is another build than the baseline's, too: a stack effect.")  # fmt: skip
    pairs: int | None = pairs_option(
        f"{DEFAULT_PAIRS}, or at most {MOST_UNTIL} where the study is to end by itself. "
        f"With --resume: as many as before, or at most {MOST_UNTIL} more where these are done."
    )
    until: Literal["settled"] | None = option(
        "--until", group="Compare", type=click.Choice(["settled"]),
        help=f"End once no verdict is inconclusive. After {LEAST_PAIRS} pairs, run only cases that are.",
    )  # fmt: skip
    pairing: Pairing = option(
        "--pairing", group="Compare", is_rare=True, type=click.Choice(get_args(Pairing)),
        default=IN_TURN, show_default=True, marks=("begun",),
        help="in-turn: the processes of a pair take turns sample by sample, so that what the machine does falls on all "
             "alike; where they cannot (several GPUs, a CPU quota, no CPU or not memory enough for all) they follow "
             "one another, and the record says why.")  # fmt: skip
    tails: bool = option(
        "--tails", group="Compare", is_rare=True, is_flag=True,
        help="Compare rare slow calls, too (p99), where a primitive has such: launches and copies then take "
             "2.5 times --min-time for each metric.")  # fmt: skip
    primitives: tuple[str, ...] = primitives_option(and_options=True, marks=("begun",))
    where: OnDevice = part(OnDevice)
    how: HowPaired = part(HowPaired)
    record: Resumable = part(Resumable)
    exports: Exports = part(Exports)
    failing: Failing = part(Failing)


def _run(asked: CompareArms) -> None:
    if asked.record.resume is not None:
        refuse_beside_resume()
    gate = gate_of(asked.failing)
    with resuming(asked.record.resume) as begun:
        study = resumed(begun.held, asked.record.resume or "", asked) if begun else _asked(asked)
        carry_out(study, begun, asked.how, asked.record, asked.exports, gate=gate)


def _asked(asked: CompareArms) -> Study:
    """What the command line and the suite it names ask for. Raises InvalidRequest and FileError."""
    import primbench.suites as suites

    source = _source(asked)
    said = suites.study(source)
    arms = list(asked.arms) or _arms_of(source, said.arms)
    if neighbour := asked.beside or _neighbour_of(source, said.beside, asked.where.device):
        arms = with_neighbour(arms or [HOST], neighbour)
    design = design_of(
        asked.where,
        but(asked.how, backends=asked.how.backends or said.backends),
        said,
        pairs=asked.pairs,
        until_settled=asked.until is not None,
        tails=asked.tails,
        other_builds=asked.other_builds,
        pairing=asked.pairing,
        itself=asked.itself,
        placement=Placement(threads=threads_of([said.captured])),
    )
    entries = entries_of_study(source, asked.primitives)
    return study_of(arms, entries, design, said.title if said.arms else "", said.published)


def _source(asked: CompareArms) -> str:
    """The suite that cases come from."""
    import primbench.suites as suites

    suite = asked.suite
    if suite is None and not asked.primitives:
        raise InvalidRequest(f"name a suite ({', '.join(suites.studies())}, a file), or primitives by --primitive")
    if suite is not None and suite.partition(":")[0] in known():
        raise InvalidRequest(f"{suite}: an arm is named by --arm, each by one of its own: --arm {suite}")
    return suite or DEFAULT_SIZES


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
    on_gpu = has_gpu_node() if device is None else Device.parse(device).is_gpu
    written = beside.get(CUDA if on_gpu else CPU)
    try:
        return None if written is None else neighbour_in_words(written)
    except InvalidRequest as error:
        raise InvalidRequest(f"{source}: beside: {error}") from None


def resumed(held: Results, path: str, asked: CompareArms) -> Study:
    """Raises InvalidRequest where the file holds no study, or arms that are not to be run or cannot be."""
    study = held.header.study
    if study is None:
        raise InvalidRequest(f"{path}: not of a study: go on with the command that began it")
    if study.why:
        raise InvalidRequest(f"{path}: of `primbench why`: go on with `primbench why --resume`")
    check_all_kernels(["--resume", path], held.header.kernels)
    check_own(path, study.arms, asked.arms)
    for arm in study.arms:
        check(arm)
    until_settled = asked.until is not None or (study.until_settled and asked.pairs is None)
    whole = len(whole_pairs(study, held.records))
    ends = ends_itself(asked.how, until_settled=asked.until is not None)
    more = MOST_UNTIL if ends and whole >= study.pairs else 0
    return replace(study, pairs=asked.pairs or study.pairs + more, until_settled=until_settled)


command = RequestCommand(
    "study",
    CompareArms,
    _run,
    moved={"--sizes": "primbench study NAME|FILE.toml"},
    help="Run the same cases in several arms, interleaved, and say what the arms differ in.\n\n"
         "Pair after pair, every arm runs every case in a fresh process, in an order that is mirrored from one pair to "
         "the next. An arm that cannot be had is left out with the reason.\n\n"
         "\b\n"
         "primbench study containers\n"
         "primbench study --arm host --arm podman --primitive launch --primitive gemm -o study.jsonl\n"
         "primbench study --resume study.jsonl --pairs 20",
)  # fmt: skip
