"""What is said below the table of an arm: what its cases come to, what explains them, what else tells places apart."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING

from primbench.compare.effects import changes_of
from primbench.compare.learnt import POINT
from primbench.compare.ratio import MOST_UNSEEN, WITHIN_MARGIN
from primbench.compare.shown import shown_interval, shown_ratio
from primbench.report.document import Note, typed
from primbench.report.environment import shown
from primbench.report.headline import what_is_judged
from primbench.report.step import step
from primbench.report.verdicts import in_words
from primbench.results.metrics import METRICS
from primbench.spec.naming import name_of
from primbench.stats import draws_needed, quantile
from primbench.units import format_percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.compare.comparison import ArmComparison, CaseComparison, Comparison, Explanation
    from primbench.compare.learnt import Accuracy, FirstUnlike, LearntComparison
    from primbench.system.meaning import Layer

MOST_EXPLAINED = 5
MOST_CHANGES = 8
_LAYERS: dict[str, tuple[Layer, ...]] = {
    "stack effect": ("stack", "machine"),
    "machine effect": ("machine", "stack"),
}
_WHAT: dict[Layer, str] = {"machine": "machines", "stack": "libraries"}


def notes_of(arm: ArmComparison, comparison: Comparison) -> Iterator[Note]:
    """What its cases come to together, and what explains them; without what else differs between the places."""
    yield from _reasons(arm)
    yield from map(Note, (*_counts(arm), *_mean(arm, comparison), *_learnt(arm, comparison.baseline)))
    if arm.step is not None:
        yield from map(Note, step(arm.step, comparison.baseline, arm.name))
    if any(each.pairs for each in arm.estimates):
        yield from (*map(Note, _effect(arm, comparison)), *_explanations(arm))


def _reasons(arm: ArmComparison) -> Iterator[Note]:
    """What became of cases in some or all processes, each reason once."""
    cases: dict[str, list[CaseComparison]] = {}
    for case in arm.cases:
        if case.reason:
            cases.setdefault(case.reason, []).append(case)
    for reason, found in cases.items():
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield Note(f"{name_of(found[0].case)}{more}: {reason}", "marked")


def _counts(arm: ArmComparison) -> Iterator[str]:
    counts = Counter(in_words(case.verdict) if case.verdict else "not compared" for case in arm.cases)
    if len(arm.cases) > 1:
        yield f"{len(arm.cases)} cases: " + ", ".join(f"{count} {words}" for words, count in counts.most_common())
    yield from _unseen(arm)
    yield from _borrowed(arm)


def _unseen(arm: ArmComparison) -> Iterator[str]:
    """What share of processes may be slow where places are shown to be alike: the largest, once for all cases."""
    alike = [case.deciding for case in arm.cases if case.deciding and case.verdict in WITHIN_MARGIN]
    most = max(alike, key=lambda found: found.unseen or 0.0, default=None)
    if most is not None and most.unseen is not None:
        more = f"; {draws_needed(MOST_UNSEEN)} pairs tell of the places" if most.is_of_few else ""
        yield (
            f"alike by {most.pairs} processes a side: if none of these was slow, up to {format_percent(most.unseen)} "
            f"of a place's may be{more}"
        )


def _borrowed(arm: ArmComparison) -> Iterator[str]:
    """What intervals stand on beside a case's own pairs."""
    deciding = [case.deciding for case in arm.cases if case.deciding and case.deciding.freedom]
    borrowed = [found.borrowed_freedom for found in deciding]
    if borrowed and max(borrowed) > 0:
        own = [(found.freedom or 0.0) - found.borrowed_freedom for found in deciding]
        yield (
            f"intervals stand on {quantile(own, 0.5):.0f} degrees of freedom of a case's own pairs and "
            f"{quantile(borrowed, 0.5):.1f} borrowed from how the other cases scatter (medians)"
        )


