"""The table of records: one block a primitive, columns that say something, times with a unit in every cell."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from primbench.devices import Device
from primbench.report.columns import Noise, columns_of
from primbench.report.document import Column, Note, Table
from primbench.report.layout import ROW
from primbench.report.line import line_notes
from primbench.results.cpu_speed import SLOWED, speed
from primbench.results.disturbances import ORDINARY_REASONS
from primbench.results.metrics import COLUMNS
from primbench.results.record import Record, Worker, model_of, thread_lacks
from primbench.system.files import format_cpu_list
from primbench.units import TimeUnit, format_percent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from primbench.baselines.yardstick import Yardstick
    from primbench.measurement import Measurement
    from primbench.results.disturbances import Disturbance
    from primbench.spec.case import Case

MOST_ROWS = 1000  # of a table; data files have all
MOST_DISTURBANCES = 5  # a line each, below the table
SLOWED_FRACTION = 0.25  # share of samples from which on their median moves


def tables(
    records: Sequence[Record],
    workers: Iterable[Worker] = (),
    time_unit: TimeUnit | None = None,
    yardsticks: Sequence[Yardstick] = (),
    *,
    wanted: Sequence[str] = (),
) -> list[Table]:
    """One table for each primitive, in order of first appearance, of its first MOST_ROWS. wanted: as in columns_of."""
    found = list(workers)
    return [_table(each, found, time_unit, yardsticks, wanted) for each in of_primitives(records)]


def of_primitives(records: Iterable[Record]) -> list[list[Record]]:
    """The records of each primitive, in order of first appearance."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record.case.primitive, []).append(record)
    return list(found.values())


def _table(
    every: list[Record],
    workers: list[Worker],
    time_unit: TimeUnit | None,
    yardsticks: Sequence[Yardstick],
    wanted: Sequence[str],
) -> Table:
    records = every[:MOST_ROWS]
    columns = columns_of(records, time_unit, yardsticks, wanted=wanted)
    notes = [
        *_not_shown(every[MOST_ROWS:]),
        *_notes(records),
        *_placement_notes(records, workers),
        *map(Note, line_notes(records)),
        *(Note(words) for yardstick in yardsticks for words in yardstick.notes(records)),
    ]
    if len(records) > 1 and any(note.cites_rows for note in notes):
        columns = numbered(columns)
    how = "times: median a call" if _any_timed(records) else ""
    return Table(records[0].case.primitive, columns, notes, _shared_by_all(records, workers), how)


def numbered(columns: Sequence[Column]) -> list[Column]:
    """With the numbers by which notes cite rows."""
    if columns[0].heading == ROW:
        return [*columns]
    return [Column(ROW, range(1, len(columns[0].values) + 1)), *columns]


def _not_shown(records: Sequence[Record]) -> Iterator[Note]:
    """How many rows there are no more of, and what became of those."""
    if records:
        counts = Counter(record.status for record in records)
        words = ", ".join(f"{count} {status}" for status, count in counts.most_common())
        yield Note(f"and {len(records)} more rows, of which nothing is said here: {words}; --csv and --json have all")


def _shared_by_all(records: list[Record], workers: list[Worker]) -> list[str]:
    cold = "cold cache" if _shared(record.cache for record in records) == "cold" else None
    where = _where([record.case for record in records], _that_ran(records, workers))
    return [each for each in (*where, cold) if each]


def _where(cases: Sequence[Case], ran: Sequence[Worker]) -> list[str | None]:
    """Backend, device and place; a version, a model or a place only where every worker says the same."""
    backend, device = _shared(case.backend for case in cases), _shared(case.device for case in cases)
    return [
        backend and _named(backend, {worker.versions.get(backend) for worker in ran}),
        device and _named(device, {model_of(worker) for worker in ran}),
        _shared(_place(worker) for worker in ran),
    ]


def _any_timed(records: Iterable[Record]) -> bool:
    return any(metric.samples(record.measurement) for record in records for metric in COLUMNS)


def _that_ran(records: Iterable[Record], workers: Iterable[Worker]) -> list[Worker]:
    used = {record.worker for record in records}
    return [worker for worker in workers if worker.worker in used]


