"""What a results file asks about: of a study the case in which two of its places differ most; of what was recorded in
one place that place, as settings here.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from msgspec.structs import replace

from primbench.compare.differing import change_in_words
from primbench.compare.explain import as_run
from primbench.compare.pairs import compare
from primbench.compare.sides import identity, sides_of
from primbench.environment.difference import difference
from primbench.errors import InvalidRequest
from primbench.spec import naming
from primbench.spec.arm import Arm
from primbench.spec.placement import THREAD_VARIABLES, Placement
from primbench.spec.settings import SETTINGS, showing
from primbench.spec.settings.variables import ENV, UNSET
from primbench.system.meaning import Layer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from primbench.compare.comparison import Comparison, Decided
    from primbench.compare.sides import Side
    from primbench.environment.difference import Change
    from primbench.environment.fingerprint import Environment
    from primbench.results.file import Results
    from primbench.spec.case import Case


class Worst(NamedTuple):
    """The case of a study in which two places differ most."""

    fast: Arm
    """The fast place, as it was run."""
    slow: Arm
    """The slow place, as it was run."""
    case: Case
    """The case in which they differ most."""


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


class Elsewhere(NamedTuple):
    """A place that was recorded, as settings here."""

    arm: Arm
    """Settings here that make such a place."""
    case: Case
    """The case that was measured in it, by the method of there."""
    times_s: dict[str, list[float]]
    """Metric -> seconds in each process."""
    left_out: list[str]
    """What, in words, is otherwise here and no setting moves."""


def elsewhere(path: str, found: Results, here: Environment, wanted: Collection[str]) -> Elsewhere:
    """What was recorded in one place, with what is otherwise here turned into settings.

    here: this process's place, without a framework. wanted: primitives, or such with their options; all, where empty.
    Raises InvalidRequest where the file has several places, or not one case that is wanted.
    """
    sides = [*sides_of(found).values()]
    if len(sides) != 1:
        named = ", ".join(side.name for side in sides) or "none"
        raise InvalidRequest(f"{path}: of one place, and not of {len(sides)} ({named}): ask by primbench why {path}")
    (side,) = sides
    key, case = _wanted(path, side, wanted)
    worker = side.worker_of(case.backend, case.device)
    if worker is None:
        raise InvalidRequest(f"{path}: tells nothing of the place that it was measured in")
    fields, left_out = _settings(_differing(here, worker.environment), case.placement)
    name = "-".join(re.findall(r"[\w.]+", Path(path).name))
    return Elsewhere(
        arm=Arm(name=name, placement=case.placement, **fields),
        case=replace(case, arm="", process=0, placement=Placement()),
        times_s={metric: [*values.values()] for metric, values in side.numbers_of(key).of_all.items()},
        left_out=[change_in_words(each, "this place", name) for each in left_out],
    )


def _wanted(path: str, side: Side, wanted: Collection[str]) -> tuple[bytes, Case]:
    cases = {key: records[0].case for key, records in side.cases.items()}
    words = {key: naming.in_words(case) for key, case in cases.items()}
    found = [(key, case) for key, case in cases.items() if not wanted or {case.primitive, words[key]} & {*wanted}]
    if len(found) != 1:
        named = ", ".join(f"--primitive '{each}'" for each in words.values())
        raise InvalidRequest(f"{path}: {len(found)} of its cases are asked about: one of them: {named}")
    return found[0]


def _differing(here: Environment, there: Environment) -> Iterator[Change]:
    found = difference(here, there, same_work=False)
    for layer in get_args(Layer):
        yield from (each for each in getattr(found, layer).changes if each.kind == "differs")


def _settings(changes: Iterable[Change], placement: Placement) -> tuple[dict[str, Any], list[Change]]:
    """Fields of an arm, and what none of them moves. placement: of the case, which sets variables by itself."""
    fields: dict[str, Any] = {}
    left_out = [each for each in changes if not _set(fields, each, placement)]
    return fields, [each for each in left_out if showing(each.field) not in fields]


def _set(fields: dict[str, Any], change: Change, placement: Placement) -> bool:
    """Whether what is otherwise there can be set, or need not be."""
    if change.field[:2] == ENV.checked:
        return _set_variable(fields, str(change.field[2]), change.b, placement)
    row = next((row for row in SETTINGS.values() if row.recorded and row.checked == tuple(change.field)), None)
    value = row.recorded(change.b) if row and row.recorded else None
    if row is not None and value is not None:
        fields[row.field] = value
    return value is not None


def _set_variable(fields: dict[str, Any], name: str, value: str | None, placement: Placement) -> bool:
    if name in THREAD_VARIABLES and placement.threads is not None:
        return True
    if value is None:
        fields[UNSET.field] = (*fields.get(UNSET.field, ()), name)
        return True
    readable = ENV.recorded(value) if ENV.recorded else None
    if readable is not None:
        fields.setdefault(ENV.field, {})[name] = readable
    return readable is not None
