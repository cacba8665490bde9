"""What `primbench watch` costs the job that it watches: a step's time watched over unwatched, in mirrored pairs.

python -P tests/figures/watch_cost.py [--pairs 12] [--job cpu --job launches --job copies]

A process counts how often its step comes round in 1.5 s, while it is watched and while it is not. `cpu` is SHA-256 in
eight threads that hold no lock of Python's; `launches` a training step of many small layers at batch 1 and `copies` one
fed from pageable memory, both on a GPU by torch. Printed are the ratio of times with its 95 % interval, that of
unwatched turns to those before, which is noise, and what the watching process said of itself. A minute each.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from primbench.stats import paired_ratio

COUNTED = """
print(flush=True)
for _ in sys.stdin:
    before, begun = sum(counts), time.perf_counter()
    time.sleep(1.5)
    print((time.perf_counter() - begun) / (sum(counts) - before), flush=True)
"""
ON_A_CPU = """
import hashlib, sys, threading, time
data, counts = bytes(2**14), [0] * 8
def work(number):
    while True:
        hashlib.sha256(data)
        counts[number] += 1
for number in range(len(counts)):
    threading.Thread(target=work, args=(number,), daemon=True).start()
"""
ON_A_GPU = """
import sys, threading, time
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
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64, device="cuda") for _ in range(100)])
optimizer, x = torch.optim.SGD(model.parameters(), 1e-3, foreach=False), torch.rand(1, 64, device="cuda")
def step():
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
    torch.cuda.synchronize()
"""
COPIES = """
batch, weights = torch.rand(2**16, 2**10), torch.rand(2**10, 2**10, device="cuda")
def step():
    (batch.to("cuda") @ weights).sum().item()
"""
JOBS = {
    "cpu": ON_A_CPU + COUNTED,
    "launches": ON_A_GPU.format(made=LAUNCHES) + COUNTED,
    "copies": ON_A_GPU.format(made=COPIES) + COUNTED,
}


@contextmanager
def watched(pid: int) -> Iterator[list[str]]:
    """What it prints is in the list afterwards."""
    command = [sys.executable, "-P", "-m", "primbench", "watch", str(pid), "--for", "2s"]
    said: list[str] = []
    with subprocess.Popen([*command, "--json", "-"], stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        watching.stdout.readline()  # what the job is: it has begun
        yield said
        said += watching.stdout.readlines()


def step_s(job: subprocess.Popen[str]) -> float:
    assert job.stdin is not None
    assert job.stdout is not None
    print(file=job.stdin, flush=True)
    return float(job.stdout.readline())


def shown(a: list[float], b: list[float]) -> str:
    ratio, low, high = paired_ratio(a, b)
    return f"{ratio:.4f} [{low or 0:.4f}, {high or 0:.4f}]"


def measure(name: str, pairs: int) -> None:
    alone_s: list[float] = []
    watched_s: list[float] = []
    said: list[str] = []
    command = [sys.executable, "-P", "-c", JOBS[name]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        job.stdout.readline()
        for number in range(2 * pairs):
            if number % 4 in (1, 2):
                with watched(job.pid) as said:
                    watched_s.append(step_s(job))
            else:
                alone_s.append(step_s(job))
        job.kill()
    whole, cost = (json.loads(said[-1])[each] for each in ("whole", "cost"))
    counted = {each["function"]: each["count"] for each in whole["calls"] or []}
    print(
        f"{name}: watched over unwatched {shown(watched_s, alone_s)}, unwatched over unwatched "
        f"{shown(alone_s[1:], alone_s[:-1])}, {pairs} pairs; of itself "
        f"{cost['cpu_time_s'] / cost['duration_s']:.2%} of one CPU; calls {counted or whole['missing'].get('calls')}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--job", choices=[*JOBS], action="append")
    asked = parser.parse_args()
    for name in asked.job or ["cpu"]:
        measure(name, asked.pairs)


if __name__ == "__main__":
    main()
