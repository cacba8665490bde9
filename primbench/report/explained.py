"""A step explained: three numbers of its parts beside the whole, and where its time goes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from primbench.devices import Device
from primbench.doctor.cause import listed
from primbench.report.document import Document, Note, Section, Table
from primbench.report.step_bound import MUCH, answer, is_quiet, is_told, of_ranks
from primbench.results.step_explained import PYTHON, STEP, UNEXPLAINED
from primbench.results.step_parts import BEYOND
from primbench.units import UNKNOWN, format_percent, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.report.document import Figure
    from primbench.results.step_explained import Explained, Number, SumRow
    from primbench.results.step_timed import Timed

WHAT = {
    "device": "kernels: counts x device times, beside the step's",
    "busy": "kernels: counts x their own times as the GPU logged them, beside the step's",
    "host": "launches: counts x enqueue times, beside the host's time for the step",
    "step": "the larger of the two sums, beside the step as a loop makes it",
}
TIMES = {"device": "device time", "busy": "kernels' time", "host": "host time", "step": "own time"}
ON_CPU = "counts x times of a call, beside the step's time"
AT_LEAST, AT_MOST = ">= ", "<= "
BAR = 40
MOST_OTHERS = 6


def document(steps: Sequence[tuple[str, Explained]]) -> Document:
    """A row for each part of the time of each step, in seconds. steps: each with its title."""
    cautions = [caution for title, each in steps if (caution := _too_busy(title, each))]
    return Document(
        title=", ".join(title for title, _ in steps),
        answer=Note(" ".join(cautions), "warning") if cautions else Note(answer(steps)),
        sections=lambda: [Section("", [numbers(title, each), _waterfall(each)]) for title, each in steps],
        rows=lambda: [{"step": title} | asdict(row) for title, each in steps for row in each.rows],
        value=[{"step": title} | asdict(each) for title, each in steps],
        page=lambda: page(steps),
    )


def page(steps: Sequence[tuple[str, Explained]]) -> Document:
    """Of steps that were taken apart, each with its title."""
    named = steps if len(steps) > 1 else [("The step", each) for _, each in steps]
    sections = [Section(name, [*drawn(name, each), numbers(name, each)]) for name, each in named]
    return Document(", ".join(title for title, _ in steps), Note(answer(steps)), lambda: sections)


def drawn(title: str, found: Explained) -> list[Figure]:
    """Where the time of a step goes, if anything of it was measured."""
    from primbench.report.figures.step import step  # which a table need not wait for

    return [figure for figure in [step(f"{title}: where its time goes", found)] if figure]


def _too_busy(title: str, explained: Explained) -> str:
    """What comes before numbers that may be of any size, for what disturbed the calls; "" where they hold."""
    if is_quiet(explained) or is_told(explained):
        return ""
    words = next((words[0] for name, words in explained.disturbances.items() if name != STEP), "")
    return (
        f"TOO BUSY TO TELL in {title}: of what its parts take, {format_time(explained.disturbed_s)} is of calls that "
        f"something disturbed, and the step takes {format_time(explained.known_s)}: {words}. Quiet the machine, or ask "
        f"for fewer --threads.{of_ranks(explained)}"
    )


def numbers(title: str, explained: Explained) -> Table:
    rows: list[list[object]] = [
        [
            each.name,
            at_least(each),
            each.step_s,
            UNKNOWN if each.ratio is None else f"{AT_LEAST * each.is_least}{each.ratio:.3f}",
            WHAT[each.name] if Device.parse(explained.device).is_gpu else ON_CPU,
        ]
        for each in explained.numbers
    ]
    notes = [*(_as_it_ran(explained.timed) if explained.timed else _missing(explained.numbers))]
    notes += _unseen(explained)
    if explained.far:
        notes.append(
            f"{explained.far} of {explained.calls} calls are measured with a cache as the step leaves it: it touches "
            "more between two uses of their data than they do by themselves"
        )
    notes += [f"{count} calls not measured: {reason}" for reason, count in explained.unmeasured.items()]
    headings = ["", "parts", "step", "ratio", "what is added up"]
    table = Table.of_rows(title, headings, rows, [*map(Note, notes)], formats={"step": format_time})
    return replace(table, shared=[explained.device])


def _missing(numbers: Sequence[Number]) -> Iterator[str]:
    """Each reason once."""
    for reason in dict.fromkeys(each.missing for each in numbers if each.missing):
        names = [f"the step's {TIMES[each.name]}" for each in numbers if each.missing == reason]
        yield f"{listed(names)} {'is' if len(names) == 1 else 'are'} not known: {reason}"


def _unseen(explained: Explained) -> Iterator[str]:
    """What the step ran otherwise than its parts."""
    if explained.compiled:
        several = f"{explained.compiled} graph{'s' * (explained.compiled != 1)}"
        yield (
            f"torch had compiled {several} of the script: parts are the operators that went into them, and may "
            "together take longer than what it fused them into"
        )
    if explained.cuda_graphs:
        several = f"{explained.cuda_graphs} CUDA graph{'s' * (explained.cuda_graphs != 1)}"
        where = f"in {BEYOND}" if explained.seconds(BEYOND) else UNEXPLAINED
        yield f"the step replayed {several}, in which no operator is seen: what they take is {where}"
    if explained.helpers:
        several = f"{explained.helpers} thread{'s' * (explained.helpers != 1)}"
        first = explained.numbers[0]
        is_shorter = Device.parse(explained.device).is_gpu and (first.ratio or 0.0) > 1
        shorter = ", and is shown as much shorter as GPUs were busy together" if is_shorter else ""
        yield (
            f"{several} that it started computed for it, as DataParallel's do where DistributedDataParallel has a "
            f"process for each GPU: what ran at the same time may add up to more than the step{shorter}; "
            "how long the step passes in Python is not known"
        )


def _as_it_ran(timed: Timed) -> Iterator[str]:
    scatter = f"{format_time(timed.least_s)} to {format_time(timed.most_s)}"
    if timed.interval:
        scatter += f", 95 % interval of the median {' to '.join(map(format_time, timed.interval))}"
    waits = f"; {format_time(timed.waits_s)} of it for the data loader" if timed.waits_s else ""
    queues = f"; {format_time(timed.queues_s)} of it waiting for a CPU" if timed.queues_s else ""
    waits += f"; {format_time(timed.waits_for_rank_s)} of it for another rank" if timed.waits_for_rank_s else ""
    between = f"; {_between(timed, timed.between_s)}" if timed.between_s else ""
    ran = f"the step is the median of {timed.steps} as they ran, whose whole time is known: {scatter}"
    yield f"{ran}{waits}{queues}{between}"
    if timed.unlike:
        yield (
            f"{timed.unlike} of these {timed.steps} steps called other modules than the captured one, or them more or "
            "fewer times: its parts need not add up to their time"
        )
    if timed.elsewhere:
        yield f"the step is of another place than its parts: {'; '.join(timed.elsewhere)}"


def _between(timed: Timed, between_s: float) -> str:
    """From below alone, where the profiler's own time is not taken off."""
    if timed.between_interval is None:
        return f"no less than {format_time(between_s)} between operators"
    low, high = map(format_time, timed.between_interval)
    inside = "" if timed.inside_s is None else f"{format_time(timed.inside_s)} in operators and "
    told = f"{inside}{format_time(between_s)} (95 % interval {low} to {high}) between them"
    return f"under torch's profiler, without its own time, {told}"


