"""`primbench explain`: Measure a captured step, and show where its time goes."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from primbench.cli.captured import threads_of
from primbench.cli.options import Here, HowHere, max_time, min_time
from primbench.cli.request import RequestCommand, argument, dataclass, part
from primbench.cli.studying import time_budget
from primbench.errors import FileError, InvalidRequest, PrimbenchError
from primbench.units import format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from primbench.problem import Problem
    from primbench.report.document import Document
    from primbench.results.file import Results
    from primbench.results.record import Record
    from primbench.results.step_explained import Explained
    from primbench.spec.captured import Captured
    from primbench.suites import Entry, StudyFile
    from primbench.traces.kineto import TraceFile

    Step = tuple[str, Explained]
    Ended = PrimbenchError | SystemExit | None

RANK = 30
STEP = "step"
"""Label of cases, in which step they are."""
FLOP_A_BYTE, LEAST_BYTES = 100, 2**20
"""Of a large product, and what a GPU moves while it begins a kernel: so much is taken to last as long."""
TRACES = (".json", ".json.gz", ".et")
"""Ends of names of traces that torch's profiler has written, and of Chakra's, which are refused."""
LEAST_S, MOST_S = 5e-3, 30e-3
"""How long a part is sampled, of which there may be hundreds."""
USUAL_BUDGET_S = 60.0
"""How long an answer is waited for."""


@dataclass(frozen=True, kw_only=True)
class HowPartsAre(HowHere):
    """How the parts of a step are measured."""

    min_time_s: float | None = min_time(format_time(LEAST_S))
    max_time_s: float | None = max_time(format_time(MOST_S))
    time_budget_s: float | None = time_budget(
        "Begin no part that would end later than this; first come those that are likely to take most of the step. The "
        "others are said to take at most what is left of it.",
        USUAL_BUDGET_S,
    )


@dataclass(frozen=True, kw_only=True)
class MeasureParts(Here):
    """To measure the parts of steps."""

    how: HowHere = part(HowPartsAre)


@dataclass(frozen=True, kw_only=True)
class ExplainSteps:
    """To say where the time of captured steps goes."""

    files: tuple[str, ...] = argument(nargs=-1, required=True, metavar="STEP.toml|RESULTS.jsonl|TRACE.json...")
    here: Here = part(MeasureParts)


def _explain(asked: ExplainSteps) -> None:
    from primbench.cli.measuring import exit_as
    from primbench.cli.outputs import publish
    from primbench.report import explained as words
    from primbench.system.jsonlines import SUFFIXES
    from primbench.traces import kineto

    here = asked.here
    traces, files = _apart(asked.files)
    if not files:
        _traces(traces, here)
        return
    if traces and len(traces) + len(files) > 2:
        raise InvalidRequest(
            "several traces, or several steps, and both: explain a step beside one trace of its script"
        )
    recorded = [file.endswith(SUFFIXES) for file in files]
    if any(recorded) and not all(recorded):
        raise InvalidRequest("suites and results files in one: explain them one after the other")
    trace = kineto.read(traces[0]) if traces else None  # refused before minutes of measuring
    steps, records, ended = _of_results(files, here) if all(recorded) else _of_suites(files, here)
    document = words.document(steps)
    publish(_joined(document, steps, records, trace) if trace else document, here.exports.files)
    exit_as(ended, records)


def _apart(files: Sequence[str]) -> tuple[list[str], list[str]]:
    """Traces, and what else there is."""
    traces = [file for file in files if file.endswith(TRACES)]
    return traces, [file for file in files if file not in traces]


def _joined(document: Document, steps: Sequence[Step], records: Sequence[Record], trace: TraceFile) -> Document:
    """With what a trace of the script's own steps tells of the only one."""
    from primbench.traces import in_place

    if len(steps) > 1:
        raise InvalidRequest(f"{trace.path}: of one step, and there are {len(steps)}")
    return in_place.joined(document, *steps[0], records, trace)


def _traces(files: Sequence[str], here: Here) -> None:
    """Print what the steps in traces are bound by, and write the exports."""
    from primbench.cli.outputs import check_here, publish
    from primbench.traces import bound, kineto, report

    check_here(here, files)
    traces = [kineto.read(file) for file in files]
    publish(report.document(traces, [bound.bound_of(trace) for trace in traces]), here.exports.files)


def _of_results(files: Sequence[str], here: Here) -> tuple[list[Step], Sequence[Record], None]:
    """Steps, and their records."""
    from primbench.cli.outputs import check_here
    from primbench.results import file as results_file

    held = {file: results_file.read(file) for file in files}
    check_here(here, files)
    steps = [step for file, results in held.items() for step in _steps_in(file, results)]
    return steps, [record for results in held.values() for record in results.latest()], None


