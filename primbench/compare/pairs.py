"""The arms of a study, or the runs of two files, set beside each other case by case."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.compare.comparison import ArmComparison, Comparison, Mixed
from primbench.compare.differing import differing
from primbench.compare.effects import differences, effect_of, mixed
from primbench.compare.explain import explained
from primbench.compare.learnt import compare_learnt, has_accuracy
from primbench.compare.machines import notes_sent
from primbench.compare.matching import WHILE_LOOKING, Matching, paired, unpaired
from primbench.compare.neighbour import notes_beside
from primbench.compare.published import beside_published
from primbench.compare.runs import how_to_pair, side_of
from primbench.compare.sessions import BySession, are_together, few, sessions_of
from primbench.compare.sides import Side, check_same_cases, sides_of
from primbench.compare.step import compare_steps
from primbench.compare.verdicts import verdicts
from primbench.errors import InvalidField, InvalidRequest, near
from primbench.results.cpu_speed import SLOWED
from primbench.runtimes.programs import told
from primbench.spec.captured import WHOLE
from primbench.spec.study import AGAIN
from primbench.units import format_percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.compare.published import PublishedBeside
    from primbench.results.file import Results

NOTABLE_SLOWING = 0.05  # share of all samples
CHOSEN = (
    "Medians of batch, enqueue and wall are of the other samples, where half of the pairs have some and the places are "
    "not slowed down unlike; means and tails are of all"
)
ALL_USED = (
    "All samples are used: too few are left without these, or one of the places is slowed down more than the other"
)
PAIRED = Matching(paired)


def compare(results: Results, baseline: str | None = None) -> Comparison:
    """The arms of a study against one of them, pair by pair. baseline: by name; None is the study's first arm.

    Raises InvalidRequest where there are no two arms, no such baseline, or where arms ran unequal cases.
    """
    sides = sides_of(results)
    if len(sides) < 2:
        raise InvalidRequest("one arm alone, nothing to compare: name a second file, or make one by `primbench study`")
    if baseline is None and results.header.study is None:
        raise InvalidField(f"baseline= is needed, as no study says which arm it is: one of {', '.join(sides)}")
    first = sides.get(next(iter(sides)) if baseline is None else baseline)
    if first is None:
        raise InvalidField(f"baseline={baseline}: {near(str(baseline), sides)}the arms are {', '.join(sides)}")
    again = sides.get(first.name + AGAIN)
    others = [side for side in sides.values() if side not in (first, again)]
    found = _compared(first, others, again, Matching(paired, WHILE_LOOKING) if _was_looked_at(results) else PAIRED)
    every = [first, *others, *([again] if again else [])]
    return replace(found, arms=_with_steps(found.arms, first, others), published=_beside_published(results, every))


def _with_steps(arms: Sequence[ArmComparison], baseline: Side, sides: Sequence[Side]) -> list[ArmComparison]:
    """The arms, with what a step's difference is made of where its parts were measured. sides: those of the arms."""
    steps = compare_steps(baseline, [(side, _is_of_quiet(arm)) for arm, side in zip(arms, sides, strict=True)])
    return [replace(arm, step=step) for arm, step in zip(arms, steps, strict=True)]


def _is_of_quiet(arm: ArmComparison) -> bool:
    """Whether the verdict on a whole step is by samples that no other program made longer."""
    wholes = [case.deciding for case in arm.cases if case.case.labels.get("set") == WHOLE]
    return any(each is not None and each.left_out is not None for each in wholes)


def _beside_published(results: Results, sides: Sequence[Side]) -> PublishedBeside | None:
    published = results.header.study and results.header.study.published
    return beside_published(published, sides) if published else None


def _was_looked_at(results: Results) -> bool:
    """Whether a study ended by its verdicts, or went on beyond the pairs that it was begun with, likely for them."""
    study = results.header.study
    if study is None or study.until_settled:
        return study is not None
    records = Counter(record.case.process for record in results.records)
    whole = sorted(pair for pair, count in records.items() if count >= len(study.arms) * len(study.cases))
    return len(whole) >= study.pairs and max(records) > whole[study.pairs - 1]


def compare_runs(
    one: Sequence[Results],
    other: Sequence[Results],
    names: tuple[str, str],
    files: tuple[str | None, str | None] = (None, None),
) -> Comparison:
    """Runs of two places that were not interleaved, those of the baseline first. names: of the places. files: the paths
    of their last runs.

    A single run of one of them may show that these runs are alike, and never that the places differ. Nor do several, if
    all of one were in one session and all of the other in another.

    Raises InvalidRequest where a file holds several arms, or where the two hold unequal cases.
    """
    baseline, side = (
        dataclasses.replace(side_of(each, name), file=file)
        for each, name, file in zip((one, other), names, files, strict=True)
    )
    runs = min(len(one), len(other))
    sessions = [sessions_of(each) for each in (one, other)]
    matching, are_sessions = Matching(unpaired, is_one_run=runs == 1), not are_together(*sessions)
    if are_sessions:
        are_several = max(map(len, sessions)) > 1
        matching = Matching(BySession(*sessions)) if are_several else Matching(unpaired, is_one_run=True)
    found = _compared(baseline, [side], None, matching)
    return replace(
        found,
        arms=[replace(arm, effect=None) for arm in found.arms] if matching.is_one_run else found.arms,
        paired=False,
        runs=runs,
        sessions=(len(sessions[0]), len(sessions[1])) if are_sessions else None,
        notes=[
            *found.notes,
            f"{names[0]} and {names[1]} are unpaired{few(*sessions)}: {how_to_pair(baseline, side, runs)}",
        ],
    )