def _waterfall(explained: Explained) -> Table:
    """Each row's bar begins where the one before it ends."""
    whole_s = explained.step_s or sum(row.seconds or 0.0 for row in explained.rows) or 1.0
    rows, begun = [], 0.0
    for row in explained.rows:
        share = None if row.seconds is None else row.seconds / whole_s
        bar = "" if share is None else _bar(begun, share)
        begun += share or 0.0
        rows.append([row.name, str(row.calls or ""), *_amount(explained, row, share), bar])
    columns = ["", "calls", "time", "share", f"{'':<{BAR}}"]
    return Table.of_rows("where its time goes", columns, rows, [*_notes(explained)])


def _amount(explained: Explained, row: SumRow, share: float | None) -> tuple[str, str]:
    """Its time and share; at most what is left of the step where some calls in it were not measured."""
    rest_s, step_s = explained.rest_s, explained.step_s
    if row.name == UNEXPLAINED and row.seconds is None and step_s and rest_s is not None and rest_s > 0:
        return f"{AT_MOST}{format_time(rest_s)}", f"{AT_MOST}{format_percent(rest_s / step_s)}"
    return format_time(row.seconds), _percent(share)


def _notes(explained: Explained) -> Iterator[Note]:
    yield from map(Note, (*_others(explained), *_collectives(explained), *_between_calls(explained)))
    yield from _disturbances(explained)


