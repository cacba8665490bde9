"""Steps under torch's profiler, of events made up: a GPU's need one, and several ranks several."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from primbench.backends import missing
from primbench.decompose import on_gpu, on_host, profiled, spans

pytestmark = [pytest.mark.wheel, pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))]
MS = 1_000_000
GPU, HOST = 0, None


def event(gpu: int | None, name: str, at_ms: float, lasts_ms: float, number: int = 0, thread: int = 1) -> spans.Noted:
    begun = int(at_ms * MS)
    return spans.Noted(begun, begun + int(lasts_ms * MS), name, thread, gpu, number)


def mark(at_ms: float) -> spans.Noted:
    """Where a step ends."""
    return event(HOST, "cudaStreamQuery", at_ms, 0.01)


def of_gpu(*events: spans.Noted, launch_ms: float = 0.0) -> on_gpu.GpuSteps:
    """What two steps of 10 ms tell, whose clock is half a millisecond behind."""
    ends_ns = [each * MS // 2 for each in (1, 21, 41)]
    return on_gpu.gpu_steps([*events, mark(0), mark(10), mark(20)], ends_ns, launch_s=launch_ms * 1e-3)


@pytest.fixture
def of_host(monkeypatch: pytest.MonkeyPatch) -> Callable[..., on_host.HostSteps]:
    """What two steps of 10 ms tell, for whose events the profiler took no time."""
    monkeypatch.setattr(on_host, "_event_s", lambda: 0.0)

    def told(*events: spans.Noted, names: Collection[str] = (), asleep_ms: float = 10) -> on_host.HostSteps:
        asleep_s = [1e-3 * asleep_ms] * 2
        return on_host._apart(events, [(0, 10 * MS), (10 * MS, 20 * MS)], [1.0, 1.0], asleep_s, names)

    return told


def test_a_step_ends_where_it_is_marked_for_the_last_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where its thread waited for a CPU between the first mark and the count of its waits."""
    monkeypatch.setattr(on_host, "_event_s", lambda: 0.0)
    marks = [event(HOST, f"{on_host._END} {number}", at_ms, 0) for number, at_ms in ((0, 0), (1, 2), (1, 12), (2, 20))]
    log = [*marks, event(HOST, "aten::add", 14, 3)]
    told = on_host.host_steps(log, [on_host.ThreadTimes(queued_s, 0.0) for queued_s in (0.0, 9e-3, 9e-3)])
    assert in_ms(told.inside_s) == [0, 3]
    assert in_ms(told.between_s) == [3, 5]


def in_ms(times_s: Iterable[float]) -> Any:
    return pytest.approx([1e3 * each for each in times_s])


def test_what_a_gpu_runs_and_how_long_the_host_waits_for_it_is_told_of_each_step() -> None:
    """What the first step launches runs while the second one is under way, and counts to the first: 8 ms of a
    collective, 3 ms of them beside a product, which takes 5 ms.
    """
    told = of_gpu(
        event(HOST, "cudaLaunchKernel", 1, 0.01, number=1), event(HOST, "cudaLaunchKernelExC", 2.5, 0.01, number=7),
        event(HOST, "cudaStreamSynchronize", 5, 4), event(HOST, "cudaDeviceSynchronize", 9, 0.5),
        event(HOST, "cudaLaunchKernel", 12, 0.6, number=3),  # there was no room for it
        event(HOST, "INVALID", 13, 7), event(GPU, "void at::native::gemm", 10, 5, number=1),
        event(GPU, "ncclDevKernel_AllReduce_Sum_f32", 12, 8, number=7), event(GPU, "at::add", 20, 1, number=3),
        launch_ms=0.25,
    )  # fmt: skip
    assert in_ms(told.host_s) == [10 - 4.5 - 2 * 0.25, 10 - 0.6 - 0.25]
    assert in_ms(told.on_gpu_s) == [10, 1]
    assert in_ms(told.exposed_s) == [5, 0]
    assert in_ms(told.blocked_s) == [4.5, 0.6]
    assert in_ms(told.between_s) == [0.5, 0]


def test_what_is_beside_a_collective_hides_it_on_its_own_gpu() -> None:
    launch, ring = event(HOST, "cudaLaunchKernel", 1, 0.01, number=1), "ncclDevKernel_AllReduce"
    collective = event(GPU, ring, 2, 6, number=1)
    for gpu, exposed_ms in ((0, 2), (1, 6)):
        beside = event(gpu, "triton_poi_add_0", 2, 4)
        assert in_ms(of_gpu(launch, collective, beside).exposed_s) == [exposed_ms, 0]


