"""What `primbench watch` costs the job that it watches: a unit of its work watched over unwatched, second by second.

python -P tests/figures/watch_cost.py [--pairs 100] [--job cpu --job launches --job copies]

A job works all the time and counts what it has done; beside it one watch looks for a second, sleeps for a second and so
on, in mirrored pairs. `cpu` is SHA-256 in a thread a CPU, so that each CPU second of watching is taken from it;
`launches` a training step of many small layers at batch 1 and `copies` one fed from pageable memory, both on a GPU by
torch, of a few milliseconds each, so that a second counts a hundred or more. Printed are ratios of the time and of the
job's own CPU time for as much work, the median over pairs with its 95 % interval from order statistics, the same of two
unwatched seconds, which is noise, and what watching itself took of a CPU. 100 pairs take four minutes; ended by
SIGTERM, it prints this of the pairs that it has, and begins no further job.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NamedTuple

from primbench.stats import median_interval, quantile
from primbench.watching.stretch import Stretch, joined
from primbench.watching.watch import EVERY_S, Watch

COUNTED = """
def so_far():
    return [time.perf_counter(), time.process_time(), sum(counts)]
print(flush=True)
before = so_far()
for _ in sys.stdin:
    now = so_far()
    print(json.dumps([late - early for early, late in zip(before, now)]), flush=True)
    before = so_far()
"""
ON_A_CPU = """
import hashlib, json, os, sys, threading, time
data, counts = bytes(2**17), [0] * len(os.sched_getaffinity(0))
def work(number):
    while True:
        hashlib.sha256(data)
        counts[number] += 1
for number in range(len(counts)):
    threading.Thread(target=work, args=(number,), daemon=True).start()
"""
ON_A_GPU = """
import json, sys, threading, time
import torch
counts = [0]
{made}
def work():
    while True:
        step()
        counts[0] += 1
step()
threading.Thread(target=work, daemon=True).start()
"""
LAUNCHES = """
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64, device="cuda") for _ in range(20)])
optimizer, x = torch.optim.SGD(model.parameters(), 1e-3, foreach=False), torch.rand(1, 64, device="cuda")
def step():
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
    torch.cuda.synchronize()
"""
COPIES = """
batch, weights = torch.rand(2**12, 2**10), torch.rand(2**10, 2**10, device="cuda")
def step():
    (batch.to("cuda") @ weights).sum().item()
"""
JOBS = {
    "cpu": ON_A_CPU + COUNTED,
    "launches": ON_A_GPU.format(made=LAUNCHES) + COUNTED,
    "copies": ON_A_GPU.format(made=COPIES) + COUNTED,
}


TOLD = 20  # seconds of work from one word on how far it is to the next


class Lap(NamedTuple):
    """Of a job: seconds a unit of work."""

    time_s: float
    cpu_time_s: float


@contextlib.contextmanager
def started(name: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-P", "-c", JOBS[name]]
    pipe = subprocess.PIPE
    with subprocess.Popen(  # in a session of its own: where all are told to end, it is heard once more
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as job:
        assert job.stdout is not None
        assert job.stderr is not None
        if not job.stdout.readline():
            *_, last = job.stderr.read().splitlines() or [f"exit status {job.wait()}"]
            sys.exit(f"--job {name}: it ended before its first step: {last}")
        try:
            yield job
        finally:
            job.kill()


def during(job: subprocess.Popen[str], wait: Callable[[], object]) -> Lap:
    """What the job needed while it was waited for."""
    _since_the_last(job)
    wait()
    time_s, cpu_time_s, count = _since_the_last(job)
    return Lap(time_s / count, cpu_time_s / count)


def _since_the_last(job: subprocess.Popen[str]) -> list[float]:
    assert job.stdin is not None
    assert job.stdout is not None
    print(file=job.stdin, flush=True)
    found: list[float] = json.loads(job.stdout.readline())
    return found


def shown(ones: list[Lap], others: list[Lap]) -> str:
    both = list(zip(ones, others, strict=True))
    time = _ratio([one.time_s / other.time_s for one, other in both])
    return f"time {time}, CPU time {_ratio([one.cpu_time_s / other.cpu_time_s for one, other in both])}"


def _ratio(ratios: list[float]) -> str:
    low, high = median_interval(ratios) or (0.0, float("inf"))
    return f"{quantile(ratios, 0.5):.4f} [{low:.4f}, {high:.4f}]"


def measure(name: str, pairs: int) -> bool:
    """Whether all pairs were measured: it was not ended before."""
    alone: list[Lap] = []
    watched: list[Lap] = []
    seen: list[Stretch] = []
    watching_s = 0.0
    with started(name) as job, contextlib.suppress(KeyboardInterrupt):
        watch = Watch([job.pid], lasting_s=1e6)
        stretches = iter(watch)
        for number in range(2 * pairs):
            if number % TOLD == 0:
                print(f"{name}: {number // 2} of {pairs} pairs", file=sys.stderr, flush=True)
            if number % 4 in (1, 2):
                next(stretches)  # from the end of the one before until now, without a look
                before_s = time.process_time()
                watched.append(during(job, lambda: seen.append(next(stretches))))
                watching_s += time.process_time() - before_s
            else:
                alone.append(during(job, lambda: time.sleep(EVERY_S)))
    asked, pairs = pairs, min(len(alone), len(watched))
    if pairs < 2:
        sys.exit(f"{name}: ended before two pairs were measured")
    alone, watched = alone[:pairs], watched[:pairs]
    calls = joined(seen).calls
    counted = {each.function: each.count for each in calls or []}
    print(
        f"{name}, {pairs} pairs: watched over unwatched {shown(watched, alone)}; unwatched over unwatched "
        f"{shown(alone[1:], alone[:-1])}; watching took {watching_s / pairs / EVERY_S:.2%} of one CPU; calls "
        f"{counted or seen[-1].missing.get('calls')}",
        flush=True,
    )
    return pairs == asked


def _unwind(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # `timeout` sends it twice
    raise KeyboardInterrupt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--job", choices=[*JOBS], action="append")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, _unwind)
    for name in asked.job or ["cpu"]:
        if not measure(name, asked.pairs):
            return


if __name__ == "__main__":
    main()
