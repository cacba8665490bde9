"""Traces of torch's profiler: made up ones of GPUs, whose parts are known, and real ones of a CPU."""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from primbench.errors import FileError
from primbench.traces.bound import bound_of
from primbench.traces.kineto import read
from primbench.traces.told import StepBound, shown

Invoke = Callable[..., Result]
Event = dict[str, Any]
EPOCH_US = 1_700_000_000_000_000.0
"""What Kineto counts from, in microseconds, of which a float has every fourth of one."""


def event(category: str, name: str, begin_us: float, us: float, **args: Any) -> Event:
    return {"ph": "X", "cat": category, "name": name, "ts": EPOCH_US + begin_us, "dur": us, "tid": 7, "args": args}


def ran(
    number: int, launch_us: float, begin_us: float, us: float, name: str = "gemm", kind: str = "kernel"
) -> list[Event]:
    """Something on a GPU, and the call that started it, of 5 us."""
    return [
        event("cuda_runtime", "cudaLaunchKernel", launch_us, 5, correlation=number),
        event(kind, name, begin_us, us, correlation=number, device=0, stream=7),
    ]


def steps(of_step: Callable[[float], Iterable[Event]], step_us: float, count: int = 4) -> list[Event]:
    """Several alike. of_step: what happens from a time on."""
    marks = [event("user_annotation", f"ProfilerStep#{n + 9}", n * step_us, step_us - 1) for n in range(count)]
    return [*marks, *(each for n in range(count) for each in of_step(n * step_us))]


def written(folder: Path, events: list[Event], name: str = "a.json.gz", **said: Any) -> str:
    path = folder / name
    text = json.dumps({"deviceProperties": [{"name": "NVIDIA A"}], "traceEvents": events, **said}).encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return str(path)


def found(folder: Path, events: list[Event], **said: Any) -> StepBound:
    return bound_of(read(written(folder, events, **said)))


def parts_us(bound: StepBound) -> dict[str, float]:
    assert bound.step_s == pytest.approx(sum(bound.parts_s.values()))
    return {part: round(time_s * 1e6, 1) for part, time_s in bound.parts_s.items()}


def test_each_moment_of_a_step_is_of_one_part(tmp_path: Path) -> None:
    """Kernels hide what runs beside them, and what nothing hides is told apart."""

    def step(at: float) -> Iterable[Event]:
        first, *_ = number = [round(at) * 10 + n for n in range(4)]
        yield from ran(first, at + 10, at + 20, 100)
        yield from ran(
            number[1], at + 30, at + 100, 50, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "kernel"
        )  # 20 hidden
        yield from ran(number[2], at + 40, at + 150, 30, "Memcpy HtoD (Pinned -> Device)", "gpu_memcpy")
        yield event("cpu_op", "aten::mm", at + 200, 30)  # nothing ran from 180 on
        yield from ran(number[3], at + 240, at + 260, 40, "Memcpy DtoD (Device -> Device)", "gpu_memcpy")

    bound = found(tmp_path, steps(step, 400))
    # of 80 us before the last one 30 in the operator, 5 in its launch, and 15 until it began; then 120 until the next
    assert {
        "kernels": 140.0, "python": 140.0, "launches": 60.0, "collectives": 30.0, "copies": 30.0,
    } == parts_us(bound)  # fmt: skip
    assert (3, 4.0, 50.0, "NVIDIA A") == (
        bound.steps, bound.launches, round(bound.collective_s * 1e6, 1), read(str(tmp_path / "a.json.gz")).gpu,
    )  # fmt: skip
    assert "python" == bound.part  # 200 us of waits for the host exceed 140


def launch_bound(at: float) -> Iterable[Event]:
    for n in range(10):
        yield event("cpu_op", "aten::add", at + 20 * n, 19)
        yield from ran(round(at) * 10 + n, at + 20 * n + 10, at + 20 * n + 18, 2)


