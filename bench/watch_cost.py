"""What `primbench watch` costs the job that it watches: a unit of its work watched over unwatched, tenth by tenth.

python -m bench.watch_cost [--seconds 80] [--job cpu --job launches --job copies]

A job works all the time and notes when each unit was done, of its own wall and CPU time. Beside it a watch looks for a
tenth of a second and is still for a tenth, in mirrored blocks, so that a machine whose CPUs are a fifth slower for a
second or two is as slow for both of nearly all neighbours. `cpu` is SHA-256 in a thread a CPU, so that each CPU second
of watching is taken from it; `launches` predicts by many small layers at batch 1 and `copies` multiplies what it is fed
from pageable memory, both on a GPU by torch. These leave a CPU to the watch, where there are several.

Each lap but one of four has what watch does ten times a second, that one also what it does once a second. Each kind's
ratio is the median over pairs of neighbours with its 95 % interval from order statistics, and that of all is their
mean by the share of a second that either takes. In simulations of speeds that change by a fifth after 1 to 2 s, 70
seconds have a half width of 0.4 %; beside an H100 in a sandbox they had 1.9 % of a training step, whose backward is
launched by a second thread, and 0.9 % of copies. The same of neighbours that are both unwatched is noise. Printed is
also what watching itself took of a CPU. Ended by SIGTERM, it prints this of the laps that it has, and begins no
further job.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from types import FrameType
from typing import Literal, NamedTuple

from primbench.doctor.job import FunctionCalls
from primbench.stats import median_interval, quantile
from primbench.watching import calls
from primbench.watching.stretch import between
from primbench.watching.watch import EVERY_S, LOOK_EVERY_S, Watch

NOTED = """
print(flush=True)
sys.stdin.readline()
notes = sorted(done)
print(json.dumps(notes), flush=True)
"""
ON_A_CPU = """
import hashlib, json, os, sys, threading, time
data, done = bytes(2**20), []
def work():
    while True:
        hashlib.sha256(data)
        done.append((time.perf_counter(), time.process_time()))
for number in range(len(os.sched_getaffinity(0))):
    threading.Thread(target=work, daemon=True).start()
"""
ON_A_GPU = """
import json, sys, threading, time
import torch
done = []
{made}
def work():
    while True:
        step()
        done.append((time.perf_counter(), time.process_time()))
step()
threading.Thread(target=work, daemon=True).start()
"""
LAUNCHES = """
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64, device="cuda") for _ in range(60)]).requires_grad_(False)
x = torch.rand(1, 64, device="cuda")
def step():
    model(x)
    torch.cuda.synchronize()
"""
COPIES = """
batch, weights = torch.rand(2**12, 2**10), torch.rand(2**10, 2**10, device="cuda")
def step():
    (batch.to("cuda") @ weights).sum().item()
