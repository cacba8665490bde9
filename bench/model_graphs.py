"""A model's device time beside that of a plain CUDA graph of the same step, and how busy the GPU is in it.

The plain graph is captured by torch alone and timed by events around 20 launches, in the same process and right after
primbench has measured the step; as it is, and once the GPU has changed contexts, as it did before primbench's samples.
Then by torch's own replay, which fills a seed and an offset ahead of a graph that draws; and with as many calls in the
graph as primbench put into its own, as 2 us lie between two launches of a graph: device is to be held against that, and
at the end stands how many agree within 3 %. How long a step of few MB takes depends on where its memory lies: one that
does not agree is set up twice more on either side, which shows by how much each differs from itself, and medians are
compared. cuDNN takes the algorithms that it expects to be the fastest, in both.
busy / device is of what CUPTI logs in a process of its own. Takes one GPU, torch 2.8 and some 8 s a step; of all models
there are 172, unless some are named. No step is begun after --budget.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from ctypes import c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench import Method, PrimbenchError, measure
from primbench.gpu.nvidia import driver
from primbench.gpu.nvidia.second_context import SecondContext
from primbench.kernels.model import Model
from primbench.registry import networks

if TYPE_CHECKING:
    from collections.abc import Callable

LAUNCHES, ROUNDS = 20, 5
SET_UPS = 3
AGREE = 0.03
WARM_UP_S = 0.3  # clocks and power have settled then
LONG_S = 2.0  # no round is begun after that; one of the largest steps takes 6 s
METHOD = Method(check=False, min_time_s=WARM_UP_S, max_time_s=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=networks.names())
    parser.add_argument("--mode", choices=("train", "inference"), action="append", help="both, unless given")
    parser.add_argument("--dtype", action="append", help="float32 and bfloat16, unless given")
    parser.add_argument("--batch-size", type=int, action="append", help="0: the original's; it and 1, unless given")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds")
    parser.add_argument("--busy", action="store_true", help="trace each as well, in a process of its own")
    options = parser.parse_args()
    end_s, ratios = time.monotonic() + options.budget, list[float]()
    for problem in _asked(options):
        if time.monotonic() > end_s:
            print(f"not begun: {_name(problem)} and what follows")
            break
        try:
            ratios += _told(problem, busy=options.busy)
        except Exception as refusal:
            print(f"{_name(problem)}: {type(refusal).__name__}: {refusal}"[:300], flush=True)
    agreeing = sum(abs(ratio - 1) <= AGREE for ratio in ratios)
    print(f"within {AGREE:.0%} of a plain graph of as many calls: {agreeing} of {len(ratios)}")


def _asked(options: argparse.Namespace) -> list[Model]:
    """Those of one model together, each once where the original's batch is 1."""
    fields = itertools.product(
        options.names, options.batch_size or (0, 1), options.dtype or ("float32", "bfloat16"),
        options.mode or ("train", "inference"),
    )  # fmt: skip
    found = (Model(name, mode=mode, dtype=dtype, batch_size=batch) for name, batch, dtype, mode in fields)
    return list(dict.fromkeys(found))


def _name(problem: Model) -> str:
    return f"{problem.network} {problem.mode} {problem.batch_size} {problem.dtype}"


def _told(problem: Model, *, busy: bool) -> list[float]:
    """Device time over that of a plain graph of as many calls, where there is one, once its line is printed."""
    ours = measure(problem, "torch", "cuda:0", method=METHOD)
    if ours.device_s is None:
        print(f"{_name(problem)}: no device time: {ours.missing['device_s']}", flush=True)
        return []
    device_s, plain = ours.device_s.median_s, _plain(problem, ours.device_s.calls_per_sample)
    print(
        f"{_name(problem)}: device {device_s * 1e3:.4g} ms, {ours.nodes_per_call or 0:.0f} kernels, "
        f"{ours.longest_path_per_call or 0:.0f} in a row; plain graph {plain.visited_s * 1e3:.4g} ms, {plain.nodes} "
        f"kernels, {plain.before_s * 1e3:.4g} ms before a change of contexts, {plain.replayed_s * 1e3:.4g} ms by "
        f"torch's replay; device / plain {device_s / plain.visited_s:.4f}, {device_s / plain.as_ours_s:.4f} with "
        f"{ours.device_s.calls_per_sample} calls in a graph{_busy_words(problem) if busy else ''}",
        flush=True,
    )
    ratio = device_s / plain.as_ours_s
    return [ratio if abs(ratio - 1) <= AGREE else _ratio_of_set_ups(problem, device_s, plain.as_ours_s)]


