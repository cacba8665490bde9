"""The sections of a page that set places side by side: verdicts, what they rest on, what tells the places apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.report.cautions import cautions
from primbench.report.columns import Column
from primbench.report.comparison import notes_of
from primbench.report.document import Note, Numbers, Section
from primbench.report.figures.forest import forest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.compare.comparison import ArmComparison, Comparison
    from primbench.report.document import Figure


def sections(comparison: Comparison) -> Iterator[Section]:
    """Of a comparison by itself: what its arms cost, and what they differ in."""
    verdicts: list[Note | Figure] = [*_cautions(comparison)]
    for arm in comparison.all_arms:
        verdicts += [*_arm(arm, comparison)]
    yield Section("Verdicts", [*verdicts, *map(Note, comparison.notes)])
    if differing := [*_differing(comparison)]:
        yield Section("What differs between the places", differing, is_folded=True)


def _cautions(comparison: Comparison) -> Iterator[Note]:
    for paragraph in cautions(comparison):
        yield from (Note(line, is_warning=line[:3].isupper()) for line in paragraph)


def _arm(arm: ArmComparison, comparison: Comparison) -> Iterator[Note | Figure]:
    if (figure := forest(arm, comparison.baseline)) is not None:
        yield figure
    yield from map(Note, notes_of(arm, comparison))


def _differing(comparison: Comparison) -> Iterator[Numbers]:
    for arm in comparison.all_arms:
        if arm.differing:
            columns = [
                Column("what", [each.words for each in arm.differing]),
                Column("is of", [each.layer or "what was asked for" for each in arm.differing]),
                Column("effect", ["known" if each.is_known else "unknown" for each in arm.differing]),
            ]
            yield Numbers(f"{arm.name} against {comparison.baseline}", columns)
