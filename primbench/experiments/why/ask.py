"""`primbench.why`: which settings make one place slower than another, asked from Python."""

from __future__ import annotations

import os
import time
from contextlib import closing, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.compare.sides import identity
from primbench.devices import CPU, CUDA, Device
from primbench.environment.fingerprint import collect
from primbench.errors import InvalidRequest
from primbench.experiments.study import check_arms
from primbench.experiments.why.frame import framed
from primbench.experiments.why.images import are_images, of_images
from primbench.experiments.why.ingredients import Mixtures
from primbench.experiments.why.inquiry import Inquiry, inquire
from primbench.experiments.why.measuring import LOOK_PAIRS, Measuring
from primbench.experiments.why.recorded import elsewhere
from primbench.results import file as results_file
from primbench.results.file import Results
from primbench.results.writer import Writer, header
from primbench.runtimes.programs import chooses, in_full
from primbench.runtimes.table import known
from primbench.spec.arm import Arm, parse_arm
from primbench.spec.case import Case
from primbench.spec.defaults import DEFAULT_TIMEOUT_S
from primbench.spec.method import Method
from primbench.spec.naming import in_words, name_of, options_of
from primbench.spec.placement import Placement
from primbench.spec.study import IN_TURN, Study
from primbench.system.jsonlines import SUFFIXES
from primbench.workers.plan import plan
from primbench.workers.process import WorkerProcess
from primbench.workers.protocol import Start
from primbench.workers.trial import refused

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from primbench.environment.libraries import Library
    from primbench.experiments.why.inquiry import Asking
    from primbench.experiments.why.recorded import Elsewhere
    from primbench.problem import Problem

USUAL_BUDGET_S = 300.0
LASTING_S = {CPU: (0.05, 0.1), CUDA: (0.02, 0.05)}
"""Least and most that a metric is sampled in a process, of which there are many."""


def why(
    fast: str | os.PathLike[str] | Arm,
    slow: str | os.PathLike[str] | Arm,
    problem: Problem | None = None,
    *,
    backend: str | None = None,
    device: str | None = None,
    method: Method | None = None,
    time_budget_s: float = USUAL_BUDGET_S,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    seed: int = 0,
    own: bool = False,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    progress: Callable[[Asking], None] = lambda asking: None,
) -> Inquiry:
    """Find the settings that make a problem slower in one place than in another, and prove it.

    fast, slow: places, as arms of a study or in their words, such as "host" and "podman:cpus=2", or results files of a
    place each, whose settings are had here as far as they can be. problem: what is timed; of a file with one case it
    is that, and may be left out. backend, device: the best one, and the first GPU where there is one. method: how a
    process measures. These three are left out where a file says them. time_budget_s: after so long the answer is what
    is known by then. timeout_s: of a case in one process. seed: of the order of places. own: whether the files are
    one's own, whose variables and preloads may have any program run. output: a results file to make, with every
    pair, replaced where ``overwrite`` says so. progress: called before each round.

    Raises InvalidRequest where nothing lies between the two places, or no setting is different, and where a file has
    programs run and is not said to be one's own; BackendUnavailable where the problem does not run in both; FileError
    and OutputError for a file that exists, cannot be read or cannot be written.
    """
    places = [_place(each) for each in (fast, slow)]
    arms = [each for each in places if isinstance(each, Arm)]
    if len(arms) == len(places):
        study = _of_arms(arms, problem, backend=backend, device=device, method=method, seed=seed)
    else:
        if (backend, device, method) != (None, None, None):
            raise InvalidRequest("backend, device, method: the case is measured as it was in the file: leave them out")
        study = of_records(places, _wanted(problem), seed, partial(_admit, own=own))
    study = in_one_frame(study)
    found = Results(header=replace(header(["primbench.why"], {}), study=study), workers=[], records=[])
    kept = nullcontext() if output is None else closing(Writer(output, found.header, overwrite=overwrite))
    with kept as writer:
        measuring = Measuring(
            study=study,
            mixtures=Mixtures(*study.arms[:2]),
            found=found,
            writer=writer,
            timeout_s=timeout_s,
            ends_s=time.monotonic() + time_budget_s,
        )
        inquiry, ended = inquire(measuring, progress)
    if ended is not None:
        raise ended
    return inquiry


def _place(named: str | os.PathLike[str] | Arm) -> Arm | str:
    if isinstance(named, Arm):
        return named
    return place_in_words(named, lambda text: parse_arm(text, known())) if isinstance(named, str) else os.fspath(named)