def waiting(at: float) -> Iterable[Event]:
    yield from ran(round(at) * 10, at + 1, at + 10, 50)
    yield event("cuda_runtime", "cudaStreamSynchronize", at + 12, 50)
    yield from ran(round(at) * 10 + 1, at + 190, at + 196, 3)


def loading(at: float) -> Iterable[Event]:
    yield event("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", at, 150)
    yield event("cpu_op", "aten::stack", at + 20, 30)  # by the loader
    yield from ran(round(at) * 10, at + 160, at + 168, 30)


def computing(at: float) -> Iterable[Event]:
    for n in range(4):
        yield from ran(round(at) * 10 + n, at + 10 * n, at + 1000 + 50 * n, 49.5)  # the GPU is far behind


SENTENCES = {
    "launches": (launch_bound, "The host's operators and launches bound this step: the GPU computes 20.0 us of 200 us"),
    "waits": (waiting, "Waits for the GPU bound this step: the GPU computes 53.0 us of 200 us"),
    "data": (loading, "The data loader bounds this step: the GPU computes 30.0 us of 200 us"),
    "kernels": (
        computing,
        "The GPU's kernels bound this step: the GPU computes 198 us of 200 us, gemm most, for 198 us; ",
    ),
}


@pytest.mark.parametrize("part", SENTENCES)
def test_what_bounds_a_step_is_said_with_what_to_do(part: str, invoke: Invoke, tmp_path: Path) -> None:
    of_step, sentence = SENTENCES[part]
    path = written(tmp_path, steps(of_step, 200), "trace.json")
    assert part == bound_of(read(path)).part
    done = invoke("explain", path, "--json", tmp_path / "out.json", "--csv", tmp_path / "out.csv")
    assert 0 == done.exit_code, done.stderr
    assert done.stdout.startswith(sentence), done.stdout
    (told,) = json.loads((tmp_path / "out.json").read_text())
    assert (part, path) == (told["part"], told["trace"])
    assert f"{path},,{part}," in (tmp_path / "out.csv").read_text()


def test_kernels_that_a_step_did_not_launch_are_of_the_one_that_did(tmp_path: Path) -> None:
    """A GPU that is a step behind: the host's marks say nothing of when it computed."""
    late = steps(lambda at: ran(round(at), at + 10, at + 1000, 150), 200)
    bound = found(tmp_path, late)
    assert 150.0 == parts_us(bound)["kernels"]
    assert 200.0 == pytest.approx(bound.step_s * 1e6)


def test_two_traces_are_set_side_by_side(invoke: Invoke, tmp_path: Path) -> None:
    one = written(tmp_path, steps(launch_bound, 200), "one.json")
    two = written(
        tmp_path, steps(lambda at: [*launch_bound(at), *ran(round(at) + 5, at + 200, at + 205, 60)], 300), "two.json"
    )
    done = invoke("explain", one, two)
    assert done.stdout.startswith(
        f"The step of {two} is 100 us longer than that of {one}, of 200 us: +60.0 us in kernels."
    )
    assert "primbench capture SCRIPT.py" in done.stdout


def rank(at: float, late_us: float) -> Iterable[Event]:
    """All end a collective together, and begin it when they come to it."""
    yield from ran(round(at) * 10, at + 1, at + 5, 20 + late_us)
    yield from ran(
        round(at) * 10 + 1, at + 2, at + 25 + late_us, 150 - late_us, "ncclKernel_AllReduce_RING_LL_Sum_float"
    )


def test_of_ranks_the_last_one_is_named(invoke: Invoke, tmp_path: Path) -> None:
    paths = [
        written(
            tmp_path, steps(functools.partial(rank, late_us=90.0 * (n == 2)), 200), f"{n}.json.gz",
            distributedInfo={"backend": "nccl", "rank": n, "world_size": 4},
        )
        for n in range(4)
    ]  # fmt: skip
    done = invoke("explain", *paths)
    assert done.stdout.startswith(
        "Rank 2 comes last: it is 60.0 us a step in collectives, where others wait 150 us and more."
    )
    assert invoke("explain", *paths[:2]).stdout.startswith("No rank is waited for")


