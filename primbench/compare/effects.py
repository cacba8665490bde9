"""What tells the places of two sides apart, and what a difference in time may therefore be called."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, get_args

from primbench.compare.machines import are_apart, are_of_one_host, have_other_kernels
from primbench.compare.neighbour import neighbour_of
from primbench.environment.comparable import meaning_of
from primbench.environment.difference import Change, Difference, LayerDifference, difference
from primbench.system.meaning import FactId, Layer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from primbench.compare.comparison import Effect
    from primbench.compare.sides import Side, Turn
    from primbench.results.record import Worker

OF_ONE_PLACE: tuple[Layer, ...] = ("machine", "stack", "limits")
"""What is not to change from one process of a side to the next."""


def differences(baseline: Side, side: Side) -> dict[str, Difference]:
    """Backend and device -> what differs between the workers of two sides, process by process."""
    found: dict[str, Difference] = {}
    for served in dict.fromkeys((record.case.backend, record.case.device) for record in baseline.records):
        one, other = baseline.workers_of(*served), side.workers_of(*served)
        if one and other:
            pairs = _side_by_side(one, other) or [(one[0][1], other[0][1])]
            found[" ".join(served)] = _merged([difference(a.environment, b.environment) for a, b in pairs])
    return found


def _side_by_side(
    one: Sequence[tuple[Turn, Worker]], other: Sequence[tuple[Turn, Worker]]
) -> list[tuple[Worker, Worker]]:
    """Every worker beside the first one that the other side had in the same turn."""
    first_of_one, first_of_other = dict(reversed(one)), dict(reversed(other))
    pairs = [(worker, first_of_other[turn]) for turn, worker in one if turn in first_of_other]
    replaced = [(turn, worker) for turn, worker in other if worker is not first_of_other[turn]]
    return pairs + [(first_of_one[turn], worker) for turn, worker in replaced if turn in first_of_one]


def _merged(found: Sequence[Difference]) -> Difference:
    return Difference(**{layer: _merged_layer([getattr(each, layer) for each in found]) for layer in get_args(Layer)})


def _merged_layer(found: Sequence[LayerDifference]) -> LayerDifference:
    """Each field once, as it differs first."""
    changes: dict[FactId, Change] = {}
    for change in (change for each in found for change in each.changes):
        if change.field not in changes or (change.kind, changes[change.field].kind) == ("differs", "unknown"):
            changes[change.field] = change
    same = {each.same for each in found}
    return LayerDifference(same=False if False in same else None if None in same else True, changes=[*changes.values()])


def mixed(side: Side) -> Iterator[tuple[Change, int, int]]:
    """What a side's own workers differ in from its first one, in how many of how many: it is not one place."""
    like: dict[tuple[str, str, int], list[Worker]] = {}
    for served in dict.fromkeys((record.case.backend, record.case.device) for record in side.records):
        for (ranks, _), worker in side.workers_of(*served):
            like.setdefault((*served, ranks), []).append(worker)
    for first, *others in like.values():
        changes: dict[FactId, Change] = {}
        counts: Counter[FactId] = Counter()
        for other in others:
            for change in changes_of({"": difference(first.environment, other.environment)}, *OF_ONE_PLACE):
                changes.setdefault(change.field, change)
                counts[change.field] += 1
        yield from ((change, counts[field], 1 + len(others)) for field, change in changes.items())


def effect_of(baseline: Side, side: Side, found: Mapping[str, Difference]) -> Effect | None:
    """Never a container's where builds differ: the time is theirs then. None where that is not known.

    On two machines of a study all that differs comes with the machine, and where arms have other cases it is theirs.
    """
    if _has_other_cases(baseline, side):
        return "case effect"
    if _have_other_packages(baseline, side) and not is_of_machines(baseline, side):
        return "stack effect"
    return _effect_of_places(baseline, side, found)


def _effect_of_places(baseline: Side, side: Side, found: Mapping[str, Difference]) -> Effect | None:
    if is_of_machines(baseline, side):
        return "machine effect"
    stacks = {each.stack.same for each in found.values()}
    if False in stacks:
        return "stack effect"
    if _show_two_machines(baseline, side, found):
        return "machine effect"
    if not found or None in stacks:
        return None
    if neighbour_of(baseline) != neighbour_of(side):
        return "neighbour effect"
    return "container effect" if any(map(_in_container, (baseline, side))) else "place effect"


def is_of_machines(baseline: Side, side: Side) -> bool:
    """Whether these are arms of a study on two machines, be they alike in all that is known of them."""
    return (
        _are_of_a_study(baseline, side)
        and are_apart(baseline.used, side.used)
        and not are_of_one_host(baseline.used, side.used)
    )


def _show_two_machines(baseline: Side, side: Side, found: Mapping[str, Difference]) -> bool:
    """Whether machines differ, and not by a kernel between the two on one host, which is part of the place."""
    is_another_kernel = (
        _are_of_a_study(baseline, side)
        and are_of_one_host(baseline.used, side.used)
        and have_other_kernels(baseline.used, side.used)
    )
    return not is_another_kernel and any(each.machine.same is False for each in found.values())


def _are_of_a_study(baseline: Side, side: Side) -> bool:
    return None not in (baseline.arm, side.arm) and bool(baseline.used and side.used)


def _has_other_cases(baseline: Side, side: Side) -> bool:
    """Whether one of the arms has its cases otherwise than the other."""
    one, other = (each.arm.case if each.arm else {} for each in (baseline, side))
    return one != other


def _have_other_packages(baseline: Side, side: Side) -> bool:
    """Whether one of the arms asks for packages on this machine, where what they hold need not be known."""
    one, other = (each.arm.builds if each.arm else () for each in (baseline, side))
    return one != other


def _in_container(side: Side) -> bool:
    runtimes = [worker.environment.confinement.runtime for worker in side.used]
    return any(runtime is not None and runtime.in_container for runtime in runtimes)


def changes_of(found: Mapping[str, Difference], *layers: Layer) -> list[Change]:
    """What is known to differ in these layers, each field once, and first whose functions are called."""
    changes = {
        change.field: change
        for each in found.values()
        for layer in layers
        for change in getattr(each, layer).changes
        if change.kind == "differs"
    }
    return sorted(changes.values(), key=lambda change: not meaning_of(change.field).called)