def test_a_thread_that_launches_nothing_holds_up_no_step() -> None:
    told = of_gpu(
        event(HOST, "cudaLaunchKernel", 1, 0.01, number=1), event(GPU, "gemm", 1, 1, number=1),
        event(HOST, "cudaMemcpyAsync", 0, 0.2, thread=2), event(HOST, "cudaStreamSynchronize", 0.5, 8, thread=2),
        event(HOST, "cudaMalloc", 8.5, 1),
    )  # fmt: skip
    assert told.blocked_s == [0, 0]


def test_a_script_that_makes_the_call_of_a_mark_itself_is_told_by_the_clock() -> None:
    ran = [event(HOST, "cudaLaunchKernel", 1, 0.01, number=1), event(GPU, "gemm", 1, 1, number=1)]
    assert in_ms(of_gpu(*ran, mark(4), mark(14)).host_s) == [10, 10]


def test_a_log_without_marks_tells_nothing() -> None:
    """As of a driver whose calls have other names."""
    assert on_gpu.GpuSteps() == on_gpu.gpu_steps([event(GPU, "gemm", 1, 1, number=1)], [0, 10 * MS])


def test_a_step_that_runs_nothing_on_a_gpu_is_none_of_a_gpu() -> None:
    """As of a script that asks for a GPU's name, and computes on the CPU; or nothing of what runs there is noted."""
    assert on_gpu.GpuSteps() == of_gpu(event(HOST, "cudaLaunchKernel", 1, 0.01))
    assert on_gpu.GpuSteps() == of_gpu(event(GPU, "gemm", -5, 1))


def test_a_step_whose_end_is_not_marked_tells_of_none() -> None:
    """As where a graph is captured."""
    ran = [event(HOST, "cudaLaunchKernel", 1, 0.01, number=1), event(GPU, "gemm", 1, 1, number=1)]
    assert on_gpu.GpuSteps() == on_gpu.gpu_steps([*ran, mark(0), mark(20)], [0, 10 * MS, 20 * MS])


def test_collectives_on_the_host_are_in_no_operator(of_host: Callable[..., on_host.HostSteps]) -> None:
    told = of_host(event(HOST, "aten::mm", 0, 5), event(HOST, "gloo:all_reduce", 4, 4))
    assert in_ms(told.exposed_s) == [3, 0]
    assert in_ms(told.inside_s) == [5, 0]
    assert in_ms(told.between_s) == [2, 10]
    assert in_ms(told.others_s) == [3, 0]


def test_what_python_does_beside_a_collective_is_no_wait_for_it(of_host: Callable[..., on_host.HostSteps]) -> None:
    """Of 8 ms beside one the thread slept 1 ms, and loads data in another half."""
    loading = event(HOST, on_host._LOADING, 9, 0.5)
    told = of_host(event(HOST, "aten::mm", 0, 1), event(HOST, "gloo:all_reduce", 1, 8.5), loading, asleep_ms=1.5)
    assert in_ms(told.exposed_s) == [1, 0]
    assert in_ms(told.between_s) == [10 - 1 - 0.5 - 1, 10]
    assert in_ms(told.others_s) == [1.5, 0]


def test_what_a_collective_calls_itself_hides_it_not(of_host: Callable[..., on_host.HostSteps]) -> None:
    ring, copies = event(HOST, "gloo:all_gather", 1, 8, thread=2), event(HOST, "aten::copy_", 2, 4, thread=2)
    sent = event(HOST, "gloo:send", 4.5, 1)  # by the thread that goes on meanwhile
    several = event(HOST, "aten::mm", 0, 0.5), event(HOST, "aten::copy_", 5, 2)
    told = of_host(ring, copies, sent, *several, names={"aten::copy_"})
    assert in_ms(told.exposed_s) == [8 - 2, 0]
    assert in_ms(told.inside_s) == [0.5 + 2, 0]
    assert pytest.approx({"copy_": 1e-3}) == told.operators_s


def test_a_barrier_that_blocks_is_no_operator(of_host: Callable[..., on_host.HostSteps]) -> None:
    told = of_host(event(HOST, "c10d::monitored_barrier_", 1, 8))
    assert in_ms(told.exposed_s) == [8, 0]
    assert in_ms(told.inside_s) == [0, 0]


def test_the_host_of_a_gpu_waits_for_no_collective(of_host: Callable[..., on_host.HostSteps]) -> None:
    told = of_host(event(HOST, "aten::add", 1, 7), event(HOST, "_c10d_functional::wait_tensor", 2, 5))
    assert not told.exposed_s
    assert in_ms(told.inside_s) == [7, 0]