def test_a_trace_without_steps_is_told_as_a_whole(tmp_path: Path) -> None:
    old = [
        event("Kernel", "k", 100, 50, correlation=3, device=0),
        event("Runtime", "cudaLaunchKernel", 80, 9, correlation=3),
        event("Memcpy", "Memcpy DtoH (Device -> Pageable)", 150, 50, device=0),
    ]
    path = tmp_path / "list.json"
    path.write_text(json.dumps(old))
    bound = bound_of(read(str(path)))
    assert (True, {"kernels": 50.0, "copies": 50.0}) == (bound.is_whole, parts_us(bound))


def test_autograd_and_what_a_script_marks_are_no_operators(tmp_path: Path) -> None:
    """As a capture counts them: a node of autograd lasts for as long as its operators, and longer."""
    node = event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 0, 100)
    inside = [event("cpu_op", "MmBackward0", 5, 90), event("cpu_op", "aten::mm", 10, 30)]
    graph = event("cpu_op", "## Call CompiledFxGraph abc ##", 60, 20)
    marks = [event("user_annotation", "mine::all", 0, 100), event("user_annotation", "ProfilerStep#3", 0, 100)]
    bound = found(tmp_path, [node, *inside, graph, *marks])
    assert {"operators": 50.0, "python": 50.0} == parts_us(bound)


def on_host(at: float, operators_us: float, outer: int, nested: int) -> Iterable[Event]:
    """A step of 100 us on a CPU. outer: how many operators call as many others each, which leave 1 us."""
    us = operators_us / outer
    for n in range(outer):
        begin = at + n * (us + 1)
        yield event("cpu_op", "aten::linear", begin, us)
        for m in range(nested):
            yield event("cpu_op", "aten::mm", begin + m * us / nested, us / nested - 1)


def test_parts_that_are_as_good_as_equal_are_both_named(invoke: Invoke, tmp_path: Path) -> None:
    near = steps(lambda at: on_host(at, 48, 1, 1), 100)
    assert ["python", "operators"] == found(tmp_path, near).bound_by
    printed = invoke("explain", written(tmp_path, near)).stdout
    assert printed.startswith(
        "Python between operators and torch's operators bound this step about equally: 51.0 us and 48.0 us of 99.0 us; "
    )
    assert ["python"] == found(tmp_path, steps(lambda at: on_host(at, 35, 1, 1), 100)).bound_by


def test_what_the_profiler_takes_for_events_may_be_of_either_part(tmp_path: Path) -> None:
    """Of 60 us in operators as much as 20 us may be for the 20 events within; none of it where there are none."""
    many, none = (steps(functools.partial(on_host, operators_us=60, outer=2, nested=each), 100) for each in (10, 0))
    assert ["operators"] == found(tmp_path, none).bound_by
    several = found(tmp_path, many)
    assert ["operators", "python"] == several.bound_by
    assert 99.0 == pytest.approx(1e6 * sum(several.ways[-1].values()))


def exchanging(at: float, waiting_us: float) -> Iterable[Event]:
    """A step of 100 us, in which add() waits for a collective, whose own thread copies meanwhile."""
    yield event("cpu_op", "aten::mm", at, 20)
    yield event("user_annotation", "gloo:all_reduce", at + 15, 68) | {"tid": 8}
    yield event("cpu_op", "aten::copy_", at + 30, 40) | {"tid": 8}
    yield event("cpu_op", "aten::add", at + 20, waiting_us + 10)
    yield event("cpu_op", "_c10d_functional::wait_tensor", at + 25, waiting_us)


