"""A captured step as a case that makes its calls again, and all that is asked of it."""

from __future__ import annotations

import os
import time
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from primbench.doses.dosing import PAIRS, Dosing, mean_s, samples_of
from primbench.doses.factors import TORCH, UNDOSED, USUAL, DosingPlace
from primbench.doses.found import Bounds, Foretold
from primbench.doses.schedule import give_doses
from primbench.doses.telling import foretell, measured, probes_of, told
from primbench.errors import FileError, InvalidRequest
from primbench.kernels.replay import Replay
from primbench.kernels.replay.problem import Part, encoded
from primbench.spec.arm import cpus_asked
from primbench.spec.captured import PARTS
from primbench.spec.placement import Placement
from primbench.workers.fitting import too_many_or_few
from primbench.workers.plan import plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from primbench.doses.telling import Told
    from primbench.results.file import Results
    from primbench.results.writer import Writer
    from primbench.spec.arm import Arm
    from primbench.spec.captured import Captured
    from primbench.spec.case import Case
    from primbench.suites import Entry, StudyFile

Ended = KeyboardInterrupt | SystemExit | None
PHASES = ("forward", "backward", "optimizer")


class ReplayedStep(NamedTuple):
    """A captured step, to be made again."""

    words: str
    """Whose step it is."""
    case: Case
    captured: Captured | None
    why_alone: str | None = None
    """Why one process makes what several ranks did, without their collectives; None where that is not so."""


def step_of(file: str, entries: Sequence[Entry], said: StudyFile, device: str | None) -> ReplayedStep:
    """By as many ranks as its collectives have, if it is on CPUs and each can have one; else by one, without these.

    device: None is the first GPU, else the CPU. Raises FileError for a file without parts, InvalidRequest for several
    devices, and as plan() does.
    """
    parts = [each for each in entries if each.labels.get("set") == PARTS]
    if not parts:
        raise FileError(f"{file}: no parts of a step, which `primbench capture` writes as set = 'parts'")
    calls = [Part(each.problem.primitive, each.problem.parameters()) for each in parts]
    ranks = max(each.fields.get("ranks", 1) for each in calls)
    problem = Replay(calls=encoded(calls, in_order([each.labels for each in parts])), ranks=ranks)
    case, *others = plan(
        [(problem, {"id": os.path.basename(file)})], backends=[TORCH], device=device, method=USUAL,
        placement=Placement(), processes=1,
    )  # fmt: skip
    if others:
        raise InvalidRequest(f"{file}: on one device, not on {1 + len(others)}: cpu, or cuda:N")
    why_alone = _why_alone(case)
    return ReplayedStep(
        said.captured.step if said.captured else said.title or file, _by_ranks_here(case, why_alone), said.captured,
        why_alone,
    )  # fmt: skip


def _why_alone(case: Case) -> str | None:
    if case.ranks > 1 and case.on.is_gpu:
        return "it is on a GPU"
    return too_many_or_few(case, world=None, arm=None, gpus=None)


def _by_ranks_here(case: Case, why_alone: str | None) -> Case:
    return replace(case, parameters=case.parameters | {"ranks": 1}) if why_alone else case


def in_order(labels: Sequence[dict[str, str]]) -> list[int]:
    """Which part is called, one after the other: phase by phase, the calls of each part as evenly as can be.

    The file has how often a call is made in a phase, and not when.
    """
    placed = []
    for number, of_part in enumerate(labels):
        count = int(of_part.get("count", "1"))
        phase = of_part.get("phase", PHASES[0])
        rank = PHASES.index(phase) if phase in PHASES else len(PHASES)
        placed += [(rank, (each + 0.5) / count, number) for each in range(count)]
    return [number for _, _, number in sorted(placed)]


