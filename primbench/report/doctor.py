"""Findings for people and other programs: worst first, what could not be seen once a reason, commands at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.report.document import Document, Note, Section, Table
from primbench.report.plain import printable
from primbench.system.files import format_cpu_list

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.doctor.cause import Finding, Hindrance, Severity
    from primbench.doctor.place import Place
    from primbench.report.document import Look

SHOWN: dict[Severity, Look | None] = {"problem": "worse", "warning": "open", "note": None}


def document(place: Place, findings: Sequence[Finding], *, fix: bool = False) -> Document:
    """The whole has those that are "ok" or "unknown", too. fix: with the commands that change what was found."""
    shown = [each for severity in SHOWN for each in findings if each.severity == severity]
    parts: list[list[Note | Table]] = [
        [Note(_where(place))],
        [*map(_table, shown)],
        [*_unseen(findings)],
        [Note(_counts(findings))],
        [Note("\n".join(_commands(findings)), "code")] if fix else [],
    ]
    return Document(
        title="doctor",
        answer=None,
        sections=lambda: [Section("", each) for each in parts],
        value={"place": place, "findings": findings},
    )


def _where(place: Place) -> str:
    runtime = place.confinement.runtime
    name = runtime.name if runtime is not None and runtime.name is not None else "unknown runtime"
    machine, limits = place.machine, place.limits
    gpus: dict[str, int] = {}
    for gpu in place.gpus:
        model = gpu.name or "GPU"
        gpus[model] = gpus.get(model, 0) + 1
    none = "no GPU to be seen" if place.pid is None else "no GPU known to be open"
    parts = [
        name,
        f"kernel {machine.kernel}",
        f"CPUs {format_cpu_list(limits.cpus_allowed)}" + (f" of {machine.cpus_total}" if machine.cpus_total else ""),
        ", ".join(f"{count} x {model}" for model, count in gpus.items()) or none,
    ]
    what = "This place" if place.pid is None else f"Process {place.name}"
    return f"{what}: " + "; ".join(parts)


def _table(finding: Finding) -> Table:
    rows = [*told(finding), *([("advice", finding.advice)] if finding.advice else [])]
    return Table.listed(f"{finding.severity}: {finding.cause}: {finding.summary}", rows, look=SHOWN[finding.severity])


def told(found: Finding | Hindrance) -> Iterator[tuple[str, str]]:
    """What it was seen in, and what it distorts, where that is known."""
    for label, words in (("seen in", "; ".join(found.evidence)), ("distorts", ", ".join(found.distorts or ()))):
        if words:
            yield label, words


def _unseen(findings: Sequence[Finding]) -> Iterator[Note]:
    """The unknowns by their reason: one cause, such as a missing driver, hides many fields."""
    unknown = [finding for finding in findings if finding.severity == "unknown"]
    fields: dict[str, list[str]] = {}
    for finding in unknown:
        for field, reason in zip(map(str, finding.values[::2]), map(str, finding.values[1::2]), strict=True):
            fields.setdefault(reason, []).append(f"{finding.cause} ({field})")
    words = "; ".join(f"{', '.join(dict.fromkeys(names))}: {reason}" for reason, names in fields.items())
    if words:
        shown_by = dict.fromkeys(f"; `{command}` shows what was refused" for each in unknown for command in each.fix)
        yield Note(f"could not be seen: {words}{''.join(shown_by)}")


def _counts(findings: Sequence[Finding]) -> str:
    counts = {severity: sum(finding.severity == severity for finding in findings) for severity in (*SHOWN, "ok")}
    words = [f"{counts[severity]} {severity}{'' if counts[severity] == 1 else 's'}" for severity in SHOWN]
    return f"{', '.join(words)}; {counts['ok']} checks found nothing to say"


def _commands(findings: Sequence[Finding]) -> Iterator[str]:
    with_fix = [finding for finding in findings if finding.fix and finding.severity != "unknown"]
    yield (
        "# Commands that change what was found. Read them first; primbench runs none of them."
        if with_fix
        else "# no command would change any of this"
    )
    for finding in with_fix:
        yield f"# {finding.cause}: {printable(finding.advice or finding.summary)}"
        yield from map(printable, finding.fix)
