"""What a job did between two moments, and in several stretches together."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from primbench.doctor.job import Stretch, ThreadUse, Unlisted
from primbench.environment.threads import policy_of
from primbench.system.files import attempt
from primbench.watching.calls import summed
from primbench.watching.gpus import together
from primbench.watching.moment import is_forked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from primbench.doctor.job import FunctionCalls
    from primbench.watching.moment import Moment

LEAST_WANTED = 0.01  # of the time: threads that want a CPU less are not listed
MOST_THREADS = 16


def between(before: Moment, after: Moment, began_s: float) -> Stretch:
    """began_s: when watching began."""
    used = list(_threads(before, after))
    duration_s = after.time_s - before.time_s
    wanting = [placed(each) for each, *_ in used if each.wanted_s > LEAST_WANTED * duration_s]
    shown = listed(wanting)
    return Stretch(
        time_s=after.time_s - began_s,
        duration_s=duration_s,
        process_count=len(after.processes),
        thread_count=sum(len(each.threads) for each in after.processes.values()),
        threads=shown,
        unlisted=unlisted([by_cpus(wanting)], shown),
        migrations=_sum(migrations for _, migrations, _ in used),
        switches=_sum(switches for *_, switches in used),
        missing=after.missing,
        **_of_processes(before, after),
        **_of_groups(before, after),
    )


def _of_processes(before: Moment, after: Moment) -> dict[str, Any]:
    """What was counted of those that are in both, and what all hold after."""
    pairs = [(before.processes[pid], after.processes[pid]) for pid in before.processes if pid in after.processes]
    counted = {
        name: _sum(_difference(getattr(then, name), getattr(now, name)) for then, now in pairs) for name in _COUNTED
    }
    grown = {"memory_grown_bytes": _sum(_grown(then.memory_bytes, now.memory_bytes) for then, now in pairs)}
    held = {name: _sum(getattr(each, name) for each in after.processes.values()) for name in _HELD}
    return counted | grown | held | {name: _with_ended(before, after, name) for name in _TIMES}


def _grown(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def _with_ended(before: Moment, after: Moment, name: str) -> Any:
    """A time of those that began or ended meanwhile, too; who ended counts once its parent has waited for it.

    That adds its whole time to its parent's: what was counted of it before is taken off again.
    """
    there, earlier = (
        {pid: (getattr(each, name), getattr(each, f"ended_{name}")) for pid, each in moment.processes.items()}
        for moment in (after, before)
    )
    both = [(earlier[pid], there[pid]) for pid in there.keys() & earlier.keys()]
    own_s: float = sum(max(0.0, now[0] - then[0]) for then, now in both)
    ended_s = sum(now[1] - then[1] for then, now in both)
    new_s = sum(sum(there[pid]) for pid in there.keys() - earlier.keys())
    gone_s = sum(sum(earlier[pid]) for pid in earlier.keys() - there.keys())
    return own_s + new_s + max(0.0, ended_s - gone_s)


def _of_groups(before: Moment, after: Moment) -> dict[str, Any]:
    waited = {f"{on}_waiting_s": _difference(before.waiting_s[on], after.waiting_s[on]) for on in after.waiting_s}
    counted = {name: _difference(getattr(before, name), getattr(after, name)) for name in _OF_GROUPS}
    return waited | counted | _throttled(before, after)


_TIMES = ("cpu_time_s", "kernel_time_s")
_COUNTED = ("minor_faults", "major_faults", "read_bytes", "written_bytes")
_HELD = ("memory_bytes", "swapped_bytes")
_OF_GROUPS = ("reread_bytes", "swapped_in_bytes")
_SUMMED = (
    *(*_TIMES, *_COUNTED, *_OF_GROUPS, "memory_grown_bytes", "duration_s", "migrations", "switches"),
    *("periods", "throttled_periods", "throttled_s"),
    *("cpu_waiting_s", "memory_waiting_s", "io_waiting_s", "looks", "asleep"),
)


def _sum(numbers: Iterable[float | None]) -> Any:
    """None where one of them is not known, and 0 of none."""
    total: float = 0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total


def _difference(before: Any, after: Any) -> Any:
    """A counter may go back by a rounding, as where a group with a limit was removed."""
    return None if before is None or after is None else max(after - before, type(after)(0))


def _threads(before: Moment, after: Moment) -> Iterator[tuple[ThreadUse, int | None, int | None]]:
    """Each thread's use, migrations and switches."""
    for pid, process in after.processes.items():
        earlier = before.processes[pid].threads if pid in before.processes else {}
        forked = is_forked(process, after.processes.get(process.parent))
        for number, now in process.threads.items():
            if (then := earlier.get(number)) is not None:
                use = ThreadUse(
                    number=int(number),
                    process=pid,
                    parent=process.parent,
                    name=now.name,
                    ran_s=max(0.0, now.ran_s - then.ran_s),
                    waited_s=max(0.0, now.waited_s - then.waited_s),
                    cpus=None,
                    is_forked=forked,
                )
                counts = [_difference(getattr(then, name), getattr(now, name)) for name in ("migrations", "switches")]
                yield use, counts[0], counts[1]