def _ratio_of_set_ups(problem: Model, device_s: float, plain_s: float) -> float:
    """Of medians, with those of the first."""
    ours, plain = [device_s], [plain_s]
    while len(ours) < SET_UPS and (again := measure(problem, "torch", "cuda:0", method=METHOD).device_s):
        ours.append(again.median_s)
        plain.append(_plain(problem, again.calls_per_sample).as_ours_s)
    ratio = statistics.median(ours) / statistics.median(plain)
    print(f"    set up {len(ours)} times: device {_in_ms(ours)}, plain graph {_in_ms(plain)}; of medians {ratio:.4f}")
    return ratio


def _in_ms(times_s: list[float]) -> str:
    return f"{', '.join(f'{each * 1e3:.4g}' for each in times_s)} ms"


def _busy_words(problem: Model) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "traced.jsonl"
        step = ["--mode", problem.mode, "--dtype", problem.dtype, "--batch-size", str(problem.batch_size)]
        asked = [*step, "--backend", "torch", "--no-check", "--trace", "-q"]
        command = [sys.executable, "-P", "-m", "primbench", "model", problem.network, *asked, "-o", str(file)]
        subprocess.run(command, check=True, capture_output=True)
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    found = next(line["measurement"] for line in lines if line.get("measurement"))
    if found.get("trace") is None:
        return f", not traced: {found['missing'].get('trace')}"
    busy_s, device_s = (statistics.median(each["samples_s"]) for each in (found["trace"]["busy_s"], found["device_s"]))
    path = f"{found['longest_path_per_call']} of {found['nodes_per_call']} nodes on the longest path"
    return f", busy / device {busy_s / device_s:.3f}, {found['trace']['kernels_per_call']:.0f} kernels, {path}"


class Plain(NamedTuple):
    """Seconds a call, before and after the GPU changed contexts, then by torch's replay and with as many calls in the
    graph as primbench's has; nodes of the graph of one call.
    """

    before_s: float
    visited_s: float
    replayed_s: float
    as_ours_s: float
    nodes: int


class Captured(NamedTuple):
    """owner: torch's graph, which has the memory. plain: the same, to be launched without what torch does before."""

    owner: Any
    plain: driver.DriverGraph


def _plain(problem: Model, calls: int) -> Plain:
    """By nothing of primbench but the network's own class."""
    import numpy as np
    import torch

    found = networks.network(problem.network)
    module = found.module().cuda().train(problem.is_training)
    batch = [torch.from_numpy(each).cuda() for each in found.inputs(np.random.default_rng(0), problem.batch_size)]
    optimiser: Any = found.optimiser(module.parameters())
    for group in optimiser.param_groups:
        group["capturable"] = True
    cast = torch.autocast("cuda", getattr(torch, problem.dtype), enabled=problem.dtype != "float32")
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.benchmark = False

    def train() -> None:
        optimiser.zero_grad(set_to_none=True)
        with cast:
            loss = found.loss(module, *batch)
        loss.backward()
        found.after_backward(module)
        optimiser.step()

    def predict() -> None:
        with torch.no_grad(), cast:
            found.predict(module, *batch)

    return _launched(torch, train if problem.is_training else predict, calls)


def _launched(torch: Any, step: Any, calls: int) -> Plain:
    """With as many calls as ours soon after it begins, as ours was timed: bfloat16 takes 600 W, and a second later the
    GPU may lower its clocks for it.
    """
    one = _captured(torch, step, 1)
    several = _captured(torch, step, calls) if calls > 1 else one
    before_s, second = _launch_s(torch, one.plain.launch), SecondContext(0)
    if why_not := second.visit():
        raise PrimbenchError(why_not)
    as_ours_s = _launch_s(torch, several.plain.launch) / calls
    visited_s = as_ours_s if calls == 1 else _launch_s(torch, one.plain.launch)
    replayed_s = _launch_s(torch, one.owner.replay)
    second.close()
    return Plain(before_s, visited_s, replayed_s, as_ours_s, one.plain.nodes)


def _captured(torch: Any, step: Any, calls: int) -> Captured:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        for _ in range(calls):
            step()
    plain = driver.DriverGraph(c_void_p(graph.raw_cuda_graph()), torch.cuda.current_stream().cuda_stream)
    return Captured(graph, plain)


def _launch_s(torch: Any, launch: Callable[[], None]) -> float:
    times, begun_s, spent_s = list[float](), time.perf_counter(), 0.0
    while spent_s < WARM_UP_S or (len(times) < ROUNDS and spent_s < LONG_S):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(LAUNCHES):
            launch()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3 / LAUNCHES)
        spent_s = time.perf_counter() - begun_s
    return statistics.median(times[-ROUNDS:])


if __name__ == "__main__":
    main()
