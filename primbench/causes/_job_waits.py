"""What a job waits for though CPUs, memory and disks have time for it: its own workers, locks, or nothing that runs."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from primbench.doctor.cause import Hindrance
from primbench.units import format_percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.doctor.job import Job, Stretch, ThreadUse

WHOLE_CPU = 0.9  # of the time: a thread that wants so much of a CPU is what others wait for
FEWEST_IN_TURN = 3  # of two, one may just wait for what the other computes, as torch's forward for its backward
LEAST_IN_TURN = 0.05  # of the time, that each of them ran
ONE_CPU = 1.05  # of the time, that they ran together at most, but for what ticks of clocks differ by
MOST_WANTED = 2.0  # CPUs, by who has the lock and who is to have it next; threads that want more wait for CPUs
MOST_TOLD = 4  # threads; of who starts one program after the other, each second has others
_ENDING = re.compile(r"do_wait|kernel_wait4")
_WAITED_FOR = (  # what functions of the kernel wait for: Linux 5.4 to 6.18
    (_ENDING, "for a process to end"),
    (re.compile(r".*futex.*"), "for another thread or process, at a lock or alike (futex)"),
    (re.compile(r"fcntl_setlk|(locks|posix|flock)_lock_.*"), "for who has locked a file"),
    (re.compile(r".*nanosleep|common_nsleep"), "for time to pass: it sleeps by itself"),
    (re.compile(r"(anon_)?pipe_.*"), "for who is at the other end of a pipe"),
    (re.compile(r"wait_woken|sk_.*|inet_.*|tcp_.*|unix_.*|__skb_.*"), "for what comes by a socket, or a terminal"),
    (re.compile(r".*poll.*|do_select"), "for events, mostly of sockets and pipes"),
)


def slow_workers(whole: Stretch, job: Job) -> Iterator[Hindrance]:
    """Forks that have a CPU each, and do not keep up with whom they work for.

    Who starts other programs and waits for them, as a launcher does, is not held back by that.
    """
    most = {each.process: each for each in reversed(whole.threads)}  # which are sorted
    busy = {process: each for process, each in most.items() if each.wanted_s >= WHOLE_CPU * whole.duration_s}
    workers: dict[int, list[ThreadUse]] = {}
    for each in busy.values():
        if each.is_forked:
            workers.setdefault(each.parent, []).append(each)
    for parent in workers.keys() & most.keys() - busy.keys():
        waiting, forks = most[parent], workers[parent]
        share = 1 - waiting.wanted_s / whole.duration_s
        who = "a process" if len(forks) == 1 else f"{len(forks)} processes"
        yield Hindrance(
            share=share,
            summary=f"process {waiting.process} wants no CPU in {format_percent(share)} of the time, while {who} that "
            "it started ha" + ("s a whole one" if len(forks) == 1 else "ve a whole one each"),
            evidence=[*(_ran(whole, each) for each in forks[:3]), _ran(whole, waiting), _of_cpus(whole, job)],
            effect="if it waits for them, as for batches that they load, that sets its pace: more of them where CPUs "
            "are free, or less for each to do",
        )


def _ran(whole: Stretch, thread: ThreadUse) -> str:
    share = format_percent(thread.ran_s / whole.duration_s)
    return f"schedstat of thread {thread.number} ({thread.name or 'unnamed'}) of process {thread.process}: ran {share}"


def _of_cpus(whole: Stretch, job: Job) -> str:
    used = whole.cpu_time_s / whole.duration_s
    return f"{used:.2f} of its {len(job.limits.cpus_allowed)} CPUs used"


def threads_in_turn(whole: Stretch, job: Job) -> Iterator[Hindrance]:
    """Threads of a process of which one runs at a time, as a lock makes them."""
    by_process: dict[int, list[ThreadUse]] = {}
    for each in whole.threads:
        if each.ran_s >= LEAST_IN_TURN * whole.duration_s:
            by_process.setdefault(each.process, []).append(each)
    for process, threads in by_process.items():
        if len(threads) < FEWEST_IN_TURN or len(job.limits.cpus_allowed) <= 1 or not _is_one_cpu(whole, threads):
            continue
        ran = sum(each.ran_s for each in threads) / whole.duration_s
        share = 1 - max(each.wanted_s for each in threads) / whole.duration_s
        yield Hindrance(
            share=share,
            summary=f"{len(threads)} threads of process {process} run in turn: {ran:.2f} CPUs in all, though each "
            f"slept for {format_percent(share)} of the time or more",
            evidence=[*(_ran(whole, each) for each in threads[:3]), _of_cpus(whole, job)],
            effect="together they are no faster than one, as Python's threads, of which its global lock lets one run "
            "at a time; processes in their place would not wait for that",
        )


def _is_one_cpu(whole: Stretch, threads: list[ThreadUse]) -> bool:
    """Whether together they run as one that never sleeps does."""
    ran_s, wanted_s = sum(each.ran_s for each in threads), sum(each.wanted_s for each in threads)
    return ran_s <= ONE_CPU * whole.duration_s and WHOLE_CPU <= wanted_s / whole.duration_s <= MOST_WANTED


def sleeps(whole: Stretch, job: Job) -> Iterator[Hindrance]:
    """Nothing of it runs, nor waits for a CPU or a disk, nor does a GPU of its own."""
    if not whole.looks:
        return
    on_gpus = max((gpu.busy_fraction or 0.0 for gpu in whole.gpus or []), default=0.0)
    wanted_s = max(whole.cpu_time_s, sum(each.wanted_s for each in whole.wanting))  # also by those not looked at
    share = min(whole.asleep / whole.looks, 1 - wanted_s / whole.duration_s, 1 - on_gpus)
    threads = _telling(whole)
    first = next((f": thread {thread} waits {_waited_for(function)}" for thread, function in threads.items()), "")
    yield Hindrance(
        share=max(0.0, share),
        summary=f"nothing of it ran for {format_percent(share)} of the time{first}",
        evidence=[
            f"all its threads slept in {whole.asleep} of {whole.looks} looks",
            *(
                f"thread {thread} in {function} in {whole.asleep_in[thread][function]} of these"
                for thread, function in itertools.islice(threads.items(), MOST_TOLD)
            ),
            *([] if threads else ["/proc/PID/wchan tells nobody but its user and root where"]),
        ],
        effect="it is as slow as what it waits for: look there",
    )


def _telling(whole: Stretch) -> dict[int, str]:
    """Thread -> what it slept in most: the busiest one first, then who slept most, and at last who waits for an end."""
    slept_in = {thread: functions for thread, functions in whole.asleep_in.items() if functions}
    most = {thread: max(functions, key=functions.__getitem__) for thread, functions in slept_in.items()}
    busiest = whole.busiest.number if whole.busiest else None
    often = {thread: slept_in[thread][function] for thread, function in most.items()}
    ends = {thread: _ENDING.fullmatch(function) is not None for thread, function in most.items()}
    ordered = sorted(most, key=lambda thread: (ends[thread], thread != busiest, -often[thread]))
    return {thread: most[thread] for thread in ordered}


def _waited_for(function: str) -> str:
    return next((words for pattern, words in _WAITED_FOR if pattern.fullmatch(function)), f"in {function}")
