"""All that tells two places apart, whether it is known to move results or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from msgspec.structs import replace

from primbench.compare.comparison import Differing
from primbench.compare.effects import changes_of
from primbench.doctor.against import in_words
from primbench.environment.comparable import meaning_of
from primbench.environment.configuration import of_variable
from primbench.spec.arm import is_set
from primbench.spec.settings import SETTINGS, showing
from primbench.spec.settings.files import SEARCHED
from primbench.spec.settings.variables import ENV
from primbench.system.files import format_cpu_list
from primbench.system.meaning import FactId, Layer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from primbench.compare.sides import Side
    from primbench.environment.difference import Change, Difference
    from primbench.spec.arm import Arm
    from primbench.spec.setting import Setting

MOST_OF_A_LIST = 4
_NAMESPACES = ("confinement", "namespaces")
_VARIABLES = ("software", "variables")
_PRELOADS = ("software", "preloads")  # named by the variables that put them first


def differing(baseline: Side, side: Side, found: Mapping[str, Difference]) -> list[Differing]:
    """found: what the workers saw; then what the arms asked for and nobody saw, and where processes really were."""
    changes = changes_of(found, *get_args(Layer))
    told = {change.field[2] for change in changes if change.field[:2] in (_VARIABLES, _PRELOADS)}
    return [
        *(_of_change(change, baseline, side) for change in [*changes, *_varying_variables(found, baseline, side)]),
        *(
            Differing(words=words, about=of_setting(field), is_known=SETTINGS[field].rule is not None)
            for field, words in settings(baseline, side, changes)
        ),
        *(
            Differing(words=words, about=of_setting("variables", name))
            for name, words in set_variables(baseline, side)
            if name not in told
        ),
        *placement(baseline, side, changes),
    ]


def of_setting(*field: str) -> FactId:
    """What a field of the arms is called as Differing.about."""
    return FactId("arm", *field)


def _of_change(change: Change, baseline: Side, side: Side) -> Differing:
    meaning = meaning_of(change.field)
    words = change_in_words(change, baseline.name, side.name)
    is_known = meaning.rule is not None and change.kind == "differs"
    return Differing(words=words, about=change.field, layer=meaning.layer, is_known=is_known)


def change_in_words(change: Change, one: str, other: str) -> str:
    """Short where a value tells nothing, or is a long list of which no rule knows what it does."""
    name = change.field.within
    if change.field[:2] == _NAMESPACES:
        return f"{name} is another"
    if isinstance(change.a, list) and isinstance(change.b, list) and meaning_of(change.field).rule is None:
        lacking = ((one, _lacking(change.a, change.b)), (other, _lacking(change.b, change.a)))
        alone = [f"{more} in {where} alone" for where, more in lacking if more]
        return f"{name} has {' and '.join(alone) or 'another order'}"
    return in_words(change, f"in {one}", f"in {other}")


def _lacking(values: Sequence[object], there: Sequence[object]) -> str:
    """The first ones that are not there."""
    found = [str(each) for each in values if each not in there]
    more = f" and {len(found) - MOST_OF_A_LIST} more" if len(found) > MOST_OF_A_LIST else ""
    return f"{', '.join(found[:MOST_OF_A_LIST])}{more}"


def _varying_variables(found: Mapping[str, Difference], baseline: Side, side: Side) -> list[Change]:
    """Variables that need not be alike and no arm sets, but for those of caches and whose doing is compared itself."""
    changes = {
        change.field[2]: change
        for each in found.values()
        for change in (*each.stack.changes, *each.limits.changes)
        if change.kind == "varies" and change.field[:2] == _VARIABLES
    }
    told = {name for name, _ in set_variables(baseline, side)} | _searched(baseline, side)
    return [change for name, change in changes.items() if _tells(name, told)]


def _searched(*sides: Side) -> set[str]:
    """The variable by which packages are found that an arm asks for."""
    return {SEARCHED for each in sides if each.arm is not None and each.arm.builds}


def _tells(variable: str, told: Collection[str]) -> bool:
    return variable not in told and not of_variable(variable).is_told_by_effect and "CACHE" not in variable


def settings(baseline: Side, side: Side, changes: Sequence[Change]) -> Iterator[tuple[str, str]]:
    """The fields that the arms ask for in unequal ways, and no change of what the workers saw tells, with a sentence
    each.
    """
    if baseline.arm is None or side.arm is None:
        return
    told = {showing(change.field) for change in changes}
    for field, row in SETTINGS.items():
        if not _is_told_by_itself(row) and field not in told and _asked(baseline.arm, row) != _asked(side.arm, row):
            here, there = (_setting(arm, row) for arm in (baseline.arm, side.arm))
            yield field, f"{row.key} is {here} in {baseline.name} and {there} in {side.name}"


def _is_told_by_itself(row: Setting) -> bool:
    """By what is found there, or as the variables that it changes."""
    return row.is_place or row.checked == ENV.checked


def _asked(arm: Arm, row: Setting) -> Any:
    return getattr(arm, row.field) if is_set(arm, row) else None


def _setting(arm: Arm, row: Setting) -> str:
    return row.shown(getattr(arm, row.field)) if is_set(arm, row) else "not set"


def set_variables(baseline: Side, side: Side) -> Iterator[tuple[str, str]]:
    """The variables that the arms set in unequal ways, each with a sentence; without its value, which may be secret."""
    one, other = (_variables_of(each.arm) for each in (baseline, side))
    for name in sorted({*one, *other}):
        if one.get(name) != other.get(name):
            where = [each.name for each, own in ((baseline, one), (side, other)) if name in own]
            does = "set" if {*one.get(name, {}), *other.get(name, {})} == {ENV.field} else "changed"
            yield name, f"the variable {name} is {does} in {' and otherwise in '.join(where)}"


def asked_variables(baseline: Side, side: Side) -> list[str]:
    """Those that the arms set in unequal ways, where they were asked to differ in nothing else; else []."""
    one, other = baseline.arm, side.arm
    if one is None or other is None:
        return []
    if one != replace(other, name=one.name, variables=one.variables, passed=one.passed):
        return []
    return [name for name, _ in set_variables(baseline, side)]


def _variables_of(arm: Arm | None) -> dict[str, dict[str, str]]:
    """The variables that an arm asks for -> settings that ask for it -> what they say of it."""
    found: dict[str, dict[str, str]] = {name: {ENV.field: "passed on"} for name in (arm.passed if arm else ())}
    for row in (each for each in SETTINGS.values() if each.checked == ENV.checked):
        value = getattr(arm, row.field, ())
        for name in value:
            found.setdefault(name, {})[row.field] = value[name] if row.is_each else ""
    return found


def placement(baseline: Side, side: Side, changes: Sequence[Change]) -> list[Differing]:
    """Where the first workers were, by CPUs, and how many threads they had, where no change tells."""
    if not baseline.used or not side.used:
        return []
    told = {change.field[:2] for change in changes}
    one, other = baseline.used[0].placement, side.used[0].placement
    had: list[tuple[FactId, list[Any], Callable[[Any], str]]] = [
        (FactId("limits", "cpus_allowed"), [one.cpus, other.cpus], _placed),
        (FactId("software", "threads"), [one.threads, other.threads], _count),
    ]
    return [
        Differing(words=f"{say(here)} in {baseline.name} and {say(there)} in {side.name}", about=field, is_known=True)
        for field, (here, there), say in had
        if field not in told and here != there
    ]


def _placed(cpus: Sequence[int]) -> str:
    return f"placed on CPUs {format_cpu_list(cpus)}"


def _count(threads: int | None) -> str:
    """Of the largest pool of a library."""
    return "an unknown number of threads" if threads is None else f"{threads} thread{'s' * (threads != 1)}"
