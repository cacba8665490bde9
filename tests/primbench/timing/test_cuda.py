"""Which means device_s is taken by, decided without a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from primbench.cuda import driver
from primbench.problem import described
from primbench.timing import device
from primbench.timing.sampling import CLOCK, Calls, Pace


class Uncapturable:
    """A backend whose library must not be captured here."""

    stream_handle = 1

    def capture(self, enqueue: Callable[[], None]) -> Any:
        raise AssertionError("captured")


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many calls were queued behind the blocking kernel, each time; with more than 10 the queue is full."""
    counts: list[int] = []

    def sample(blocker: object, stream: int, calls: Calls, count: int, pace: object) -> float | None:
        counts.append(count)
        return 1e-6 if count <= 10 else None

    monkeypatch.setattr(driver, "Blocker", lambda stream: object())
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
    return device.device_sampler(backend, [Calls([step_on_stream()])], call_s, Pace(CLOCK), missing), missing


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
