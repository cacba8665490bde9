"""A study: the same cases in several arms, interleaved, so that what drifts with time falls on all arms alike.

Pair after pair, every arm runs every case in a fresh process. Arms stand in an order drawn for two pairs, and in its
mirror in the second: ABBA or BAAB of two arms. Cases are shuffled pair by pair, the same for all arms of a pair.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from primbench.backends import build_of, missing
from primbench.compare.sides import identity
from primbench.errors import BackendUnavailable, InvalidRequest
from primbench.runtimes.table import check
from primbench.spec.defaults import ALL
from primbench.spec.placement import Placement
from primbench.spec.study import AGAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from primbench.experiments.budget import Budget
    from primbench.results.file import Results
    from primbench.results.record import Record, Status, Worker
    from primbench.spec.arm import Arm
    from primbench.spec.case import Case
    from primbench.spec.study import Study

LEAST_PAIRS = 5  # below, an interval over pairs is too wide for any verdict


def having(backends: Sequence[str], arms: Sequence[Arm]) -> tuple[list[Arm], str | None]:
    """The arms that may have all backends that are named, and what to tell of those that are left out.

    On this machine's files is what is installed here, in an image anything. All arms, where none has one.
    """
    absent = _not_installed(backends)
    inside = [arm for arm in arms if not arm.on_host_root]
    outside = [arm.name for arm in arms if arm.on_host_root]
    if not (absent and inside and outside):
        return list(arms), None
    return inside, f"{'; '.join(absent)}: {', '.join(outside)} {'is' if len(outside) == 1 else 'are'} left out"


def _not_installed(backends: Sequence[str]) -> list[str]:
    return [f"--backend {name}: {reason}" for name in backends if name != ALL and (reason := missing(name))]


def check_arms(arms: Sequence[Arm]) -> None:
    """Raises InvalidRequest where there is nothing to compare, two arms are not to be told apart, or one cannot be."""
    if not arms:
        raise InvalidRequest("a study compares two arms or more, there is none: --arm host --arm podman, or others")
    if len(arms) < 2:
        raise InvalidRequest(
            f"a study compares two arms or more, there is {arms[0].name} alone: name another with --arm, or add --self"
        )
    for name, count in Counter(arm.name for arm in arms).items():
        if count > 1:
            raise InvalidRequest(
                f"{count} arms are called {name}: give one another name by the setting name=mine, or use --self for "
                "the same arm twice"
            )
    for arm in arms:
        check(arm)


class Block(NamedTuple):
    """Cases that one process of each arm serves, all of which take turns, as far as they tell, or none."""

    by_arm: list[list[Case]]
    """Cases of each arm, in the order in which arms begin, the same cases in the same order."""
    following: Sequence[Case] = ()
    """Where the study looks at its verdicts next, the first case of each arm in a pair that may follow: its processes
    start meanwhile.
    """


def plan(arms: Sequence[Arm], cases: Sequence[Case], pairs: Iterable[int], seed: int) -> list[Block]:
    """What is run, in this order. pairs: their numbers, which become that of the process of each case.

    Pair 0 begins with the baseline: what its framework is built of is known then before another arm has run anything,
    and an arm which is not to be compared with it measures nothing. A pair does not depend on how many there are.
    """
    return [block for pair in pairs for block in _pair(arms, cases, pair, seed)]


def _pair(arms: Sequence[Arm], cases: Sequence[Case], pair: int, seed: int) -> Iterator[Block]:
    order = random.Random(f"{seed} arms {pair // 2}").sample(arms, len(arms))
    if pair < 2:
        order.sort(key=lambda arm: arm is not arms[0])
    shuffled = random.Random(f"{seed} cases {pair}").sample(cases, len(cases))
    served: dict[tuple[str, str, int, bool, str | None], list[Case]] = {}
    for case in shuffled:
        key = (case.backend, case.device, case.ranks, case.sees_gpus(), case.why_alone())
        served.setdefault(key, []).append(case)
    for together in served.values():
        yield Block([[_in_arm(arm, case, pair) for case in together] for arm in order[:: -1 if pair % 2 else 1]])


def _in_arm(arm: Arm, case: Case, pair: int) -> Case:
    placement = case.placement if arm.placement == Placement() else arm.placement
    return replace(case.changed(arm.case), arm=arm.name, placement=placement, process=pair)


def whole_pairs(study: Study, records: Iterable[Record]) -> list[int]:
    """The pairs of which every arm has run every case, whatever became of it.

    The others were cut off. Their arms are not run to their end later: they would be hours apart. After LEAST_PAIRS,
    a study that ends by its verdicts leaves out the cases that are settled; then every arm has run as many.
    """
    ran = _cases_run(records)
    whole = [pair for pair, by_arm in ran.items() if by_arm.total() >= len(study.arms) * len(study.cases)]
    if not study.until_settled or len(whole) < LEAST_PAIRS:
        return whole
    last = whole[LEAST_PAIRS - 1]
    return [pair for pair in ran if pair in whole or (pair > last and _is_even(ran[pair], study.arms))]


def _cases_run(records: Iterable[Record]) -> dict[int, Counter[str]]:
    """Pair -> arm -> how many cases, the first pair first."""
    found: dict[int, Counter[str]] = {}
    for record in records:
        found.setdefault(record.case.process, Counter())[record.case.arm] += 1
    return dict(sorted(found.items()))


def _is_even(by_arm: Counter[str], arms: Sequence[Arm]) -> bool:
    return len({by_arm[arm.name] for arm in arms}) == 1


def to_run(
    study: Study,
    found: Results,
    *,
    unsettled: Callable[[Results], Sequence[Case]],
    budget: Budget,
) -> Iterator[Block]:
    """The blocks that are left, made as they are asked for: whether there is another pair is told at the end of one.

    found: grows by what is measured meanwhile. unsettled: asked for the cases of the next pair, where the study is to
    end by its verdicts, with LEAST_PAIRS and more. budget: no pair beyond its least is begun that would end later, by
    what earlier ones took, and no block in which no case may begin. No pair follows one of which something was left
    out, one in which fewer than two arms ran at all, or where the baseline never did since it goes on: of the others
    alone nothing could be compared. Nor does one follow the first two that fail alike, with no case in two arms.
    """
    held, took = len(found.records), list[Took]()
    whole = len(whole_pairs(study, found.records))
    pair = 1 + max((record.case.process for record in found.records), default=-1)
    while whole < study.pairs:
        is_looked_at = study.until_settled and whole >= LEAST_PAIRS
        cases = unsettled(found) if is_looked_at else study.cases
        started = budget.clock()
        if not cases or not budget.holds(pair, _pair_s(cases, took)):
            return
        is_looked_at_next = study.until_settled and LEAST_PAIRS <= whole + 1 < study.pairs
        yield from _in_time(_blocks(study, cases, pair, is_followed=is_looked_at_next), budget)
        if budget.left_out or not _is_comparable(study, found.records[held:], pair):
            return
        took.append(Took(budget.clock() - started, _case_s(found.records[held:], pair)))
        pair, whole = pair + 1, whole + 1


def _blocks(study: Study, cases: Sequence[Case], pair: int, *, is_followed: bool) -> list[Block]:
    """Of a pair. is_followed: by another one, perhaps, once verdicts have been looked at."""
    *others, last = plan(study.arms, cases, [pair], study.seed)
    if is_followed:
        (first, *_) = plan(study.arms, cases, [pair + 1], study.seed)
        last = last._replace(following=[of_arm[0] for of_arm in first.by_arm])
    return [*others, last]


def _in_time(blocks: Iterable[Block], budget: Budget) -> Iterator[Block]:
    """Those in which some case may begin, asked one by one."""
    for block in blocks:
        groups = [*zip(*block.by_arm, strict=True)]
        if any(map(budget.suffices, groups)):
            yield block
        else:
            budget.left_out.extend(case for group in groups for case in group)


class Took(NamedTuple):
    """How long a pair took, and of that each case in all arms, by its identity."""

    all_s: float
    case_s: Mapping[bytes, float]


def _case_s(records: Iterable[Record], pair: int) -> dict[bytes, float]:
    """Turns of others are not in a record's duration."""
    found: dict[bytes, float] = defaultdict(float)
    for record in (each for each in records if each.case.process == pair):
        found[identity(record.case)] += record.duration_s
    return found


