"""Steps of whole models in the lines of tf_cnn_benchmarks: examples a second so far, with uncertainty and jitter."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from primbench.errors import InvalidRequest
from primbench.report import plain
from primbench.report.document import Document, Note, Section

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.results.record import Record

STEPS, SHOWN_EVERY = 100, 10
"""As many as that tool times, and as often as it says how they go."""
MAD_TO_STD = 1.4826  # of a normal distribution
LINE = "-" * 64
HEADINGS = {"Model": "network", "Mode": "mode", "Data": "data", "Type": "dtype", "Batch size": "batch_size"}


def document(records: Sequence[Record]) -> Document:
    """The steps of each model that was measured, in lines as that tool has them. Raises InvalidRequest where none was.

    A step is one call after which the host waits for the GPU (wall), as that tool fetches the loss; after the warm-up,
    the first 100. Of the first n, whose times are t and speeds batch / t: batch over the mean of t, the population's
    standard deviation of the speeds over sqrt(n), and 1.4826 times the median of their distances from their median
    (benchmark_cnn.py, get_perf_timing_str). The total leaves out what passes between steps, which that tool counts.
    """
    found = [_text(record, *steps) for record in records if (steps := _steps(record))]
    if not found:
        raise InvalidRequest("no step of a whole model is in it, call by call: primbench model NAME -o FILE.jsonl has")
    return Document(title="steps", answer=None, sections=lambda: [Section("", [Note(each, "code")]) for each in found])


def _steps(record: Record) -> tuple[int, Sequence[float]] | None:
    """Batch size, and the time of each of the first steps; None where the record has none."""
    wall = record.measurement.wall_s if record.measurement else None
    batch = record.case.parameters.get("batch_size")
    is_of_model = set(HEADINGS.values()) <= record.case.parameters.keys()
    if not is_of_model or not isinstance(batch, int) or wall is None or wall.calls_per_sample != 1:
        return None
    times_s = wall.samples_s[:STEPS]
    return (batch, times_s) if min(times_s) > 0 else None


def _text(record: Record, batch: int, times_s: Sequence[float]) -> str:
    every = (1, *range(SHOWN_EVERY, len(times_s) + 1, SHOWN_EVERY))
    total = len(times_s) * batch / sum(times_s)
    lines = [
        *_header(record),
        f"{'Step':<8}Img/sec",
        *(f"{steps:<8}{_so_far(batch, times_s[:steps])}" for steps in every),
        LINE,
        f"total images/sec: {total:.2f}",
        LINE,
    ]
    return "\n".join(lines)


def _header(record: Record) -> Iterator[str]:
    case = record.case
    told = {heading: str(case.parameters[name]) for heading, name in HEADINGS.items()}
    told |= {"Device": f"{case.implementation} {case.device}", "Arm": case.arm}
    yield from (f"{heading + ':':<12} {plain.printable(words)}" for heading, words in told.items() if words)


def _so_far(batch: int, times_s: Sequence[float]) -> str:
    mean, uncertainty, jitter = speeds(batch, times_s)
    return f"images/sec: {mean:.1f} +/- {uncertainty:.1f} (jitter = {jitter:.1f})"


def speeds(batch: int, times_s: Sequence[float]) -> tuple[float, float, float]:
    """Examples a second, their standard error, and their robust standard deviation."""
    each = [batch / time_s for time_s in times_s]
    middle = statistics.median(each)
    jitter = MAD_TO_STD * statistics.median(abs(speed - middle) for speed in each)
    return batch / statistics.fmean(times_s), statistics.pstdev(each) / len(each) ** 0.5, jitter
