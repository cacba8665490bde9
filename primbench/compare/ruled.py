"""What differs between two places as causes: whether a rule says that it can move a case, which way, and how far."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from primbench.compare.cause import OF_UNKNOWN_EFFECT, Cause
from primbench.compare.criteria import problem_of
from primbench.compare.dear_calls import MOST_TIMES_A_CHEAP_CALL
from primbench.compare.differing import of_setting, settings
from primbench.doctor.against import by_rule, in_words, short
from primbench.doctor.rules import RULES
from primbench.doctor.variables import VARIABLES
from primbench.environment.comparable import meaning_of
from primbench.spec.arm import RULE_OF_SETTING
from primbench.timing.cpu import BATCH_S

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from primbench.compare.comparison import CaseComparison
    from primbench.compare.sides import Side
    from primbench.doctor.finding import Activity
    from primbench.doctor.rules import Rule
    from primbench.environment.difference import Change, Difference

MOST_CHANGES = 4
_VARIABLES = ("software", "variables")
_LAUNCHES = ("launch", "data loading")  # of which it is known what they call


class Moved(NamedTuple):
    """A case, and what of it can have moved. dearer_s: filters.dearer_s() of it."""

    case: CaseComparison
    parts: Sequence[Activity]
    dearer_s: float | None = None

    def comes_under(self, rule: Rule) -> bool:
        """Whether a rule distorts what can have moved."""
        case = self.case.case
        parts = set(rule.distorts) & set(self.parts)
        works = rule.works.get(case.backend, rule.works.get(""))
        if case.device == "cpu" and works is not None:
            return bool(parts) and problem_of(case.primitive).work in works
        return bool(parts)

    def concerns(self, change: Change) -> bool:
        """Whether a change distorts what can have moved, where the doctor knows of that variable what it distorts."""
        if change.field == ("confinement", "io_uring"):
            return self.makes("io_uring_enter")
        if change.field == ("limits", "cpu_group_depth") and problem_of(self.case.case.primitive).work in _LAUNCHES:
            return self.makes("futex") or self.makes("clone")
        rule = VARIABLES.get(short(change.field)) if meaning_of(change.field).rule == "variables" else None
        _, _, distorts, _ = rule or (None, None, self.parts, None)
        return not set(distorts).isdisjoint(self.parts)

    def makes(self, call: str) -> bool:
        """Whether it spends its time on that system call, as far as is known."""
        problem = self.case.case.known_problem()
        return problem is None or call in problem.system_calls()

    def most(self, rule: Rule, reading_s: float | None = None, each: float = 1.0) -> float:
        """How many times as long a rule can make it. reading_s: what each of what it adds to was seen to take.

        each: how many more there are of what is counted.
        """
        problem, primary = self.case.case.known_problem(), self.case.primary
        reading_s = self._beyond(rule) if reading_s is None else reading_s
        times = 1 + each * (rule.times - 1) if reading_s is None else math.inf
        if problem is None or primary is None or not primary.baseline_s:
            return times
        of_calls = (
            (_read(rule.a_call_s, reading_s), problem.library_calls()),
            (self._a_system_call_s(rule, reading_s), problem.system_call_count()),
            (_read(rule.a_sample_s, reading_s), 1 / self._fewest_calls()),
            (_read(rule.a_file_s, reading_s), problem.opened_files()),
        )
        more = [each * each_s * calls for each_s, calls in of_calls if each_s is not None and calls is not None]
        return min([times, *(1 + more_s / primary.baseline_s for more_s in more)])

    def _beyond(self, rule: Rule) -> float | None:
        """What a system call was seen to take longer, where that is more than the rule knows: a program is asked."""
        seen_s = self.dearer_s or 0.0
        return seen_s if rule.a_system_call_s is not None and seen_s > rule.a_system_call_s else None

    def _fewest_calls(self) -> float:
        """Of a sample of what moved: a batch on a CPU has as many as last long enough."""
        moved = [each for each in self.case.estimates if each.has_moved]
        batches = [BATCH_S / each.baseline_s for each in moved if each.metric.startswith("batch_") and each.baseline_s]
        return max(1.0, min(batches)) if batches and len(batches) == len(moved) else 1.0

    def _a_system_call_s(self, rule: Rule, reading_s: float | None) -> float | None:
        """Some are dearer than the cheap one that was timed, of which the kernel remembers that filters let it pass."""
        if rule.a_system_call_s is None:
            return None
        if reading_s is not None:
            return MOST_TIMES_A_CHEAP_CALL * reading_s
        if self.dearer_s is None:
            return rule.a_system_call_s
        return min(rule.a_system_call_s, MOST_TIMES_A_CHEAP_CALL * self.dearer_s)


def _read(each_s: float | None, reading_s: float | None) -> float | None:
    """What a rule adds to each, by what was read of it where that was."""
    return each_s if each_s is None or reading_s is None else reading_s


def by_rules(moved: Moved, found: Difference, told: Collection[str], baseline: Side, side: Side) -> Iterator[Cause]:
    """What is not the same in the two places and moves such results. told: checks that tell of it better."""
    for rule, of_rule in by_rule(found):
        concerned = [each for each in of_rule if moved.concerns(each) and not meaning_of(each.field).by_doctor]
        if rule.cause and moved.comes_under(rule) and set(told).isdisjoint(rule.told_by):
            for changes in filter(None, _by_what_is_known(concerned)):
                yield _by_changes(rule, changes, moved.most(rule, each=_more(rule, changes)), baseline, side)


def _by_what_is_known(changes: Sequence[Change]) -> tuple[list[Change], list[Change]]:
    """Those of which it is known who reads them, and variables of which it is not."""
    return [each for each in changes if not _is_unread(each)], [each for each in changes if _is_unread(each)]


def _is_unread(change: Change) -> bool:
    """Whether it is of a variable that nothing is known to read."""
    return change.field[:2] == _VARIABLES and meaning_of(change.field).read_by is None


def by_settings(moved: Moved, changes: Sequence[Change], baseline: Side, side: Side) -> Iterator[Cause]:
    """What the arms ask for in unequal ways and moves such results, where no change tells of it."""
    for field, words in settings(baseline, side, changes):
        rule = next((each for each in RULES if each.name == RULE_OF_SETTING[field]), None)
        if rule is not None and moved.comes_under(rule):
            most = moved.most(rule)
            told, title = f"{rule.cause}: {words}", str(rule.cause)
            yield Cause(told, 1 / most, most, title, rule.upstream, rule.stops, about=(of_setting(field),))


def _by_changes(rule: Rule, changes: Sequence[Change], most: float, baseline: Side, side: Side) -> Cause:
    """The cause that a rule makes of changes, the first ones in words."""
    first, more = changes[:MOST_CHANGES], len(changes) - MOST_CHANGES
    words = "; ".join(in_words(each, f"in {baseline.name}", f"in {side.name}") for each in first)
    about = tuple(each.field for each in first)
    title = _title(rule, changes, side)
    told = f"{title}: {words}{f'; and {more} more' if more > 0 else ''}"
    if title == rule.cause and all(each.field[:2] == _VARIABLES for each in changes):
        title = f"{title}: {', '.join(short(each.field) for each in first)}"  # else nobody knows which
    if _is_unread(changes[0]):
        told, upstream = f"{told} (nothing is known to read {'it' if len(changes) == 1 else 'them'})", OF_UNKNOWN_EFFECT
        return Cause(told, *_bounds(rule, changes, most), title, upstream, is_bystander=True, about=about)
    return Cause(told, *_bounds(rule, changes, most), title, rule.upstream, rule.stops, about=about)


def _title(rule: Rule, changes: Sequence[Change], side: Side) -> str:
    steps = {other - one for one, other in _counts(changes)}
    cause = str(rule.cause)
    if not steps or min(steps) <= 0 <= max(steps):
        return cause
    return f"{'more' if min(steps) > 0 else 'fewer'} {cause.removeprefix('other ')} in {side.name}"


def _bounds(rule: Rule, changes: Sequence[Change], most: float) -> tuple[float, float]:
    """So many threads save no more than their number, but for larger caches; in each other's way they cost any time."""
    if any(map(_is_amount, changes)):
        return _bounds_of_amounts(changes, most)
    if rule.name != "threads":
        return 1 / most, most
    shares = [max(1, one) / max(1, other) for one, other in _counts(changes)] or [1.0]
    lost, gained = max(shares) ** 1.5, min(shares) ** 1.5
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


def _more(rule: Rule, changes: Sequence[Change]) -> float:
    """How many more there are in one place of what a rule counts; 1 where it counts nothing."""
    return max(abs(one - other) for one, other in map(_amounts, changes)) if rule.by_each else 1.0


def can_refuse(change: Change, *, in_arm: bool) -> bool:
    """Whether it leaves less in the arm, else in the baseline; of what is no amount nobody knows."""
    one, other = _amounts(change) if _is_amount(change) else (0, 0)
    return one == other or (other < one) == in_arm


def _amounts(change: Change) -> tuple[float, float]:
    """Of what is wanted, in the two places; None is no limit."""
    if meaning_of(change.field).more_is_slower:
        return -_amount(change.a), -_amount(change.b)
    return change.a or math.inf, change.b or math.inf


def _amount(value: float | str | None) -> float:
    """What is no number is there or is not."""
    return value if isinstance(value, int | float) else float(bool(value))
