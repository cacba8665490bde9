"""Which means device_s is taken by, decided without a GPU."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from primbench.devices import nth_gpu
from primbench.gpu.nvidia import timing as nvidia
from primbench.measurement import Samples
from primbench.measurement.readings import GpuReading
from primbench.problem import described
from primbench.spec.method import Method
from primbench.timing import device, gpu
from primbench.timing.calls import CallLoop
from primbench.timing.sampling import CLOCK, Pace, StoppingRule


class Uncapturable:
    """A backend whose library must not be captured here."""

    device, stream_handle = nth_gpu(0), 1

    def capture(self, enqueue: Callable[[], None]) -> Any:
        raise AssertionError("captured")


class Visited:
    """A second context that tells of its visits."""

    def __init__(self, events: list[str], refusal: str | None) -> None:
        self._events, self._refusal = events, refusal

    def visit(self) -> str | None:
        self._events.append("visit")
        return self._refusal


@pytest.mark.parametrize("refusal", [None, "CUDA_ERROR_OUT_OF_MEMORY"])
def test_the_gpu_changes_contexts_right_before_its_time_is_sampled(
    monkeypatch: pytest.MonkeyPatch, refusal: str | None
) -> None:
    events: list[str] = []
    sampled = Samples(samples_s=[1e-3], calls_per_sample=1, taken_by="graph", stopped="count")

    def stands_for(name: str, returned: Any) -> None:
        def called(*given: Any) -> Any:
            events.append(name)
            return returned

        monkeypatch.setattr(gpu, name, called)

    monkeypatch.setattr(nvidia, "start", lambda device: None)
    monkeypatch.setattr(nvidia, "since", lambda before, reading: reading)
    monkeypatch.setattr(nvidia, "clock_fault", lambda stream: "events tell negative times")
    stands_for("_rough_time_s", 1e-3)
    stands_for("device_sampler", SimpleNamespace(places=1, nodes_per_call=2.0, longest_path_per_call=1.0))
    stands_for("_device", (sampled, GpuReading()))
    stands_for("_stream", sampled)
    stands_for("_round_trip", (sampled, None))
    stands_for("_enqueue", sampled)
    backend: Any = SimpleNamespace(device=nth_gpu(0), stream_handle=1, second_context=Visited(events, refusal))
    timer = gpu.GpuTimer(backend, CallLoop([lambda: None]), Method(), Pace(CLOCK))
    found = timer.measure(lambda _: StoppingRule(0.1, 0.1, 0.1))
    assert ["visit", "_device"] == events[events.index("_device") - 1 : events.index("_device") + 1]
    assert 1 == events.count("visit")
    assert (2.0, 1.0) == (found.nodes_per_call, found.longest_path_per_call)
    assert "events tell negative times" == found.missing["events"]
    assert (refusal is not None) == ("second_context" in found.missing)
    assert found.missing.get("second_context", "").startswith(refusal or "")


def test_what_is_done_before_each_call_is_done_before_each_that_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    for name, returned in (("start", None), ("since", GpuReading())):
        monkeypatch.setattr(nvidia, name, lambda *_, returned=returned: returned)
    monkeypatch.setattr(gpu, "_rough_time_s", lambda *_: 1e-3)
    monkeypatch.setattr(
        gpu, "event_pair", lambda calls, backend, count, ahead: (calls(count), backend.synchronize(), 2e-3)[2]
    )
    visited = Visited([], None)
    backend: Any = SimpleNamespace(
        device=nth_gpu(0), stream_handle=1, second_context=visited, synchronize=lambda: events.append("waited")
    )
    step = described(lambda: events.append("call"), before=lambda: events.append("cold"), waits="it reads a file")
    timer = gpu.GpuTimer(backend, CallLoop([step]), Method(), Pace(CLOCK))
    found = timer.measure(lambda _: StoppingRule(1e-3, 2e-3, 0.1))
    assert found.device_s is None
    assert found.stream_s is not None
    assert {2e-3} == set(found.stream_s.samples_s)
    assert found.main == found.stream_s  # from which rates follow
    assert found.wall_s is not None
    assert ["cold", "waited", "call", "waited"] * (len(events) // 4) == events


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many calls were queued behind the blocking kernel, each time; with more than 10 the queue is full."""
    counts: list[int] = []

    def sample(blocker: object, stream: int, calls: CallLoop, count: int, pace: object) -> float | None:
        counts.append(count)
        return 1e-6 if count <= 10 else None

    monkeypatch.setattr(nvidia, "Blocker", lambda stream, **limits: object())
    monkeypatch.setattr(device, "_blocked_sample", sample)
    return counts


