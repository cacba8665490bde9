"""Files that are not kept in memory: read again and again under a limit, or dropped from the page cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.causes import OF_FILES
from primbench.doctor.cause import Cause, Finding, Suspect, of
from primbench.doctor.table import unseen
from primbench.system.meaning import FactId
from primbench.units import format_bytes, format_percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.compare.beside import Beside
    from primbench.doctor.place import Place
    from primbench.measurement import Measurement

RANK = 5

WAITING_FRACTION = 0.1  # a machine with memory to spare has none
MUCH_READ_BYTES_PER_S = 2**20
KEPT = 100  # times as much from disks in one place as in the other, which has it in memory then
EXPLAINED = 0.5


def page_cache(place: Place) -> Iterator[Finding]:
    """Whether files stay in memory that were read once, and no tasks wait for memory."""
    limits, waiting = place.limits, place.contention.memory_waiting_fraction or 0.0
    limit, reread = limits.memory_limit_bytes, limits.reread_bytes or 0
    if limit is not None:
        yield from unseen(place, *of("contention", "memory_waiting_fraction"), *of("limits", "reread_bytes"))
    if limit is not None and reread > limit:
        yield _short_of_memory(
            place,
            f"{format_bytes(reread)} of files were read again, as the memory limit had them taken out of the cache",
            FactId("limits", "reread_bytes"),
            reread,
            f"memory.stat workingset_refault_file; limit {format_bytes(limit)}; tasks waited for memory in "
            f"{format_percent(waiting)} of the last 10 s",
        )
    elif (again := place.contention.reread_bytes_per_s or 0.0) > MUCH_READ_BYTES_PER_S:
        available, there = place.machine.memory_available_bytes, place.machine.memory_bytes
        yield _short_of_memory(
            place,
            f"{format_bytes(round(again))} of files a second are read again, as the machine has no memory to keep them",
            FactId("contention", "reread_bytes_per_s"),
            again,
            f"/proc/vmstat workingset_refault_file; of {format_bytes(there)} {format_bytes(available)} are left",
        )
    elif waiting > WAITING_FRACTION:
        summary = f"tasks waited for memory in {format_percent(waiting)} of the last 10 s"
        evidence = "memory.pressure or /proc/pressure/memory: some avg10"
        yield _short_of_memory(place, summary, FactId("contention", "memory_waiting_fraction"), waiting, evidence)


def _short_of_memory(place: Place, summary: str, about: FactId, reading: float, evidence: str) -> Finding:
    return Finding(
        summary=summary,
        about=[about],
        reading=reading,
        evidence=[evidence],
        advice=place.advice(
            "raise the memory limit by what is read over and over: the cache of files counts in it",
            engine="--memory SIZE with room for the files that are read",
            kubernetes="a memory limit with room for the files that are read",
        ),
    )


def dropped(beside: Beside) -> Iterator[Suspect]:
    """What one place had to read from its disks while the other had it in memory."""
    if set(OF_FILES).isdisjoint(beside.parts):
        return
    rates = beside.seen.medians(_read_a_second)
    if rates is None or max(rates) < MUCH_READ_BYTES_PER_S or min(rates) * KEPT > max(rates):
        return
    is_arm = rates[1] > rates[0]
    here, there = (beside.side, beside.baseline) if is_arm else (beside.baseline, beside.side)
    title = f"files that are not in memory in {here.name}"
    found = Suspect(
        f"{title}: {format_bytes(round(max(rates)))} a second come from its disks while it is timed, next to nothing "
        f"in {there.name}: {_why_dropped(beside, is_arm=is_arm)}",
        at_least=1.0,
        title=title,
    )
    yield found if is_arm else found.of_baseline()


def _why_dropped(beside: Beside, *, is_arm: bool) -> str:
    """By whether the kernel says that it had taken them out of the page cache."""
    reread = beside.seen.medians(_reread_share)
    if reread is None:
        return "whether the kernel took them out of the page cache is not known"
    if reread[is_arm] >= EXPLAINED:
        return "the kernel had taken them out of the page cache, for want of memory"
    return "something has them dropped from the page cache, or they were not read before"


def _read_a_second(measurement: Measurement) -> float | None:
    host = measurement.host
    if host is None or host.read_bytes is None or not host.duration_s:
        return None
    return host.read_bytes / host.duration_s


def _reread_share(measurement: Measurement) -> float | None:
    """How much of what was read had been in memory before; of the machine, so that it may be more than all."""
    host = measurement.host
    if host is None or host.read_bytes is None or host.reread_bytes is None:
        return None
    return host.reread_bytes / max(host.read_bytes, 1)


CAUSES = (
    Cause("page-cache", under="memory", slows=(*OF_FILES, "everything on the CPU"), here=page_cache),
    Cause("dropped-cache", under="files", slows=OF_FILES, between=dropped),
)