def _shared(values: Iterable[str]) -> str | None:
    """What all of them are, if they are all the same."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


def _named(name: str, descriptions: set[str | None]) -> str:
    described = descriptions.pop() if len(descriptions) == 1 else None
    return f"{name} {described}" if described else name


def _place(worker: Worker) -> str:
    """The memory node where one was bound, and the threads where they do the computing."""
    placement = worker.placement
    counted = None if Device.parse(worker.device).is_gpu else placement.threads
    threads = f"{counted} thread{'s' * (counted > 1)}" if counted else ""
    nodes = placement.memory_nodes if placement.rung != "none" else None
    policy = f" {placement.memory_policy}" if placement.memory_policy != "bind" else ""
    bound = f"node {','.join(map(str, nodes))}{policy}" if nodes else ""
    return "  ".join(part for part in (bound, threads) if part)


def _notes(records: list[Record]) -> list[Note]:
    return [
        *_disturbance_notes(records),
        *map(Note, (*_noise_notes(records), *_speed_notes(records), *_clock_notes(records), *_event_notes(records))),
        *_trace_notes(records),
    ]


def _noise_notes(records: list[Record]) -> list[str]:
    noisy = [record for record in records if (noise := Noise.of(record)) and noise.too_much]
    if not noisy:
        return []
    limit = format_percent(noisy[0].case.method.max_noise)
    return [
        f"* the median is known no better than this, --max-noise asked {limit}: raise --max-time, quiet the machine"
    ]


def _speed_notes(records: list[Record]) -> list[str]:
    """Whether the CPU was slow now and then, of all rows together: no counter shows it, so it is no mark of a row."""
    if any(each.kind == "busy-cpus" for record in records for each in record.disturbances):
        return []  # which tells more
    slowed, count = map(sum, zip((0.0, 0), *map(_slowed, records), strict=True))
    if slowed <= SLOWED_FRACTION * count:
        return []
    return [
        f"the CPU was slow beside {format_percent(slowed / count)} of all samples: a loop of Python took over "
        f"{format_percent(SLOWED - 1)} longer than at its quickest, which times of the host have in them"
    ]


def _event_notes(records: list[Record]) -> list[str]:
    """What is wrong with the events of a GPU, and what times are taken by, each once."""
    found = (record.measurement.missing.get("events") for record in records if record.measurement)
    return [*dict.fromkeys(filter(None, found))]


def _slowed(record: Record) -> tuple[float, int]:
    """How many loops beside its samples the CPU was slow in, and of how many."""
    timed = record.measurement and (record.measurement.batch_s or record.measurement.enqueue_s)
    loops_s = [loop_s for _, loop_s in timed.loops_s] if timed else []
    found = speed(loops_s)
    return (found.slowed_fraction * len(loops_s) if found else 0.0), len(loops_s)


def _clock_notes(records: list[Record]) -> list[str]:
    readings = [record.measurement.gpu for record in records if record.measurement and record.measurement.gpu]
    seen = {reason for reading in readings for reason in reading.clocks_event_reasons or []}
    ordinary = sorted(seen.intersection(ORDINARY_REASONS))
    return [f"clocks held back in some cases by: {', '.join(ordinary)}"] if ordinary else []


def _trace_notes(records: list[Record]) -> list[Note]:
    told: dict[str, Callable[[Measurement], bool | None]] = {
        "busy does not fit device: the traced process seems to have run other kernels": lambda m: m.is_traced_otherwise,
        "busy is more than device: kernels of the graph may run concurrently": _is_busier_by_concurrent_kernels,
    }
    rows = {
        words: [n for n, each in enumerate(records, 1) if (m := each.measurement) and is_so(m)]
        for words, is_so in told.items()
    }
    return [
        Note(f"{_rows(numbers, len(records))}: {words}", cites_rows=not _are_all(numbers, len(records)))
        for words, numbers in rows.items()
        if numbers
    ]


def _is_busier_by_concurrent_kernels(measured: Measurement) -> bool:
    """By more than clocks at the power limit make of two times of the same kernels."""
    busy, device = measured.busy_s, measured.device_s
    return bool(measured.has_concurrent_kernels and busy and device and busy.median_s > 1.05 * device.median_s)


def _placement_notes(records: list[Record], workers: list[Worker]) -> list[Note]:
    """A note for each thing that a worker asked of its place, did not get, and went on without."""
    lacks = [lack for worker in _that_ran(records, workers) for lack in worker.placement.lacks]
    lacks += thread_lacks(records, workers)
    return [Note(f"not placed as asked: {reason}") for reason in dict.fromkeys(lacks)]


def _disturbance_notes(records: list[Record]) -> list[Note]:
    """A line for each kind of disturbance, with the rows it was seen in, counted from 1, and the worst of them."""
    kinds: dict[str, list[tuple[int, Disturbance]]] = {}
    for number, record in enumerate(records, 1):
        for disturbance in record.disturbances:
            kinds.setdefault(disturbance.kind, []).append((number, disturbance))
    notes = [_seen_in(seen, len(records)) for seen in kinds.values()]
    if len(notes) > MOST_DISTURBANCES:
        more = f"and {len(notes) - MOST_DISTURBANCES} more: --csv has all, in its column `disturbed`"
        notes[MOST_DISTURBANCES:] = [Note(more, "marked")]
    return notes


def _seen_in(seen: Sequence[tuple[int, Disturbance]], of: int) -> Note:
    """Of one kind: by row, what it was there."""
    numbers = [number for number, _ in seen]
    number, worst = max(seen, key=lambda each: each[1].amount)
    is_alike = len({each.words for _, each in seen}) == 1
    words = f"{_rows(numbers, of)}{'' if is_alike else f', most in row {number}'}: {worst.words}"
    return Note(words, "marked", cites_rows=not (is_alike and _are_all(numbers, of)))


def _are_all(numbers: list[int], of: int) -> bool:
    return len(numbers) == of > 1


def _rows(numbers: list[int], of: int) -> str:
    if _are_all(numbers, of):
        return "all rows"
    return f"row{'s' * (len(numbers) > 1)} {format_cpu_list(numbers)}"
