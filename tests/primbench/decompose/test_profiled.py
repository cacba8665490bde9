"""Steps under torch's profiler, of events made up: a GPU's need one, and several ranks several."""

from __future__ import annotations

from collections.abc import Callable
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
    thread: int = 1
    gpu: int = 0
    is_mark: bool = False

    def name(self) -> str:
        return self.of

    def start_ns(self) -> int:
        return int(self.at_ms * MS)

    def duration_ns(self) -> int:
        return int(self.lasts_ms * MS)

    def start_thread_id(self) -> int:
        return self.thread

    def device_index(self) -> int:
        return self.gpu

    def is_user_annotation(self) -> bool:
        return self.is_mark

    def correlation_id(self) -> int:
        return self.number

    def device_type(self) -> Any:
        from torch.autograd import DeviceType

        return getattr(DeviceType, self.where)


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> Callable[..., profiled.ProfiledSteps]:
    """What two steps of 10 ms tell by these events, whose collectives are this rank's own."""
    monkeypatch.setattr(profiled, "of_ranks", lambda exposed_s: [*exposed_s])
    monkeypatch.setattr(profiled, "_event_s", lambda: 0.0)

    def told(*events: Event) -> profiled.ProfiledSteps:
        return profiled._apart(*profiled._spans(events), [(0, 10 * MS), (10 * MS, 20 * MS)], [1.0, 1.0])

    return told


def test_collectives_on_a_gpu_and_the_hosts_waits_for_it_are_told_apart(
    apart: Callable[..., profiled.ProfiledSteps],
) -> None:
    """What the first step launches runs while the second one is under way, and counts to the first: 8 ms of a
    collective, 3 ms of them beside a product. Its wait of 4 ms lies within an operator.
    """
    told = apart(
        Event(HOST, "aten::mm", 0, 2, number=7), Event(HOST, "cudaLaunchKernel", 1, 0.01, number=1),
        Event(HOST, "c10d::allreduce_", 2, 1), Event(HOST, "nccl:all_reduce", 2, 1, is_mark=True),
        Event(HOST, "cudaLaunchKernelExC", 2.5, 0.01, number=7), Event(HOST, "aten::item", 4, 5),
        Event(HOST, "cudaStreamSynchronize", 5, 4), Event(HOST, "aten::add", 11, 2),
        Event(HOST, "cudaLaunchKernel", 12, 0.6, number=3),  # there was no room for it
        Event(GPU, "void at::native::gemm", 10, 5, number=1), Event(GPU, "nccl:all_reduce", 12, 8, is_mark=True),
        Event(GPU, "ncclDevKernel_AllReduce_Sum_f32", 12, 8, number=7), Event(GPU, "at::add", 20, 1, number=3),
    )  # fmt: skip
    assert pytest.approx([2 + 1 + 1, 1.4]) == [1e3 * each for each in told.inside_s]
    assert pytest.approx([10 - 3 - 5, 8]) == [1e3 * each for each in told.between_s]
    assert pytest.approx([5, 0]) == [1e3 * each for each in told.exposed_s]
    assert pytest.approx([4, 0.6]) == [1e3 * each for each in told.blocked_s]


def test_what_is_beside_a_collective_hides_it_by_its_gpu_and_not_by_its_name(
    apart: Callable[..., profiled.ProfiledSteps],
) -> None:
    """torch.compile notes a kernel on the host by the kernel's own name; another GPU's hides nothing."""
    launch, ring = Event(HOST, "cudaLaunchKernel", 1, 0.01, number=1), "ncclDevKernel_AllReduce"
    collective = Event(GPU, ring, 2, 6, number=1)
    for name, gpu, exposed_ms in (("triton_poi_add_0", 0, 2), ("triton_poi_add_0", 1, 6)):
        noted, beside = Event(HOST, name, 1, 0.1), Event(GPU, name, 2, 4, gpu=gpu)
        assert pytest.approx([exposed_ms, 0]) == [
            1e3 * each for each in apart(launch, noted, collective, beside).exposed_s
        ]


def test_collectives_on_the_host_count_beside_a_gpu_and_waits_of_a_thread_that_launches_nothing_do_not(
    apart: Callable[..., profiled.ProfiledSteps],
) -> None:
    told = apart(
        Event(HOST, "aten::mm", 0, 5), Event(HOST, "cudaLaunchKernel", 1, 0.01, number=1),
        Event(GPU, "gemm", 1, 1, number=1), Event(HOST, "gloo:all_reduce", 5, 3, is_mark=True),
        Event(HOST, "cudaMemcpyAsync", 0, 0.2, thread=2), Event(HOST, "cudaStreamSynchronize", 0.5, 8, thread=2),
        Event(HOST, "cudaMalloc", 8.5, 1),
    )  # fmt: skip
    assert pytest.approx([3, 0]) == [1e3 * each for each in told.exposed_s]
    assert pytest.approx([5, 0]) == [1e3 * each for each in told.inside_s]
    assert [0, 0] == told.blocked_s