def here_of(step: ReplayedStep, threads: int | None) -> DosingPlace:
    """threads: of each rank; None is one for each CPU that may be used, of which ranks have a share each."""
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    count = min(threads or max(1, len(cpus) // step.case.ranks), len(cpus))
    return usual_place(step.case, cpus, count)


def usual_place(case: Case, cpus: tuple[int, ...], threads: int) -> DosingPlace:
    """In which nothing is known of how many CPUs the step keeps busy."""
    here = DosingPlace(case.device, cpus, threads, 0.0, case.ranks)
    return here._replace(used_cpus=float(here.usable_cpus))


class BoundQuestion(NamedTuple):
    """What is to be found out, and how."""

    step: ReplayedStep
    here: DosingPlace
    places: Sequence[Arm]
    """In which the step is foretold, and measured then."""
    budget_s: float
    """How long doses are given; each place takes longer."""
    timeout_s: float
    seed: int = 0
    verbose: bool = False


def bound(
    asking: BoundQuestion, found: Results, writer: Writer | None, tell: Callable[[str], None]
) -> tuple[Bounds, Ended]:
    """What is known by the end, and what cut it off, None where nothing did. tell: is told what comes next. Raises
    InvalidRequest where no place that is asked about can be had.

    found, writer: what is measured goes there.
    """
    begun_s = time.monotonic()
    dosing = Dosing(
        step=asking.step.case, here=asking.here, found=found, writer=writer, timeout_s=asking.timeout_s,
        seed=asking.seed, verbose=asking.verbose, tell=tell,
        foretells_neighbours=any(each.neighbour for each in asking.places),
    )  # fmt: skip
    places: list[Foretold] = []
    ended: Ended = None
    try:
        there = [*_that_are_there(dosing, asking.places, places)]
        give_doses(dosing, time.monotonic() + asking.budget_s, there)
        known = told(dosing)
        for arm in there:
            _place(dosing, known, arm, places, tell)
    except (KeyboardInterrupt, SystemExit) as stop:
        ended, dosing.is_cut_off = stop, True
    bounds = replace(bounds_of(asking.step, dosing), places=places, is_cut_off=dosing.is_cut_off)
    return replace(bounds, took_s=round(time.monotonic() - begun_s, 3)), ended


def _that_are_there(dosing: Dosing, asked: Sequence[Arm], places: list[Foretold]) -> Iterator[Arm]:
    """Places in which the step can be set up, tried before minutes of doses; the others are added to ``places``.

    Raises InvalidRequest where none of those that are asked about is one.
    """
    for arm in (_as_here(each, dosing.here) for each in asked):
        if reason := dosing.why_not(arm):
            places.append(Foretold(place=arm.name, reason=reason))
        else:
            yield arm
    if asked and len(places) == len(asked):
        raise InvalidRequest("; ".join(f"--in {each.place}: {each.reason}" for each in places))


def _place(
    dosing: Dosing, known: Sequence[Told], arm: Arm, places: list[Foretold], tell: Callable[[str], None]
) -> None:
    """Adds what was foretold to ``places`` before the step runs there, and then what it took."""
    probed = dosing.probe(arm, probes_of(dosing, arm))
    before = foretell(dosing, known, arm, probed, PAIRS)
    places.append(before)
    if before.low is not None and before.high is not None:
        tell(f"foretold in {arm.name}: {before.low:.2f} to {before.high:.2f} times as long; now it is measured")
    places[-1] = measured(dosing, before, arm, dosing.run_there(arm))


def _as_here(arm: Arm, here: DosingPlace) -> Arm:
    """With as many threads as here, or as it has CPUs for each rank, where it says nothing else."""
    if arm.placement != Placement():
        return arm
    few = cpus_asked(arm)
    threads = min(here.threads, max(1, len(few) // here.ranks)) if few else here.threads
    return replace(arm, placement=Placement(threads=threads))


def bounds_of(step: ReplayedStep, dosing: Dosing) -> Bounds:
    """Of what was measured by now."""
    undosed = [each.measurement for each in dosing.records(UNDOSED) if each.measurement]
    counts = undosed[0].counts if undosed else {}
    times_s = [found_s for each in undosed if (found_s := mean_s(samples_of(each))) is not None]
    captured_s = step.captured.times_s if step.captured else []
    return Bounds(
        step=step.words,
        device=step.case.device,
        threads=dosing.here.threads,
        ranks=dosing.here.ranks,
        calls=counts.get("calls"),
        left_out_calls=_left_out(step.captured, counts.get("left_out_calls")),
        time_s=fmean(times_s) if times_s else None,
        captured_s=median(captured_s) if captured_s else None,
        waited_share=dosing.waited_share(),
        slopes=[each.slope for each in told(dosing)],
    )


def _left_out(captured: Captured | None, not_here: int | None) -> int | None:
    """Calls that no entry makes, and those that are not to be made here; None where nothing ran."""
    if not_here is None or captured is None:
        return not_here
    several = captured.left_out
    return not_here + (several if isinstance(several, int) else sum(each.calls for each in several))