def test_ranks_by_their_cpus_wait_in_operators_that_are_given_what_a_collective_makes(tmp_path: Path) -> None:
    """add() waits for 60 of 100 us, in which a collective is under way but for 2, as one is for 5 beside mm()."""
    bound = found(tmp_path, steps(functools.partial(exchanging, waiting_us=60), 100))
    assert {"operators": 30.0, "collectives": 60.0, "python": 9.0} == parts_us(bound)
    assert ["collectives"] == bound.bound_by
    assert 68.0 + 2.0 == pytest.approx(1e6 * bound.collective_s)
    assert {"aten::mm": 20.0, "aten::add": 10.0} == {each.name: round(1e6 * each.time_s, 3) for each in bound.largest}


def test_beside_a_collective_that_no_thread_is_known_to_wait_for_python_may_be_at_work(tmp_path: Path) -> None:
    bound = found(tmp_path, steps(functools.partial(exchanging, waiting_us=2), 100))
    assert {"operators": 30.0, "collectives": 53.0, "python": 16.0} == parts_us(bound)
    assert ["collectives", "python"] == bound.bound_by


def test_a_host_that_waits_for_a_collective_while_its_gpu_has_nothing_to_do_launches_nothing(tmp_path: Path) -> None:
    def step(at: float) -> Iterable[Event]:
        yield event("cpu_op", "aten::add", at + 1, 80)
        yield event("cpu_op", "_c10d_functional::wait_tensor", at + 5, 70)
        yield from ran(round(at), at + 85, at + 92, 6)

    parts = parts_us(found(tmp_path, steps(step, 100)))
    assert {"collectives": 70.0, "kernels": 6.0} == {part: parts[part] for part in ("collectives", "kernels")}
    assert parts["launches"] < 20


def test_calls_of_nccl_in_old_traces_are_the_hosts(tmp_path: Path) -> None:
    old = [event("cpu_op", "nccl:all_reduce", 0, 70), event("cpu_op", "aten::mm", 80, 20)]
    assert {"operators": 90.0, "python": 10.0} == parts_us(found(tmp_path, old))


def test_a_step_that_took_much_longer_than_others_does_not_speak_for_them(invoke: Invoke, tmp_path: Path) -> None:
    marks = [event("user_annotation", f"ProfilerStep#{n}", 30_000 + 100 * n, 100) for n in range(1, 9)]
    marks.append(event("user_annotation", "ProfilerStep#0", 0, 30_000))
    events = [*on_host(0, 20_000, 1, 1), *(each for n in range(1, 9) for each in on_host(30_000 + 100 * n, 20, 1, 1))]
    bound = found(tmp_path, [*marks, *events])
    assert (["python"], 9, {"python": 80.0, "operators": 20.0}) == (bound.bound_by, bound.steps, parts_us(bound))
    printed = " ".join(invoke("explain", written(tmp_path, [*marks, *events])).stdout.split())
    assert "steps took 100 us to 30.0 ms, on the mean 3.42 ms: what is told is of the median one" in printed


NO_TIMES: list[dict[str, Any]] = [
    {"dur": -50}, {"dur": 1e308}, {"dur": "NaN"}, {"ts": "NaN"}, {"ts": "-Infinity"}, {"ts": 1e300}, {"ts": 0.0},
]  # fmt: skip
"""An end before the begin, times that are no numbers, and those from which the trace would last years."""


@pytest.mark.parametrize("wrong", NO_TIMES, ids=str)
def test_events_without_a_time_that_can_be_are_left_out_and_said(
    invoke: Invoke, tmp_path: Path, wrong: dict[str, Any]
) -> None:
    events = [event("cpu_op", "aten::mm", 0, 40), event("cpu_op", "aten::mm", 60, 40)]
    without = event("cpu_op", "aten::add", 90, 50) | wrong
    path = written(tmp_path, [without, *events])
    assert [("aten::mm", 2)] == [(each.name, each.calls) for each in bound_of(read(path)).largest]
    printed = " ".join(invoke("explain", path).stdout.split())
    assert "80.0 us of 100 us" in printed
    assert "1 events of the trace are left out" in printed