def place_in_words(text: str, arm: Callable[[str], Arm]) -> Arm | str:
    """An arm, else the name of a file, called as results files are or there. arm: reads one.

    Raises InvalidRequest, also for an unknown runtime.
    """
    try:
        return arm(text)
    except InvalidRequest:
        if text.endswith(SUFFIXES) or os.path.isfile(text):
            return text
        raise


def _of_arms(
    arms: list[Arm],
    problem: Problem | None,
    *,
    backend: str | None,
    device: str | None,
    method: Method | None,
    seed: int,
) -> Study:
    if problem is None:
        raise InvalidRequest("of which problem? Two arms do not say")
    check_arms(arms)
    planned = plan(
        [(problem, {})],
        backends=[] if backend is None else [backend],
        device=device,
        method=method or Method(unit="process"),
        placement=Placement(),
        processes=1,
    )
    cases = [each if method else replace(each, method=usual_method(each.on)) for each in planned]
    return Study(arms=arms, cases=cases, pairs=LOOK_PAIRS, seed=seed, pairing=IN_TURN)


def of_records(
    named: Sequence[Arm | str],
    wanted: Collection[str],
    seed: int,
    admit: Callable[[str, Results, Arm, list[str]], None],
) -> Study:
    """Of two places, one of which at least was recorded, and is settings here.

    wanted: as ``elsewhere`` has it. admit: is given each file, what it holds, the arm that is made of it, and the words
    of a command that names that arm; raises InvalidRequest where it may not run.
    """
    here = collect(gpus=False)
    held = {each: results_file.read(each) for each in named if isinstance(each, str)}
    there = {path: elsewhere(path, found, here, wanted) for path, found in held.items()}
    arms = [there[each].arm if isinstance(each, str) else each for each in named]
    check_arms(arms)
    case = _same_case(there)
    for path, each in there.items():
        admit(path, held[path], each.arm, ["why", *map(in_full, arms), *options_of(case)])
    return Study(
        arms=arms,
        cases=[replace(case, method=usual_method(case.on))],
        pairs=LOOK_PAIRS,
        seed=seed,
        pairing=IN_TURN,
        notes=[f"not tried here, {path}: {', '.join(each.left_out)}" for path, each in there.items() if each.left_out],
        elsewhere={each.arm.name: each.times_s for each in there.values()},
    )


def _same_case(there: Mapping[str, Elsewhere]) -> Case:
    one, *others = [each.case for each in there.values()]
    for other in others:
        if identity(one) != identity(other):
            raise InvalidRequest(f"{' and '.join(there)}: of unequal cases: {name_of(one)} and {name_of(other)}")
    return one


def _wanted(problem: Problem | None) -> list[str]:
    if problem is None:
        return []
    case = Case(primitive=problem.primitive, parameters=problem.parameters(), backend="", device="")
    return [in_words(case)]


def _admit(path: str, held: Results, arm: Arm, again: Sequence[str], *, own: bool) -> None:
    if chooses(arm) and not own:
        raise InvalidRequest(f"{path}: can have any program run, by {in_full(arm)}: say own=True where it is yours")


def usual_method(device: Device) -> Method:
    """How a process measures where nothing else is asked for."""
    least_s, most_s = LASTING_S[device.kind]
    return Method(unit="process", min_time_s=least_s, max_time_s=most_s)


def in_one_frame(study: Study) -> Study:
    """A study of a fast and a slow place as an inquiry has it: the same in one frame first, then these, if they differ.

    Raises InvalidRequest where nothing lies between the two, BackendUnavailable where no container starts here.
    """
    fast, slow = study.arms
    is_of_images = are_images(fast, slow)
    frame = of_images(fast, slow, partial(_mapped, study.cases[0])) if is_of_images else framed(fast, slow, refused)
    notes = [f"not moved: {what}: {reason}" for what, reason in frame.left_out.items()]
    arms = [frame.base, frame.whole, *frame.others]
    return replace(
        study,
        arms=arms,
        pairs=LOOK_PAIRS,
        why=True,
        other_builds=True,
        notes=[*study.notes, *notes],
        ingredients=[each.words for each in Mixtures(*arms[:2]).ingredients],
    )


def _mapped(case: Case, arm: Arm) -> list[Library]:
    """The libraries of a worker in an arm. Raises as it does where it does not start."""
    worker = WorkerProcess(Start(backend=case.backend, device=case.device, hands_in_gpus=case.on.is_gpu), arm=arm)
    try:
        libraries = worker.ready.environment.software.libraries or {}
    finally:
        worker.end()
    return [file for files in libraries.values() for file in files]
