"""Device times of twelve functions by `primbench.time`, beside CUPTI's, triton's do_bench, torch's Timer and nvbench's.

CUPTI logs how long each kernel is, by torch.profiler: `graph` is their sum a call in a CUDA graph of 20 calls that is
launched again and again, as primbench times them, `busy` that of calls that are launched one by one. Between kernels
CUPTI adds time, which is in neither. do_bench and nvbench empty the L2 cache before each call, Timer has launches in
its time. With --alike N Timer and nvbench (by nvbench-compare-robust) are asked N times whether each of four functions
differs from itself, as functions.py asks `primbench.versus`. Nothing is asserted. It needs a GPU with torch, Triton and
CuPy; cuda-bench, colorama and jsondiff for nvbench.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import primbench
from bench.gpu_functions import OnGpu, by_name
from primbench.timing.function import with_inputs

CALLS = 20
ALIKE = ("sleep", "torch", "triton", "cupy")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alike", type=int, default=0, metavar="N")
    parser.add_argument("--nvbench", type=Path, metavar="FILE", help="have nvbench write its times there, and no more")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="of these functions")
    asked = parser.parse_args()
    functions = {name: each for name, each in by_name().items() if not asked.only or name in asked.only}
    if asked.nvbench:
        by_nvbench(functions, asked.nvbench)
        return
    beside = nvbench_s(["--only", *functions])
    print(f"{'':26}{'primbench':>11}{'/ graph':>9}{'/ busy':>9}{'do_bench':>10}{'Timer':>8}{'nvbench':>9}   taken by")
    for name, each in functions.items():
        print(f"{name:26}{row(each, beside.get(name))}", flush=True)
    if asked.alike:
        alike({name: functions[name] for name in ALIKE if name in functions}, asked.alike)


def row(each: OnGpu, nvbench: float | None) -> str:
    """Seconds by primbench, and of the others how many times as long."""
    from triton.testing import do_bench

    call = with_inputs(each.function, each.setup)
    measured = primbench.time(each.function, setup=each.setup, device="cuda:0")
    if measured.device_s is None:
        return measured.missing.get("device_s", "no device time")
    own_s = measured.device_s.median_s
    others = [do_bench(call, return_mode="median") / 1e3, timer_s(call), nvbench]
    told = "".join(f"{other / own_s:9.3f}" if other else f"{'-':>9}" for other in others)
    logged = in_graph_s(call, own_s), busy_s(call, own_s)
    graph, busy = (own_s / cupti if cupti else None for cupti in logged)
    beside = "".join(f"{each:9.4f}" if each else f"{'-':>9}" for each in (graph, busy))
    return f"{own_s * 1e6:8.3f} us{beside}{told}   {measured.device_s.taken_by}"


def timer_s(call: Callable[[], Any]) -> float:
    from torch.utils.benchmark import Timer

    return float(Timer("call()", globals={"call": call}).blocked_autorange(min_run_time=0.3).median)


def kernels_ns(run: Callable[[], Any]) -> list[tuple[int, int]]:
    """Start and duration of each kernel and copy that CUPTI logs, in their order."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        run()
        torch.cuda.synchronize()
    logged = profiled.profiler.kineto_results.events()
    on_gpu = [each for each in logged if str(each.device_type()).endswith("CUDA")]
    return sorted((each.start_ns(), each.duration_ns()) for each in on_gpu)


def busy_s(call: Callable[[], Any], call_s: float) -> float | None:
    """What the kernels of a call last, launched one by one."""
    return _busy_s(call, max(CALLS, min(500, round(0.02 / call_s))), 1)


def in_graph_s(call: Callable[[], Any], call_s: float) -> float | None:
    """The same in a graph of CALLS that is launched again and again; None where they cannot be captured."""
    import cupy
    import torch

    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with suppress(Exception):
        with torch.cuda.graph(graph, stream=stream), cupy.cuda.Stream.from_external(stream):
            for _ in range(CALLS):
                call()
        return _busy_s(graph.replay, max(2, min(25, round(0.02 / call_s / CALLS))), CALLS)
    return None


