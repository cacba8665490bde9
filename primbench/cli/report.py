"""`primbench report`: Make one HTML page with pictures of what results files hold."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from primbench.baselines.roof import roof_of
from primbench.cli import commands
from primbench.cli.echo import say
from primbench.cli.option_types import FILE
from primbench.cli.options import overwrite_option
from primbench.cli.outputs import check_files, say_unknown, write
from primbench.cli.places import as_one, read_places, shown_whole
from primbench.cli.request import RequestCommand, argument, dataclass, option
from primbench.compare.pairs import compare, compare_runs
from primbench.compare.runs import side_of
from primbench.compare.sides import sides_of
from primbench.errors import InvalidRequest
from primbench.experiments.why.inquiry import recalled
from primbench.report import compared, formats, measured, overview, why
from primbench.report.plain import printable
from primbench.results.file import read, read_by
from primbench.results.lines import times_alone_but_where

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from primbench.cli.places import NamedRuns
    from primbench.compare.sides import Side
    from primbench.report.document import Document
    from primbench.results.file import Results


RANK = 180


@dataclass(frozen=True, kw_only=True)
class DrawFiles:
    """To make a page of results files."""

    files: tuple[str, ...] = argument(type=FILE, metavar="FILE.jsonl|FOLDER|NAME...", nargs=-1, required=True)
    baseline: str | None = option(
        "--baseline", group="Compare", metavar="NAME",
        help="The arm that others are set against. Default: the study's first.")  # fmt: skip
    page: str = option(
        "-o", "--output", group="Output", type=FILE, metavar="FILE.html", default="report.html", show_default=True,
        help="Write the page here; - is stdout.")  # fmt: skip
    overwrite: bool = overwrite_option()


def _report(asked: DrawFiles) -> None:
    if asked.baseline is not None and len(asked.files) > 1:
        raise InvalidRequest("--baseline and several files: the first file is the baseline")
    places = read_places(asked.files, may_be_empty=True, read=_reading_alone() if len(asked.files) == 1 else read)
    check_files([asked.page], [file for place in places for file in place.files], overwrite=asked.overwrite)
    say_unknown(*(run for place in places for run in place.runs))
    write(asked.page, formats.known()["report"].write(_page(places, asked.baseline)))
    if asked.page != "-":
        say(printable(f"Written: {asked.page}"), err=True)


def _reading_alone() -> Callable[[str], Results]:
    """Of records by themselves more than a table has rows of is shown by their times alone; arms are compared."""
    is_shown = shown_whole()
    return partial(read_by, decode=times_alone_but_where(lambda each: bool(each.case.arm) or is_shown(each)))


def _page(places: Sequence[NamedRuns], baseline: str | None) -> Document:
    first, *others = places
    if not others:
        return _of_one(first, baseline)
    files = [(place.label, as_one(place)) for place in places]
    pages = [(other.label, _beside(first, other)) for other in others]
    page = compared.pages(pages, first.label) if others[1:] else pages[0][1]
    parts = [overview.of_files(files), *page.sections(), *compared.of_files(files)]
    return replace(page, sections=lambda: parts)


def _of_one(place: NamedRuns, baseline: str | None) -> Document:
    if baseline is not None or len(place.runs) > 1:
        return _one_page(place, baseline)
    study = as_one(place).header.study
    if study and study.why:
        return _why_page(place)
    return _answered(place) or _one_page(place, baseline)


def _answered(place: NamedRuns) -> Document | None:
    """By the command that wrote the file, where it has an answer of its own; then the records."""
    (results,) = place.runs
    found: Document | None = next(filter(None, (each.answered(results) for each in commands.answerers())), None)
    if found is None:
        return None
    parts = [*found.sections(), *compared.of_files([("", results)])]
    return replace(found, sections=lambda: parts)


def _why_page(place: NamedRuns) -> Document:
    found = why.page(recalled(place.runs[0]), place.label)
    return replace(found, sections=lambda: [*found.sections(), measured.again(place.runs)])


def _one_page(first: NamedRuns, baseline: str | None) -> Document:
    results = as_one(first)
    sides = [*sides_of(results).values()]
    if len(sides) > 1 and len(first.runs) == 1:
        return _study_page(results, sides, first.label, baseline)
    if baseline is not None and len(first.runs) > 1:
        raise InvalidRequest(f"--baseline {baseline}: {first.label} holds several runs: name one of its files")
    if baseline is not None:
        raise InvalidRequest(f"--baseline {baseline}: {first.files[0]} holds no two arms")
    roof = roof_of(results)
    return measured.page(results, [roof] if roof else [], first.label, first.runs)


def _beside(one: NamedRuns, other: NamedRuns) -> Document:
    """Raises InvalidRequest where a file is of several arms, or the two hold unequal cases."""
    sides = [side_of(each.runs, each.label) for each in (one, other)]
    comparison = compare_runs(one.runs, other.runs, (one.label, other.label), (one.files[-1], other.files[-1]))
    return compared.beside(comparison, sides, [*one.runs, *other.runs], f"{other.label} against {one.label}")


def _study_page(results: Results, sides: Sequence[Side], file: str, baseline: str | None) -> Document:
    return compared.page(compare(results, baseline), sides, [results], file)


command = RequestCommand(
    "report",
    DrawFiles,
    _report,
    help="Make one HTML page of what a results file holds, or of what others differ in from the first: the answer, "
         "pictures with all their numbers, what differs between the places, and how to do it again. A folder holds "
         "several runs of one place; NAME is of a baseline in .primbench/baselines.\n\n"
         "The page asks for no other file, and works without scripts.\n\n"
         "\b\n"
         "primbench report study.jsonl -o report.html\n"
         "primbench report host.jsonl container.jsonl",
)  # fmt: skip
