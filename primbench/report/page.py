"""The whole page of what results files hold."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from primbench.decompose.sums import explained as explained_of
from primbench.report import compared, explained, measured
from primbench.report.document import Note, Page, Section, Table
from primbench.report.figures.step import step
from primbench.report.fleet_changes import named
from primbench.report.headline import headline, tone
from primbench.report.numa import headlines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.baselines.yardstick import Yardstick
    from primbench.compare.comparison import Comparison
    from primbench.compare.sides import Side
    from primbench.decompose.sums import Explained
    from primbench.experiments.numa import Affinity
    from primbench.report.document import Document, Figure, Tone
    from primbench.results.file import Results


def of_results(
    results: Results, yardsticks: Sequence[Yardstick] = (), title: str = "", files: Sequence[Results] = ()
) -> Page:
    """The page of one file, or of several whose records are in one. title: its name. files: the several."""
    parts = [*_step(results), *measured.sections(results, yardsticks), *measured.places(results)]
    parts.append(measured.again(files or [results]))
    return Page(_title(title, *(files or [results])), measured.answer(results), parts)


def _step(results: Results) -> list[Section]:
    """Where the time of a step goes, where the file has its parts."""
    steps = {place: explained_of(records) for place, records in explained.places(results.records).items()}
    figures = [each for place, found in steps.items() if found for each in _drawn(f"The step {place}".rstrip(), found)]
    return [Section("Where the time of the step goes", figures)] if figures else []


def of_comparison(
    comparison: Comparison,
    sides: Sequence[Side],
    files: Sequence[Results],
    title: str = "",
) -> Page:
    """The page of arms, or of files that are set beside each other. sides: what was compared, which is in the files."""
    parts = [*compared.sections(comparison, sides)]
    for results in files:
        parts += measured.sections(results, is_folded=True)
    for results in files[:1]:
        parts += measured.places(results)
    sections = [*parts, measured.again(files)]
    return Page(_title(title, *files), _answer(comparison, files), sections, tone(comparison))


def _answer(comparison: Comparison, files: Sequence[Results]) -> str:
    """Where nothing was compared, also what became of the cases."""
    found = [] if comparison.decided else [measured.answer(results) for results in files]
    return " ".join([headline(comparison), *found])


def of_nodes(found: Affinity, results: Results) -> Page:
    """The page of what is near what. results: what that was found by."""
    return replace(of_results(results), answer=" ".join(f"{line}." for line in headlines(found)))


def of_pages(pages: Sequence[tuple[str, Page]], against: str) -> Page:
    """Several that are set against one, each with its name, by which sections say of which they are.

    The answer of each stands in its first section.
    """
    if len(pages) == 1:
        return pages[0][1]
    sections = [
        replace(section, title=f"{name}: {section.title}", parts=[*([] if number else [_told(each)]), *section.parts])
        for name, each in pages
        for number, section in enumerate(each.sections)
    ]
    tones = [each.tone for _, each in pages]
    tone = next((each for each in _OF_SEVERAL if each in tones), None)
    title = f"{named([name for name, _ in pages])} against {against}"
    return Page(title, _of_several(pages, against), sections, tone)


_OF_SEVERAL: dict[Tone, str] = {
    "worse": "something is slower, or fails more often, in",
    "open": "not all is told of",
    "fine": "nothing is slower in",
}
"""What is said of those whose answers have that tone, the worst first."""


def _of_several(pages: Sequence[tuple[str, Page]], against: str) -> str:
    of_tone = {tone: [name for name, each in pages if each.tone == tone] for tone in _OF_SEVERAL}
    clauses = [f"{_OF_SEVERAL[tone]} {named(names)}" for tone, names in of_tone.items() if names]
    return f"{len(pages)} against {against}: {'; '.join(clauses)}."


def _told(page: Page) -> Note:
    return Note(page.answer, "warning" if page.tone in ("worse", "open") else "plain")


def of_steps(steps: Sequence[tuple[str, Explained]]) -> Page:
    """The page of steps that were taken apart, each with its title."""
    sections = [Section(title, [*_drawn(title, each), explained.numbers(title, each)]) for title, each in steps]
    return Page(", ".join(title for title, _ in steps), explained.answer(steps), sections)


def _drawn(title: str, found: Explained) -> list[Figure]:
    return [figure for figure in [step(f"{title}: where its time goes", found)] if figure]


def of_parts(document: Document, title: str) -> Page:
    """The page of a finding that has no pictures."""
    parts = [each for part in document.parts() for each in ([part] if isinstance(part, Table) else part)]
    if parts and isinstance(answer := parts[0], Note):
        return Page(title, answer.words, [Section("Found", parts[1:])], answer.tone)
    return Page(title, title, [Section("Found", parts)])


def _title(name: str, *files: Results) -> str:
    study = next((results.header.study for results in files if results.header.study), None)
    told = name or (study.title if study else "")
    return ", ".join(filter(None, [told, *dict.fromkeys(results.header.started_utc[:10] for results in files)]))
