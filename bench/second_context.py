"""What do visits to a second context, and streams that were used, make of the times of a process?

Child processes in turn measure the same cases, with the visits that a timer makes and without, where twelve streams
were used before and where none were: of each time, the median of the rounds over that with visits and no streams. Takes
one GPU and three minutes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from typing import Any

from primbench.backends import open_backend
from primbench.gpu.nvidia import driver
from primbench.gpu.nvidia.second_context import SecondContext
from primbench.kernels.gemm import Gemm
from primbench.kernels.launch import Launch
from primbench.kernels.memcpy import Memcpy
from primbench.kernels.model import Model
from primbench.problem import Problem
from primbench.spec.method import Method
from primbench.timing.case import measure_on

STREAMS = 12
CASES: dict[str, Problem] = {
    "empty kernel": Launch(),
    "64 B to the GPU": Memcpy(64, "h2d"),
    "64 MiB to the GPU": Memcpy(2**26, "h2d"),
    "product of 256": Gemm(256, 256, 256, dtype="bfloat16"),
    "product of 4096": Gemm(4096, 4096, 4096, dtype="bfloat16"),
    "resnet50, batch 1": Model("resnet50", mode="inference", batch_size=1, dtype="bfloat16"),
}
METRICS = ("enqueue_s", "wall_s", "stream_s", "device_s")


def child(*, second_context: bool, streams: int) -> None:
    """Times of every case in a line of JSON."""
    backend: Any = open_backend("torch", "cuda:0")
    if not second_context:
        SecondContext.visit = lambda self: None  # type: ignore[method-assign]
    free_bytes = driver.free_memory_bytes()
    backend.second_context.visit()
    held_bytes = free_bytes - driver.free_memory_bytes()
    use(backend, streams)
    found = {name: measure_on(backend, case, Method(check=False)) for name, case in CASES.items()}
    times = {
        f"{name}, {metric}": each.median_s
        for name, measured in found.items()
        for metric in METRICS
        if (each := getattr(measured, metric)) is not None
    }
    print(json.dumps({"times": times, "held_bytes": held_bytes}))


def use(backend: Any, streams: int) -> None:
    import torch

    for _ in range(streams):
        with torch.cuda.stream(torch.cuda.ExternalStream(driver.create_stream())):
            torch.zeros(8, device=str(backend.device))
    torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", nargs=2, type=int, metavar=("CONTEXT", "STREAMS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(second_context=bool(options.child[0]), streams=options.child[1])
        return
    ways = {(context, streams): list[dict[str, float]]() for context in (1, 0) for streams in (0, STREAMS)}
    for _ in range(options.rounds):
        for way, found in ways.items():
            command = [sys.executable, "-P", "-m", "bench.second_context", "--child", *map(str, way)]
            answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            found.append(answer["times"])
            if way == (1, 0):
                print(f"the context holds {answer['held_bytes'] / 2**20:.0f} MiB", flush=True)
    print(f"{'':32} {'visits':>10} {'streams':>8} {'without':>8} {'streams':>8}")
    for name in ways[1, 0][0]:
        of_way = [statistics.median(times[name] for times in found) for found in ways.values()]
        ratios = " ".join(f"{each / of_way[0]:8.3f}" for each in of_way[1:])
        print(f"{name:32} {of_way[0] * 1e6:7.3f} us {ratios}")


if __name__ == "__main__":
    main()
