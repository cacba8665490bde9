"""What tells two places apart, in words: what a difference in time may be called, and all that differs beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.compare.effects import changes_of
from primbench.report.environment import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.compare.comparison import ArmComparison, Comparison
    from primbench.system.meaning import Layer

MOST_CHANGES = 8
_LAYERS: dict[str, tuple[Layer, ...]] = {
    "stack effect": ("stack", "machine"),
    "machine effect": ("machine", "stack"),
}
_WHAT: dict[Layer, str] = {"machine": "machines", "stack": "libraries"}


def effect(arm: ArmComparison, comparison: Comparison) -> Iterator[str]:
    """What a difference may be called, and what of the stacks or machines differs where it is theirs."""
    if not comparison.paired and not comparison.has_runs:
        return
    if arm.effect is None:
        yield "a difference is of an unknown kind: whether both loaded the same libraries could not be seen"
    elif arm.effect == "case effect":
        yield f"a difference is that of what is measured: {_otherwise(arm)}"
    elif arm.effect not in ("stack effect", "machine effect"):
        yield f"a difference is a {arm.effect}: the libraries are of the same builds"
    else:
        own, *too = _layers(arm)
        yield f"a difference is a {arm.effect}, none of the place alone; {_changes(arm, comparison, own)}"
        yield from (f"the {_WHAT[layer]} differ, too; {_changes(arm, comparison, layer)}" for layer in too)


def _otherwise(arm: ArmComparison) -> str:
    """What its cases have that those they are compared with have otherwise."""
    (first, *_) = (each.case for each in arm.cases)
    found = arm.arm.case if arm.arm else {}
    return ", ".join(f"{name}={value} in place of {first.word_of(name)}" for name, value in found.items())


def _layers(arm: ArmComparison) -> list[Layer]:
    """Those whose differences stand beside the name of the effect."""
    order = _LAYERS.get(arm.effect or "", ())
    return [layer for layer in order if layer == order[0] or changes_of(arm.differences, layer)]


def _changes(arm: ArmComparison, comparison: Comparison, layer: Layer) -> str:
    words = [
        f"{change.field} {shown(change.field, change.a, 'none')} | {shown(change.field, change.b, 'none')}"
        for change in changes_of(arm.differences, layer)
    ]
    return f"{comparison.baseline} | {arm.name}: {_first(words) or 'two that are alike in all that is recorded'}"


def beside(arm: ArmComparison) -> Iterator[str]:
    """Whatever differs and is told neither beside the effect nor as a cause."""
    told = {each for case in arm.cases if case.explanation for each in case.explanation.about}
    untold = [each for each in arm.differing if each.layer not in _layers(arm) and each.about not in told]
    for title, is_known in (("differs", True), ("differs, effect unknown", False)):
        yield from _line(title, [each.words for each in untold if each.is_known == is_known])


def _line(title: str, words: list[str]) -> Iterator[str]:
    if words:
        yield f"{title}: {_first(words)}"


def _first(words: list[str]) -> str:
    more = f"; and {len(words) - MOST_CHANGES} more" if len(words) > MOST_CHANGES else ""
    return f"{'; '.join(words[:MOST_CHANGES])}{more}"
