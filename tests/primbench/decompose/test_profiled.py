"""Steps under torch's profiler, of events made up: a GPU's need one, and several ranks several."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from primbench.backends import missing
from primbench.decompose import profiled

pytestmark = [pytest.mark.wheel, pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))]
MS = 1_000_000
GPU, HOST = "CUDA", "CPU"


class Event(NamedTuple):
    """As torch's profiler has them. A stand-in."""

    where: str
    of: str
    at_ms: float
    lasts_ms: float
    number: int = 0

    def name(self) -> str:
        return self.of

    def start_ns(self) -> int:
        return int(self.at_ms * MS)

    def duration_ns(self) -> int:
        return int(self.lasts_ms * MS)

    def correlation_id(self) -> int:
        return self.number

    def device_type(self) -> Any:
        from torch.autograd import DeviceType

        return getattr(DeviceType, self.where)


def test_collectives_on_a_gpu_and_the_hosts_waits_for_it_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two steps of 10 ms. What the first one launches runs while the second one is under way, and counts to the first:
    8 ms of a collective, 3 ms of them beside a product. Its wait of 4 ms lies within an operator.
    """
    monkeypatch.setattr(profiled, "of_ranks", lambda exposed_s: [*exposed_s])
    monkeypatch.setattr(profiled, "_event_s", lambda: 0.0)
    on_host, on_gpu = profiled._spans([
        Event(HOST, "aten::mm", 0, 2, number=7), Event(HOST, "cudaLaunchKernel", 1, 0.01, number=1),
        Event(HOST, "c10d::allreduce_", 2, 1), Event(HOST, "nccl:all_reduce", 2, 1),
        Event(HOST, "cudaLaunchKernelExC", 2.5, 0.01, number=7), Event(HOST, "aten::item", 4, 5),
        Event(HOST, "cudaStreamSynchronize", 5, 4), Event(HOST, "aten::add", 11, 2),
        Event(HOST, "cudaLaunchKernel", 12, 0.6, number=3),  # there was no room for it
        Event(GPU, "void at::native::gemm", 10, 5, number=1), Event(GPU, "nccl:all_reduce", 12, 8),
        Event(GPU, "ncclDevKernel_AllReduce_Sum_f32", 12, 8, number=7), Event(GPU, "at::add", 20, 1, number=3),
    ])  # fmt: skip
    assert ["void at::native::gemm", "ncclDevKernel_AllReduce_Sum_f32", "at::add"] == [each.name for each in on_gpu]
    told = profiled._apart(on_host, on_gpu, [(0, 10 * MS), (10 * MS, 20 * MS)], [1.0, 1.0])
    assert pytest.approx([2 + 1 + 1, 1.4]) == [1e3 * each for each in told.inside_s]
    assert pytest.approx([10 - 3 - 5, 8]) == [1e3 * each for each in told.between_s]
    assert pytest.approx([5, 0]) == [1e3 * each for each in told.exposed_s]
    assert pytest.approx([4, 0.6]) == [1e3 * each for each in told.blocked_s]