def _mean(arm: ArmComparison, comparison: Comparison) -> Iterator[str]:
    if arm.mean is not None and arm.mean.cases > 1:
        interval = f" {shown_interval(arm.mean.interval)}" if arm.mean.interval else ""
        what = what_is_judged(comparison, arm.mean.pairs)
        mean = f"{shown_ratio(arm.mean.ratio)}{interval}"
        of = ", slow samples included" if arm.mean.of_all_samples else ""
        of += (
            ", by their medians"
            if any(case.decided_by and METRICS[case.decided_by].is_mean for case in arm.cases)
            else ""
        )
        yield f"geometric mean of {arm.mean.cases} cases{of}: {mean}, over {arm.mean.pairs} {what}"


def _severity(case: CaseComparison) -> tuple[int, float]:
    """The worst comes first, of the slower ones that which is so by most; others stay as they are."""
    order = ("slower", "inconclusive", "faster")  # what may yet be slower, or had to wait, before what is no harm
    place = order.index(case.verdict) if case.verdict in order else len(order)
    return place, -case.deciding.ratio if case.verdict == "slower" and case.deciding else 0.0


def _explanations(arm: ArmComparison) -> Iterator[Note]:
    explained = [(case, case.explanation) for case in sorted(arm.cases, key=_severity) if case.explanation]
    if explained:
        told = (*_moved(explained), *_causes([explanation for _, explanation in explained]), *_noise(explained))
        yield from map(Note, told)
        nexts = dict.fromkeys(each.next_experiment for _, each in explained if each.next_experiment)
        yield from (Note("next:", command=typed(shlex.split(command))) for command in list(nexts)[:1])


def _moved(explained: Sequence[tuple[CaseComparison, Explanation]]) -> Iterator[str]:
    for case, explanation in explained[:MOST_EXPLAINED]:
        moved = f"{' and '.join(explanation.parts)} moved" if explanation.parts else _unmoved(case)
        yield f"{name_of(case.case)}: {': '.join(filter(None, (moved, '; '.join(explanation.evidence))))}"
    if len(explained) > MOST_EXPLAINED:
        yield f"and {len(explained) - MOST_EXPLAINED} more cases: --json has all"


def _unmoved(case: CaseComparison) -> str:
    if case.fails_more:
        return f"fails more often in {case.fails_more}"
    return "no difference is certain" if case.estimates else "refused in one place"


def _causes(explanations: Sequence[Explanation]) -> Iterator[str]:
    """A line for each cause, whichever cases it is of."""
    causes = dict.fromkeys(cause for explanation in explanations for cause in explanation.causes)
    yield from (f"can cause it: {cause}" for cause in causes)
    if not causes:
        yield "no known cause in what differs between the places"


def _noise(explained: Sequence[tuple[CaseComparison, Explanation]]) -> Iterator[str]:
    for case, explanation in explained[:MOST_EXPLAINED]:
        if explanation.noise:
            yield f"or what others on the machine did to {name_of(case.case)}: {'; '.join(explanation.noise)}"


def _effect(arm: ArmComparison, comparison: Comparison) -> Iterator[str]:
    """What a difference may be called, and what of the stacks or machines differs where it is theirs."""
    if not comparison.paired and not comparison.has_runs:
        return
    if arm.effect is None:
        yield "a difference is of an unknown kind: whether both loaded the same libraries could not be seen"
    elif arm.effect == "case effect":
        yield f"a difference is that of what is measured: {_otherwise(arm)}"
    elif arm.effect not in ("stack effect", "machine effect"):
        yield f"a difference is a {arm.effect}: the libraries are of the same builds"
    else:
        own, *too = _layers(arm)
        yield f"a difference is a {arm.effect}, none of the place alone; {_changes(arm, comparison, own)}"
        yield from (f"the {_WHAT[layer]} differ, too; {_changes(arm, comparison, layer)}" for layer in too)