def _pair_s(cases: Sequence[Case], earlier: Sequence[Took]) -> float:
    """How long a pair of these cases may take: as an earlier one with all of them, less what others took there.

    No time as far as is known for the first one, which is run in any case.
    """
    asked = set(map(identity, cases))
    with_all = [each for each in earlier if asked <= each.case_s.keys()]
    less_s = [each.all_s - sum(each.case_s[key] for key in each.case_s.keys() - asked) for each in with_all]
    return max(less_s or [each.all_s for each in earlier], default=-math.inf)


def _is_comparable(study: Study, records: Sequence[Record], pair: int) -> bool:
    """Whether two arms ran in the pair, and the baseline in any, and something can be compared in some pair.

    records: of all pairs since the study goes on.

    The baseline once more is one of two where nothing else is asked about.
    """
    ran, baseline = _arms_that_ran(record for record in records if record.case.process == pair), study.arms[0].name
    if len(study.arms) > 2 and baseline + AGAIN in ran:
        ran = ran - {baseline + AGAIN} | {baseline}
    return len(ran) > 1 and baseline in _arms_that_ran(records) and not _fails_alike(records)


def _fails_alike(records: Iterable[Record]) -> bool:
    """Whether nothing can be compared in any of two pairs or more, and the same became of all cases in each of them."""
    became: dict[int, dict[tuple[bytes, str], Status]] = defaultdict(dict)
    for record in records:
        became[record.case.process][identity(record.case), record.case.arm] = record.status
    first, *others = became.values()
    measured = Counter(case for (case, _), status in first.items() if status == "ok")
    return bool(others) and all(each == first for each in others) and max(measured.values(), default=0) < 2


