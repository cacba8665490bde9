"""About how long a run will take, said before it begins; and what its time did not suffice for, said afterwards."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from primbench.cli.echo import say
from primbench.compare.sides import identity
from primbench.experiments.budget import all_expected_s, sampled_s
from primbench.spec.case import Case
from primbench.units import minutes

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from primbench.experiments.budget import Budget
    from primbench.results.file import Results
    from primbench.results.record import Record
    from primbench.spec.study import Study

LONG_S = 120.0
BESIDE = 3.0  # times as long beside a neighbour
BUSY = 1.2  # times as long, from which on it is said


def say_how_long(cases: Collection[Case], budget_s: float | None) -> None:
    """On stderr before a run that is long, or is to end within a time."""
    expected_s = all_expected_s(cases)
    if not cases or (expected_s <= LONG_S and budget_s is None):
        return
    likely_s = expected_s * _times_as_long()
    busy = f", {minutes(likely_s)} on a machine as busy as this one" if likely_s > BUSY * expected_s else ""
    say(f"{_counted(len(cases))}: about {minutes(expected_s)}{busy}{_ending(likely_s, budget_s)}", err=True)


def _times_as_long() -> float:
    """By how many more threads want to run than the machine has CPUs, with one of a worker, over the last minute."""
    return max(1.0, (os.getloadavg()[0] + 1) / (os.cpu_count() or 1))


def say_how_long_pairs_take(study: Study, pairs: int, budget_s: float | None) -> None:
    """The same of the pairs of a study that are left. Where they end by the verdicts, there may be more of them."""
    pair_s = pair_expected_s(study)
    if not pairs or (pairs * pair_s <= LONG_S and budget_s is None):
        return
    what = f"{_counted(len(study.cases))} in {len(study.arms)} arms"
    times = f"about {minutes(pair_s)} a pair, {minutes(pairs * pair_s)} for {pairs}"
    say(f"{what}: {times}{_ending(pairs * pair_s, budget_s)}", err=True)


def pair_expected_s(study: Study) -> float:
    one_s = all_expected_s(study.cases)
    return sum(BESIDE * one_s if arm.neighbour else one_s for arm in study.arms)


def _counted(cases: int) -> str:
    return f"{cases} case{'' if cases == 1 else 's'}"


def _ending(expected_s: float, budget_s: float | None) -> str:
    if budget_s is None:
        return ""
    return f"; --time-budget {minutes(budget_s)} {'suffices' if expected_s <= budget_s else 'ends it before'}"


def say_what_was_left_out(budget: Budget, found: Results, going_on: Sequence[str]) -> None:
    """On stderr after a run whose time was too short. going_on: the words of the command that does; none without
    a results file.

    What a study measured in one pair, and not in a further one, it has measured.
    """
    key_of = Case.key if found.header.study is None else identity
    measured = {key_of(record.case) for record in found.records}
    left = {key: case for case in budget.left_out if (key := key_of(case)) not in measured}
    if not left:
        return
    counts = Counter(case.primitive for case in left.values())
    which = ", ".join(f"{count} of {name}" for name, count in counts.most_common())
    say(f"Not measured within --time-budget: {_counted(len(left))} ({which}).", err=True)
    if going_on:
        say("Go on with:", err=True, command=going_on)
    else:
        say("A results file, -o FILE.jsonl, can be gone on with.", err=True)


def say_how_long_it_would_take(records: Sequence[Record]) -> None:
    """On stderr after --dry-run, where timing the same cases would be long."""
    ok = [record for record in records if record.status == "ok" and record.case.method.dry_run]
    expected_s = sum(record.duration_s + sampled_s(record.case) for record in ok)
    if expected_s > LONG_S:
        say(f"timing these {_counted(len(ok))} would take about {minutes(expected_s)}", err=True)
