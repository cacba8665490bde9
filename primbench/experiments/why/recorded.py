"""What a results file asks about: of a study the case in which two of its places differ most."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from primbench.compare.explain import as_run
from primbench.compare.pairs import compare
from primbench.compare.sides import identity, sides_of
from primbench.errors import InvalidRequest
from primbench.spec.placement import Placement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.compare.comparison import Comparison, Decided
    from primbench.results.file import Results
    from primbench.spec.arm import Arm
    from primbench.spec.case import Case


class Worst(NamedTuple):
    """fast, slow: two places of a study, as they were run. case: in which they differ most."""

    fast: Arm
    slow: Arm
    case: Case


def worst(path: str, found: Results) -> Worst:
    """Of all cases of a study that one which takes longer for certain, by most: by the lower bound of its ratio.

    path: of its file. Raises InvalidRequest where the file is of no study, or no place is slower for certain.
    """
    study = found.header.study
    if study is None:
        raise InvalidRequest(f"{path}: not of a study: name two places, as in: primbench why host podman")
    if study.why:
        raise InvalidRequest(f"{path}: of `primbench why`: go on with `primbench why --resume {path}`")
    comparison = compare(found)
    slowed = [*_slowed(comparison)]
    if not slowed:
        raise InvalidRequest(
            f"{path}: in no case one of {', '.join(arm.name for arm in study.arms)} is slower for certain: measure "
            f"more pairs (primbench study --resume {path}), or name two places and a case (primbench why FAST SLOW "
            "--primitive NAME)"
        )
    _, (arm, case, estimate) = max(slowed, key=lambda each: each[0])
    sides = sides_of(found)
    places = [as_run(sides[name], identity(case.case)) for name in (comparison.baseline, arm.name)]
    first, other = (each for each in places if each is not None)  # a study has an arm of each
    fast, slow = (first, other) if estimate.ratio > 1 else (other, first)
    return Worst(fast, slow, replace(case.case, arm="", process=0, placement=Placement()))


def _slowed(comparison: Comparison) -> Iterator[tuple[float, Decided]]:
    """Each case in which one of two places takes longer, with the lower bound of how many times as long."""
    for arm, case, estimate in comparison.decided:
        low, high = estimate.interval or (0.0, 0.0)
        if case.verdict == "slower" and low > 1:
            yield low, (arm, case, estimate)
        if case.verdict == "faster" and 0 < high < 1:
            yield 1 / high, (arm, case, estimate)