def _arms_that_ran(records: Iterable[Record]) -> set[str]:
    return {record.case.arm for record in records if record.worker is not None}


def check_build(study: Study, found: Results, worker: Worker) -> None:
    """Raises BackendUnavailable for a worker whose framework is another build than the baseline's, unless asked for.

    found: the study's lines so far, those of a file that it goes on with included; of the baseline's workers there the
    first one with the backend and device counts, for the baseline itself, too.
    """
    baseline = study.arms[0].name
    first = next((each for each in found.workers if _place(each) == (baseline, worker.backend, worker.device)), None)
    if first is None or worker.arm is None or _may_differ(study, worker.arm):
        return
    for key, name in build_of(worker.backend).items():
        here, there = (each.versions.get(key, "unknown") for each in (worker, first))
        if here != there:
            when = " when the study was begun" if worker.arm.name == baseline else ""
            raise BackendUnavailable(
                f"{name} {here}, and {there} in {baseline}{when}: a difference would tell of the builds, not of the "
                f"places; {_way_out(worker.arm, worker.backend, here, there)}, or measure it all the same by "
                "`primbench study --other-builds`"
            )


def _may_differ(study: Study, arm: Arm) -> bool:
    return study.other_builds or bool(arm.builds)


def _place(worker: Worker) -> tuple[str, str, str]:
    return worker.arm.name if worker.arm else "", worker.backend, worker.device


def _way_out(arm: Arm, backend: str, here: str, there: str) -> str:
    if here.partition("+")[0] == there.partition("+")[0]:
        return f"install {backend} from the same index in both"
    if arm.is_far:
        return f"install that of {there} on {arm.machine}, or name another Python there by python="
    if arm.on_host_root:
        return "let both have the same environment, PYTHONPATH included"
    return f"build {arm.image} on a base without {backend}: `primbench image` takes the versions that are here"