def step_on_stream() -> Any:
    def step() -> None:
        pass

    described(step, stream_only=True)
    return step


def sampler(call_s: float) -> tuple[device.DeviceSampler | None, dict[str, str]]:
    missing: dict[str, str] = {}
    backend: Any = Uncapturable()
    return device.device_sampler(backend, [CallLoop([step_on_stream()])], call_s, Pace(CLOCK), missing), missing


def test_what_is_to_be_timed_on_a_stream_is_not_captured(held: list[int]) -> None:
    found, missing = sampler(call_s=1e-3)
    assert found is not None
    assert ("blocking kernel", device.MIN_QUEUED) == (found.taken_by, found.calls_per_sample)
    assert "not captured in a graph: its time is taken on a stream" == missing["nodes_per_call"]


def test_fewer_calls_are_queued_until_they_fit(held: list[int]) -> None:
    found, _ = sampler(call_s=1e-6)
    assert found is not None
    assert 6 == found.calls_per_sample
    assert [1, 400, 100, 25, 6] == held


def test_a_call_that_waits_is_tried_once(held: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_blocked_sample", lambda *given: held.append(given[3]))
    found, missing = sampler(call_s=1e-6)
    assert found is None
    assert [1] == held
    assert "waits for the GPU itself" in missing["device_s"]


def test_a_call_that_waits_for_data_has_no_device_time(held: list[int]) -> None:
    missing: dict[str, str] = {}
    backend: Any = Uncapturable()
    calls = CallLoop([described(lambda: None, waits="it waits for data")])
    assert device.device_sampler(backend, [calls], 1e-3, Pace(CLOCK), missing) is None
    assert (dict.fromkeys(("nodes_per_call", "device_s"), "it waits for data"), []) == (missing, held)


class OfRanks(Pace):
    """With another rank, which finds what is given."""

    def __init__(self, other: list[float]) -> None:
        super().__init__(CLOCK)
        self._other = other

    def slowest(self, values: list[float]) -> list[float]:
        return [max(pair) for pair in zip(values, self._other, strict=True)] if len(values) == 3 else values


@pytest.mark.parametrize(
    ("longest_path", "other", "expected"),
    [
        (6, [0.0, 0.0, 0.0], (4.0, 3.0)),
        (None, [0.0, 0.0, 0.0], (4.0, None)),
        (6, [5.0, 5.0, 0.0], (5.0, 5.0)),
        (6, [5.0, 0.0, 1.0], (5.0, None)),
    ],
)
def test_nodes_of_a_call_are_those_of_the_rank_that_has_the_most(
    monkeypatch: pytest.MonkeyPatch,
    longest_path: int | None,
    other: list[float],
    expected: tuple[float, float | None],
) -> None:
    backend: Any = SimpleNamespace(stream_handle=1)
    graph = SimpleNamespace(nodes=8, longest_path=longest_path, launch=lambda: None)
    monkeypatch.setattr(device, "_graph", lambda *given: (graph, 2))
    monkeypatch.setattr(device, "chained", lambda *given, **named: list)
    found = device.device_sampler(backend, [CallLoop([lambda: None])], 1e-3, OfRanks(other), {})
    assert found is not None
    assert expected == (found.nodes_per_call, found.longest_path_per_call)


def test_calls_whose_graph_is_empty_launch_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = SimpleNamespace(nodes=0, longest_path=0, launch=lambda: None)
    backend: Any = SimpleNamespace(stream_handle=1, capture=lambda enqueue: graph)
    calls, missing = CallLoop([lambda: None]), dict[str, str]()
    monkeypatch.setattr(device, "chained", lambda *given, **named: lambda: [1e-9])
    assert device.device_sampler(backend, [calls], 1e-6, Pace(CLOCK), missing) is None
    assert calls.launches_nothing
    assert {"device_s": "a call launches nothing"} == missing


class WithOthers(Pace):
    def __init__(self) -> None:
        super().__init__(CLOCK)
        self.has_others = True


@pytest.mark.parametrize(
    ("stream_s", "call_s", "longest_path", "expected"),
    [
        (1e-3, 250e-6, 10, [1, 4]),
        (1e-3, 250e-6, None, [1, 4]),
        (1e-3, 250e-6, 9, [1]),
        (50e-6, 250e-6, 9, [32, 1]),
        (1e-3, 20e-6, 9, [1, 16]),
        (0.2e-3, 0.2e-3, 10, [8]),
        (0.5e-3, 0.4e-3, 10, [2, 4]),
        (0.3e-3, 0.4e-3, 10, [4]),
    ],
)
def test_a_graph_that_branches_holds_fewer_calls(
    monkeypatch: pytest.MonkeyPatch, stream_s: float, call_s: float, longest_path: int | None, expected: list[int]
) -> None:
    captured: list[int] = []

    def step() -> None:
        captured[-1] += 1

    def capture(enqueue: Callable[[], None]) -> Any:
        captured.append(0)
        enqueue()
        path = None if longest_path is None else longest_path * captured[-1]
        return SimpleNamespace(nodes=10 * captured[-1], longest_path=path, launch=lambda: None)

    monkeypatch.setattr(device, "chained", lambda *given, **named: lambda: [call_s])
    backend: Any = SimpleNamespace(stream_handle=1, capture=capture)
    graph, count = device._graph(backend, CallLoop([step]), stream_s, Pace(CLOCK))
    assert (expected, expected[-1], 10 * count) == (captured, count, graph.nodes)


@pytest.mark.parametrize(
    ("call_s", "sets", "expected"),
    [
        (1e-9, 1, 4096),
        (0.3e-3, 1, 4),
        (2.0, 1, 1),
        (0.1e-3, 3, 12),
        (0.3e-3, 3, 6),
        (1e-9, 3, 4095),
        (1e-9, 5000, 5000),
    ],
)
def test_a_graph_has_whole_rounds_of_the_input_sets(call_s: float, sets: int, expected: int) -> None:
    assert expected == device._graph_calls(1e-3, call_s, sets)


@pytest.mark.parametrize(
    ("sample_s", "round_s", "alone", "in_turn"),
    [
        (1e-3, 10e-3, 10, 10),
        (1e-6, 10e-3, device.MAX_ROUND_SAMPLES, device.MAX_ROUND_SAMPLES),
        (8e-3, 10e-3, 6, 1.25),  # alone, a call that is not timed ahead of six, not ahead of each
        (50e-3, 10e-3, 4, 0.2),
        (8e-3, 0.0, 0, 0),
    ],
)
def test_a_round_of_long_calls_has_as_many_as_a_median_takes(
    sample_s: float, round_s: float, alone: float, in_turn: float
) -> None:
    found = [device._round_samples(sample_s, round_s, pace) for pace in (Pace(CLOCK), WithOthers())]
    assert [pytest.approx(alone), pytest.approx(in_turn)] == found


@pytest.mark.parametrize(
    ("call_s", "nodes", "expected"), [(1e-6, 1.0, 64), (1e-6, None, 50), (1e-6, 1000.0, 1), (1e-3, 1.0, 2), (1, 1.0, 1)]
)
def test_a_batch_of_enqueued_calls_finds_the_queue_with_room(call_s: float, nodes: float | None, expected: int) -> None:
    assert expected == gpu._queueable(call_s, nodes=nodes)


def test_energy_is_not_told_of_less_than_what_the_counter_can_tell() -> None:
    energy_j, reason = gpu._energy_j(nth_gpu(0), Method(min_time_s=0.1), Pace(CLOCK))
    assert energy_j is None
    assert "every 0.1 s" in str(reason)
    assert "--min-time" in str(reason)
    energy_j, reason = gpu._energy_j(nth_gpu(0), Method(min_time_s=1.0), WithOthers())
    assert energy_j is None
    assert "took turns" in str(reason)
