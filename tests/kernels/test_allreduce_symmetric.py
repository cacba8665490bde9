"""One-shot and two-shot sums, by a stand-in of torch's operators: symmetric memory is that of several GPUs."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from primbench.backends import missing, open_backend
from primbench.distributed.group import Group
from primbench.errors import UnsupportedCase
from primbench.kernels.allreduce import Allreduce, symmetric
from primbench.registry import setup_of

pytestmark = [
    pytest.mark.wheel,
    pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch"))),
]


class Operators:
    """Sums over ranks that are threads here, each with a buffer in a list; agreements keep them together."""

    def __init__(self, group: Group, buffers: list[Any]) -> None:
        self._group, self._buffers = group, buffers

    def one_shot_all_reduce_out(self, shared: Any, op: str, name: str, out: Any) -> Any:
        assert ("sum", "ranks") == (op, name)
        self._group.agree()
        out.copy_(sum(self._buffers))
        self._group.agree()
        return out

    def one_shot_all_reduce_copy_out(self, shared: Any, local: Any, op: str, name: str, out: Any) -> Any:
        shared.copy_(local)
        return self.one_shot_all_reduce_out(shared, op, name, out)

    def two_shot_all_reduce_(self, shared: Any, op: str, name: str) -> Any:
        summed = shared.clone()
        self.one_shot_all_reduce_out(shared, op, name, summed)
        return shared.copy_(summed)


@pytest.mark.parametrize(("name", "in_place"), [("one_shot", True), ("one_shot", False), ("two_shot", True)])
def test_each_call_sums_what_all_ranks_bring(
    name: str, in_place: bool, monkeypatch: pytest.MonkeyPatch, on_every_rank: Callable[..., list[Any]]
) -> None:
    import torch

    backend, problem = open_backend("torch", "cpu"), Allreduce(4096, 2, in_place=in_place)
    buffers = [torch.zeros(1024) for _ in range(2)]
    made: Any = lambda backend, problem, x, group: (Operators(group, buffers), buffers[group.rank], "ranks")  # noqa: E731
    monkeypatch.setattr(symmetric, "symmetric", made)

    def wrong(group: Group) -> list[int]:
        x = backend.put(problem.inputs_of(group.rank, 3)[0])
        step: Any = setup_of("allreduce", "torch", name)(backend, problem, x, group=group)
        found = []
        for _ in range(2):
            group.agree()
            output = step()
            if in_place:
                output.poison()  # it has been summed once, when it was set up
                group.agree()
                output = step()
            array = output.get() if in_place else backend.get(output)
            found.append(problem.count_wrong(array, group.rank, 3))
        return found

    assert [[0, 0], [0, 0]] == on_every_rank(2, wrong)


@pytest.mark.parametrize(
    ("name", "fields", "is_gpu", "message"),
    [
        ("two_shot", {"in_place": False}, True, "two_shot sums in place only"),
        ("one_shot", {}, False, "that of GPUs: ask for device=cuda"),
        ("one_shot", {"dtype": "float16"}, True, "float32 or bfloat16 of whole 16 B: dtype=float16"),
        ("two_shot", {"bytes": 1000}, True, "bytes=1000"),
    ],
)
def test_what_the_operators_do_not_take_is_refused(
    name: str, fields: dict[str, Any], is_gpu: bool, message: str
) -> None:
    backend = SimpleNamespace(device=SimpleNamespace(is_gpu=is_gpu))
    with pytest.raises(UnsupportedCase, match=message):
        setup_of("allreduce", "torch", name)(backend, Allreduce(**{"bytes": 1024, "ranks": 1} | fields), None)
