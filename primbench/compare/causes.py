"""What can have made a case slower or faster: what differs between the two places, and can work that way and so far.

A cause is told where it can touch what moved and works in the direction that was seen. First come those that can do so
much by themselves, the most upstream of them before the others: the machine, what of it may be used, the libraries.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, get_args

from primbench.compare.alone import found_in_one_alone
from primbench.compare.comparison import Explanation
from primbench.compare.differing import of_setting, settings
from primbench.compare.effects import changes_of
from primbench.doctor.against import by_cause, in_words, short
from primbench.doctor.cause import OF_UNKNOWN_EFFECT, Suspect
from primbench.doctor.table import causes as table
from primbench.doctor.table import leading
from primbench.environment.comparable import meaning_of
from primbench.results.metrics import METRICS
from primbench.spec.settings import SETTINGS
from primbench.system.meaning import Layer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from primbench.compare.beside import Beside
    from primbench.compare.comparison import CaseComparison
    from primbench.compare.sides import Side
    from primbench.doctor.cause import Cause
    from primbench.environment.difference import Change, Difference

MOST_CHANGES = 4
_VARIABLES = ("software", "variables")


def by_causes(beside: Beside, **more: Any) -> Explanation:
    """All of them. What did move says which way; where nothing did for certain, either will do.

    more: what else the explanation says.
    """
    case = beside.case
    ranked = sorted(_all(beside), key=Suspect.rank)
    deciding = case.deciding
    if deciding is None or not deciding.has_moved:
        able = [(each, each.words) for each in ranked if _can_be(each, case, beside.side.name)]
        return _explanation(able, None, **more)
    in_order = ranked if METRICS[deciding.metric].is_median else sorted(ranked, key=lambda each: not each.stops)
    others = [each.ratio for each in case.estimates if each.has_moved and each is not deciding]
    return _explanation(*_fitting(in_order, deciding.ratio, others), **more)


def _explanation(told: Sequence[tuple[Suspect, str]], likely: Suspect | None, **more: Any) -> Explanation:
    """told: the likeliest first, each with its words. likely: the first that can do so much by itself."""
    return Explanation(
        causes=[words for _, words in told],
        likely=likely and (likely.title or likely.words),
        cause=likely and likely.cause,
        about=list(dict.fromkeys(each for suspect, _ in told for each in suspect.about)),
        **more,
    )


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
    differing = {cause.id for cause, _ in beside.by_cause}
    alone = found_in_one_alone(beside, _untold(differing | {each.cause for each in between}))
    told = {each.cause for each in alone if not table()[each.cause].is_by_fact}
    untold = told | _untold(told)
    yield from _by_facts(beside, untold)
    yield from _by_settings(beside)
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


def _fitting(
    found: Sequence[Suspect], decided: float, others: Sequence[float]
) -> tuple[list[tuple[Suspect, str]], Suspect | None]:
    """The causes that can make the ratio that decided, of which the likely one is; then those that can make one of the
    others; then those that work towards one and fall short of it.
    """
    told = []
    for each in found:
        towards = [ratio for ratio in (decided, *others) if each.works_towards(ratio)]
        makes = [*filter(each.suffices_for, towards)]
        if towards:
            words = each.words if towards[0] in makes else each.falling_short_of(towards[0])
            told.append((2 - bool(makes) - (decided in makes), each, words))
    told.sort(key=lambda one: one[0])
    likely = next((each for order, each, _ in told if not order and not each.is_bystander), None)
    return [(each, words) for _, each, words in told], likely


def _by_facts(beside: Beside, untold: Collection[str]) -> Iterator[Suspect]:
    """What is not the same in the two places and moves such results. untold: causes that something tells better."""
    for cause, changes in beside.by_cause:
        concerned = [each for each in changes if beside.concerns(cause, each)]
        if cause.title and cause.id not in untold and beside.comes_under(cause):
            for told in filter(None, _by_what_is_known(concerned)):
                yield _by_changes(cause, told, beside)


def _by_what_is_known(changes: Sequence[Change]) -> tuple[list[Change], list[Change]]:
    """Those of which it is known who reads them, and variables of which it is not."""
    return [each for each in changes if not _is_unread(each)], [each for each in changes if _is_unread(each)]


def _is_unread(change: Change) -> bool:
    """Whether it is of a variable that nothing is known to read."""
    return change.field[:2] == _VARIABLES and meaning_of(change.field).read_by is None


def _by_settings(beside: Beside) -> Iterator[Suspect]:
    """What the arms ask for in unequal ways and moves such results, where no change tells of it."""
    changes = changes_of({"": beside.differing}, *get_args(Layer)) if beside.differing else []
    for field, words in settings(beside.baseline, beside.side, changes):
        cause = table().get(SETTINGS[field].rule or "")
        if cause is not None and beside.comes_under(cause):
            lead, title = leading(cause), str(cause.title)
            most, about = beside.most(lead), (of_setting(field),)
            yield Suspect(f"{title}: {words}", 1 / most, most, title, lead.upstream, lead.stops, cause.id, about=about)


def _by_changes(cause: Cause, changes: Sequence[Change], beside: Beside) -> Suspect:
    """What a cause is by these changes, the first ones in words."""
    first, lead = changes[:MOST_CHANGES], leading(cause)
    is_more = _is_more(changes) if cause.counts else None
    title = str(cause.title)
    if is_more is not None:
        title = f"{'more' if is_more else 'fewer'} {cause.counts} in {beside.side.name}"
    found = Suspect(
        f"{title}: {_in_words(changes, beside)}",
        *_bounds(lead, changes, beside.most(lead, each=_more(lead, changes))),
        title,
        lead.upstream,
        lead.stops,
        cause=cause.id,
        about=tuple(each.field for each in first),
    )
    if is_more is None and all(each.field[:2] == _VARIABLES for each in changes):
        found = found._replace(title=f"{title}: {', '.join(short(each.field) for each in first)}")  # else nobody knows
    return _of_unread(found, len(changes)) if _is_unread(changes[0]) else found


def _in_words(changes: Sequence[Change], beside: Beside) -> str:
    """The first ones, and how many more there are."""
    more = len(changes) - MOST_CHANGES
    one, other = f"in {beside.baseline.name}", f"in {beside.side.name}"
    words = "; ".join(in_words(each, one, other) for each in changes[:MOST_CHANGES])
    return f"{words}{f'; and {more} more' if more > 0 else ''}"


def _of_unread(found: Suspect, count: int) -> Suspect:
    """The same of so many variables that nobody is known to read."""
    words = f"{found.words} (nothing is known to read {'it' if count == 1 else 'them'})"
    return found._replace(words=words, upstream=OF_UNKNOWN_EFFECT, stops=False, is_bystander=True)


def _is_more(changes: Sequence[Change]) -> bool | None:
    """Whether there are more in the arm of what is counted, by each change; None where one says otherwise, or none."""
    steps = {other - one for one, other in _counts(changes)}
    return None if not steps or min(steps) <= 0 <= max(steps) else min(steps) > 0


def _bounds(cause: Cause, changes: Sequence[Change], most: float) -> tuple[float, float]:
    """So many threads save no more than their number, but for larger caches; in each other's way they cost any time."""
    if any(map(_is_amount, changes)):
        return _bounds_of_amounts(changes, most)
    if cause.power is None:
        return 1 / most, most
    shares = [max(1, one) / max(1, other) for one, other in _counts(changes)] or [1.0]
    lost, gained = max(shares) ** cause.power, min(shares) ** cause.power
    return (0.0 if lost > 1 else gained), (math.inf if gained < 1 else lost)


