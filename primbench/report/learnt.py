"""The words of trainings in two places: how often they are right, and where the first loss differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.compare.learnt import POINT
from primbench.spec.naming import name_of
from primbench.units import format_percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.compare.comparison import ArmComparison
    from primbench.compare.learnt import Accuracy, FirstUnlike, LearntComparison


def learnt(arm: ArmComparison, baseline: str) -> Iterator[str]:
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
