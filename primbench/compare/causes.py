"""What can have made a case slower or faster: what differs between the two places, and can work that way and so far.

A cause is told where it works in the direction that was seen. The most upstream comes first: the machine, what of it
may be used, the libraries, then what `doctor` finds in one of the places alone; last what cannot do so much by itself.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from primbench.compare.cause import Cause
from primbench.compare.criteria import problem_of
from primbench.compare.differing import placement, set_variables
from primbench.compare.effects import changes_of
from primbench.compare.filters import filters
from primbench.doctor.against import by_rule, in_words, short
from primbench.doctor.checks import examine
from primbench.doctor.place import Place
from primbench.environment.comparable import meaning_of
from primbench.environment.configuration import is_told_by_what_it_gives
from primbench.spec.variables import is_for_libraries
from primbench.system.files import format_cpu_list

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.compare.comparison import CaseComparison
    from primbench.compare.sides import Side
    from primbench.doctor.finding import Finding, Part
    from primbench.doctor.rules import Rule
    from primbench.environment.difference import Change, Difference
    from primbench.numa.placement import EffectivePlacement
    from primbench.results.record import Worker
    from primbench.system.nvml import Gpu

MOST_CHANGES = 4
_TOLD_AS_DIFFERENCE = {"preloads", "priority"}
_OF_CPUS: set[Part] = {"copy", "collective", "everything on the CPU", "launch"}
_OF_MEMORY: set[Part] = {"copy", "collective", "everything on the CPU"}
ALIKE = 1.5  # two readings of one quantity within this factor are taken to be the same
_NUMBER = re.compile(r"(?<![:\w.])[0-9][0-9.]*( [nmu]?s\b)?")


def causes(
    parts: Sequence[Part], case: CaseComparison, differing: Difference | None, baseline: Side, side: Side
) -> tuple[list[str], str | None]:
    """All in words, the likeliest first, and in few words the first that can do so much by itself, if one can.

    parts: what can have moved. What did move says which way; where nothing did for certain, either will do.
    differing: the places, as those saw them that served the case's backend on its device.
    """
    found = [
        *_other_gpu(case, baseline, side),
        *(_differences(parts, case, differing, baseline, side) if differing else []),
        *filters(case, baseline, side),
        *_variables(differing, baseline, side),
        *_memory(parts, case, baseline, side),
        *_placed_otherwise(parts, differing, baseline, side),
        *_not_placed(baseline, side),
        *_found_in_one_alone(parts, case, differing, baseline, side),
    ]
    ratios = [each.ratio for each in case.estimates if each.has_moved]
    return _fitting(found, ratios) if ratios else ([each.words for each in found], None)


def _fitting(found: Sequence[Cause], ratios: Sequence[float]) -> tuple[list[str], str | None]:
    """The causes that can make one of the ratios; then those that work towards one and fall short of it."""
    enough, too_little = [], []
    for each in found:
        towards = [ratio for ratio in ratios if each.works_towards(ratio)]
        if any(map(each.suffices_for, towards)):
            enough.append(each)
        elif towards:
            too_little.append(each.falling_short_of(towards[0]))
    words = [*(each.words for each in enough), *too_little]
    return words, (enough[0].title or enough[0].words) if enough else None


def _other_gpu(case: CaseComparison, baseline: Side, side: Side) -> Iterator[Cause]:
    """Another GPU by its UUID: two boards of one model, or two MIG slices of one board, differ in speed."""
    one, other = (_gpu_of(case, each) for each in (baseline, side))
    if one is not None and other is not None and None not in (one.uuid, other.uuid) and one.uuid != other.uuid:
        kind = ", and two of a kind differ" if one.name == other.name else ""
        of_one_study = baseline.arm is not None and side.arm is not None
        mend = f": give both the same, such as by env.CUDA_VISIBLE_DEVICES={one.uuid}" if of_one_study else ""
        which = f"{_which(other)} in {side.name}, {_which(one)} in {baseline.name}"
        yield Cause(f"another GPU: {which}{kind}{mend}", title="another GPU")


def _placed_otherwise(
    parts: Sequence[Part], differing: Difference | None, baseline: Side, side: Side
) -> Iterator[Cause]:
    """CPUs and threads that were had, where what the workers saw does not tell of them."""
    if not _OF_CPUS.isdisjoint(parts):
        found = placement(baseline, side, changes_of({"": differing}, "limits", "stack") if differing else [])
        yield from (Cause(each.words) for each in found)


def _not_placed(baseline: Side, side: Side) -> Iterator[Cause]:
    """What one side alone asked of its place and did not get."""
    for each, other in ((side, baseline), (baseline, side)):
        lacks = [*(each.lacks if _has_choice_of_memory(each) else []), *each.thread_lacks]
        lacking = (lack for lack in lacks if lack not in (*other.lacks, *other.thread_lacks))
        yield from (Cause(f"{each.name} was not placed as asked: {lack}") for lack in lacking)


def _has_choice_of_memory(side: Side) -> bool:
    """Whether any machine of this side has more than one memory node to take memory from."""
    return any(len(worker.environment.nodes or []) > 1 for worker in side.used)


def _gpu_of(case: CaseComparison, side: Side) -> Gpu | None:
    worker = side.worker_of(case.case.backend, case.case.device)
    gpus = worker.environment.devices.gpus if worker else None
    number = case.case.device.removeprefix("cuda:")
    return gpus[int(number)] if gpus and number.isdecimal() and int(number) < len(gpus) else None


def _which(gpu: Gpu) -> str:
    return f"{gpu.uuid} at {gpu.pci_address}" if gpu.pci_address else f"{gpu.uuid}"


def _differences(
    parts: Sequence[Part], case: CaseComparison, found: Difference, baseline: Side, side: Side
) -> Iterator[Cause]:
    """What is not the same in the two places and moves such results, the most upstream first."""
    ruled = [(rule, changes) for rule, changes in by_rule(found) if rule.cause and set(rule.distorts) & set(parts)]
    for rule, of_rule in sorted(ruled, key=lambda pair: pair[0].upstream):
        changes = [change for change in of_rule if not meaning_of(change.field).by_doctor]
        if changes and _concerns(rule, case):
            yield _by_changes(rule, changes, baseline, side)


def _by_changes(rule: Rule, changes: Sequence[Change], baseline: Side, side: Side) -> Cause:
    """The cause that a rule makes of changes, the first ones in words."""
    first, more = changes[:MOST_CHANGES], len(changes) - MOST_CHANGES
    words = "; ".join(in_words(each, f"in {baseline.name}", f"in {side.name}") for each in first)
    title = _title(rule, changes, side)
    told = f"{title}: {words}{f'; and {more} more' if more > 0 else ''}"
    if rule.name == "variables":
        title = f"{title}: {', '.join(short(each.field) for each in first)}"  # else nobody knows which
    return Cause(told, *_bounds(rule, changes), title)


def _concerns(rule: Rule, case: CaseComparison) -> bool:
    """NumPy alone multiplies by the BLAS that it is linked to, and does nothing else in several threads."""
    is_of_numpy, computes = case.case.backend == "numpy", problem_of(case.case.primitive).work == "kernel"
    if rule.name == "blas":
        return is_of_numpy and computes
    return rule.name != "threads" or computes or not is_of_numpy


def _counts(changes: Sequence[Change]) -> list[tuple[int, int]]:
    """How many threads or CPUs there are on the baseline and in the arm."""
    known = [each for each in changes if meaning_of(each.field).counts and None not in (each.a, each.b)]
    return [(_count(each.a), _count(each.b)) for each in known]


def _count(value: int | list[int]) -> int:
    return len(value) if isinstance(value, list) else value


def _title(rule: Rule, changes: Sequence[Change], side: Side) -> str:
    steps = {other - one for one, other in _counts(changes)}
    cause = str(rule.cause)
    if not steps or min(steps) <= 0 <= max(steps):
        return cause
    return f"{'more' if min(steps) > 0 else 'fewer'} {cause.removeprefix('other ')} in {side.name}"


def _bounds(rule: Rule, changes: Sequence[Change]) -> tuple[float, float]:
    """So many threads save no more than their number, but for larger caches; in each other's way they cost any time."""
    if any(map(_is_amount, changes)):
        return _bounds_of_amounts(changes)
    if rule.name != "threads":
        return 0.0, math.inf
    shares = [max(1, one) / max(1, other) for one, other in _counts(changes)] or [1.0]
    lost, gained = max(shares) ** 1.5, min(shares) ** 1.5
    return (0.0 if lost > 1 else gained), (math.inf if gained < 1 else lost)