def _throttled(before: Moment, after: Moment) -> dict[str, float | None]:
    then, now = before.throttling or {}, after.throttling or {}
    held_back = [now[group].since(then[group]) for group in then.keys() & now.keys()]
    if not held_back:
        return {}
    most = max(held_back, key=lambda each: each.held_back_s)
    return {"throttled_s": most.held_back_s, "periods": most.periods, "throttled_periods": most.throttled_periods}


def joined(stretches: Sequence[Stretch]) -> Stretch:
    """One stretch of all, which follow one another; there is at least one. What is held is as at the end."""
    last = stretches[-1]
    summed = {name: _sum(getattr(each, name) for each in stretches) for name in _SUMMED}
    blocked, blocked_in, stopped = Counter[int](), Counter[str](), Counter[int]()
    asleep_in: dict[int, Counter[str]] = {}
    for each in stretches:
        blocked.update(each.blocked)
        blocked_in.update(each.blocked_in)
        stopped.update(each.stopped)
        for process, functions in each.asleep_in.items():
            asleep_in.setdefault(process, Counter()).update(functions)
    shown = _threads_of(stretches)
    return replace(
        last,
        **summed,
        threads=shown,
        unlisted=unlisted([by_cpus(each.wanting) for each in stretches], shown),
        blocked=dict(blocked),
        blocked_in=dict(blocked_in),
        stopped=dict(stopped),
        asleep_in={process: dict(functions) for process, functions in asleep_in.items()},
        calls=_calls_of(stretches),
        gpus=together([each.gpus for each in stretches]),
        missing={name: reason for each in stretches for name, reason in each.missing.items()},
    )


def _calls_of(stretches: Sequence[Stretch]) -> list[FunctionCalls] | None:
    """None where there was nothing to count in any."""
    known = [each.calls for each in stretches if each.calls is not None]
    return summed(call for calls in known for call in calls) if known else None


def _threads_of(stretches: Sequence[Stretch]) -> list[ThreadUse]:
    found: dict[int, ThreadUse] = {}
    for each in (thread for stretch in stretches for thread in stretch.threads):
        so_far = found.get(each.number)
        if so_far is not None:
            ran_s, waited_s = so_far.ran_s + each.ran_s, so_far.waited_s + each.waited_s
            found[each.number] = replace(each, ran_s=ran_s, waited_s=waited_s)
        else:
            found[each.number] = each
    return listed(found.values())


def placed(thread: ThreadUse) -> ThreadUse:
    """The same with where it may run, and how it comes to do so."""
    number = thread.number
    return replace(
        thread,
        cpus=attempt({}, "", lambda: sorted(os.sched_getaffinity(number))),
        niceness=attempt({}, "", lambda: os.getpriority(os.PRIO_PROCESS, number)),
        scheduling=attempt({}, "", lambda: policy_of(number)),
    )


def by_cpus(threads: Iterable[ThreadUse | Unlisted]) -> dict[tuple[int, ...] | None, Unlisted]:
    """Those that may run on the same CPUs together."""
    found: dict[tuple[int, ...] | None, Unlisted] = {}
    for each in threads:
        key = None if each.cpus is None else tuple(each.cpus)
        so_far = found.get(key, Unlisted(cpus=each.cpus, threads=0, wanted_s=0.0))
        count = each.threads if isinstance(each, Unlisted) else 1
        found[key] = replace(so_far, threads=so_far.threads + count, wanted_s=so_far.wanted_s + each.wanted_s)
    return found


def unlisted(all_of: Sequence[Mapping[tuple[int, ...] | None, Unlisted]], shown: Iterable[ThreadUse]) -> list[Unlisted]:
    """all_of: each stretch's threads, by their CPUs, of which as many are counted as there were in one of them."""
    there = by_cpus(shown)
    found = []
    for key in dict.fromkeys(itertools.chain.from_iterable(all_of)):
        those = [each[key] for each in all_of if key in each]
        count, wanted_s = max(each.threads for each in those), sum(each.wanted_s for each in those)
        if key in there:
            count, wanted_s = count - there[key].threads, wanted_s - there[key].wanted_s
        if count > 0:
            found.append(Unlisted(cpus=those[-1].cpus, threads=count, wanted_s=max(0.0, wanted_s)))
    return found


def listed(threads: Iterable[ThreadUse]) -> list[ThreadUse]:
    """Those that wanted a CPU most, and the first one of each process that started theirs: it may wait for them."""
    ordered = sorted(threads, key=lambda each: -each.wanted_s)
    shown, left = ordered[:MOST_THREADS], ordered[MOST_THREADS:]
    parents = {each.parent for each in shown} - {each.process for each in shown}
    firsts = {each.process: each for each in reversed(left) if each.process in parents}
    return shown + [each for each in left if firsts.get(each.process) is each]