def _busy_s(run: Callable[[], Any], times: int, calls: int) -> float | None:
    """The median of the calls that so many runs make, once the GPU was busy with them for a quarter of a second."""

    def several() -> None:
        for _ in range(times):
            run()

    kernels_ns(several)
    warm_until = time.monotonic() + 0.25
    while time.monotonic() < warm_until:
        several()
    found = [duration for _, duration in kernels_ns(several)]
    each = len(found) // (times * calls)
    return statistics.median(sum(found[at : at + each]) for at in range(0, len(found), each)) / 1e9 if each else None


def by_nvbench(functions: dict[str, OnGpu], file: Path) -> None:
    import cupy
    import torch
    from cuda import bench

    def registered(each: OnGpu) -> Callable[[Any], None]:
        def benchmark(state: Any) -> None:
            call = with_inputs(each.function, each.setup)
            call()
            torch.cuda.synchronize()

            def launched(launch: Any) -> None:
                handle = launch.get_stream().addressof()
                with (
                    torch.cuda.stream(torch.cuda.ExternalStream(handle)),
                    cupy.cuda.Stream.from_external(launch.get_stream()),
                ):
                    call()

            state.exec(launched)

        return benchmark

    for name, each in functions.items():
        bench.register(registered(each)).set_name(name)
    bench.run_all_benchmarks(["nvbench", "--json", str(file), "--timeout", "2", "--quiet"])


def nvbench_s(arguments: list[str], file: Path | None = None) -> dict[str, float]:
    """By name; none where it is not installed. file: keep its own there."""
    with tempfile.TemporaryDirectory() as folder:
        kept = file or Path(folder) / "nvbench.json"
        words = [sys.executable, "-m", "bench.function_times", "--nvbench", str(kept), *arguments]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if not kept.exists():
            print("nvbench:", (done.stderr.strip().splitlines() or ["nothing"])[-1])
            return {}
        found = dict[str, float]()
        for each in json.loads(kept.read_text())["benchmarks"]:
            for summary in each["states"][0].get("summaries") or []:
                if summary["tag"] == "nv/cold/time/gpu/mean":
                    found[each["name"]] = float(summary["data"][0]["value"])
        return found


def alike(functions: dict[str, OnGpu], times: int) -> None:
    """How often each calls two runs of the same function different."""
    told = Counter[tuple[str, str]]()
    names = ["--only", *functions]
    with tempfile.TemporaryDirectory() as folder:
        for number in range(times):
            for each in functions.values():
                told["Timer", timers_differ(with_inputs(each.function, each.setup))] += 1
            files = [Path(folder) / f"{number}-{side}.json" for side in ("one", "other")]
            if all(map(partial(nvbench_s, names), files)):
                for word in compared_robustly(*files):
                    told["nvbench", word] += 1
            print(f"{number + 1} of {times}:", dict(told), flush=True)


def timers_differ(call: Callable[[], Any]) -> str:
    """Whether the median of either measurement is outside the quartiles of the other."""
    from torch.utils.benchmark import Timer

    one, other = (Timer("call()", globals={"call": call}).adaptive_autorange(max_run_time=0.5) for _ in range(2))
    if min(len(each.times) for each in (one, other)) < 2:
        return "one sample alone"
    pairs = [(a.median, statistics.quantiles(b.times, n=4)) for a, b in ((one, other), (other, one))]
    apart = sum(not low <= median <= high for median, (low, _, high) in pairs)
    return ("within the quartiles", "one outside", "both outside")[apart]


def compared_robustly(one: Path, other: Path) -> list[str]:
    words = [sys.executable, "-m", "cuda.bench.scripts.nvbench_compare_robust", "--no-color", str(one), str(other)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return re.findall(r"\b(FAST|SLOW|SAME|AMBG)\b(?=[^\n]*\|)", done.stdout) or ["no verdict"]


if __name__ == "__main__":
    main()
