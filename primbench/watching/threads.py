"""Threads of a job that wanted a CPU, one by one where they wanted it most, and the others together."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.doctor.job import ThreadUse, Unlisted
from primbench.environment.threads import policy_of
from primbench.system.files import attempt

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

LEAST_WANTED = 0.01  # of the time: threads that want a CPU less are not listed
MOST_THREADS = 16


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
