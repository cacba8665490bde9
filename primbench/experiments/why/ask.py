"""`primbench.why`: which settings make one place slower than another, asked from Python."""

from __future__ import annotations

import time
from contextlib import closing, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.experiments.study import check_arms
from primbench.experiments.why.frame import framed
from primbench.experiments.why.images import are_images, of_images
from primbench.experiments.why.ingredients import Mixtures
from primbench.experiments.why.inquiry import Inquiry, inquire
from primbench.experiments.why.measuring import LOOK_PAIRS, Measuring
from primbench.results.file import Results
from primbench.results.writer import Writer, header
from primbench.runtimes.table import known
from primbench.spec.arm import Arm, parse_arm
from primbench.spec.defaults import DEFAULT_TIMEOUT_S
from primbench.spec.method import Method
from primbench.spec.placement import Placement
from primbench.spec.study import IN_TURN, Study
from primbench.workers.plan import plan
from primbench.workers.process import WorkerProcess
from primbench.workers.protocol import Start
from primbench.workers.trial import refused

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from primbench.environment.libraries import Library
    from primbench.experiments.why.inquiry import Asking
    from primbench.problem import Problem
    from primbench.spec.case import Case

USUAL_BUDGET_S = 300.0
LASTING_S = {"cpu": (0.05, 0.1), "cuda": (0.02, 0.05)}
"""Least and most that a metric is sampled in a process, of which there are many."""


def why(
    fast: str | Arm,
    slow: str | Arm,
    problem: Problem,
    *,
    backend: str | None = None,
    device: str | None = None,
    method: Method | None = None,
    time_budget_s: float = USUAL_BUDGET_S,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    seed: int = 0,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    progress: Callable[[Asking], None] = lambda asking: None,
) -> Inquiry:
    """Find the settings that make a problem slower in one place than in another, and prove it.

    fast, slow: places, as arms of a study or in their words, such as "host" and "podman:cpus=2". backend, device: the
    best one, and the first GPU where there is one. method: how a process measures. time_budget_s: after so long the
    answer is what is known by then. timeout_s: of a case in one process. seed: of the order of places. output: a
    results file to make, with every pair, replaced where ``overwrite`` says so. progress: called before each round.

    Raises InvalidRequest where nothing lies between the two places, or no setting is different; BackendUnavailable
    where the problem does not run in both; FileError and OutputError for a file that exists or cannot be written.
    """
    arms = [parse_arm(each, known()) if isinstance(each, str) else each for each in (fast, slow)]
    check_arms(arms)
    planned = plan(
        [(problem, {})],
        backends=[] if backend is None else [backend],
        device=device,
        method=method or Method(unit="process"),
        placement=Placement(),
        processes=1,
    )
    cases = [each if method else replace(each, method=usual_method(each.device)) for each in planned]
    study = in_one_frame(Study(arms=arms, cases=cases, pairs=LOOK_PAIRS, seed=seed, pairing=IN_TURN))
    found = Results(header=replace(header(["primbench.why"], {}), study=study), workers=[], records=[])
    ends_s = time.monotonic() + time_budget_s
    kept = nullcontext() if output is None else closing(Writer(output, found.header, overwrite=overwrite))
    with kept as writer:
        measuring = Measuring(
            study=study,
            mixtures=Mixtures(*study.arms[:2]),
            found=found,
            writer=writer,
            timeout_s=timeout_s,
            ends_s=ends_s,
        )
        inquiry, ended = inquire(measuring, progress)
    if ended is not None:
        raise ended
    return inquiry


def usual_method(device: str) -> Method:
    """How a process measures where nothing else is asked for."""
    least_s, most_s = LASTING_S["cpu" if device == "cpu" else "cuda"]
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
    return replace(study, arms=arms, pairs=LOOK_PAIRS, why=True, other_builds=True, notes=[*study.notes, *notes])


def _mapped(case: Case, arm: Arm) -> list[Library]:
    """The libraries of a worker in an arm. Raises as it does where it does not start."""
    worker = WorkerProcess(Start(backend=case.backend, device=case.device, hands_in_gpus=case.device != "cpu"), arm=arm)
    try:
        libraries = worker.ready.environment.software.libraries or {}
    finally:
        worker.end()
    return [file for files in libraries.values() for file in files]