"""
JOBS = {
    "cpu": ON_A_CPU + NOTED,
    "launches": ON_A_GPU.format(made=LAUNCHES) + NOTED,
    "copies": ON_A_GPU.format(made=COPIES) + NOTED,
}


WARM_S = 3.0  # until its first steps are done
TOLD_S = 20.0  # from one word on how far it is to the next

Kind = Literal["unwatched", "often", "once"]
"""Of a lap: in which watch does what it does LOOK_EVERY_S, or also what it does EVERY_S."""


class Lap(NamedTuple):
    """begun_s, ended_s: by time.perf_counter(), which all processes share. cpu_time_s: of watching."""

    kind: Kind
    begun_s: float
    ended_s: float
    cpu_time_s: float


class Done(NamedTuple):
    """time_s: by time.perf_counter(), when each unit of work was done. cpu_time_s: of the job by then."""

    time_s: list[float]
    cpu_time_s: list[float]

    def during(self, lap: Lap) -> tuple[float, float]:
        """Wall and CPU seconds a unit; of a unit that reaches beyond the lap that share counts that lies in it."""
        (first, first_s), (last, last_s) = self._at(lap.begun_s), self._at(lap.ended_s)
        return (lap.ended_s - lap.begun_s) / (last - first), (last_s - first_s) / (last - first)

    def _at(self, time_s: float) -> tuple[float, float]:
        """Units done, and CPU seconds."""
        after = min(max(bisect_right(self.time_s, time_s), 1), len(self.time_s) - 1)
        begun_s, ended_s = self.time_s[after - 1 : after + 1]
        share = (time_s - begun_s) / (ended_s - begun_s)
        before_s, after_s = self.cpu_time_s[after - 1 : after + 1]
        return after - 1 + share, before_s + share * (after_s - before_s)


class Ratio(NamedTuple):
    """low, high: 95 %."""

    middle: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.middle:.4f} [{self.low:.4f}, {self.high:.4f}]"


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


@contextlib.contextmanager
def apart(name: str) -> Iterator[subprocess.Popen[str]]:
    """The job, which leaves the last of several CPUs to this process, but where it is to have all."""
    allowed = os.sched_getaffinity(0)
    kept = {max(allowed)}
    if len(allowed) == 1 or name == "cpu":
        kept = allowed
    try:
        os.sched_setaffinity(0, (allowed - kept) or allowed)  # which the job takes on
        with started(name) as job:
            os.sched_setaffinity(0, kept)
            yield job
    finally:
        os.sched_setaffinity(0, allowed)


class Laps:
    """why_not: why calls of the driver could not be counted; None where they could."""

    def __init__(self, pid: int) -> None:
        self._watch = Watch([pid], lasting_s=1e6)
        self._moment = self._watch._moment()
        self.why_not: str | None = None
        self._calls: list[FunctionCalls] = []

    def run(self, kind: Kind) -> Lap:
        before_s, begun_s = time.process_time(), time.perf_counter()
        if kind == "unwatched":
            time.sleep(LOOK_EVERY_S)
        else:
            self._watched(kind)
        return Lap(kind, begun_s, time.perf_counter(), time.process_time() - before_s)

    @property
    def launched(self) -> str:
        """How many calls of which thread were counted, in how much time that it ran."""
        words = (
            f"{each.function} by {each.thread} {each.count:,} in {each.ran_s:.3g} s"
            for each in self._calls
            if each.count
        )
        return self.why_not or ", ".join(words) or "none"

    def _watched(self, kind: Kind) -> None:
        """As Watch makes a stretch, of which this is the last tenth."""
        seen = self._watch._look(self._moment, time.monotonic() + LOOK_EVERY_S)
        self._calls = calls.summed([*self._calls, *(seen["calls"] or [])])
        self.why_not = self._watch._missing.get("calls")
        if kind == "once":
            before, self._moment = self._moment, self._watch._moment(self._moment)
            self._watch._read_gpus(self._moment.processes.keys())
            between(before, self._moment, 0.0)


ORDER: tuple[Kind, ...] = (
    *("unwatched", "often", "often", "unwatched") * 3,
    *("unwatched", "once", "once", "unwatched"),
)


def measured(name: str, seconds: float) -> tuple[list[Lap], Done, str]:
    """The laps, in ORDER, what was done, and how often the driver was called. Ended before, those until then."""
    laps: list[Lap] = []
    with apart(name) as job:
        watching = Laps(job.pid)
        with contextlib.suppress(KeyboardInterrupt):
            time.sleep(WARM_S)
            begun_s = told_s = time.monotonic()
            while (now_s := time.monotonic()) < begun_s + seconds:
                laps.append(watching.run(ORDER[len(laps) % len(ORDER)]))
                if now_s >= told_s + TOLD_S:
                    told_s = now_s
                    print(f"{name}: {now_s - begun_s:.0f} of {seconds:.0f} s", file=sys.stderr, flush=True)
        told, _ = job.communicate("\n")
    done = Done(*map(list, zip(*json.loads(told), strict=True)))
    return laps, done, watching.launched


def ratio(pairs: Sequence[tuple[float, float]]) -> Ratio:
    """Of the first to the second."""
    ratios = [one / other for one, other in pairs]
    low, high = median_interval(ratios) or (0.0, math.inf)
    return Ratio(quantile(ratios, 0.5), low, high)


def together(ratios: Sequence[Ratio], shares: Sequence[float]) -> Ratio:
    """The mean by shares, which come to 1; half widths add up as those of independent errors do."""
    middle, below, above = (
        math.fsum(share * each.middle for share, each in zip(shares, ratios, strict=True)),
        math.hypot(*(share * (each.middle - each.low) for share, each in zip(shares, ratios, strict=True))),
        math.hypot(*(share * (each.high - each.middle) for share, each in zip(shares, ratios, strict=True))),
    )
    return Ratio(middle, middle - below, middle + above)


def show(name: str, laps: Sequence[Lap], done: Done, launched: str) -> None:
    kinds: tuple[Kind, Kind] = ("often", "once")
    of_kind = {kind: [lap for lap in laps if lap.kind == kind] for kind in kinds}
    often_s, once_s = (quantile([lap.ended_s - lap.begun_s for lap in of_kind[kind]], 0.5) for kind in kinds)
    often, once = (quantile([lap.cpu_time_s for lap in of_kind[kind]], 0.5) for kind in kinds)
    share = once_s / EVERY_S
    units = [done.during(lap) for lap in laps]
    words = []
    for what, each in zip(("time", "CPU time"), zip(*units, strict=True), strict=True):
        ratios = [ratio(neighbours(laps, each, kind)) for kind in kinds]
        all_of_it, noise = together(ratios, (1 - share, share)), ratio(neighbours(laps, each, "unwatched"))
        words.append(
            f"{what} {all_of_it}, while it looks often {ratios[0]}, once a second {ratios[1]}, both unwatched {noise}"
        )
    print(
        f"{name}, {laps[-1].ended_s - laps[0].begun_s:.0f} s: watched over unwatched {'; '.join(words)}; watching took "
        f"{once / EVERY_S + often / often_s * (1 - share):.2%} of one CPU; launches counted: {launched}",
        flush=True,
    )


def neighbours(laps: Sequence[Lap], units: Sequence[float], kind: Kind) -> list[tuple[float, float]]:
    """Of each two laps of which one is of that kind and the other one unwatched what a unit took, that one last."""
    found = []
    for (one, before), (other, after) in pairwise(zip(laps, units, strict=True)):
        if {one.kind, other.kind} == {kind, "unwatched"}:
            found.append((before, after) if one.kind == kind != other.kind else (after, before))
    return found


def measure(name: str, seconds: float) -> bool:
    """Whether it was measured for as long: it was not ended before."""
    laps, done, launched = measured(name, seconds)
    if len(laps) < 2 * len(ORDER):
        sys.exit(f"{name}: ended before any lap could be told from its neighbours")
    show(name, laps, done, launched)
    return laps[-1].ended_s - laps[0].begun_s >= seconds - LOOK_EVERY_S


def _unwind(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # `timeout` sends it twice
    raise KeyboardInterrupt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=80.0, help="of each job")
    parser.add_argument("--job", choices=[*JOBS], action="append")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, _unwind)
    calls.MOST_SHARE /= 2  # of a time of which half is not watched
    for name in asked.job or ["cpu"]:
        if not measure(name, asked.seconds):
            return


if __name__ == "__main__":
    main()
