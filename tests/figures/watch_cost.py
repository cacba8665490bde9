"""What `primbench watch` costs the job that it watches: a loop's time watched over unwatched, turn about.

python -P tests/figures/watch_cost.py [--turns 10] [--threads 8]

A process counts how often its loop comes round in a second, in `threads` threads that hold no lock of Python's, while
it is watched and while it is not, one after the other. Printed are the ratio of both medians, that of two halves of the
unwatched turns, which is noise, and what the watching process said of itself.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

LOOP = """
import hashlib, sys, threading, time
data, counts = bytes(2**14), [0] * int(sys.argv[1])
def work(number):
    while True:
        hashlib.sha256(data)
        counts[number] += 1
for number in range(len(counts)):
    threading.Thread(target=work, args=(number,), daemon=True).start()
print(flush=True)
for _ in sys.stdin:
    before, begun = sum(counts), time.perf_counter()
    time.sleep(2)
    print((time.perf_counter() - begun) / (sum(counts) - before), flush=True)
"""


@contextmanager
def watched(pid: int) -> Iterator[list[str]]:
    """What it prints is in the list afterwards."""
    command = [sys.executable, "-P", "-m", "primbench", "watch", str(pid), "--for", "2.5s"]
    said: list[str] = []
    with subprocess.Popen([*command, "--json", "-"], stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        watching.stdout.readline()  # what the job is: it has begun
        yield said
        said += watching.stdout.readlines()


def median_ratio(above: list[float], below: list[float]) -> float:
    return statistics.median(one / other for one, other in zip(above, below, strict=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--threads", type=int, default=8)
    asked = parser.parse_args()
    alone_s: list[float] = []
    watched_s: list[float] = []
    said: list[str] = []
    command = [sys.executable, "-P", "-c", LOOP, str(asked.threads)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as loop:
        assert loop.stdin is not None
        assert loop.stdout is not None
        loop.stdout.readline()
        for _ in range(asked.turns):
            print(file=loop.stdin, flush=True)
            alone_s.append(float(loop.stdout.readline()))
            with watched(loop.pid) as said:
                print(file=loop.stdin, flush=True)
                watched_s.append(float(loop.stdout.readline()))
        loop.stdin.close()
    print(f"watched over unwatched: {median_ratio(watched_s, alone_s):.4f}")
    print(f"unwatched over unwatched: {median_ratio(alone_s[1:], alone_s):.4f}")
    cost = json.loads(said[-1])["cost"]
    print(f"of itself: {cost['cpu_time_s'] / cost['duration_s']:.2%} of one CPU, {cost['samples']} samples")


if __name__ == "__main__":
    main()
