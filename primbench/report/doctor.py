"""Findings for people: worst first, what could not be seen in one paragraph, commands in a block of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from primbench.report.plain import json_of, printable
from primbench.report.terminal import paragraph, said
from primbench.system.files import format_cpu_list

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.doctor.cause import Finding, Severity
    from primbench.doctor.place import Place

SHOWN: tuple[Severity, ...] = ("problem", "warning", "note")
COLOURS = {"problem": "red", "warning": "yellow", "note": "cyan"}
LABEL = "  {:<9}"  # evidence, distorts, advice


def to_text(place: Place, findings: Sequence[Finding], *, fix: bool) -> str:
    """fix: with the commands at the end. Colours are there for click.echo, which drops them off a terminal."""
    lines = [said(printable(_where(place))), ""]
    for severity in SHOWN:
        for finding in findings:
            if finding.severity == severity:
                lines += [*_shown(finding), ""]
    lines += _unseen(findings)
    lines.append(_counts(findings))
    if fix:
        lines += ["", *_commands(findings)]
    return "\n".join(lines) + "\n"


def to_json(place: Place, findings: Sequence[Finding]) -> str:
    """One document: {"place": ..., "findings": [...]}, those that are "ok" or "unknown" included."""
    document = {"place": place, "findings": findings}
    return json_of(document)


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


def _shown(finding: Finding) -> Iterator[str]:
    severity, check = finding.severity, printable(finding.cause)
    words = said(f"{severity}: {check}: {printable(finding.summary)}")[len(f"{severity}: {check}") :]
    yield f"{click.style(severity, fg=COLOURS[severity], bold=True)}: {click.style(check, bold=True)}{words}"
    yield from paragraph("; ".join(finding.evidence), LABEL.format("seen in"))
    yield from paragraph(", ".join(finding.distorts or ()), LABEL.format("distorts"))
    yield from paragraph(finding.advice or "", LABEL.format("advice"))


def _unseen(findings: Sequence[Finding]) -> list[str]:
    """The unknowns by their reason: one cause, such as a missing driver, hides many fields."""
    fields: dict[str, list[str]] = {}
    for finding in findings:
        if finding.severity == "unknown":
            for field, reason in zip(map(str, finding.values[::2]), map(str, finding.values[1::2]), strict=True):
                fields.setdefault(reason, []).append(f"{finding.cause} ({field})")
    words = "; ".join(f"{', '.join(dict.fromkeys(names))}: {reason}" for reason, names in fields.items())
    if not words:
        return []
    shown_by = dict.fromkeys(each for finding in findings if finding.severity == "unknown" for each in finding.fix)
    words = f"could not be seen: {words}" + "".join(f"; `{command}` shows what was refused" for command in shown_by)
    return [*paragraph(words, then="  "), ""]


def _counts(findings: Sequence[Finding]) -> str:
    counts = {severity: sum(finding.severity == severity for finding in findings) for severity in (*SHOWN, "ok")}
    words = [f"{counts[severity]} {severity}{'' if counts[severity] == 1 else 's'}" for severity in SHOWN]
    return f"{', '.join(words)}; {counts['ok']} checks found nothing to say"


def _commands(findings: Sequence[Finding]) -> list[str]:
    with_fix = [finding for finding in findings if finding.fix and finding.severity != "unknown"]
    if not with_fix:
        return ["# no command would change any of this"]
    lines = paragraph("Commands that change what was found. Read them first; primbench runs none of them.", "# ", "# ")
    for finding in with_fix:
        comment = f"{finding.cause}: {finding.advice or finding.summary}"
        lines += paragraph(comment, "# ", "# ")
        lines += map(printable, finding.fix)
    return lines