def _of_suites(files: Sequence[str], here: Here) -> tuple[list[Step], Sequence[Record], Ended]:
    """Parts and wholes of all, measured in one run, its records, and what has ended it before all of them were."""
    import primbench.suites as suites
    from primbench.cli.measuring import exit_as, leading, measured
    from primbench.cli.outputs import check_here
    from primbench.cli.resuming import resuming
    from primbench.results.writer import header

    said = {file: suites.study(file) for file in files}
    titles = {file: _title(file, each, is_alone=len(files) == 1) for file, each in said.items()}
    entries = [each for file in files for each in _entries(file, titles[file])]
    _check_parts(titles, [labels for _, labels in entries])
    with leading(entries, verbose=here.record.verbose) as leader, resuming(here.record.resume) as begun:
        threads = threads_of([each.captured for each in said.values()], here.where)
        here = replace(here, where=replace(here.where, threads=threads), how=_how(here.how, said.values()))
        check_here(here, files)
        first = header(sys.argv, dict(here.record.labels), captured=_captured(titles, said))
        results, ended = measured(entries, here, leader, begun, first, of_all=True)
    if ended is not None and not _is_begun(results):
        exit_as(ended, results.records)
    return _steps_in(", ".join(files), results), results.records, ended


def _captured(titles: Mapping[str, str], said: Mapping[str, StudyFile]) -> dict[str, Captured]:
    """By their titles."""
    return {titles[file]: each.captured for file, each in said.items() if each.captured}


def _entries(file: str, title: str) -> list[tuple[Problem, dict[str, str]]]:
    """First what is likely to take most of the step."""
    import primbench.suites as suites

    ordered = sorted(suites.read(file), key=_share, reverse=True)
    return [(entry.problem, {**entry.labels, STEP: title}) for entry in ordered]


def _is_begun(results: Results) -> bool:
    """Whether a part was measured, so that there is an answer."""
    from primbench.spec.captured import PARTS

    return any(record.status == "ok" and record.case.labels.get("set") == PARTS for record in results.records)


def _check_parts(titles: Mapping[str, str], every: Sequence[Mapping[str, str]]) -> None:
    """Raise FileError of a file without parts. titles: of the files' steps. every: the labels of each case."""
    from primbench.spec.captured import PARTS

    for file, title in titles.items():
        if not any(labels.get(STEP) == title and labels.get("set") == PARTS for labels in every):
            raise _without_parts(file)


def _share(entry: Entry) -> float:
    """Larger for what is likely to take more of a step, so that a run that is cut off has measured most of it."""
    from primbench.spec.captured import PARTS

    if entry.labels.get("set") != PARTS:
        return math.inf
    if getattr(entry.problem, "host_only", False):
        return 0.0
    work_bytes = LEAST_BYTES + entry.problem.memory_bytes() + (entry.problem.flop() or 0) / FLOP_A_BYTE
    return int(entry.labels.get("count", "1")) * work_bytes


def _how(how: HowHere, said: Iterable[StudyFile]) -> HowHere:
    """What is not asked for otherwise."""
    most_s = max(MOST_S, how.min_time_s or 0) if how.max_time_s is None else how.max_time_s
    least_s = min(LEAST_S, most_s) if how.min_time_s is None else how.min_time_s
    named = [each.backends for each in said if each.backends]
    return replace(how, min_time_s=least_s, max_time_s=most_s, backends=how.backends or (named[0] if named else ()))


def _title(file: str, said: StudyFile, *, is_alone: bool) -> str:
    words = said.captured.step if said.captured else said.title
    return words if is_alone else f"{words} ({file})"


def _steps_in(file: str, results: Results) -> list[Step]:
    """Each in each place, with its title. Raises FileError where none is."""
    from primbench.decompose.place import as_it_ran
    from primbench.report.step_totals import places
    from primbench.results.step_sums import explained

    found, records = [], results.latest()
    for title in dict.fromkeys(record.case.labels.get(STEP, file) for record in records):
        own = [record for record in records if record.case.labels.get(STEP, file) == title]
        for place, several in places(own).items():
            captured = results.header.captured.get(title)
            whole = as_it_ran(captured, results.workers, several)
            if (step := explained(several, whole, captured=captured)) is not None:
                found.append((f"{title}, {place}" if place else title, step))
    if not found:
        raise _without_parts(file)
    return found


def _without_parts(file: str) -> FileError:
    return FileError(f"{file}: no parts of a step, which `primbench capture` writes as set = 'parts'")


command = RequestCommand(
    "explain",
    ExplainSteps,
    _explain,
    help="Measure steps that were captured, their parts and the whole, and show where the time goes: by primitive, by "
         "other operators, launches, Python and autograd, and what is left unexplained.\n\n"
         "Three numbers are set beside the step's own: the sum of its parts' device times, the sum of their launches, "
         "and the larger of these two. The whole of a script's step are steps like it, timed as they ran when it was "
         "captured, of which waits for the data loader and for a CPU are told apart.\n\n"
         "A trace that torch.profiler wrote (TRACE.json, TRACE.json.gz) is read as it is: what bounds the steps in it, "
         "and how much the first remedy can gain. Beside a captured step, of whose script it is, it says what each of "
         "its parts takes in place. Two traces are set side by side; of ranks of one job it says who is "
         "waited for.\n\n"
         "\b\n"
         "primbench explain step.toml\n"
         "primbench explain trace.json.gz\n"
         "primbench explain before.json after.json",
)  # fmt: skip
