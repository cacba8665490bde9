"""What each ingredient of a container costs: arms of a study, each with all that the one before it has and one more.

The containers are plain ones of runc or crun on the host's own files, put together as an engine would.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from primbench.compare import pairs
from primbench.compare.comparison import ArmComparison, Comparison
from primbench.errors import BackendUnavailable, InvalidRequest, PrimbenchError
from primbench.numa.scan import memory_nodes, node_of_pci
from primbench.runtimes.table import known
from primbench.spec.arm import Arm
from primbench.spec.settings import SETTINGS
from primbench.system import nvml
from primbench.system.files import format_cpu_list
from primbench.workers.process import WorkerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from primbench.results.file import Results
    from primbench.runtimes.runtime import Engine
    from primbench.spec.study import Study
    from primbench.workers.protocol import Start

HOST = Arm(name="host")
BARE, BARE_IN_GROUP = "namespaces", "namespaces and control group"
PARTS = sorted(((row.ingredient, row) for row in SETTINGS.values() if row.ingredient), key=lambda pair: pair[0].rank)
BEYOND = {part.name: row for part, row in PARTS if part.usual is None}
"""Ingredients that a container has only when it is asked to."""
FAR_CPUS = next(name for name, row in BEYOND.items() if ("limits", "cpus_allowed") in row.shows)


def engines() -> dict[str, Engine]:
    """Name -> engine whose containers can be built up setting by setting."""
    return {name: runtime.engine for name, runtime in known().items() if runtime.engine is not None}


def runners() -> list[str]:
    """What may be asked to start the containers."""
    return list(dict.fromkeys(itertools.chain(*(engine.runners for engine in engines().values()))))


class AddedIngredient(NamedTuple):
    """One setting of a container. changes: what adds it to the arm before, as fields of Arm."""

    name: str
    changes: dict[str, Any]


def bare(runner: str) -> Arm:
    """The least of a container, to which ingredients are added: mount, pid and uts namespaces alone."""
    return Arm(name=BARE, runtime=runner, **{row.field: part.bare for part, row in PARTS})


def ingredients(engine: str, **asked: Any) -> list[AddedIngredient]:
    """What an engine adds to that without options, and what is asked for beyond, by the fields of settings."""
    room = engines()[engine].shared_memory_bytes
    found: dict[str, dict[str, Any]] = {}
    for part, row in PARTS:
        if part.usual is not None:
            found.setdefault(part.name, {})[row.field] = part.usual(engine, room)
        elif asked.get(row.field):
            found[part.name] = {row.field: asked[row.field]}
    return [AddedIngredient(name, changes) for name, changes in found.items()]


def is_one(study: Study) -> bool:
    """Whether its arms put together one container, each with one ingredient more."""
    return study.arms[0] == HOST and len(study.arms) > 2 and not _strange(study)


def _strange(study: Study) -> list[str]:
    """Arms that are none of these."""
    names = {BARE, BARE_IN_GROUP, *(each.name for engine in engines() for each in ingredients(engine)), *BEYOND}
    return [arm.name for arm in study.arms[1:] if arm.name not in names]


def check(study: Study) -> None:
    """Raises InvalidRequest where its arms do not put together one container, each with one ingredient more."""
    strange = _strange(study)
    if study.arms[0] != HOST or strange:
        words = ", ".join(strange) or study.arms[0].name
        raise InvalidRequest(f"--resume: of a study with arms of its own ({words}): go on with `primbench study`")


def runner_of(engine: str, asked: str | None = None) -> str:
    """What starts the containers: the one asked for, or the first that works here. Raises BackendUnavailable."""
    reasons = []
    for name in (asked,) if asked else engines()[engine].runners:
        reason, _ = known()[name].found()
        if reason is None:
            return name
        reasons.append(reason if name in reason else f"{name}: {reason}")
    raise BackendUnavailable(f"containers are put together by {' or '.join(runners())}: {'; '.join(reasons)}")


def far_cpus(device: str, root: Path = Path("/")) -> tuple[int, ...]:
    """CPUs of a memory node that is not the GPU's, of those that this process may use. Raises LookupError for none."""
    nodes = [node for node in memory_nodes(root) if node.cpus]
    if len(nodes) < 2:
        raise LookupError("this machine has CPUs on one memory node alone")
    near, own = _node_of(device, root), os.sched_getaffinity(0)
    for node in nodes:
        if node.id != near and (reachable := own & set(node.cpus)):
            return tuple(sorted(reachable))
    raise LookupError(f"this process may run on CPUs {format_cpu_list(own)} alone")


