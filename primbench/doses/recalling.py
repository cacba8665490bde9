"""What a file tells that `primbench bound` wrote: the same as it told when it was written."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.doses.bounding import ReplayedStep, bounds_of, usual_place
from primbench.doses.dosing import PAIRS, Dosing, probe_in, step_in
from primbench.doses.factors import UNDOSED, USUAL
from primbench.doses.telling import foretell, measured, told
from primbench.kernels.replay import Replay
from primbench.spec.placement import Placement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from primbench.doses.found import Bounds, Foretold
    from primbench.doses.telling import Told
    from primbench.results.file import Results
    from primbench.results.record import Record
    from primbench.spec.arm import Arm


def recalled(found: Results) -> Bounds | None:
    """None of a file without an undosed step. Places in which the step could not be set up are not in a file."""
    undosed = next((each for each in found.records if _is_step(each) and each.case.arm == UNDOSED), None)
    if undosed is None:
        return None
    dosing = _dosing(undosed, found)
    arms = _number(dosing)
    dosing.learn_use()
    words, captured = next(iter(found.header.captured.items()), (undosed.case.labels.get("id", ""), None))
    known = told(dosing)
    places = [_place(dosing, known, arm) for arm in arms]
    return replace(bounds_of(ReplayedStep(words, dosing.step, captured), dosing), places=places)


def _is_step(record: Record) -> bool:
    return record.case.primitive == Replay.primitive


def _dosing(undosed: Record, found: Results) -> Dosing:
    """As it was before any dose."""
    case = undosed.case
    step = replace(
        case, arm="", process=0, placement=Placement(), method=USUAL, parameters=case.parameters | {"dosed": False}
    )  # fmt: skip
    cpus = tuple(found.header.environment.limits.cpus_allowed)
    threads = case.placement.threads or len(cpus)
    return Dosing(step=step, here=usual_place(case, cpus, threads), found=found, writer=None, timeout_s=0.0)


def _number(dosing: Dosing) -> list[Arm]:
    """Finds out what each pair was for; returns the places that were foretold."""
    trials = {arm.name: trial.id for trial in dosing.trials for arm in trial.arms[1:]}
    pairs: dict[int, list[Record]] = defaultdict(list)
    for record in dosing.found.records:
        pairs[record.case.process].append(record)
    for number, records in sorted(pairs.items()):
        dosing.numbers[_named(records, trials)].append(number)
    arms = {each.arm.name: each.arm for each in dosing.found.workers if each.arm}
    return [arm for name, arm in arms.items() if name != UNDOSED and name not in trials]


def _named(records: Sequence[Record], trials: Mapping[str, str]) -> str:
    """The name of what a pair was for. trials: by arm, the trial that has it."""
    arms = {each.case.arm for each in records} - {UNDOSED}
    if not arms:
        return "calls"
    arm = min(arms)
    return trials.get(arm) or (step_in(arm) if any(map(_is_step, records)) else probe_in(arm))


def _place(dosing: Dosing, known: Sequence[Told], arm: Arm) -> Foretold:
    before = foretell(dosing, known, arm, dosing.numbers[probe_in(arm.name)], PAIRS)
    return measured(dosing, before, arm, dosing.numbers[step_in(arm.name)])