def _is_amount(change: Change) -> bool:
    meaning = meaning_of(change.field)
    return meaning.less_is_slower or meaning.more_is_slower


def _bounds_of_amounts(changes: Sequence[Change]) -> tuple[float, float]:
    """Less of what is limited makes nothing faster; what else differs beside it, such as its nodes, can."""
    amounts = [_amounts(each) for each in changes if _is_amount(each)]
    is_less = {other < one for one, other in amounts}
    if len(amounts) < len(changes) or len(is_less) > 1:
        return 0.0, math.inf
    return (1.0, math.inf) if is_less == {True} else (0.0, 1.0)


def _amounts(change: Change) -> tuple[float, float]:
    """Of what is wanted, in the two places; None is no limit."""
    if meaning_of(change.field).more_is_slower:
        return -(change.a or 0), -(change.b or 0)
    return change.a or math.inf, change.b or math.inf


def _variables(differing: Difference | None, baseline: Side, side: Side) -> Iterator[Cause]:
    """What the arms set in unequal ways, and no other cause tells."""
    for name, words in set_variables(baseline, side):
        if not _is_told_elsewhere(name, differing):
            yield Cause(words)


def _is_told_elsewhere(variable: str, differing: Difference | None) -> bool:
    """Whether what a variable gives is compared itself, or a difference of the places tells of it, as of libraries'."""
    if is_told_by_what_it_gives(variable):
        return True
    changes = differing.stack.changes if differing else []
    varies = any(each.field == f"software.variables.{variable}" and each.kind == "varies" for each in changes)
    return is_for_libraries(variable) and not varies


