"""What watching a job showed: the numbers of the whole time, what held it back, and what watching cost."""

from __future__ import annotations

import os
import shlex
from itertools import starmap
from typing import TYPE_CHECKING

import msgspec

from primbench.causes._job_disks import FEW_BYTES_PER_S
from primbench.report.doctor import told
from primbench.report.document import Document, Note, Section, Table, typed
from primbench.report.plain import json_line
from primbench.system.files import format_cpu_list, was_refused
from primbench.units import format_bytes, format_frequency, format_percent, format_time
from primbench.watching.calls import NO_DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.doctor.cause import Hindrance
    from primbench.doctor.job import FunctionCalls, GpuUse, Job, Stretch
    from primbench.watching.kept import Kept
    from primbench.watching.ranks import LateRank
    from primbench.watching.watch import Cost

MOST_CAUSES = 3
NOTABLE_IN_KERNEL = 0.05  # of CPU time


def line_of(kind: str, value: object) -> str:
    """One JSON line: {"kind": ..., ...} of a struct's fields; nothing in it steers a terminal."""
    return json_line({"kind": kind, **msgspec.to_builtins(value)})


def document(kept: Kept) -> Document:
    """What is printed at the end, or of a file."""
    job, whole, found, late, watched = kept
    parts: list[list[Note | Table]] = [[Note(f"Process {job.name}, watched for {_how_long(kept)}")]]
    if late is not None:
        parts += [[Note(_late(late))], [*starmap(_table, enumerate(late.hindrances, 1))]]
    if whole is not None:
        parts += [[Table.listed("", _numbers(whole, job))], [*starmap(_table, enumerate(found, 1))]]
        parts += [] if found else [[Note("Nothing that can be seen from outside held it back.")]]
        parts += [[*_refused(job, whole)]]
    parts += [] if watched is None else [[Note(_cost(watched.cost))]]
    return Document(title="watch", answer=None, sections=lambda: [Section("", each) for each in parts])


def _late(late: LateRank) -> str:
    causes = ", ".join(each.cause for each in late.hindrances[:MOST_CAUSES])
    why = f"likely {causes}" if causes else "nothing that can be seen from outside holds it back more"
    return (
        f"Rank {late.rank}, process {late.pid}, is late since {format_time(late.since_s)}: awake in "
        f"{format_percent(late.awake_fraction)} of the time, other ranks in {format_percent(late.others_fraction)}, "
        f"asleep until it comes; {why}"
    )


def _how_long(kept: Kept) -> str:
    if kept.watched is not None:
        return f"{format_time(kept.watched.cost.duration_s)}{', when it ended' * kept.watched.ended}"
    seconds = kept.whole.time_s if kept.whole is not None else 0.0
    return f"{format_time(seconds)}, when watching was broken off"


def _refused(job: Job, whole: Stretch) -> Iterator[Note]:
    """What takes rights that are lacking here, and the command that would show it."""
    fields = [field for field, reason in whole.missing.items() if was_refused(reason)]
    way_out = f"`sudo primbench watch {job.pid}` shows what was refused"
    if fields:
        yield Note(f"could not be seen: {', '.join(fields)}; {way_out if os.geteuid() else 'it was refused to root'}")


def _numbers(whole: Stretch, job: Job) -> Iterator[tuple[str, str]]:
    yield "CPUs", _cpus(whole, job)
    yield "waiting", _waiting(whole)
    yield "memory", _memory(whole)
    yield "disks", _disks(whole)
    yield from _launches(whole)
    yield from ((f"GPU {index}", _gpu(gpu)) for index, gpu in enumerate(whole.gpus or []))


def _cpus(whole: Stretch, job: Job) -> str:
    used = whole.cpu_time_s / whole.duration_s
    allowed = format_cpu_list(job.limits.cpus_allowed)
    quota = f", quota {job.limits.cpu_quota:g}" if job.limits.cpu_quota is not None else ""
    in_kernel = min(1.0, (whole.kernel_time_s or 0.0) / whole.cpu_time_s) if used else 0.0
    share = f" ({format_percent(in_kernel)} in the kernel)" if in_kernel >= NOTABLE_IN_KERNEL else ""
    return (
        f"{used:.2f} used{share} of CPUs {allowed}{quota}; processes {whole.process_count}, "
        f"threads {whole.thread_count}; {_a_second(whole.switches, whole)} switches, "
        f"{_a_second(whole.migrations, whole)} migrations a second"
    )


def _a_second(count: int | None, whole: Stretch) -> str:
    return "-" if count is None else f"{count / whole.duration_s:,.0f}"


