"""Why a case is slower or faster in one place: its own numbers, what differs between the places, what to try next."""

from __future__ import annotations

import dataclasses
import shlex
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.compare.beside import Beside
from primbench.compare.causes import by_causes, by_refusals
from primbench.compare.criteria import is_its_own, problem_of
from primbench.compare.differing import asked_variables
from primbench.compare.effects import changes_of, differences
from primbench.compare.evidence import Seen, evidence, noise, waiting
from primbench.compare.filters import dearer_s
from primbench.compare.neighbour import evidence_beside, noise_beside
from primbench.compare.sides import Side, identity
from primbench.compare.stopped import is_busy, stopped
from primbench.doctor.against import in_words
from primbench.environment.comparable import meaning_of
from primbench.environment.difference import difference
from primbench.errors import InvalidRequest
from primbench.results.metrics import METRICS
from primbench.runtimes.table import is_of_parts, known, settable
from primbench.spec.apart import apart
from primbench.spec.arm import HOST_IMAGE, Arm, format_arm, words_of
from primbench.spec.naming import in_words as case_in_words
from primbench.spec.naming import options_of
from primbench.spec.setting import WAITING
from primbench.spec.settings import SETTINGS, showing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.compare.comparison import ArmComparison, CaseComparison, Explanation
    from primbench.doctor.cause import Suspect
    from primbench.environment.difference import Difference
    from primbench.results.record import Worker
    from primbench.spec.case import Case
    from primbench.spec.setting import Activity

MOST_ARMS = 3  # that one suggested experiment adds


def explained(arm: ArmComparison, baseline: Side, side: Side) -> ArmComparison:
    """The arm with an explanation of every case that is slower or faster by a metric, waited, or was refused."""
    stops = [each for case in arm.cases if is_busy(case) for each in stopped(case, _seen(case, baseline, side))]
    return replace(
        arm,
        cases=[replace(case, explanation=_explanation(case, arm, stops, baseline, side)) for case in arm.cases],
    )


def _seen(case: CaseComparison, baseline: Side, side: Side) -> Seen:
    key = identity(case.case)
    speeds = baseline.speed_of(key), side.speed_of(key)
    alike = case.slowed is not None and case.slowed.may_be_alike
    return Seen(baseline.name, side.name, baseline.cases[key], side.cases[key], speeds, alike)


def _explanation(
    case: CaseComparison, arm: ArmComparison, stops: Sequence[Suspect], baseline: Side, side: Side
) -> Explanation | None:
    """By the places as they were while the case was timed. stops: what stopped threads of any case of the arm."""
    key, served = identity(case.case), f"{case.case.backend} {case.case.device}"
    one, other = _as_timed(baseline, key), _as_timed(side, key)
    if one is baseline and other is side:
        return _by_places(case, arm, arm.differences.get(served), baseline, side, stops=stops)
    found = _by_places(case, arm, differences(one, other).get(served), one, other, stops=stops)
    changed = [*_changed_later(baseline, key), *_changed_later(side, key)]
    return found and replace(found, evidence=[*found.evidence, *changed])


def _as_timed(side: Side, key: bytes) -> Side:
    """A side as its place was while a case was timed; the same where nothing had changed since its workers told of it.

    key: the identity of the case.
    """
    found = _changed_workers(side, key)
    return dataclasses.replace(side, workers=side.workers | found) if found else side


def _changed_later(side: Side, key: bytes) -> Iterator[str]:
    """What of the place had changed, in words, each once."""
    words = {
        f"{in_words(change, 'at its start', 'once it was timed')} in {side.name}": None
        for number, worker in _changed_workers(side, key).items()
        for layer in ("limits", "confinement")
        for change in getattr(difference(side.workers[number].environment, worker.environment), layer).changes
        if change.kind == "differs" or meaning_of(change.field).by_doctor
    }
    yield from words


def _changed_workers(side: Side, key: bytes) -> dict[int, Worker]:
    """Those whose place had changed, as it was then."""
    found = {}
    for record in side.cases[key]:
        if record.later is not None and record.worker in side.workers:
            worker = side.workers[record.worker]
            found[record.worker] = replace(worker, environment=record.later.of(worker.environment))
    return found


def _by_places(
    case: CaseComparison,
    arm: ArmComparison,
    differing: Difference | None,
    baseline: Side,
    side: Side,
    *,
    stops: Sequence[Suspect],
) -> Explanation | None:
    if (case.fails_more or not case.estimates) and (refused := by_refusals(case, differing, baseline, side)):
        return refused
    if case.is_untellable:
        return None
    parts, seen = _parts(case), _seen(case, baseline, side)
    if not (parts or waiting(seen)):
        return None
    can_move: Sequence[Activity] = parts or WAITING
    return by_causes(
        Beside(
            case=case,
            arm=arm,
            baseline=baseline,
            side=side,
            seen=seen,
            differing=differing,
            parts=[*can_move, *beside(case.case)],
            dearer_s=dearer_s(case, baseline, side),
            stops=stops,
        ),
        parts=parts,
        evidence=[*evidence_beside(case, baseline, side, seen), *evidence(case, arm, seen)],
        noise=noise_beside(noise(case, seen), baseline, side),
        asked_variables=asked_variables(baseline, side),
        next_experiment=_next_experiment(case, arm, (baseline, side), can_move),
    )