def test_an_operator_that_waits_for_a_collective_does_not_work_meanwhile(
    of_host: Callable[..., on_host.HostSteps],
) -> None:
    """As one that is given a tensor which a collective makes: 1 ms before and 1 ms after the wait are its own."""
    wait = event(HOST, "_c10d_functional::wait_tensor", 2, 5)
    told = of_host(
        event(HOST, "aten::add", 1, 7), wait, event(HOST, "gloo:all_reduce", 0.5, 6),
        event(HOST, "aten::mul", 8, 1), event(HOST, "aten::mm", 3, 1, thread=2), names={"aten::add", "aten::mul"},
    )  # fmt: skip
    assert in_ms(told.inside_s) == [1 + 1 + 1 + 1, 0]
    assert in_ms(told.exposed_s) == [0.5 + 5 - 1, 0]
    assert in_ms(told.between_s) == [0.5 + 1, 10]
    assert pytest.approx({"add": 1e-3, "mul": 0.5e-3}) == told.operators_s


def test_operators_are_told_by_name_and_what_they_call_is_theirs(of_host: Callable[..., on_host.HostSteps]) -> None:
    """Of two steps alike; aten::linear is none of what a step calls."""
    events = [
        event(HOST, name, at_ms + step_ms, lasts_ms, thread=thread)
        for step_ms in (0, 10)
        for name, at_ms, lasts_ms, thread in (
            ("aten::linear", 0, 4, 1), ("aten::addmm", 1, 3, 1), ("aten::copy_", 2, 1, 1), ("aten::copy_", 5, 0.5, 1),
            ("aten::copy_", 2, 1, 2), ("aten::relu", 7, 0.01, 1), ("aten::mul", 8, 1, 1),
        )
    ]  # fmt: skip
    told = of_host(*events, names={"aten::addmm", "aten::copy_", "aten::relu"}).operators_s
    assert {"addmm": 3e-3, "copy_": 1.5e-3} == pytest.approx(told)
    assert ["addmm", "copy_"] == [*told]


def test_waits_for_the_gpu_are_taken_from_where_the_host_made_them() -> None:
    """Of 10 ms under the profiler the host has 6 ms to do, by other steps, in which it waits for 4 ms, 1 ms of it
    outside operators. Where they take no more than it has to do, nothing is taken.
    """
    host = on_host.HostSteps([5e-3] * 2, [4e-3] * 2, [1e-3] * 2, [], {})
    gpu = on_gpu.GpuSteps([6e-3] * 2, [9e-3] * 2, [0.0] * 2, [4e-3] * 2, [1e-3] * 2)
    told = profiled._both(host, gpu)
    assert in_ms(told.inside_s) == [2, 2]
    assert in_ms(told.between_s) == [3, 3]
    assert in_ms(told.host_s) == [6, 6]
    assert in_ms(told.on_gpu_s) == [9, 9]
    as_they_are = profiled._both(host, gpu._replace(host_s=[10e-3] * 2))
    assert in_ms(as_they_are.inside_s) == [5, 5]
    assert in_ms(as_they_are.between_s) == [4, 4]
    of_cpu = profiled._both(host, on_gpu.GpuSteps())
    assert ([], []) == (of_cpu.host_s, of_cpu.on_gpu_s)


@pytest.mark.parametrize(("ends", "of_host"), [(40, profiled.STEPS), (10, profiled.STEPS), (4, 3 - profiled.WARM_UP)])
def test_operators_are_noted_first_and_then_the_gpu_for_as_long_as_the_script_goes_on(
    monkeypatch: pytest.MonkeyPatch, ends: int, of_host: int
) -> None:
    """A stand-in of a GPU, of which nothing is noted: it is there, and its log is another one of the host's."""
    import torch

    cpu = torch.profiler.ProfilerActivity.CPU
    monkeypatch.setattr(torch.profiler, "ProfilerActivity", SimpleNamespace(CPU=cpu, CUDA=cpu))
    marks = list[None]()
    stand_ins: dict[str, Any] = {"is_noted": lambda: True, "launch_s": float, "mark": lambda: marks.append(None)}
    for name, stand_in in (*stand_ins.items(), ("await_gpus", bool)):
        monkeypatch.setattr(on_gpu, name, stand_in)
    inside = profiled.Inside({"aten::add"})
    for _ in range(ends):
        inside.end()
        torch.ones(1) + 1
    inside.tell()
    steps = inside.told
    assert steps is not None
    inside.tell()
    assert steps is inside.told, "once"
    assert (of_host, 0) == (len(steps.inside_s), len(steps.host_s))
    assert ["add"] == [*steps.operators_s]
    logged = 1 + profiled.WARM_UP + profiled.STEPS
    assert len(marks) == min(max(0, ends - logged + 1), logged)
