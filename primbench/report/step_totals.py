"""What a step takes by its parts, where cases of a results file say how often it makes their calls."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from primbench.compare.criteria import problem_of
from primbench.report.columns import PLACEMENT
from primbench.report.document import Note, Table
from primbench.report.explained import AT_MOST, at_least
from primbench.results.step_explained import LAUNCHES
from primbench.results.step_parts import part_of
from primbench.results.step_sums import totals
from primbench.spec.captured import PARTS
from primbench.units import UNKNOWN, format_percent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from primbench.results.record import Record
    from primbench.results.step_explained import Explained

TOTALS = "counts x times of a call"
MOST_TOKENS = (
    "tokens/s: the tokens of a step over the time of its calls, as if one followed the other at once and nothing else "
    "was to be done: a program does not get further with the same calls"
)


def step_totals(records: Sequence[Record]) -> list[Table]:
    """What a step takes, by its set, where cases say how often it makes their calls; none where they do not."""
    rows, notes = [], list[Note]()
    for place, several in places(records).items():
        for name, found in totals(several).items():
            where = " ".join(filter(None, [name, place]))
            rate = _most_tokens(several, name, found)
            rows.append([where, str(found.calls), *_sums(found), rate, _shares(found)])
            unmeasured = found.unmeasured.items()
            notes += [Note(f"{where}: {count} calls not measured: {reason}") for reason, count in unmeasured]
    columns = ["set", "calls", "time", "enqueue", "tokens/s", "by primitive"]
    if any(row[4] for row in rows):
        notes = [Note(MOST_TOKENS), *notes]
    else:  # as of a network of images
        columns, rows = [each for each in columns if each != "tokens/s"], [[*row[:4], row[5]] for row in rows]
    formats = {"tokens/s": lambda rate: f"{AT_MOST}{float(f'{rate:.3g}'):,g}"}
    return [Table.of_rows("a step", columns, rows, notes, how=TOTALS, formats=formats)] if rows else []


def _most_tokens(records: Sequence[Record], name: str, found: Explained) -> float | None:
    """Tokens a second that the step takes in at most: its calls' own time, with nothing in between, on their device."""
    fields = [(each.case, problem_of(each.case.primitive).tokens_field) for each in records]
    tokens = [case.parameters[field] for case, field in fields if field and case.labels.get("set") == name]
    computing = found.numbers[0].parts_s
    counted = [each for each in tokens if isinstance(each, int)]
    return max(counted) / computing if counted and computing and name != PARTS else None


def places(records: Sequence[Record]) -> dict[str, list[Record]]:
    """By what tells records of one case apart: file, arm, device, the backend where a case ran on several, and the
    CPUs, memory and threads that were asked for; "" where nothing does.
    """
    telling = [*_of_places(records), *_of_placement(records)]
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(" ".join(filter(None, (of(record) for of in telling))), []).append(record)
    return found


def _of_places(records: Sequence[Record]) -> Iterator[Callable[[Record], str | None]]:
    if len({each.case.labels.get("file") for each in records}) > 1:
        yield lambda record: record.case.labels.get("file")
    on = {(part_of(each), each.case.arm, each.case.device, each.case.backend) for each in records}
    if len({each[1:-1] for each in on}) > 1:
        yield lambda record: record.case.arm
        yield lambda record: record.case.device
    if len({each[:-1] for each in on}) < len(on):
        yield lambda record: record.case.backend


def _of_placement(records: Sequence[Record]) -> Iterator[Callable[[Record], str]]:
    for name, of in PLACEMENT.items():
        if len({of(each) for each in records}) > 1:
            yield partial(_placed, name, of)


def _placed(name: str, of: Callable[[Record], object], record: Record) -> str:
    asked = of(record)
    return f"{name} {'default' if asked is None else asked}"


def _sums(found: Explained) -> list[str]:
    """Of what computes, and of launches, of which a CPU has none of its own."""
    computing, *launches = map(at_least, found.numbers)
    return [computing, launches[0] if launches else UNKNOWN]


def _shares(found: Explained) -> str:
    computing = [row for row in found.rows if row.calls and row.name != LAUNCHES]
    whole_s = sum(row.seconds for row in computing if row.seconds) or 1.0
    return ", ".join(f"{row.name} {format_percent(row.seconds / whole_s)}" for row in computing if row.seconds)
