"""What has to be known of a comparison before any of its verdicts, in words that are hard to overlook."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from primbench.compare.shown import shown_interval, shown_ratio
from primbench.doctor.table import causes
from primbench.report.document import Note
from primbench.report.environment import shown
from primbench.spec.naming import name_of
from primbench.units import format_percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.compare.comparison import CaseComparison, Comparison, Mixed
    from primbench.compare.outputs import Deviation
    from primbench.compare.ratio import Estimate
    from primbench.spec.case import Case


MOST_CHANGES = 8


def cautions(comparison: Comparison) -> Iterator[list[Note]]:
    """Paragraphs, of a line or several each; without what is the answer itself where no process can tell."""
    is_answer = all(found.is_single for _, _, found in comparison.decided)
    warnings = [
        _deviating(comparison), [] if is_answer else [single(comparison)], _mixed(comparison), [_too_busy(comparison)],
    ]  # fmt: skip
    yield from ([Note(words, "warning") for words in paragraph if words] for paragraph in warnings)
    yield [*_itself(comparison)]


def _deviating(comparison: Comparison) -> list[str]:
    """A warning for each output that is not what it should be."""
    found = [f"WRONG IN A FEW BITS: {deviation_words(case, each, each.place)}." for case, each in comparison.deviations]
    more = [f"And {len(found) - MOST_CHANGES} more outputs: --json has all."] if len(found) > MOST_CHANGES else []
    return found[:MOST_CHANGES] + more


def single(comparison: Comparison) -> str:
    """How far apart places were seen of which one process a side cannot tell whether they are; "" where all can."""
    alone = [each for each in comparison.decided if each[2].is_single]
    if not alone:
        return ""
    arm, case, found = max(alone, key=lambda each: abs(math.log(each[2].ratio)))
    more = "run more pairs (--pairs 8)" if comparison.paired else "run both with --processes 8, better still as a study"
    return (
        f"ONE PROCESS A SIDE CANNOT TELL in {len(alone)} of {len(comparison.cases)} "
        f"cases, since processes of one place differ, too: {arm.name} took {shown_ratio(found.ratio)} times as long as "
        f"{comparison.baseline} in {name_of(case.case)}; to know, {more}."
    )


def _mixed(comparison: Comparison) -> list[str]:
    """A warning for each side whose workers ran in more than one environment."""
    return [
        f"NOT ONE PLACE: {name} ran with {'; '.join(map(_of_workers, found[:MOST_CHANGES]))}"
        f"{f'; and {len(found) - MOST_CHANGES} more: --json has all' if len(found) > MOST_CHANGES else ''}. "
        "What it differs by may be this: measure it anew in one place."
        for name, found in comparison.mixed.items()
    ]


def _of_workers(found: Mixed) -> str:
    change = found.change
    first, other = (shown(change.field, value, "none") for value in (change.a, change.b))
    return f"{change.field} {first}, in {found.workers} of {found.of} processes {other}"


def _too_busy(comparison: Comparison) -> str:
    busy = [(arm, case) for arm, case, found in comparison.decided if found.is_too_busy]
    if not busy:
        return ""
    arm, worst = max(busy, key=lambda each: min(share or 0.0 for share in each[1].waited))
    here, there = (format_percent(share or 0.0) for share in worst.waited)
    return (
        f"TOO BUSY TO TELL in {len(busy)} of {len(comparison.cases)} cases: something else took "
        f"the CPUs; {comparison.baseline} waited for one during {here} of its time, {arm.name} during {there}, in "
        f"{name_of(worst.case)}. Quiet the machine, or keep CPUs of it for the arms alone (bind-cpus=)."
    )


def _itself(comparison: Comparison) -> Iterator[Note]:
    """Whether what is compared can be trusted, as the baseline against itself shows; nothing where it was run once."""
    cases = comparison.again.cases if comparison.again else []
    primary = [(case, case.primary) for case in cases if case.primary]
    unequal = [(case, found) for case, found in primary if found.differs and not found.is_equivalent]
    if unequal:
        yield Note(_differs_from_itself(comparison.baseline, unequal, len(primary)), "warning")
    elif primary:
        yield Note(_agrees_with_itself(comparison.baseline, [found for _, found in primary]))


def _agrees_with_itself(baseline: str, found: Sequence[Estimate]) -> str:
    alike, apart = sum(each.is_equivalent for each in found), sum(each.differs for each in found)
    how = f"all {alike} cases" if alike == len(found) else f"{alike} of {len(found)} cases and shown to differ in none"
    first = f" (in {apart}, which differ by less than matters, the first alone)" if apart else ""
    return f"{baseline} against itself: equivalent in {how}; both runs are the baseline{first}."


def _differs_from_itself(baseline: str, unequal: Sequence[tuple[CaseComparison, Estimate]], cases: int) -> str:
    worst, found = max(unequal, key=lambda each: abs(each[1].ratio - 1))
    most = " ".join(filter(None, (shown_ratio(found.ratio), found.interval and shown_interval(found.interval))))
    return (
        f"NOT VALID in {len(unequal)} of {cases} cases: {baseline} differs from itself, by {most} in "
        f"{name_of(worst.case)}. There only what lies beyond is called different: quiet the machine, or run more pairs."
    )


def deviation_words(case: Case, found: Deviation, place: str) -> str:
    """place: what stands for that of the deviation, such as "host"."""
    who = f"each process of {place}" if found.process is None else f"process {found.process} of {place}"
    count = f"{found.calls} of {found.of_calls}" if found.calls < found.of_calls else f"all {found.calls}"
    others = f"{found.others} other process{'es' * (found.others != 1)}"
    return (
        f"{name_of(case)}: {who} gave, in {count} calls that were looked at, an output of which {found.parts} of "
        f"{found.of_parts} parts {'is' if found.parts == 1 else 'are'} not to the last bit what {others} gave, with "
        f"the same libraries on the same model of processor: {causes()[found.cause].effect}"
    )