def _otherwise(arm: ArmComparison) -> str:
    """What its cases have that those they are compared with have otherwise."""
    (first, *_) = (each.case for each in arm.cases)
    found = arm.arm.case if arm.arm else {}
    return ", ".join(f"{name}={value} in place of {first.word_of(name)}" for name, value in found.items())


def _layers(arm: ArmComparison) -> list[Layer]:
    """Those whose differences stand beside the name of the effect."""
    order = _LAYERS.get(arm.effect or "", ())
    return [layer for layer in order if layer == order[0] or changes_of(arm.differences, layer)]


def _changes(arm: ArmComparison, comparison: Comparison, layer: Layer) -> str:
    words = [
        f"{change.field} {shown(change.field, change.a, 'none')} | {shown(change.field, change.b, 'none')}"
        for change in changes_of(arm.differences, layer)
    ]
    return f"{comparison.baseline} | {arm.name}: {_first(words) or 'two that are alike in all that is recorded'}"


def beside(arm: ArmComparison) -> Iterator[str]:
    """Whatever differs and is told neither beside the effect nor as a cause."""
    told = {each for case in arm.cases if case.explanation for each in case.explanation.about}
    untold = [each for each in arm.differing if each.layer not in _layers(arm) and each.about not in told]
    for title, is_known in (("differs", True), ("differs, effect unknown", False)):
        yield from _line(title, [each.words for each in untold if each.is_known == is_known])


def _line(title: str, words: list[str]) -> Iterator[str]:
    if words:
        yield f"{title}: {_first(words)}"


def _first(words: list[str]) -> str:
    more = f"; and {len(words) - MOST_CHANGES} more" if len(words) > MOST_CHANGES else ""
    return f"{'; '.join(words[:MOST_CHANGES])}{more}"


def _learnt(arm: ArmComparison, baseline: str) -> Iterator[str]:
    """Two lines a case in which networks were trained."""
    for case in arm.cases:
        if case.learnt is not None:
            yield f"{name_of(case.case)}: accuracy {_of_accuracy(case.learnt, f'{baseline} | {arm.name}')}"
            yield f"{name_of(case.case)}: {_of_losses(case.learnt)}"


def _of_accuracy(found: LearntComparison, places: str) -> str:
    if found.accuracy is None:
        return f"not known: {found.missing.get('accuracy', 'one place has none')}"
    each = found.accuracy
    shares = f"{places}: {format_percent(each.baseline)} | {format_percent(each.arm)}"
    return f"{_verdict(each, found.seeds)}; {shares}, means of {found.seeds} seed{'s' * (found.seeds > 1)}"


def _verdict(found: Accuracy, seeds: int) -> str:
    by = f"{_points(found.difference)} points"
    if found.interval is None:
        return f"undecided, {by}: one seed tells of no scatter, --seeds 5"
    by = f"{by} [{', '.join(map(_points, found.interval))}]"
    if found.verdict == "differs":
        return f"differs by {by}"
    if found.verdict == "same":
        return f"the same within {100 * POINT:g} point, {by}"
    return f"undecided, {by}: more seeds would tell, such as --seeds {4 * seeds}"


def _points(share: float) -> str:
    return f"{100 * share + 0.0:.2f}"


def _of_losses(found: LearntComparison) -> str:
    if found.unlike is None:
        return f"the same loss to the last bit in all {found.steps} steps, of every seed and process"
    how = "" if found.deterministic else "; without --deterministic it may"
    return f"step {found.unlike.step} of {found.steps} differs first: {_unlike(found.unlike)}{how}"


def _unlike(found: FirstUnlike) -> str:
    one, other = found.places
    if found.seed is None:
        return f"{one} does not repeat itself in one process"
    a, b = ("no finite number" if loss is None else repr(loss) for loss in found.losses)
    whose = f"{one} against itself" if one == other else f"{one} against {other}"
    return f"a loss of {a} against {b}, {whose}, seed {found.seed}"
