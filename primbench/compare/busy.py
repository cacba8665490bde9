"""Whether both places had to wait for a CPU for so long that their times tell of the load and not of the places."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from primbench import stats

if TYPE_CHECKING:
    from primbench.compare.sides import Side
    from primbench.measurement.readings import HostReading

TOO_BUSY_FRACTION = 0.25  # waiting a quarter of its time takes a case a third longer, more than most places differ by
ALL_OF_ITS_CPUS = 0.9


class Waited(NamedTuple):
    """Shares of the time of a case, medians over processes. at_all: for a CPU. for_others: as far as neither a quota
    of its own nor its own threads, which leave no CPU to others, are what it waited for.
    """

    at_all: float
    for_others: float


def waited(side: Side, key: bytes) -> Waited | None:
    """Share of its time that a case waited for CPUs, the median of its records; None where no record tells."""
    shares = []
    for record in side.cases[key]:
        host = record.measurement.host if record.measurement else None
        worker = side.workers.get(record.worker) if record.worker is not None else None
        if host is not None and host.waited_s is not None and host.duration_s:
            cpus = len(worker.placement.cpus) if worker else None
            shares.append(Waited(host.waited_s / host.duration_s, _for_others(host, cpus)))
    if not shares:
        return None
    return Waited(*(stats.quantile(values, 0.5) for values in zip(*shares, strict=True)))


def _for_others(host: HostReading, cpus: int | None) -> float:
    if cpus and host.cpu_time_s >= ALL_OF_ITS_CPUS * cpus * host.duration_s:
        return 0.0
    return max(0.0, (host.waited_s or 0.0) - (host.throttled_s or 0.0)) / host.duration_s


def are_too_busy(one: Waited | None, other: Waited | None) -> bool:
    """Both waited, and one of them at least for others: a place that alone has to wait is slower, whatever for."""
    if one is None or other is None:
        return False
    return (
        min(one.at_all, other.at_all) >= TOO_BUSY_FRACTION
        and max(one.for_others, other.for_others) >= TOO_BUSY_FRACTION
    )
