"""The answer of a comparison in one sentence, which stands before all else."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from primbench.compare.shown import shown_interval, shown_ratio
from primbench.doctor.cause import listed
from primbench.report.cautions import single
from primbench.report.plain import named
from primbench.report.verdicts import MOST_PAIRS
from primbench.spec.naming import name_of
from primbench.units import format_percent, percent_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.compare.comparison import ArmComparison, CaseComparison, Comparison, Decided, Explanation
    from primbench.compare.ratio import Estimate, Verdict
    from primbench.report.document import Tone
    from primbench.spec.setting import Activity

DOUBLE = 2.0  # from here on a ratio says more than a percentage
OF_PARTS: dict[Activity, str] = {
    "launch": "launches",
    "copy": "copies",
    "kernel": "kernels",
    "collective": "collectives",
    "start-up": "start-up",
    "data loading": "data loading",
}

BESIDE: dict[Verdict, str] = {
    "faster": "faster",
    "different-about-the-margin": "different, about the margin",
    "equivalent-at-full-speed": "told only at full CPU speed",
    "equivalent-in-these-runs": "told only of these runs",
}
SHOWN: tuple[Verdict, ...] = ("equivalent", "different-but-small", "faster")
"""What shows of a case that it is not slower by more than its margin. Of pairs, "equivalent-in-these-runs" does, too:
of runs that were not interleaved, others may differ.
"""


def headline(comparison: Comparison) -> str:
    """What is slower, by how much and why; else of how many cases it is shown that none is; and what is not told yet.

    All counts are of all cases of all arms; of what no clause counts it is shown that it is not slower.
    """
    compared = comparison.decided
    if not compared:
        return _sentence([*_failing(comparison), *_refused(comparison), "nothing was compared"])
    if all(found.is_single for _, _, found in compared) and not comparison.deviations:
        return single(comparison)
    moved = [*_moved(compared, "slower"), *_moved([each for each in compared if _is_wanted(each[0])], "faster")]
    worse = [*moved, *_failing(comparison), *_deviating(comparison)]
    rest = [*_others(comparison), *_refused(comparison), *_lacking(comparison), *_undecided(compared, comparison)]
    return _sentence([*(worse or [_nothing_slower(comparison)]), *rest, *_missing(comparison)])


def tone(comparison: Comparison) -> Tone:
    """Whether something is worse, or of every case it is shown that it is not."""
    if comparison.deviations or any(case.verdict == "slower" or case.fails_more for case in comparison.cases):
        return "worse"
    return "fine" if _is_shown(comparison) else "open"


def _is_shown(comparison: Comparison) -> bool:
    """Whether no case is slower by more than its margin, for certain."""
    cases, shown = comparison.cases, {*SHOWN, *(["equivalent-in-these-runs"] if comparison.paired else [])}
    return bool(cases) and all(case.verdict in shown and not case.fails_more for case in cases)


def _sentence(clauses: Sequence[str]) -> str:
    joined = "; ".join(clauses)
    return f"{joined[0].upper()}{joined[1:]}."


def _is_wanted(arm: ArmComparison) -> bool:
    """Whether being faster is what one wants to know of it: it is not a place, but what is measured."""
    return arm.effect == "case effect"


def _moved(compared: Sequence[Decided], verdict: Literal["slower", "faster"]) -> Iterator[str]:
    """A clause for each arm in which something is."""
    arms: dict[str, list[tuple[CaseComparison, Estimate]]] = {}
    of = {arm.name: len(arm.cases) for arm, _, _ in compared}
    for arm, case, found in compared:
        if case.verdict == verdict:
            arms.setdefault(arm.name, []).append((case, found))
    for name, moved in arms.items():
        most, by = max(moved, key=lambda each: abs(math.log(each[1].ratio)))
        what = _what([case for case, _ in moved], of[name])
        yield f"{verdict} in {name}: {what} {_by(by)} in {name_of(most.case)}{_why(most.explanation)}"


def _why(explanation: Explanation | None) -> str:
    """The likely cause; where none is known, what nobody knows to be one and all that the arms were to differ in."""
    if explanation and explanation.likely:
        return f"; likely {explanation.likely}"
    if explanation and explanation.asked_variables:
        return f"; no known cause; the arms were only asked to differ in {listed(explanation.asked_variables)}"
    return ""


def _what(cases: Sequence[CaseComparison], of: int) -> str:
    """What moved in words, where it is known for every case; else of which primitives the cases are."""
    parts = [part for case in cases for part in (case.explanation.parts if case.explanation else [None])]
    known = [OF_PARTS[part] for part in parts if part in OF_PARTS]
    words = known if len(known) == len(parts) else [case.case.primitive for case in cases]
    what = listed([*dict.fromkeys(words)])
    return f"{what} in {len(cases)} of {of} cases, the most by" if len(cases) > 1 else f"{what}, by"


def _by(found: Estimate) -> str:
    """How much longer or shorter it takes: "12.0% [9.0, 15.0]", or of a multiple "a factor of 2.10 [1.90, 2.30]"."""
    low, high = found.interval or (found.ratio, found.ratio)
    if found.ratio >= DOUBLE:
        return f"a factor of {shown_ratio(found.ratio)} {shown_interval((low, high))}"
    if found.ratio <= 1 / DOUBLE:
        return f"a factor of {shown_ratio(1 / found.ratio)} {shown_interval((1 / high, 1 / low))}"
    low, high = sorted((abs(low - 1), abs(high - 1)))
    return f"{format_percent(abs(found.ratio - 1))} [{percent_number(low)}, {percent_number(high)}]"


def _failing(comparison: Comparison) -> Iterator[str]:
    """A clause for each place that fails more often than the other one."""
    cases = comparison.cases
    for place in dict.fromkeys(case.fails_more for case in cases if case.fails_more):
        failing = [case for case in cases if case.fails_more == place]
        yield f"fails more often in {place}: {len(failing)} of {_cases(len(cases))}{_because(failing)}"


def _deviating(comparison: Comparison) -> Iterator[str]:
    """A clause for each place with outputs that are not what they should be."""
    found = comparison.deviations
    for place in dict.fromkeys(each.place for _, each in found):
        cases = list(dict.fromkeys(name_of(case) for case, each in found if each.place == place))
        yield f"wrong in a few bits in {place}: {named(cases, most=1)}"


def _refused(comparison: Comparison) -> Iterator[str]:
    """What could not be measured in one place, where it is known why."""
    cases = comparison.cases
    refused = [case for case in cases if not case.estimates and not case.fails_more and case.explanation]
    if refused:
        yield f"cannot be compared: {len(refused)} of {_cases(len(cases))}{_because(refused)}"


def _because(refused: Sequence[CaseComparison]) -> str:
    """The cause that is likely in all of them, if it is one."""
    explained = [each.explanation for each in refused if each.explanation]
    is_one = len({each.cause for each in explained}) == 1
    return f"; likely {explained[0].likely}" if is_one and explained[0].likely else ""


def _lacking(comparison: Comparison) -> Iterator[str]:
    """What was not compared in arms that were, and no other clause tells of."""
    cases = [case for arm in comparison.all_arms if arm.is_compared for case in arm.cases]
    count = sum(not (case.estimates or case.fails_more or case.explanation) for case in cases)
    if count:
        yield f"{count} of {_cases(len(comparison.cases))} not compared"


def _nothing_slower(comparison: Comparison) -> str:
    if all(case.verdict == "inconclusive" for _, case, _ in comparison.decided):
        return "nothing is told yet"
    if not _is_shown(comparison):
        return "nothing is shown to be slower"
    count, margins = len(comparison.cases), sorted({found.margin for _, _, found in comparison.decided})
    where = f" in any of {count} cases" if count > 1 else ""
    within = " to ".join(map(format_percent, dict.fromkeys([margins[0], margins[-1]])))
    return f"nothing is slower{where}, within {'margins' if len(margins) > 1 else 'a margin'} of {within}"


def _cases(count: int) -> str:
    return f"{count} case{'s' * (count != 1)}"


def _others(comparison: Comparison) -> Iterator[str]:
    """How many cases have verdicts that are worth a word beside, and that no clause tells of."""
    told = [case for arm in comparison.all_arms if _is_wanted(arm) for case in arm.cases if case.verdict == "faster"]
    for verdict, words in BESIDE.items():
        count = sum(case.verdict == verdict and case not in told for case in comparison.cases)
        if count:
            yield f"{count} of {_cases(len(comparison.cases))} {words}"


def _undecided(compared: Sequence[Decided], comparison: Comparison) -> Iterator[str]:
    undecided = [each for each in compared if each[1].verdict == "inconclusive" and not each[1].fails_more]
    if undecided:
        of = _cases(len(comparison.cases))
        yield f"{len(undecided)} of {of} undecided{_what_would_tell(undecided, comparison)}"


def _what_would_tell(undecided: Sequence[Decided], comparison: Comparison) -> str:
    """About how many more pairs, counted from those that were run; else what keeps all of them open, if it is one."""
    more = [
        found.pairs_needed - max(each.pairs for each in arm.estimates)
        for arm, _, found in undecided
        if found.pairs_needed is not None
    ]
    if not more:
        reasons = {found.reason for _, _, found in undecided}
        return f": {reason}" if len(reasons) == 1 and (reason := reasons.pop()) else ""
    most = max(1, *more)
    count = f"about {most}" if most <= MOST_PAIRS else f"more than {MOST_PAIRS}"
    of_them = f" {len(more)} of them" if len(more) < len(undecided) else ""
    return f", {count} more {what_is_judged(comparison, most)} would tell{of_them}"


def what_is_judged(comparison: Comparison, count: int) -> str:
    """The word for so many of what a verdict is over."""
    if comparison.paired:
        return f"pair{'s' * (count != 1)}"
    if comparison.has_sessions:
        return f"session{'s' * (count != 1)}"
    return f"run{'s' * (count != 1)} a side" if comparison.has_runs else f"process{'es' * (count != 1)} a side"


def _missing(comparison: Comparison) -> Iterator[str]:
    """The arms of which nothing was compared."""
    missing = [arm.name for arm in comparison.all_arms if arm.cases and not arm.is_compared]
    if missing:
        yield f"{', '.join(missing)} not compared"