def _parts(case: CaseComparison) -> list[Activity]:
    """What takes another time. Calls that wait for a kernel of which the own time moved tell nothing of launching."""
    moved = [each.metric for each in case.estimates if each.has_moved]
    is_own = [not case.case.on.is_gpu or is_its_own(case.case.primitive, metric) for metric in moved]
    found = [own_part(case.case)] if any(is_own) else []
    if any(METRICS[metric].explains == "launch" for metric in moved) or not (all(is_own) or found):
        found.append("launch")
    return list(dict.fromkeys(found))


def beside(case: Case) -> list[Activity]:
    """What a call does beside its work: a CPU that loads data computes, and who starts a program pays for its start."""
    problem = case.known_problem()
    starts: list[Activity] = ["start-up"] if problem and "execve" in problem.system_calls() else []
    return [*starts, "everything on the CPU"] if own_part(case) == "data loading" else starts


def own_part(case: Case) -> Activity:
    """What the device itself does of a case; a CPU that computes launches, too."""
    work = problem_of(case.primitive).work
    return "everything on the CPU" if not case.on.is_gpu and work in ("kernel", "launch") else work


def as_run(side: Side, key: bytes) -> Arm | None:
    """The arm with the placement that an option gave to all arms, so that its words repeat what was run."""
    placement = side.cases[key][0].case.placement
    if side.arm is None or placement == side.arm.placement:
        return side.arm
    placed = replace(side.arm, placement=placement)
    return replace(placed, name=words_of(placed)) if side.arm.name == words_of(side.arm) else placed


def _next_experiment(
    case: CaseComparison, arm: ArmComparison, sides: tuple[Side, Side], parts: Sequence[Activity]
) -> str | None:
    """Why the one is slower, where places lie between the two; else the study again with what differs taken away, one
    thing at a time. None where there is nothing to take.
    """
    if sides[0].file and sides[1].file:
        return _of_files(case, sides[0].file, sides[1].file)
    try:
        first, other = (as_run(each, identity(case.case)) for each in sides)
        return _experiment(case, arm, first, other, parts) if first and other else None
    except InvalidRequest:  # an arm that only a file can hold
        return None


def _of_files(case: CaseComparison, first: str, other: str) -> str | None:
    """Why the one recorded place is slower, by settings here."""
    if case.verdict not in ("slower", "faster"):
        return None
    asked = (first, other) if case.verdict == "slower" else (other, first)
    return shlex.join(["primbench", "why", *asked, "--primitive", case_in_words(case.case)])


def _experiment(
    case: CaseComparison, arm: ArmComparison, first: Arm, other: Arm, parts: Sequence[Activity]
) -> str | None:
    if case.verdict in ("slower", "faster") and _is_of_settings(first, other):
        asked = (first, other) if case.verdict == "slower" else (other, first)
        return shlex.join(["primbench", "why", *map(format_arm, asked), *options_of(case.case)])
    words = _arms_to_run(arm, first, other, parts)
    if not words:
        return None
    options = [word for each in words for word in ("--arm", each)]
    where = ["--backend", case.case.backend, "--device", case.case.device]
    builds = ["--other-builds"] * (arm.effect == "stack effect")
    return shlex.join(["primbench", "study", *options, "--primitive", case.case.primitive, *where, *builds])


def _is_of_settings(one: Arm, other: Arm) -> bool:
    """Whether what differs in two places can be moved one setting at a time."""
    if one.runtime != other.runtime:
        return is_of_parts(one) and is_of_parts(other)
    return replace(one, name=other.name) != other and not any(apart(one, other))


def _arms_to_run(compared: ArmComparison, first: Arm, other: Arm, parts: Sequence[Activity]) -> list[str]:
    """Both in words, and the other one with one thing less each; [] where there is nothing to take away."""
    runtimes = {name for arm in (first, other) for name in (arm.runtime, arm.runtime_there) if name is not None}
    if not runtimes <= known().keys():
        return []
    there = {words_of(first), words_of(other)}
    less = [words for each in _without(compared, other, parts) if (words := words_of(each)) not in there]
    return [*map(format_arm, (first, other)), *less[:MOST_ARMS]] if less else []


def _without(compared: ArmComparison, arm: Arm, parts: Sequence[Activity]) -> Iterator[Arm]:
    """The arm as it is but for one thing."""
    if compared.effect == "stack effect" and arm.image not in (None, HOST_IMAGE):
        if not known()[arm.runtime_there or arm.runtime].needs_image:
            yield replace(arm, image=HOST_IMAGE)
        return
    may_differ = _differing(compared) & settable(arm)
    for field, row in SETTINGS.items():
        if field in may_differ and not set(parts).isdisjoint(row.moves):
            yield replace(arm, **row.left_out(arm))


def _differing(compared: ArmComparison) -> set[str | None]:
    """The settings of arms that can have brought a difference about."""
    changes = changes_of(compared.differences, "stack", "limits", "confinement")
    unseen = {field for field, row in SETTINGS.items() if row.rule is not None}  # which no change shows
    return {showing(change.field) for change in changes} | unseen