def _share(seconds: float | None, whole: Stretch) -> str:
    return format_percent(None if seconds is None else seconds / whole.duration_s)


def _waiting(whole: Stretch) -> str:
    thread = whole.busiest
    waited = (
        f"busiest thread ran {_share(thread.ran_s, whole)}, waited for a CPU {_share(thread.waited_s, whole)}; "
        if thread is not None
        else "no thread wanted a CPU; "
    )
    periods = f"{whole.throttled_periods} of {whole.periods} periods" if whole.periods else "never"
    return (
        f"{waited}held back by a quota {periods}; tasks of its group or machine waited for CPU "
        f"{_share(whole.cpu_waiting_s, whole)}, memory {_share(whole.memory_waiting_s, whole)}, "
        f"disks {_share(whole.io_waiting_s, whole)}"
    )


def _memory(whole: Stretch) -> str:
    grown = (whole.memory_grown_bytes or 0) / whole.duration_s
    growing = f", {format_bytes(round(grown))} more a second" if grown >= FEW_BYTES_PER_S else ""
    return (
        f"{format_bytes(whole.memory_bytes)} resident{growing}, {format_bytes(whole.swapped_bytes)} swapped out; "
        f"{_a_second(whole.minor_faults, whole)} minor and {_a_second(whole.major_faults, whole)} major faults a second"
    )


def _disks(whole: Stretch) -> str:
    return (
        f"read {format_bytes(whole.read_bytes)}, written {format_bytes(whole.written_bytes)}; a thread was blocked in "
        f"{format_percent(whole.blocked_fraction if whole.looks else None)} of {whole.looks} looks"
    )


def _launches(whole: Stretch) -> Iterator[tuple[str, str]]:
    """Nothing of a job that loads no driver."""
    if whole.calls is not None:
        yield "launches", _launched(whole, whole.calls)
    elif (reason := whole.missing.get("calls", NO_DRIVER)) != NO_DRIVER:
        yield "launches", f"unknown: {reason}"


def _launched(whole: Stretch, calls: Sequence[FunctionCalls]) -> str:
    """Rates of the functions that were called, if any was."""
    called = [f"{function} {rate:,.0f}" for function, rate in whole.calls_per_s.items() if rate]
    threads, calling = ({each.thread for each in calls if each.count >= least} for least in (0, 1))
    return (
        f"{', '.join(called) or ('-' if whole.launches_per_s is None else 0)} a second, by {len(calling)} of "
        f"{len(threads)} threads counted, for {format_time(sum(each.counted_s for each in calls))} in all by uprobes"
    )


def _gpu(gpu: GpuUse) -> str:
    reasons = ", ".join(f"{reason} {format_percent(share)}" for reason, share in (gpu.held_by or {}).items())
    words = [
        f"{gpu.name or gpu.uuid}: busy {format_percent(gpu.busy_fraction)}",
        f"at work: SMs {format_percent(gpu.sm_active_fraction)}, tensor pipes "
        f"{format_percent(gpu.tensor_active_fraction)}, DRAM {format_percent(gpu.dram_bandwidth_fraction)}",
        f"{format_bytes(gpu.memory_used_bytes)} of {format_bytes(gpu.memory_bytes)}",
        f"{format_frequency(gpu.sm_clock_hz)} of {format_frequency(gpu.sm_clock_max_hz)} "
        f"({reasons or 'held by nothing'})",
        f"PCIe {_rate(gpu.pcie_sent_bytes_per_s)} out, {_rate(gpu.pcie_received_bytes_per_s)} in of "
        f"{_rate(gpu.pcie_link_bytes_per_s)} each",
        f"NVLink {_rate(gpu.nvlink_sent_bytes_per_s)} out, {_rate(gpu.nvlink_received_bytes_per_s)} in",
    ]
    return "; ".join(words)


def _rate(bytes_per_s: float | None) -> str:
    return "-" if bytes_per_s is None else f"{format_bytes(round(bytes_per_s))}/s"


def _table(number: int, found: Hindrance) -> Table:
    proof = [] if found.study is None else [Note("proof:", command=typed(shlex.split(found.study)))]
    title = f"{number}. {found.cause}: {found.summary}"
    return Table.listed(title, [*told(found), ("effect", found.effect)], notes=proof)


def _cost(cost: Cost) -> str:
    share = format_percent(cost.cpu_time_s / cost.duration_s if cost.duration_s else None)
    return f"Watching took {share} of one CPU: {format_time(cost.cpu_time_s / max(1, cost.samples))} a sample"
