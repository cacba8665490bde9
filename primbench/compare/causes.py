"""What can have made a case slower or faster: what differs between the two places, and can work that way and so far.

A cause is told where it can touch what moved and works in the direction that was seen. First come those that can do so
much by themselves, the most upstream of them before the others: the machine, what of it may be used, the libraries.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, get_args

from primbench.compare.alone import found_in_one_alone
from primbench.compare.cause import LATE, OF_UNKNOWN_EFFECT, Cause
from primbench.compare.dear_calls import CHECKS as TOLD_BY_DEAR_CALLS
from primbench.compare.dear_calls import dear_calls
from primbench.compare.differing import of_setting, placement, set_variables
from primbench.compare.effects import changes_of
from primbench.compare.filters import dearer_s, filters
from primbench.compare.implementations import other_implementations
from primbench.compare.opens import dearer_opens
from primbench.compare.ruled import Moved, by_rules, by_settings
from primbench.compare.sides import identity
from primbench.environment.comparable import meaning_of
from primbench.environment.configuration import is_told_by_what_it_gives, of_variable
from primbench.results.metrics import METRICS
from primbench.spec.variables import is_for_libraries
from primbench.system.files import format_cpu_list
from primbench.system.meaning import FactId, Layer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from primbench.compare.comparison import CaseComparison
    from primbench.compare.sides import Side
    from primbench.doctor.finding import Activity
    from primbench.environment.difference import Difference
    from primbench.numa.placement import EffectivePlacement
    from primbench.results.record import Record
    from primbench.system.gpu import Gpu

# For each library of each program that starts, and each module, whatever is found in the end.
_LOOKED_THROUGH = {"LD_LIBRARY_PATH", "PYTHONPATH"}
_NETWORKS = {
    "private": "through a bridge, each in a network namespace of its own",
    "overlay": "by VXLAN, which wraps each packet in another one, each in a network namespace of its own",
}
_UPSTREAM = 7  # as other memory, by the rules
_OF_CPUS: set[Activity] = {"copy", "collective", "everything on the CPU", "launch"}
_OF_MEMORY: set[Activity] = {"copy", "collective", "everything on the CPU"}


class Told(NamedTuple):
    """causes: all in words, the likeliest first. likely: in few words the first that can do so much by itself; None
    where none can. about: what they tell of, as Differing has it.
    """

    causes: list[str]
    likely: str | None
    about: list[FactId]


def causes(
    parts: Sequence[Activity],
    case: CaseComparison,
    differing: Difference | None,
    baseline: Side,
    side: Side,
    *,
    known: Iterable[Cause],
) -> Told:
    """All of them.

    parts: what can have moved. What did move says which way; where nothing did for certain, either will do.
    differing: the places, as those saw them that served the case's backend on its device. known: further ones, by what
    the arms were asked for.
    """
    ranked = sorted([*known, *_all(parts, case, differing, baseline, side)], key=lambda cause: cause.upstream)
    moved = [each for each in case.estimates if each.has_moved]
    if not moved:
        found = [each for each in ranked if _can_be(each, case, side)]
        return Told([each.words for each in found], None, _about(found))
    if not any(METRICS[each.metric].is_median for each in moved):
        ranked.sort(key=lambda cause: not cause.stops)
    return _fitting(ranked, [each.ratio for each in moved])


def _can_be(cause: Cause, case: CaseComparison, side: Side) -> bool:
    """Where nothing moved: whether it has threads wait, or, of a case that fails in one place alone, works against that
    place.
    """
    if case.fails_more is None:
        return cause.stops
    return cause.works_towards(math.inf if case.fails_more == side.name else 0.0)  # it takes for ever there


def _all(
    parts: Sequence[Activity], case: CaseComparison, differing: Difference | None, baseline: Side, side: Side
) -> Iterator[Cause]:
    moved = Moved(case, parts, dearer_s(case, baseline, side))
    dear = list(dear_calls(case, baseline, side))
    alone = found_in_one_alone(moved, differing, baseline, side)
    alone = [each for each in alone if not (dear and each.check in TOLD_BY_DEAR_CALLS)]
    yield from dear
    yield from _other_gpu(case, baseline, side)
    yield from _network(case, baseline, side)
    yield from _on_other_files(case, baseline, side)
    yield from other_implementations(case, baseline, side)
    changes = changes_of({"": differing}, *get_args(Layer)) if differing else []
    if differing is not None:
        yield from by_rules(moved, differing, {each.check for each in alone}, baseline, side)
    yield from by_settings(moved, changes, baseline, side)
    yield from filters(case, baseline, side)
    yield from _memory(parts, case, baseline, side)
    yield from _placed_otherwise(parts, differing, baseline, side)
    yield from _not_placed(baseline, side)
    yield from alone
    if "file-opens" not in {each.check for each in alone}:
        yield from dearer_opens(case, baseline, side)
    yield from _variables(parts, differing, baseline, side)


def _fitting(found: Sequence[Cause], ratios: Sequence[float]) -> Told:
    """The causes that can make one of the ratios; then those that work towards one and fall short of it."""
    enough, too_little = [], []
    for each in found:
        towards = [ratio for ratio in ratios if each.works_towards(ratio)]
        if any(map(each.suffices_for, towards)):
            enough.append(each)
        elif towards:
            too_little.append((each, each.falling_short_of(towards[0])))
    words = [*(each.words for each in enough), *(words for _, words in too_little)]
    return Told(words, _likely(enough), _about([*enough, *(each for each, _ in too_little)]))


def _about(found: Iterable[Cause]) -> list[FactId]:
    return list(dict.fromkeys(each for cause in found for each in cause.about))


def _likely(enough: Sequence[Cause]) -> str | None:
    found = next((each for each in enough if not each.is_bystander), None)
    return found and (found.title or found.words)


def _other_gpu(case: CaseComparison, baseline: Side, side: Side) -> Iterator[Cause]:
    """Another GPU by its UUID: two boards of one model, or two MIG slices of one board, differ in speed."""
    one, other = (_gpu_of(case, each) for each in (baseline, side))
    if one is not None and other is not None and None not in (one.uuid, other.uuid) and one.uuid != other.uuid:
        kind = ", and two of a kind differ" if one.name == other.name else ""
        of_one_study = baseline.arm is not None and side.arm is not None
        mend = f": give both the same, such as by env.CUDA_VISIBLE_DEVICES={one.uuid}" if of_one_study else ""
        which = f"{_which(other)} in {side.name}, {_which(one)} in {baseline.name}"
        yield Cause(f"another GPU: {which}{kind}{mend}", title="another GPU", upstream=1)


def _network(case: CaseComparison, baseline: Side, side: Side) -> Iterator[Cause]:
    """What the ranks of a case reach each other by, where one of the arms has a network of its own between them."""
    found = [_between_ranks(each) for each in (baseline, side)]
    if case.case.ranks > 1 and found[0] != found[1]:
        words = f"ranks reach each other {found[1]} in {side.name}, {found[0]} in {baseline.name}"
        yield Cause(words, title="the network between ranks", upstream=0)


def _on_other_files(case: CaseComparison, baseline: Side, side: Side) -> Iterator[Cause]:
    """Where a case itself says that its files are of another kind of file system, or its program another one."""
    problem = case.case.known_problem()
    if problem is None or not (problem.work == "data loading" or "execve" in problem.system_calls()):
        return
    one, other = (_kinds_of(each.cases[identity(case.case)]) for each in (baseline, side))
    if one and other and one != other:
        words = [" or ".join(sorted(each)) for each in (other, one)]
        told = f"other files: {words[0]} in {side.name}, {words[1]} in {baseline.name}"
        yield Cause(told, title="other files", upstream=0)


def _kinds_of(records: Sequence[Record]) -> set[str]:
    """What the case was done with, without where that is mounted."""
    found = [each.measurement.algorithm for each in records if each.measurement and each.measurement.algorithm]
    return {each.partition(" on ")[0] for each in found}


def _between_ranks(side: Side) -> str:
    network = side.arm.network if side.arm and side.arm.runtime == "host" else None
    return _NETWORKS.get(network or "", "by the loopback")


def _placed_otherwise(
    parts: Sequence[Activity], differing: Difference | None, baseline: Side, side: Side
) -> Iterator[Cause]:
    """CPUs and threads that were had, where what the workers saw does not tell of them."""
    if not _OF_CPUS.isdisjoint(parts):
        found = placement(baseline, side, changes_of({"": differing}, "limits", "stack") if differing else [])
        yield from (Cause(each.words, about=(each.about,)) for each in found)


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
    return worker.environment.devices.gpu(case.case.device) if worker else None


def _which(gpu: Gpu) -> str:
    return f"{gpu.uuid} at {gpu.pci_address}" if gpu.pci_address else f"{gpu.uuid}"


def _variables(parts: Sequence[Activity], differing: Difference | None, baseline: Side, side: Side) -> Iterator[Cause]:
    """What the arms set in unequal ways, and no other cause tells."""
    for name, words in set_variables(baseline, side):
        is_looked_through = name in _LOOKED_THROUGH and "start-up" in parts
        if is_looked_through or not _is_told_elsewhere(name, differing):
            found = Cause(words, upstream=LATE) if is_looked_through else _of_unknown_effect(name, words)
            yield found._replace(about=(of_setting("variables", name),))


def _of_unknown_effect(name: str, words: str) -> Cause:
    unread = "" if of_variable(name).read_by else ", which nothing is known to read"
    return Cause(f"{words}{unread}", upstream=OF_UNKNOWN_EFFECT, is_bystander=True)


def _is_told_elsewhere(variable: str, differing: Difference | None) -> bool:
    """Whether what a variable gives is compared itself, a difference of the places tells of it, as of libraries', or
    no library reads it.
    """
    if is_told_by_what_it_gives(variable):
        return True
    field = FactId("software", "variables", variable)
    changes = differing.stack.changes if differing else []
    varies = meaning_of(field).varies and any((each.field, each.kind) == (field, "varies") for each in changes)
    return is_for_libraries(variable) and not varies


def _memory(parts: Sequence[Activity], case: CaseComparison, baseline: Side, side: Side) -> Iterator[Cause]:
    """Memory taken by another policy or from other nodes, where it matters to the parts and there is a choice."""
    if _OF_MEMORY.isdisjoint(parts) or not any(map(_has_choice_of_memory, (baseline, side))):
        return
    workers = [each.worker_of(case.case.backend, case.case.device) for each in (baseline, side)]
    one, other = (_memory_of(worker.placement) if worker else "" for worker in workers)
    if one != other:
        yield Cause(f"memory is taken {other} in {side.name} and {one} in {baseline.name}", upstream=_UPSTREAM)


def _memory_of(placement: EffectivePlacement) -> str:
    nodes = format_cpu_list(placement.page_nodes)
    how = {"bind": f"by the policy {placement.memory_policy}", "first touch": "by first touch", "none": "anywhere"}
    return f"{how[placement.rung]}{f' of nodes {nodes}' if nodes else ''}"