def _node_of(device: str, root: Path) -> int:
    if device == "cpu":
        raise LookupError("a CPU run has no device, of whose node it could be another")
    found = node_of_pci(nvml.pci_address(device), root)
    if found is None:
        raise LookupError(f"the kernel does not know the node of {device}")
    return found


def build_up(
    base: Arm, added: Sequence[AddedIngredient], refusal: Callable[[Arm], str | None]
) -> tuple[list[Arm], dict[str, str]]:
    """The arms from the host to the whole container, and the ingredients that cannot be had here, with the reason.

    base: what to begin with; where it cannot be had, it gets a control group of its own at once. refusal: why nothing
    runs in an arm, None where it does. Raises BackendUnavailable where not even that base can be had.
    """
    left_out: dict[str, str] = {}
    if reason := refusal(base):
        left_out["namespaces without a control group"] = reason
        base = replace(_with(base, added[0]) if added else base, name=BARE_IN_GROUP)
        added = added[1:]
        if reason := refusal(base):
            raise BackendUnavailable(reason)
    whole = [*itertools.accumulate(added, _with, initial=base)]
    if added and refusal(whole[-1]) is None:  # as a rule: then each ingredient can be had
        return [HOST, *whole], left_out
    arms = [HOST, base]
    for ingredient in added:
        arm = _with(arms[-1], ingredient)
        if reason := refusal(arm):
            left_out[ingredient.name] = reason
        else:
            arms.append(arm)
    return arms, left_out


def _with(arm: Arm, ingredient: AddedIngredient) -> Arm:
    return replace(arm, name=ingredient.name, **ingredient.changes)


def refusal_of(arm: Arm, start: Start) -> str | None:
    """Why a worker does not start in an arm, None where one has."""
    try:
        worker = WorkerProcess(start, arm=arm)
        _ = worker.ready
        worker.end()
    except PrimbenchError as error:
        return error.reason
    return None


class AblationStep(msgspec.Struct, frozen=True, kw_only=True):
    """An arm against the one before it."""

    before: str
    arm: ArmComparison


class Waterfall(msgspec.Struct, frozen=True, kw_only=True):
    """comparison: every arm against the host. steps: in their order; an arm that measured nothing has none."""

    title: str
    comparison: Comparison
    steps: list[AblationStep]
    notes: list[str] = []

    @property
    def wholes(self) -> dict[str, ArmComparison]:
        """The container as it is without options, and the one with all that was asked for beyond, against the host."""
        arms = self._measured()
        usual = [arm for arm in arms if arm.name not in BEYOND]
        found = {"all of it": usual[-1]} if usual else {}
        if beyond := [arm.name for arm in arms if arm.name in BEYOND]:
            found[f"all of it and {', '.join(beyond)}"] = arms[-1]
        return found

    def _measured(self) -> list[ArmComparison]:
        names = {step.arm.name for step in self.steps}
        return [arm for arm in self.comparison.arms if arm.name in names]


def waterfall(results: Results, comparison: Comparison) -> Waterfall:
    """comparison: of the results, as `compare` makes it."""
    study = results.header.study
    return Waterfall(
        title=study.title if study else "",
        comparison=comparison,
        steps=[AblationStep(before=before, arm=arm) for before, arm in pairs.successive(results)],
        notes=study.notes if study else [],
    )
