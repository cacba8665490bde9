"""The sections of a page that set places side by side: verdicts, what they rest on, what tells the places apart."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from primbench.compare.sides import identity
from primbench.report import measured
from primbench.report.arm_notes import notes_of
from primbench.report.cautions import cautions
from primbench.report.comparison import left_out
from primbench.report.document import Column, Document, Note, Section, Table
from primbench.report.figures.forest import forest
from primbench.report.figures.strips import strips
from primbench.report.figures.tails import tails
from primbench.report.headline import headline, tone
from primbench.report.plain import named
from primbench.spec.naming import name_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.compare.comparison import ArmComparison, CaseComparison, Comparison
    from primbench.compare.sides import Side
    from primbench.report.document import Figure, Tone
    from primbench.results.file import Results

MOST_CASES = 24  # drawn one by one


def sections(comparison: Comparison, sides: Sequence[Side]) -> Iterator[Section]:
    """What its arms cost, what that rests on, and what they differ in. sides: what was compared."""
    verdicts: list[Note | Figure] = [*left_out(comparison), *chain.from_iterable(cautions(comparison))]
    for arm in comparison.all_arms:
        verdicts += [*_arm(arm, comparison)]
    if verdicts := [*verdicts, *map(Note, comparison.notes)]:
        yield Section("Verdicts", verdicts)
    if figures := [*_processes(comparison, sides)]:
        yield Section("Process by process", figures)
    if figures := [*_slow_calls(comparison, sides)]:
        yield Section("Slow calls", figures)
    if differing := [*_differing(comparison)]:
        yield Section("What differs between the places", differing, is_folded=True)


def _arm(arm: ArmComparison, comparison: Comparison) -> Iterator[Note | Figure]:
    if (figure := forest(arm, comparison.baseline)) is not None:
        yield figure
    yield from notes_of(arm, comparison)


def _differing(comparison: Comparison) -> Iterator[Table]:
    for arm in comparison.all_arms:
        if arm.differing:
            columns = [
                Column("what", [each.words for each in arm.differing]),
                Column("is of", [each.layer or "what was asked for" for each in arm.differing]),
                Column("effect", ["known" if each.is_known else "unknown" for each in arm.differing]),
            ]
            yield Table(f"{arm.name} against {comparison.baseline}", columns)


def _decided(comparison: Comparison) -> list[tuple[CaseComparison, str]]:
    """Each case once with the metric that decided it, those first in which any arm is furthest from the baseline."""
    found: dict[bytes, tuple[float, CaseComparison, str]] = {}
    for _, case, estimate in comparison.decided:
        distance, key = abs(math.log(estimate.ratio)), identity(case.case)
        if key not in found or distance > found[key][0]:
            found[key] = distance, case, estimate.metric
    return [(case, metric) for _, case, metric in sorted(found.values(), key=lambda each: -each[0])]


def _processes(comparison: Comparison, sides: Sequence[Side]) -> Iterator[Figure | Note]:
    decided = _decided(comparison)
    drawn = [strips(case.case, identity(case.case), metric, sides) for case, metric in decided[:MOST_CASES]]
    if figures := [*filter(None, drawn)]:
        yield Note("Processes of one place differ, too: this scatter is what a difference is judged by.")
        yield from figures
        yield from _left_out(decided)


def _slow_calls(comparison: Comparison, sides: Sequence[Side]) -> Iterator[Figure | Note]:
    """Of cases whose slow calls are themselves a finding."""
    decided = [each for each in _decided(comparison) if (found := each[0].case.known_problem()) and found.has_tails]
    for case, _ in decided[:MOST_CASES]:
        samples = {side.name: measured.single_calls(side.cases.get(identity(case.case), [])) for side in sides}
        if figure := tails(f"{name_of(case.case)}: slow calls", samples):
            yield figure
    yield from _left_out(decided)


def _left_out(cases: Sequence[object]) -> Iterator[Note]:
    if len(cases) > MOST_CASES:
        yield Note(f"Drawn are the {MOST_CASES} of {len(cases)} cases that differ most.")


def beside(comparison: Comparison, sides: Sequence[Side], files: Sequence[Results], title: str = "") -> Document:
    """What tells the places apart, without the records. sides: what was compared, which is in the files."""
    answer = Note(_answer(comparison, files), tone=tone(comparison))
    return Document(measured.title_of(title, *files), answer, lambda: [*sections(comparison, sides)])


def page(comparison: Comparison, sides: Sequence[Side], files: Sequence[Results], title: str = "") -> Document:
    """Of arms, or of files that are set beside each other. sides: what was compared, which is in the files."""
    found = beside(comparison, sides, files, title)
    names = [side.name for side in sides] if len(files) == len(sides) > 1 else [""] * len(files)
    parts = [*found.sections(), *of_files([*zip(names, files, strict=True)])]
    return replace(found, sections=lambda: parts)


def of_files(files: Sequence[tuple[str, Results]]) -> Iterator[Section]:
    """The records of each file with its name, the place of the first, and how to measure them again."""
    for name, results in files:
        yield from measured.sections(results, is_folded=True, file=name)
    for _, results in files[:1]:
        yield from measured.places(results)
    yield measured.again([results for _, results in files])


def _answer(comparison: Comparison, files: Sequence[Results]) -> str:
    """Where nothing was compared, also what became of the cases."""
    found = [] if comparison.decided else [measured.answer(results) for results in files]
    return " ".join([headline(comparison), *found])


def pages(each: Sequence[tuple[str, Document]], against: str) -> Document:
    """Of several that are set against one, each with its name, by which sections say of which they are.

    The answer of each stands in its first section.
    """
    sections = [
        replace(section, title=f"{name}: {section.title}", parts=[*([] if number else _told(one)), *section.parts])
        for name, one in each
        for number, section in enumerate(one.sections())
    ]
    answers = [(name, one.answer) for name, one in each if one.answer]
    title = f"{named([name for name, _ in each])} against {against}"
    return Document(title, _of_several(answers, against), lambda: sections)


_OF_SEVERAL: dict[Tone, str] = {
    "worse": "something is slower, or fails more often, in",
    "open": "not all is told of",
    "fine": "nothing is slower in",
}
"""What is said of those whose answers have that tone, the worst first."""


def _of_several(answers: Sequence[tuple[str, Note]], against: str) -> Note:
    of_tone = {tone: [name for name, answer in answers if answer.tone == tone] for tone in _OF_SEVERAL}
    clauses = [f"{_OF_SEVERAL[tone]} {named(names)}" for tone, names in of_tone.items() if names]
    worst = next((tone for tone, names in of_tone.items() if names), None)
    return Note(f"{len(answers)} against {against}: {'; '.join(clauses)}.", tone=worst)


def _told(page: Document) -> list[Note]:
    answer = page.answer
    return [Note(answer.words, "warning" if answer.tone in ("worse", "open") else "plain")] if answer else []