def _compared(baseline: Side, others: Sequence[Side], again: Side | None, matching: Matching) -> Comparison:
    every = [baseline, *others, *([again] if again else [])]
    notes = [note for side in others for note in check_same_cases(baseline, side)] + _lacks(every)
    found = verdicts(baseline, others, again, matching, every)
    itself = found.itself and _told_apart(found.itself, baseline, again or baseline)
    arms = _explained(found.arms, baseline, others)
    compared = [*arms, *([itself] if itself else [])]
    arms_asked = [side.arm for side in (baseline, *others) if side.arm]
    notes += [*told(arms_asked), *notes_sent(every), *notes_beside(every), *_slowed_cpu(every, compared)]
    notes += _held_up(compared)
    return Comparison(
        baseline=baseline.name,
        paired=True,
        arms=arms,
        again=itself,
        mixed=_mixed(every),
        notes=notes,
    )


def _explained(arms: Sequence[ArmComparison], baseline: Side, sides: Sequence[Side]) -> list[ArmComparison]:
    """The arms, with what tells them apart and what can cause that. sides: those of the arms, in their order."""
    apart = [_told_apart(arm, baseline, side) for arm, side in zip(arms, sides, strict=True)]
    learnt = _with_learnt(apart, baseline, sides)
    return [
        arm if arm.effect == "case effect" else explained(arm, baseline, side)
        for arm, side in zip(learnt, sides, strict=True)
    ]


def _with_learnt(arms: Sequence[ArmComparison], baseline: Side, sides: Sequence[Side]) -> list[ArmComparison]:
    """The arms, with what trainings came to in their cases. sides: those of the arms, in their order."""
    if not _trains(baseline):
        return [*arms]
    judged = sum(has_accuracy(each.case, baseline) for arm in arms for each in arm.cases)
    return [
        replace(
            arm,
            cases=[replace(each, learnt=compare_learnt(each.case, baseline, side, judged)) for each in arm.cases],
        )
        for arm, side in zip(arms, sides, strict=True)
    ]


def _trains(side: Side) -> bool:
    """Whether a case trains networks: by a record of each kernel, which trains in all of them or in none."""
    one = {(each.case.primitive, each.case.implementation): each for each in side.records if each.status == "ok"}
    return any(each.measurement and each.measurement.learnt for each in one.values())


def _told_apart(arm: ArmComparison, baseline: Side, side: Side) -> ArmComparison:
    """The arm with what tells its place from the baseline's."""
    found = differences(baseline, side)
    effect = effect_of(baseline, side, found)
    return replace(arm, effect=effect, differences=found, differing=differing(baseline, side, found))


def _lacks(sides: Sequence[Side]) -> list[str]:
    """A note for each thing that a side asked of its place and did not get."""
    return [
        f"{side.name} was not placed as asked: {lack}" for side in sides for lack in [*side.lacks, *side.thread_lacks]
    ]


def _mixed(sides: Sequence[Side]) -> dict[str, list[Mixed]]:
    """Side -> what differs among its workers, for sides that were not one place."""
    found = {side.name: [Mixed(*each) for each in mixed(side)] for side in sides}
    return {name: unlike for name, unlike in found.items() if unlike}


def _slowed_fractions(sides: Sequence[Side]) -> dict[str, float]:
    return {side.name: side.slowed_fraction for side in sides if side.slowed_fraction is not None}


def _slowed_cpu(sides: Sequence[Side], arms: Sequence[ArmComparison]) -> list[str]:
    """What to note where the CPU was not at full speed all the time, and processes did not take turns."""
    cases = [case for arm in arms for case in arm.cases if case.slowed]
    shares = _slowed_fractions(sides)
    if not cases or max(shares.values(), default=0.0) < NOTABLE_SLOWING:
        return []
    words = ", ".join(f"{name} {format_percent(share)}" for name, share in shares.items())
    are_chosen = any(each.at_full_speed for case in cases for each in case.estimates)
    return [
        f"the CPU was slow beside some samples ({words}): a loop of Python took {format_percent(SLOWED - 1)} longer "
        "than it can, or more. Another load on the same core, or its clock; no counter tells. "
        + (CHOSEN if are_chosen else ALL_USED)
    ]


def _held_up(arms: Sequence[ArmComparison]) -> list[str]:
    """The same of processes that took turns: where samples were left out while which a thread waited for a CPU."""
    chosen = [
        max(each.left_out.slowed.baseline, each.left_out.slowed.arm)
        for arm in arms
        for case in arm.cases
        for each in case.estimates
        if not case.slowed and each.left_out is not None
    ]
    if max(chosen, default=0.0) < NOTABLE_SLOWING:
        return []
    return [
        f"threads waited for a CPU beside up to {format_percent(max(chosen))} of a case's samples: another program had "
        "it. Medians of batch, enqueue and wall are of the others, where half of the pairs have some and places are "
        "not held up unlike; means and tails are of all"
    ]
