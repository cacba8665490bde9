"""The columns of OSU's micro-benchmarks for MPI, for programs and people that read these."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from primbench.report.plain import printable
from primbench.results.file import Results
from primbench.units import megabytes, microseconds

if TYPE_CHECKING:
    from primbench.report.document import Document
    from primbench.results.record import Record

RANK = 60
WRITES = "sizes, mean times and bandwidths in the columns of OSU's benchmarks of MPI"
IS_RARE = True

HEADING = "# Size       Avg Latency(us)    Bandwidth (MB/s)"
NOTHING = "# no case here has a size in bytes and a time\n"


def write(document: Document) -> str:
    """A block for each kind of call, a line a size: of the buffer of a rank, in bytes, as ``bytes`` is; MB are 10^6 B.

    The latency is the mean of all samples of a call, which is not the median that other formats have.
    """
    blocks: dict[str, list[str]] = {}
    for record in document.value.records if isinstance(document.value, Results) else []:
        if (line := _line(record)) is not None:
            blocks.setdefault(_title(record), []).append(line)
    return "\n".join("\n".join([title, HEADING, *lines, ""]) for title, lines in blocks.items()) or NOTHING


def _line(record: Record) -> str | None:
    main = record.measurement.main if record.measurement else None
    size = record.case.parameters.get("bytes")
    if main is None or record.status != "ok" or not isinstance(size, int):
        return None
    mean_s = math.fsum(main.samples_s) / len(main.samples_s)
    return f"{size:<10}{microseconds(mean_s):>18}{megabytes(size / mean_s):>20}"


def _title(record: Record) -> str:
    case = record.case
    words = [f"{name}={value}" for name, value in case.parameters.items() if name != "bytes"]
    where = [f"in {case.arm}"] if case.arm else []
    return printable(" ".join(["# primbench", case.primitive, *words, "on", case.implementation, case.device, *where]))
