"""The arms that a suite names, as far as they start here, and what stands in for containers where none of them does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.errors import BackendUnavailable, InvalidRequest
from primbench.runtimes.table import check, known
from primbench.spec.arm import Arm
from primbench.spec.settings.confinement import FILTER
from primbench.workers.trial import starts_host_root, why_not

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def that_start(arms: Sequence[Arm]) -> tuple[list[Arm], list[str]]:
    """The arms without those whose runtime starts nothing here, and what to tell of them.

    Where no container is left of those there were: Docker's or Podman's confinement by runc or crun in place of these
    engines, else each runtime that starts one. Raises BackendUnavailable where none does.
    """
    reasons = _reasons({arm.runtime for arm in arms if starts_host_root(arm.runtime)})
    left = [arm for arm in arms if reasons.get(arm.runtime) is None]
    absent = [arm for arm in arms if arm not in left]
    told = _told(absent, reasons)
    if not absent or None in reasons.values():
        return left, told
    if instead := _instead_of(absent):
        return [*left, *instead], [*told, f"in their place: {', '.join(map(_in_words, instead))}"]
    raise BackendUnavailable(
        f"no container starts here: {'; '.join(told)}: install Podman, or runc for root, see `primbench arms`; or name "
        "other places by --arm"
    )


def _instead_of(absent: Sequence[Arm]) -> list[Arm]:
    works = [name for name, reason in _reasons(filter(_starts_containers, known())).items() if reason is None]
    return _confined(absent, works) or [Arm(name=name, runtime=name) for name in works]


def _starts_containers(name: str) -> bool:
    return starts_host_root(name) and not known()[name].is_sandbox


def _told(absent: Sequence[Arm], reasons: Mapping[str, str | None]) -> list[str]:
    return [f"{arm.name} is left out: {reasons[arm.runtime]}" for arm in absent]


def _reasons(names: Iterable[str]) -> dict[str, str | None]:
    """Why each runtime starts nothing here; None of one that does."""
    names = [*names]
    with ThreadPoolExecutor() as pool:
        return {name: reason for name, (reason, _) in zip(names, pool.map(why_not, names), strict=True)}


def _confined(arms: Iterable[Arm], works: Sequence[str]) -> list[Arm]:
    """An arm of an engine's own filter for each of these, by the first of its runners that starts anything."""
    found = []
    for arm in arms:
        runner = next((name for name in _runners(arm) if name in works), None)
        if runner is not None:
            filtered = {FILTER.field: getattr(arm, FILTER.field) or arm.runtime}
            found.append(replace(arm, runtime=runner, name=f"{arm.runtime}-profile", **filtered))
    return [arm for arm in found if _is_possible(arm)]


def _runners(arm: Arm) -> tuple[str, ...]:
    """What starts containers for the engine of an arm with the host's own files; () of any other."""
    runtime = known()[arm.runtime]
    return runtime.parts.runners if runtime.is_engine and runtime.parts and arm.on_host_root else ()


def _is_possible(arm: Arm) -> bool:
    """Whether its runtime has all that it asks for."""
    try:
        check(arm)
    except InvalidRequest:
        return False
    return True


def _in_words(arm: Arm) -> str:
    name = getattr(arm, FILTER.field)
    return f"{arm.name} ({arm.runtime}, {FILTER.said(name)})" if name else arm.name
