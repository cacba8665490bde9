"""The frame that all places of an inquiry have alike, so that how one is measured does not depend on its settings.

Between a host and a container, or two engines, lie containers of runc or crun on the host's own files, which can be
given each thing that an engine gives its containers. Where a limit is of a control group, all places get one.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from primbench.errors import BackendUnavailable, InvalidRequest
from primbench.experiments.why.ingredients import Mixtures
from primbench.experiments.why.rounds import RatioInterval
from primbench.runtimes.table import is_of_parts, known, runners
from primbench.spec.arm import Arm, settings_of
from primbench.spec.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable

_PARTS = [(row.ingredient, row) for row in SETTINGS.values() if row.ingredient]


class Framing(msgspec.Struct, frozen=True, kw_only=True):
    """What stands between the places that were asked about and those in one frame."""

    asked: RatioInterval
    """How many times as long the slow place takes as the fast one, both as they were asked about."""
    entering: RatioInterval
    """How many times as long the fast place takes in the frame."""
    leaving: RatioInterval
    """How many times as long the slow place takes as it was asked about, beside what was put together of its parts."""


class Frame(NamedTuple):
    """Two places in one frame, between which single settings can be moved."""

    fast: Arm
    """The fast place as it was asked about."""
    slow: Arm
    """The slow place as it was asked about."""
    base: Arm
    """The fast place in the frame."""
    whole: Arm
    """The slow place in the frame."""
    left_out: dict[str, str]
    """What of the slow place cannot be had in the frame, with the reason."""

    @property
    def others(self) -> list[Arm]:
        """The places that were asked about, where they are others than those in the frame."""
        return [] if (self.base, self.whole) == (self.fast, self.slow) else [self.fast, self.slow]


def framed(fast: Arm, slow: Arm, refusal: Callable[[Arm], str | None]) -> Frame:
    """refusal: why nothing runs in an arm, None where it does.

    Raises InvalidRequest where nothing lies between the two, BackendUnavailable where no container starts here.
    """
    if fast.runtime != slow.runtime:
        return _in_containers(fast, slow, refusal)
    (base, whole), how = _by_names(fast, slow), "one by one"
    if fast.runtime == "host" and _has_limits(fast, slow):
        (base, whole), how = (replace(arm, cgroup="private") for arm in (base, whole)), "in a group"
    if (base, whole) != (fast, slow):
        base, whole = (replace(arm, name=f"{arm.name} {how}") for arm in (base, whole))
    return Frame(fast, slow, base, whole, {})


def _by_names(*arms: Arm) -> tuple[Arm, ...]:
    """With each name in place of the word for all of them: a file says what that was, wherever it is read."""
    rows = [row for row in SETTINGS.values() if row.one_by_one and len({getattr(arm, row.field) for arm in arms}) > 1]
    return tuple(
        replace(arm, **{row.field: row.one_by_one(getattr(arm, row.field), arm) for row in rows if row.one_by_one})
        for arm in arms
    )


def _has_limits(fast: Arm, slow: Arm) -> bool:
    """Whether they differ in one that holds for a control group, and neither says what groups it has."""
    differing = {atom[0] for each in Mixtures(fast, slow).ingredients for atom in each.atoms}
    has_limits = any(SETTINGS[field].group for field in differing & SETTINGS.keys())
    return has_limits and fast.cgroup is None and slow.cgroup is None


def _in_containers(fast: Arm, slow: Arm, refusal: Callable[[Arm], str | None]) -> Frame:
    for arm in (fast, slow):
        if not is_of_parts(arm):
            raise InvalidRequest(
                f"{fast.name} and {slow.name}: {arm.name} has files of its own, or is put together by a program of its "
                f"own: nothing lies between the two: name two places by {slow.runtime}"
            )
    runner = _runner(fast, slow)
    (base, whole), left_out = _by_names(_made(fast, runner), _made(slow, runner)), dict[str, str]()
    if any(SETTINGS[field].group for arm in (fast, slow) for field in settings_of(arm)):
        base, whole = (replace(arm, cgroup="private") for arm in (base, whole))
    if reason := refusal(base):  # a container that stays in the groups of who starts it cannot be had everywhere
        base, left_out = replace(base, cgroup="private"), {"a place without a control group of its own": reason}
        if reason := refusal(base):
            raise BackendUnavailable(reason)
    if refusal(whole) is not None:
        whole, refused = _as_far_as_it_runs(base, whole, refusal)
        left_out |= refused
    return Frame(fast, slow, base, whole, left_out)


def _runner(*arms: Arm) -> str:
    """What starts containers in place of engines: by the engine's choice what works. Raises BackendUnavailable."""
    asked = [arm.runtime for arm in arms if arm.runtime in runners()]
    made = filter(None, (known()[arm.runtime].parts for arm in arms))
    reasons = []
    for name in asked or chain(*(each.runners for each in made)):
        reason, _ = known()[name].found()
        if reason is None:
            return name
        reasons.append(reason if name in reason else f"{name}: {reason}")
    raise BackendUnavailable(f"containers are put together by {' or '.join(runners())}: {'; '.join(reasons)}")


def _made(arm: Arm, runner: str) -> Arm:
    """The same put together by runc or crun: of the host the least of a container."""
    fields: dict[str, Any] = {} if arm.runtime == runner else {row.field: part.bare for part, row in _PARTS}
    runtime = known()[arm.runtime]
    if (parts := runtime.parts) is not None:
        fields |= {
            row.field: part.of(arm.runtime, parts.shared_memory_bytes, is_engine=runtime.is_engine)
            for part, row in _PARTS
        }
    own = {field: getattr(arm, field) for field in settings_of(arm)}
    kept = {"placement": arm.placement, "passed": arm.passed, "neighbour": arm.neighbour}
    return Arm(name=f"{arm.name} by {runner}", runtime=runner, **fields | own | kept)


def _as_far_as_it_runs(base: Arm, whole: Arm, refusal: Callable[[Arm], str | None]) -> tuple[Arm, dict[str, str]]:
    """The base with all of the other's that can be had, half of what is left added at a time."""
    mixtures = Mixtures(base, whole)
    refused = dict[str, str]()

    def add(numbers: list[int], had: frozenset[int]) -> frozenset[int]:
        reason = _tried(mixtures, had.union(numbers), refusal)
        if reason is None:
            return had.union(numbers)
        if len(numbers) == 1:
            refused[mixtures.ingredients[numbers[0]].words] = reason
            return had
        half = len(numbers) // 2
        return add(numbers[half:], add(numbers[:half], had))

    had = add(sorted(mixtures.all), frozenset())
    return replace(mixtures.arm(had), name=whole.name), refused


def _tried(mixtures: Mixtures, chosen: frozenset[int], refusal: Callable[[Arm], str | None]) -> str | None:
    try:
        return refusal(mixtures.arm(chosen))
    except InvalidRequest as error:
        return str(error)