def _counts(changes: Sequence[Change]) -> list[tuple[float, float]]:
    """How many threads or CPUs there are on the baseline and in the arm."""
    return [_sizes(each) for each in changes if meaning_of(each.field).counts and None not in (each.a, each.b)]


def _sizes(change: Change) -> tuple[float, float]:
    """Of what is counted or wanted, in the two places; None is no limit."""
    if meaning_of(change.field).more_is_slower:
        return -_size(change.a, 0.0), -_size(change.b, 0.0)
    return _size(change.a, math.inf), _size(change.b, math.inf)


def _size(value: Any, none: float) -> float:
    """What is no number or list is there or is not."""
    if value is None or isinstance(value, int | float):
        return none if value is None else value
    return len(value) if isinstance(value, list) else float(bool(value))


def _is_amount(change: Change) -> bool:
    meaning = meaning_of(change.field)
    return meaning.less_is_slower or meaning.more_is_slower


def _bounds_of_amounts(changes: Sequence[Change], most: float) -> tuple[float, float]:
    """Less of what is limited makes nothing faster; what else differs beside it, such as its nodes, can."""
    amounts = [_sizes(each) for each in changes if _is_amount(each)]
    is_less = {other < one for one, other in amounts}
    if len(amounts) < len(changes) or len(is_less) > 1:
        return 1 / most, most
    return (1.0, most) if is_less == {True} else (1 / most, 1.0)


def _more(cause: Cause, changes: Sequence[Change]) -> float:
    """How many more there are in one place of what a cause counts; 1 where it counts nothing."""
    return max(abs(one - other) for one, other in map(_sizes, changes)) if cause.by_each else 1.0


def _can_refuse(change: Change, *, in_arm: bool) -> bool:
    """Whether it leaves less in the arm, else in the baseline; of what is no amount nobody knows."""
    one, other = _sizes(change) if _is_amount(change) else (0, 0)
    return one == other or (other < one) == in_arm


def by_refusals(case: CaseComparison, differing: Difference | None, baseline: Side, side: Side) -> Explanation | None:
    """What differs between the places and refuses what a case that fails says was refused to it; None where nothing.

    What is named comes before what any of several may mean: torch says of a full /dev/shm that memory ran out.
    """
    different = _different(case, differing, baseline, side)
    refusing = [each.id for each in table().values() if each.refuses and re.search(each.refuses, case.reason or "")]
    found = [each for cause in refusing for each in different if each.cause == cause]
    return _explanation([(each, each.words) for each in found], found[0], parts=[], evidence=[]) if found else None


def _different(case: CaseComparison, differing: Difference | None, baseline: Side, side: Side) -> list[Suspect]:
    """What differs, each with its cause.

    None of a limit that leaves more where the case fails.
    """
    found = list(_changes(case, differing, side))
    asked = settings(baseline, side, [change for _, change in found])
    one, other = f"in {baseline.name}", f"in {side.name}"
    return [
        *(Suspect(in_words(each, one, other), cause=cause, about=(each.field,)) for cause, each in found),
        *(Suspect(words, cause=SETTINGS[field].rule or "", about=(of_setting(field),)) for field, words in asked),
    ]


def _changes(case: CaseComparison, differing: Difference | None, side: Side) -> Iterator[tuple[str, Change]]:
    """Each with the id of its cause."""
    for cause, changes in by_cause(differing) if differing else ():
        for change in changes:
            if case.fails_more is None or _can_refuse(change, in_arm=case.fails_more == side.name):
                yield cause.id, change