def _others(explained: Explained) -> Iterator[str]:
    others = list(explained.others.items())[:MOST_OTHERS]
    if largest := [f"{name} {format_time(seconds)}" for name, seconds in others if seconds]:
        yield f"other operators: {', '.join(largest)}"
    for each in explained.in_step[:MOST_OTHERS]:
        yield (
            f"{each.name}, {each.calls} calls, not measured alone: {each.reason}; in the captured step they took "
            f"{format_time(each.seconds)}, timed once while it was recorded"
        )
    if explained.unmeasured and (explained.rest_s or 0.0) > 0:
        yield f"what was not measured and what is unexplained take {format_time(explained.rest_s)} together"


def _collectives(explained: Explained) -> Iterator[str]:
    if explained.collectives:
        alone = ", ".join(f"{name} {format_time(seconds)}" for name, seconds in explained.collectives.items())
        hidden = f"; the step hides {format_time(explained.hidden_s)} of that, or they are faster in it"
        yield f"collectives alone: {alone}{hidden * bool(explained.hidden_s)}"


def _between_calls(explained: Explained) -> Iterator[str]:
    """What each call has beside it of the host's time that is in no part."""
    between_s = (explained.timed and explained.timed.between_s) or explained.seconds(PYTHON)
    timed = explained.timed
    if between_s > MUCH * explained.known_s:
        each = format_time(between_s / explained.calls)
        also = "operators that take longer than alone, " if timed and timed.tells_all_of_host else ""
        own = f"{also}modules and the optimizer's own code included"
        yield f"{PYTHON}: {each} beside each of {explained.calls} calls, {own}"
    if timed and timed.profiled_s is not None:
        yield f"under torch's profiler steps take {format_time(timed.profiled_s)}, too long to tell of others"
    if (explained.unexplained_fraction or 0.0) > MUCH:
        yield from _unexplained(explained, between_s)


def _unexplained(explained: Explained, between_s: float) -> Iterator[str]:
    """between_s: how long passes between calls, as far as that is known."""
    timed = explained.timed
    each = format_time((explained.unexplained_fraction or 0.0) * explained.known_s / explained.calls)
    begun = f"unexplained: {each} for each of {explained.calls} calls"
    if timed and timed.profiled_s is not None:
        yield begun
    elif timed and timed.inside_s is not None:
        under, scatter = map(format_time, (timed.inside_s + between_s, timed.most_s - timed.least_s))
        yield f"{begun}; steps under torch's profiler took {under}, others differ by {scatter}"
    elif not between_s and (timed is None or timed.between_s is None):
        yield f"{begun}; Python and autograd between them are in it"
    elif not Device.parse(explained.device).is_gpu:
        yield f"{begun}; as far as torch's profiler tells, in operators: a trace of the script beside it tells in which"


def _disturbances(explained: Explained) -> Iterator[Note]:
    """Sums of disturbed calls can come to any multiple of a step that was not."""
    for name, words in explained.disturbances.items():
        yield Note(f"{name}: {'; '.join(words)}", "marked")
    if explained.disturbed_s:
        told = f"{format_time(explained.disturbed_s)} of what parts take are of calls that something disturbed"
        yield Note(told, "marked")


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else format_percent(share)


def _bar(begun: float, share: float) -> str:
    first, last = (round(BAR * min(max(each, 0.0), 1.0)) for each in sorted((begun, begun + share)))
    return "." * first + "#" * max(last - first, 1 if share > 0 else 0) + "." * (BAR - max(last, first + 1))


def at_least(number: Number) -> str:
    """What the parts come to, where some are missing in it a lower bound."""
    return f"{AT_LEAST * (number.is_least and number.parts_s is not None)}{format_time(number.parts_s)}"
