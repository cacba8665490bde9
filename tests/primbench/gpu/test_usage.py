from __future__ import annotations

from typing import Any

import pytest

from primbench.gpu.nvidia import usage


def test_clocks_held_back_are_a_share_of_the_time_between_two_readings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """NVML's counters and the clock stand in here: no GPU is held back when it is wanted."""
    totals = iter([{"power": 1.0, "thermal": 2.0}, {"power": 1.25, "thermal": 2.1}, {"power": 9.0, "thermal": 2.1}])
    monkeypatch.setattr(usage, "held_back_s", lambda gpu: next(totals))
    moments = iter([10.0, 10.5, 11.0])
    monkeypatch.setattr("primbench.gpu.nvidia.usage.time.monotonic", lambda: next(moments))
    device: Any = None
    read = usage.held_back(device)
    assert [None, 0.5, 1.0] == [read({})["held_back_fraction"] for _ in range(3)]


def test_clocks_of_which_the_driver_says_nothing_are_missing_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(gpu: object) -> dict[str, float]:
        raise LookupError("no counter of policies")

    monkeypatch.setattr(usage, "held_back_s", refuse)
    missing: dict[str, str] = {}
    device: Any = None
    assert {"held_back_fraction": None} == usage.held_back(device)(missing)
    assert {"held_back_fraction": "no counter of policies"} == missing
