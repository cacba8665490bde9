"""What differs between two places as causes: whether a row says that it can move a case, which way, and how far."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, get_args

from primbench.compare.differing import of_setting, settings
from primbench.compare.effects import changes_of
from primbench.doctor.against import by_cause, in_words, short
from primbench.doctor.cause import OF_UNKNOWN_EFFECT, Suspect
from primbench.doctor.table import causes, leading
from primbench.environment.comparable import meaning_of
from primbench.spec.settings import SETTINGS
from primbench.system.meaning import Layer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from primbench.compare.beside import Beside
    from primbench.doctor.cause import Cause
    from primbench.environment.difference import Change

MOST_CHANGES = 4
_VARIABLES = ("software", "variables")


def by_facts(beside: Beside, untold: Collection[str]) -> Iterator[Suspect]:
    """What is not the same in the two places and moves such results. untold: causes that something tells better."""
    for cause, changes in by_cause(beside.differing) if beside.differing else ():
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


def by_settings(beside: Beside) -> Iterator[Suspect]:
    """What the arms ask for in unequal ways and moves such results, where no change tells of it."""
    changes = changes_of({"": beside.differing}, *get_args(Layer)) if beside.differing else []
    for field, words in settings(beside.baseline, beside.side, changes):
        cause = causes().get(SETTINGS[field].rule or "")
        if cause is not None and beside.comes_under(cause):
            lead, about = leading(cause), (of_setting(field),)
            most, title = beside.most(lead), str(cause.title)
            yield Suspect(
                f"{title}: {words}", 1 / most, most, title, lead.upstream, lead.stops, cause=cause.id, about=about
            )


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


def _counts(changes: Sequence[Change]) -> list[tuple[int, int]]:
    """How many threads or CPUs there are on the baseline and in the arm."""
    known = [each for each in changes if meaning_of(each.field).counts and None not in (each.a, each.b)]
    return [(_count(each.a), _count(each.b)) for each in known]


def _count(value: int | list[int]) -> int:
    return len(value) if isinstance(value, list) else value


def _is_amount(change: Change) -> bool:
    meaning = meaning_of(change.field)
    return meaning.less_is_slower or meaning.more_is_slower


def _bounds_of_amounts(changes: Sequence[Change], most: float) -> tuple[float, float]:
    """Less of what is limited makes nothing faster; what else differs beside it, such as its nodes, can."""
    amounts = [_amounts(each) for each in changes if _is_amount(each)]
    is_less = {other < one for one, other in amounts}
    if len(amounts) < len(changes) or len(is_less) > 1:
        return 1 / most, most
    return (1.0, most) if is_less == {True} else (1 / most, 1.0)


def _more(cause: Cause, changes: Sequence[Change]) -> float:
    """How many more there are in one place of what a cause counts; 1 where it counts nothing."""
    return max(abs(one - other) for one, other in map(_amounts, changes)) if cause.by_each else 1.0


def can_refuse(change: Change, *, in_arm: bool) -> bool:
    """Whether it leaves less in the arm, else in the baseline; of what is no amount nobody knows."""
    one, other = _amounts(change) if _is_amount(change) else (0, 0)
    return one == other or (other < one) == in_arm


def _amounts(change: Change) -> tuple[float, float]:
    """Of what is wanted, in the two places; None is no limit."""
    if meaning_of(change.field).more_is_slower:
        return -_amount(change.a), -_amount(change.b)
    return _or_none(change.a), _or_none(change.b)


def _or_none(limit: float | None) -> float:
    return math.inf if limit is None else limit


def _amount(value: float | str | None) -> float:
    """What is no number is there or is not."""
    return value if isinstance(value, int | float) else float(bool(value))