def _memory(parts: Sequence[Part], case: CaseComparison, baseline: Side, side: Side) -> Iterator[Cause]:
    """Memory taken by another policy or from other nodes, where it matters to the parts and there is a choice."""
    if _OF_MEMORY.isdisjoint(parts) or not any(map(_has_choice_of_memory, (baseline, side))):
        return
    workers = [each.worker_of(case.case.backend, case.case.device) for each in (baseline, side)]
    one, other = (_memory_of(worker.placement) if worker else "" for worker in workers)
    if one != other:
        yield Cause(f"memory is taken {other} in {side.name} and {one} in {baseline.name}")


def _memory_of(placement: EffectivePlacement) -> str:
    nodes = format_cpu_list(placement.page_nodes)
    how = {"bind": f"by the policy {placement.memory_policy}", "first touch": "by first touch", "none": "anywhere"}
    return f"{how[placement.rung]}{f' of nodes {nodes}' if nodes else ''}"


def _found_in_one_alone(
    parts: Sequence[Part], case: CaseComparison, differing: Difference | None, baseline: Side, side: Side
) -> Iterator[Cause]:
    """What `doctor` finds in one of the places and not in the other, and what it can move is what moved."""
    one, other = (_findings(each, case, differing) for each in (baseline, side))
    yield from (_alone(side.name, alike) for alike in _only_here(parts, other, one) if _lasts(alike, side, case))
    yield from (
        _alone(baseline.name, alike).of_baseline()
        for alike in _only_here(parts, one, other)
        if _lasts(alike, baseline, case)
    )


def _only_here(parts: Sequence[Part], here: Sequence[Finding], there: Sequence[Finding]) -> list[list[Finding]]:
    """The findings of one place that the other has not and that can move the parts, one list for each check."""
    of_check: dict[str, list[Finding]] = {}
    for finding in here:
        if set(finding.distorts) & set(parts) and not any(_is_same(finding, each) for each in there):
            of_check.setdefault(finding.check, []).append(finding)
    return list(of_check.values())


def _alone(name: str, alike: Sequence[Finding]) -> Cause:
    """The cause that is made of what one check finds in the place of that name alone."""
    first, *others = alike
    more = f", and {len(others)} more like it" if others else ""
    return Cause(
        f"in {name} alone: {first.summary}{more} ({first.check})",
        at_least=min(each.at_least for each in alike),
        at_most=max(math.inf if each.at_most is None else each.at_most for each in alike),
        title=f"{first.summary}, in {name} alone",
    )


def _findings(side: Side, case: CaseComparison, differing: Difference | None) -> list[Finding]:
    """What `doctor` finds wrong in the place of the worker that ran the case; without unknowns and told differences."""
    worker = side.worker_of(case.case.backend, case.case.device)
    told = (
        {f"{short(each.field)} is set" for each in changes_of({"": differing}, "stack", "limits")} if differing else ()
    )
    return [each for each in _wrong_with(worker) if each.summary.partition(":")[0] not in told] if worker else []


def _wrong_with(worker: Worker) -> list[Finding]:
    found = examine(Place(environment=worker.environment))
    return [each for each in found if each.severity not in ("ok", "unknown") and each.check not in _TOLD_AS_DIFFERENCE]


def _lasts(alike: Sequence[Finding], side: Side, case: CaseComparison) -> bool:
    """Whether what was read is so in all processes of a place: one that began beside others read slower clocks."""
    if alike[0].reading is None:
        return True
    workers = [worker for _, worker in side.workers_of(case.case.backend, case.case.device)]
    return all(any(each.check == alike[0].check for each in _wrong_with(worker)) for worker in workers)


def _is_same(one: Finding, other: Finding) -> bool:
    """Whether two findings say the same; readings of what changes by itself may differ up to the factor ALIKE."""
    if (one.check, one.severity) != (other.check, other.severity) or one.reading is None or other.reading is None:
        return (one.check, one.summary) == (other.check, other.summary)
    less, more = sorted((one.reading, other.reading))
    return _NUMBER.sub("#", one.summary) == _NUMBER.sub("#", other.summary) and more <= ALIKE * less
