"""How many nodes of a graph wait for each other, on a stand-in for the driver that knows its edges."""

from __future__ import annotations

from ctypes import c_size_t, c_void_p, sizeof
from types import SimpleNamespace
from typing import Any

import pytest

from primbench.gpu.nvidia import driver


class Edges:
    """cuGraphGetEdges_v2 of the CUDA Driver API: the count alone without arrays."""

    def __init__(self, edges: list[tuple[int, int]]) -> None:
        self._edges = edges

    def __call__(self, graph: c_void_p, first: Any, then: Any, data: Any, count: Any) -> int:
        asked: c_size_t = count._obj
        if first is None:
            asked.value = len(self._edges)
            return 0
        assert asked.value == len(self._edges) == len(data)
        assert 8 * len(data) == sizeof(data), "CUgraphEdgeData"
        first[:], then[:] = zip(*self._edges, strict=True)
        return 0


@pytest.mark.parametrize(
    ("nodes", "edges", "path"),
    [
        (0, [], 0),
        (1, [], 1),
        (3, [], 1),
        (3, [(1, 2), (2, 3)], 3),
        (4, [(1, 2), (1, 3), (2, 4), (3, 4)], 3),
        (3, [(1, 3), (2, 3)], 2),
        (3, [(1, 2), (1, 3)], 2),
        (5, [(4, 5), (1, 4), (1, 2), (2, 3), (3, 5)], 4),
        (3, [(1, 2), (2, 3), (1, 3)], 3),
        (20_000, [(each, each + 1) for each in range(1, 20_000)], 20_000),
    ],
)
def test_the_longest_chain_counts(
    monkeypatch: pytest.MonkeyPatch, nodes: int, edges: list[tuple[int, int]], path: int
) -> None:
    monkeypatch.setattr(driver, "_library", lambda: SimpleNamespace(cuGraphGetEdges_v2=Edges(edges)))
    assert path == driver._longest_path(c_void_p(7), nodes)


def test_a_driver_that_knows_no_such_call_leaves_it_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_library", lambda: SimpleNamespace())
    assert driver._longest_path(c_void_p(7), 3) is None


def test_a_driver_that_refuses_it_costs_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = SimpleNamespace(cuGraphGetEdges_v2=lambda *given: 801, cuGetErrorName=lambda *given: 0)
    monkeypatch.setattr(driver, "_library", lambda: refusing)
    assert driver._longest_path(c_void_p(7), 3) is None
