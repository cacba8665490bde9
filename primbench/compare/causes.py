"""What can have made a case slower or faster: what differs between the two places, and can work that way and so far.

A cause is told where it can touch what moved and works in the direction that was seen. First come those that can do so
much by themselves, the most upstream of them before the others: the machine, what of it may be used, the libraries.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from primbench.compare.alone import found_in_one_alone
from primbench.compare.by_facts import by_facts, by_settings
from primbench.doctor.against import by_cause
from primbench.doctor.cause import Suspect
from primbench.doctor.table import causes as table
from primbench.doctor.table import leading
from primbench.results.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from primbench.compare.beside import Beside
    from primbench.compare.comparison import CaseComparison
    from primbench.system.meaning import FactId


class Told(NamedTuple):
    """causes: all, the likeliest first, each with its words. likely: the first that can do so much by itself."""

    causes: list[tuple[Suspect, str]]
    likely: Suspect | None

    @property
    def in_few_words(self) -> str | None:
        return self.likely and (self.likely.title or self.likely.words)

    @property
    def about(self) -> list[FactId]:
        """What they tell of, as Differing has it."""
        return list(dict.fromkeys(each for suspect, _ in self.causes for each in suspect.about))


def causes(beside: Beside) -> Told:
    """All of them. What did move says which way; where nothing did for certain, either will do."""
    case = beside.case
    ranked = sorted(_all(beside), key=Suspect.rank)
    moved = [each for each in case.estimates if each.has_moved]
    if not moved:
        return Told([(each, each.words) for each in ranked if _can_be(each, case, beside.side.name)], None)
    is_of_medians = any(METRICS[each.metric].is_median for each in moved)
    in_order = ranked if is_of_medians else sorted(ranked, key=lambda each: not each.stops)
    return _fitting(in_order, [each.ratio for each in moved])


def _can_be(suspect: Suspect, case: CaseComparison, arm: str) -> bool:
    """Where nothing moved: whether it has threads wait, or, of a case that fails in one place alone, works against that
    place.
    """
    if case.fails_more is None:
        return suspect.stops
    return suspect.works_towards(math.inf if case.fails_more == arm else 0.0)  # it takes for ever there


def _all(beside: Beside) -> Iterator[Suspect]:
    """What differs, what the arms ask for, what rows see between the two, and what is found in one place alone.

    A cause is told once: what it shows in one place alone, or what its row's ``explains_away`` says is better. Of two
    that are found in one place alone, it is the more upstream one that can explain the other away.
    """
    between = [*_between(beside)]
    differing = {cause.id for cause, _ in by_cause(beside.differing)} if beside.differing else set()
    alone = found_in_one_alone(beside, _untold(differing | {each.cause for each in between}))
    told = {each.cause for each in alone if not table()[each.cause].is_by_fact}
    untold = told | _untold(told)
    yield from by_facts(beside, untold)
    yield from by_settings(beside)
    yield from (each for each in between if each.cause not in untold)
    yield from (each for each in alone if each.cause not in _untold(_above(each, alone)))


def _above(found: Suspect, others: Iterable[Suspect]) -> list[str]:
    """The causes that are more upstream."""
    return [each.cause for each in others if each.rank() < found.rank()]


def _untold(told: Iterable[str]) -> set[str]:
    """What these causes explain away."""
    return {each for cause in told for each in table()[cause].explains_away}


def _between(beside: Beside) -> Iterator[Suspect]:
    for cause in table().values():
        for each in cause.between(beside) if cause.between is not None else ():
            yield each._replace(
                cause=cause.id, upstream=leading(cause).upstream if each.upstream is None else each.upstream
            )


def _fitting(found: Sequence[Suspect], ratios: Sequence[float]) -> Told:
    """The causes that can make one of the ratios; then those that work towards one and fall short of it."""
    enough, too_little = [], []
    for each in found:
        towards = [ratio for ratio in ratios if each.works_towards(ratio)]
        if any(map(each.suffices_for, towards)):
            enough.append(each)
        elif towards:
            too_little.append((each, each.falling_short_of(towards[0])))
    likely = next((each for each in enough if not each.is_bystander), None)
    return Told([*((each, each.words) for each in enough), *too_little], likely)
