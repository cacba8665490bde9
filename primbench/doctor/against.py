"""Two places: what differs between here and another one, as a file tells of it, and what that difference does.

Only what both know is compared: a difference to something unknown is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from primbench.doctor.cause import Finding
from primbench.doctor.table import causes, checks, findings
from primbench.environment import words
from primbench.environment.comparable import meaning_of
from primbench.environment.difference import Change, Difference, difference
from primbench.system.meaning import FactId

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.doctor.cause import Cause
    from primbench.doctor.place import Place

AGAINST = "against"
"""By which findings of two places begin, before the id of the cause."""
NAMESPACES = {
    "ipc": ("--ipc=host", "NCCL's ranks on the two sides share no memory, and GPUs no handles"),
    "net": ("--network=host", "NCCL's ranks on the two sides see other adapters and addresses"),
    "uts": ("--uts=host", "NCCL takes the two sides for two machines, unless NCCL_HOSTID says otherwise"),
}


def compare(here: Place, there: Place, name: str) -> list[Finding]:
    """Every difference that is known to move results, and what is wrong with the libraries loaded in the other place.

    name: of the file that tells of it.
    """
    found = difference(here.environment, there.environment, same_work=False)
    differing = [_finding(cause, changes, name) for cause, changes in by_cause(found)]
    loaded_there = [
        replace(finding, summary=f"in {name}: {finding.summary}")
        for cause in checks()
        if cause.is_of_loaded
        for finding in findings(cause, there)
    ]
    return [*differing, *_namespaces(here, there, name), *loaded_there]


def by_cause(found: Difference) -> list[tuple[Cause, list[Change]]]:
    """What is known to differ and to move results, the most upstream first."""
    layers = (found.stack, found.limits, found.confinement, found.machine)
    of: dict[str | None, list[Change]] = {}
    for change in (change for layer in layers for change in layer.changes if change.kind == "differs"):
        of.setdefault(meaning_of(change.field).rule, []).append(change)
    there = [cause for cause in causes().values() if cause.id in of]
    return [(cause, of[cause.id]) for cause in sorted(there, key=lambda each: each.upstream)]


def in_words(change: Change, one: str, other: str) -> str:
    """A difference as a sentence. one, other: names of the two places, such as "here"."""
    return f"{short(change.field)} is {_word(change.field, change.a)} {one} and {_word(change.field, change.b)} {other}"


def nothing_differs(name: str) -> Finding:
    """The finding that the two places were compared and are alike, which else would go unsaid."""
    return Finding(
        cause=AGAINST,
        severity="note",
        summary=f"of what both tell, nothing that is known to move results differs between here and {name}",
    )


def _finding(cause: Cause, changes: Sequence[Change], name: str) -> Finding:
    lines = [in_words(change, "here", f"in {name}") for change in changes]
    if len(lines) > 1:
        fields = ", ".join(short(change.field) for change in changes)
        summary = f"{len(lines)} things differ between here and {name}: {fields}"
    else:
        summary = lines[0]
    return Finding(
        cause=f"{AGAINST}-{cause.id}",
        severity=cause.severity,
        summary=summary,
        about=[change.field for change in changes],
        evidence=lines if len(lines) > 1 else [str(changes[0].field)],
        distorts=[*cause.slows],
        advice=f"{cause.effect}; make them equal, or say so where results of the two are compared",
    )


def short(field: FactId) -> str:
    """In words without its group: "limits.cpu_quota" is "cpu_quota"."""
    if len(field) == 1 or isinstance(field[1], int):
        return str(field)
    return str(FactId(*field[2 if meaning_of(field).by_itself else 1 :]))


def _word(field: FactId, value: Any) -> str:
    """All of a node that only one of the places has is there, and no more."""
    return "present" if value and isinstance(value, dict) else words.in_words(field, value)


def _namespaces(here: Place, there: Place, name: str) -> Iterator[Finding]:
    """Identities mean something within one kernel only: two places that see one GPU are on one."""
    ours, theirs = here.confinement.namespaces or {}, there.confinement.namespaces or {}
    if not _see_one_gpu(here, there):
        return
    for kind, (option, effect) in NAMESPACES.items():
        if kind in ours and kind in theirs and ours[kind] != theirs[kind]:
            yield Finding(
                cause=f"{AGAINST}-namespaces",
                severity="warning",
                summary=f"here and {name} do not share the {kind} namespace: {effect}",
                evidence=[f"/proc/self/ns/{kind}: {ours[kind]} here, {theirs[kind]} in {name}"],
                distorts=["collective"],
                advice=f"where one job spans both, start both by `docker run {option}` or `podman run {option}`",
            )


def _see_one_gpu(here: Place, there: Place) -> bool:
    ours, theirs = ({gpu.uuid for gpu in place.gpus if gpu.uuid} for place in (here, there))
    return not ours.isdisjoint(theirs)