def test_a_trace_of_no_times_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="nothing in it took any time"):
        read(written(tmp_path, [event("cpu_op", "aten::add", 90, -50)]))


def test_what_a_trace_has_not_of_a_device_is_said(invoke: Invoke, tmp_path: Path) -> None:
    calls = [event("mtia_runtime", "launch", n, 5, correlation=n) for n in range(3)]
    done = invoke("explain", written(tmp_path, [*calls, event("cpu_op", "aten::mm", 0, 50)]))
    assert "3 calls of a device's driver started what the trace does not have" in done.stdout


WRONG = {
    "{": "no trace of torch.profiler: ",
    '{"a": 1}': "no trace of torch.profiler: without traceEvents: export_chrome_trace",
    '{"schema": "1.1.1-chakra.0.0.4", "nodes": []}': "an execution trace .Chakra.*: explain the trace that",
    '{"traceEvents": []}': "nothing in it took any time: record activities=[CPU, CUDA] with torch.profiler",
    "\x1f\x8b\x08": "not a whole file of gzip: ",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_trace_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(FileError, match=WRONG[text].replace("[", r"\[")):
        read(str(tmp_path / "a.json"))


def test_a_file_of_chakras_nodes_is_refused_with_the_way_out(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "run.0.et").write_bytes(b"\n\x05schema")
    done = invoke("explain", tmp_path / "run.0.et")
    assert 2 == done.exit_code
    assert "explain the trace that torch.profiler wrote of the same run" in done.stderr


def test_several_traces_are_explained_apart_from_other_files(invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("explain", "a.json", "b.json", "b.toml")
    assert 2 == done.exit_code
    assert "explain a step beside one trace of its script" in done.stderr
    done = invoke("explain", tmp_path / "none.json")
    assert (2, f"Error: {tmp_path}/none.json: No such file or directory\n") == (done.exit_code, done.stderr)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void at::native::(anonymous namespace)::k<float, 4>(int, f<3>)", "at::native::k"),
        ("ampere_sgemm_32x32_tn", "ampere_sgemm_32x32_tn"),
        ("<lambda>", "<lambda>"),
        ("x" * 99, "x" * 57 + "..."),
    ],
)  # fmt: skip
def test_names_of_kernels_are_short(name: str, short: str) -> None:
    assert short == shown(name)


def profiled(folder: Path, batches: Iterable[Any], own: Callable[[], None], size: int) -> StepBound:
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for batch in batches:
            own()
            torch.ones(size, size) @ torch.ones(size, size) + batch.sum()
            profiler.step()
    path = folder / "cpu.json"
    profiler.export_chrome_trace(str(path))
    return bound_of(read(str(path)))


class Slow:
    """Data that take a while."""

    def __init__(self, of_s: float) -> None:
        self._of_s = of_s

    def __len__(self) -> int:
        return 4

    def __getitem__(self, number: int) -> Any:
        import time

        import torch

        time.sleep(self._of_s)
        return torch.zeros(1)


@pytest.mark.quiet
@pytest.mark.parametrize(
    ("part", "data_s", "own_s", "size"), [("data", 0.1, 0, 8), ("python", 0, 0.1, 8), ("operators", 0, 0, 1500)]
)
def test_real_steps_on_a_cpu_are_bound_by_what_they_do_most(
    part: str, data_s: float, own_s: float, size: int, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed, and its profiler writes the trace")
    import time

    loader = torch.utils.data.DataLoader(Slow(data_s))
    bound = profiled(tmp_path, loader, lambda: time.sleep(own_s), size)
    assert (part, False) == (bound.part, bound.on_gpu), parts_us(bound)
    alike = ["aten::add"] * (size == 8)  # where each takes as long as the others
    assert bound.largest[0].name in ("aten::matmul", "aten::ones", "aten::zeros", *alike)
