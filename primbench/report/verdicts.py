"""The words of a comparison: which case, by which metric, what verdict, and what is missing for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.compare.ratio import WITHIN_MARGIN
from primbench.compare.shown import shown_interval, shown_ratio
from primbench.report.document import VerdictCell
from primbench.results.metrics import METRICS
from primbench.units import format_percent

if TYPE_CHECKING:
    from primbench.compare.comparison import CaseComparison, Mean
    from primbench.compare.ratio import Estimate, Verdict
    from primbench.report.document import Look

SIGNS: dict[Verdict, str] = {
    "slower": ">",
    "faster": "<",
    "different-about-the-margin": "~",
    "different-but-small": "~",
    "equivalent": "=",
    "equivalent-at-full-speed": "=",
    "equivalent-in-these-runs": "=",
    "inconclusive": "?",
}
"""Ratios of times are above 1, below it, or like it."""
_LOOKS: dict[Verdict, Look] = {
    "slower": "worse",
    "faster": "better",
    "equivalent": "alike",
    "equivalent-at-full-speed": "alike",
    "equivalent-in-these-runs": "alike",
}
_OUTCOMES: dict[Verdict, str] = {
    "slower": "takes longer",
    "faster": "takes less",
    "different-but-small": "as long",
    "equivalent": "as long",
    "equivalent-at-full-speed": "as long at full speed",
    "equivalent-in-these-runs": "as long in these runs",
}
MOST_PAIRS = 200  # more are not suggested: nobody would run them


def in_words(verdict: Verdict) -> str:
    """A verdict as it is read."""
    return verdict.replace("-", " ").replace("different about", "different, about")


def signed(verdict: Verdict, words: str) -> VerdictCell:
    """Words behind the sign of a verdict, which look like it."""
    return VerdictCell(words, _LOOKS.get(verdict, "open"), SIGNS[verdict])


def telling(case: CaseComparison, *, with_why: bool = True) -> list[tuple[Estimate, VerdictCell]]:
    """The metric that decided, with the verdict of the case; then the primary one and what else moved, in words.

    A sign stands before the verdict. with_why: what keeps the case from one.
    """
    if case.deciding is None or case.verdict is None:
        return []
    others = [each for each in case.estimates if each is not case.deciding and (each.primary or each.has_moved)]
    return [
        (case.deciding, signed(case.verdict, shown_verdict(case, with_why=with_why))),
        *((each, VerdictCell(shown_outcome(each))) for each in others),
    ]


def heading(metric: str) -> str:
    return METRICS[metric].heading


def shown_estimate(found: Estimate | Mean) -> str:
    """The ratio, with its interval where it has one."""
    return (
        f"{shown_ratio(found.ratio)} {shown_interval(found.interval)}" if found.interval else shown_ratio(found.ratio)
    )


def shown_verdict(case: CaseComparison, *, with_why: bool = True) -> str:
    """With what stands behind it: the metric if it is not the primary one, the margin, or, with_why, what lacks."""
    found = case.deciding
    if found is None or case.verdict is None:
        return "not compared"
    by = "" if found.primary else ", by the mean" if METRICS[found.metric].is_mean else f", by {heading(found.metric)}"
    if case.verdict in WITHIN_MARGIN:
        return f"{in_words(case.verdict)}, within {format_percent(found.margin)}{_of_all(found, case)}"
    if case.verdict == "different-about-the-margin":
        return f"{in_words(case.verdict)} of {format_percent(found.margin)}{by}"
    return f"{case.verdict}{by}: {why(case)}" if case.verdict == "inconclusive" and with_why else f"{case.verdict}{by}"


def _of_all(estimate: Estimate, case: CaseComparison) -> str:
    """What the samples say that were left out, where they may say something else."""
    if estimate.left_out is None or not estimate.holds_at_full_speed_alone:
        return ""
    slowed, of_all = estimate.left_out.slowed, estimate.left_out
    shares = f"{format_percent(slowed.baseline)} | {format_percent(slowed.arm)}"
    ratio = f"{shown_ratio(of_all.ratio)} {shown_interval(of_all.interval)}"
    how = "the CPU slow" if case.slowed else "a thread waiting for a CPU"
    return f" ({how} beside {shares} of samples; with these {ratio})"


def shown_outcome(estimate: Estimate) -> str:
    """What to say of a metric that did not decide the verdict: in other words than a verdict's."""
    within = f", within {format_percent(estimate.margin)}" if estimate.outcome in WITHIN_MARGIN else ""
    return outcome_in_short(estimate) + within


def outcome_in_short(estimate: Estimate) -> str:
    """The same without what counts as alike."""
    if estimate.outcome == "different-about-the-margin":
        return f"differs by about {format_percent(estimate.margin)}"
    return _OUTCOMES.get(estimate.outcome, "not told")


def why(case: CaseComparison) -> str | None:
    """What keeps the case from a verdict."""
    if case.verdict != "inconclusive" or case.deciding is None:
        return None
    if case.deciding.is_too_busy:
        return case.deciding.reason
    return f"fails more often in {case.fails_more}" if case.fails_more else _missing(case.deciding)


def _missing(estimate: Estimate) -> str:
    words = [estimate.reason or _by_chance(estimate)]
    if (needed := estimate.pairs_needed) is not None:
        words.append(f"needs about {needed} pairs" if needed <= MOST_PAIRS else f"needs more than {MOST_PAIRS} pairs")
    elif not words[0]:
        words.append("needs a few pairs more")
    if estimate.minimum_detectable is not None and not (estimate.is_one_run or estimate.excludes_1):
        words.append(f"these find {_least(estimate.minimum_detectable)}")
    return ", ".join(filter(None, words))


def _by_chance(estimate: Estimate) -> str:
    """Where it seems to differ, and as many comparisons would show as much of equal places; else ""."""
    if estimate.q is None or estimate.differs or not estimate.excludes_1:
        return ""
    return f"may be chance among all that was compared (q {format_percent(estimate.q)})"


def _least(ratio: float) -> str:
    return format_percent(ratio - 1) if ratio < 2 else f"a factor of {ratio:.3g}"
