"""What the files of a member say of its place, and of its GPU while cases ran on it."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from primbench.doctor.place import place_in
from primbench.doctor.table import examine
from primbench.measurement.readings import OTHERS_FRACTION
from primbench.results.file import read_in_part
from primbench.stats import quantile
from primbench.system.processes import folder_of, named
from primbench.units import format_percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from primbench.doctor.cause import Finding
    from primbench.measurement.readings import GpuReading, HostReading
    from primbench.results.record import Record

MOST_NAMED = 5
HOT = 0.1
"""Share of the time, above which clocks are held down by heat for long."""
_ROOT = Path("/")

Wrong = tuple[Literal["place", "neighbour", "busy CPUs", "heat", "memory errors", "replays"], str, "str | None"]
"""What it is, in words, and what to do."""


class SeenState(NamedTuple):
    """What makes a member unfit, and what does not."""

    wrong: list[Wrong]
    warnings: list[str]


def seen_of(path: Path, *, is_alone: bool) -> SeenState:
    """Of a results file, as far as it goes; is_alone: nothing else of the certificate ran beside it. Raises FileError
    where there is none.
    """
    results, _ = read_in_part(path)
    findings = examine(place_in(results)) if results.workers else []
    told = {severity: [each for each in findings if each.severity == severity] for severity in ("problem", "warning")}
    problems: list[Wrong] = [("place", each.summary, _advice(each)) for each in told["problem"]]
    records = results.latest()
    busy = [*_of_cpus(records)] if is_alone else []
    return SeenState(
        [*problems, *busy, *_of_gpu(_readings(records)), *_hot(records)], [each.summary for each in told["warning"]]
    )


def _advice(found: Finding) -> str | None:
    return " ".join([*filter(None, [found.advice]), *found.fix]) or None


def _of_cpus(records: Sequence[Record]) -> Iterator[Wrong]:
    """Where other programs had more of its CPUs than on a quiet machine, beside most cases: not one that passes."""
    read = [each.measurement.host for each in records if each.measurement and each.measurement.host]
    shares = [each.others_share for each in read if each.others_share is not None]
    if shares and (busy := quantile(shares, 0.5)) > OTHERS_FRACTION:
        had = f"other programs had {format_percent(busy)} or more of its CPUs' time in half of the cases"
        words = f"{had}, so that its times are not its own: {', '.join(_busiest(read)) or 'none could be named'}"
        yield "busy CPUs", words, "end them, or have them done, and measure again with --overwrite"


def _busiest(read: Iterable[HostReading]) -> list[str]:
    """Each by what it was called last: a program may call itself otherwise."""
    took: defaultdict[int, float] = defaultdict(float)
    names: dict[int, str] = {}
    for process in (process for each in read for process in each.others):
        took[process.pid] += process.cpu_time_s
        names[process.pid] = process.name
    return [names[pid] for pid in sorted(took, key=lambda pid: -took[pid])[:MOST_NAMED]]


def _readings(records: Sequence[Record]) -> list[GpuReading]:
    return [each.measurement.gpu for each in records if each.measurement and each.measurement.gpu]


def _of_gpu(read: Sequence[GpuReading]) -> Iterator[Wrong]:
    pids = {each.pid for one in read for each in one.foreign_processes or ()}
    if pids:
        names = ", ".join(map(_name, sorted(pids)))
        yield "neighbour", f"another process held its GPU: {names}", "end it, or ask the scheduler for whole GPUs"
    if errors := _sum(each.ecc_errors_uncorrected for each in read):
        yield "memory errors", f"{errors} memory errors that could not be corrected", "drain it, and have it replaced"
    if replays := _sum(each.pcie_replays for each in read):
        yield "replays", f"{replays} packets over PCIe were sent anew", "look at its seat, riser and cable"


def _sum(counts: Iterable[int | None]) -> int:
    return sum(each or 0 for each in counts)


def _hot(records: Sequence[Record]) -> Iterator[Wrong]:
    """Where heat held the clocks down."""
    timed = [(each.duration_s, each.measurement.gpu) for each in records if each.measurement and each.measurement.gpu]
    hot_s = sum((gpu.held_back_s or {}).get("thermal", 0.0) for _, gpu in timed)
    total_s = sum(duration_s for duration_s, _ in timed)
    if total_s and hot_s > HOT * total_s:
        words = f"heat held its clocks down in {format_percent(hot_s / total_s)} of the time"
        yield "heat", words, "look at its fans, its coolant and what is in front of them"


def _name(pid: int) -> str:
    """With the name of its program, where it runs here still."""
    return named(_ROOT, pid) if folder_of(_ROOT, pid).exists() else str(pid)
