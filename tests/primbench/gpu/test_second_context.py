"""What becomes of a thread's current context, on a stand-in for the driver."""

from __future__ import annotations

import pytest

from primbench.gpu.nvidia import driver, second_context
from primbench.gpu.nvidia.second_context import SecondContext
from tests.kernels.cuda_driver import StandIn


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    found = StandIn()
    monkeypatch.setattr(driver, "_library", lambda: found)
    monkeypatch.setattr(second_context, "_MADE", {})
    return found


def test_a_visit_has_the_gpu_work_in_another_context_and_leaves_the_current_one(cuda: StandIn) -> None:
    before = list(cuda.current)
    second = SecondContext(1)
    assert not cuda.made
    for _ in range(3):
        assert second.visit() is None
        assert before == cuda.current
    (context,) = cuda.made
    assert 1 == cuda.made[context]
    assert ([("fill", context)] * 3, [context] * 3) == (cuda.log, cuda.waited_for)
    assert 1 == len(cuda.device_memory)
    second.close()
    assert not cuda.made
    assert not cuda.device_memory
    second.close()


def test_all_who_visit_one_gpu_share_it_until_the_last_is_closed(cuda: StandIn) -> None:
    one, other, elsewhere = SecondContext(0), SecondContext(0), SecondContext(1)
    for each in (one, other, elsewhere):
        assert each.visit() is None
    assert sorted(cuda.made.values()) == [0, 1]
    one.close()
    assert other.visit() is None
    assert 2 == len(cuda.made)
    for each in (other, elsewhere):
        each.close()
    assert not cuda.made


def test_one_that_was_closed_is_made_anew(cuda: StandIn) -> None:
    second = SecondContext(0)
    second.visit()
    second.close()
    second.visit()
    assert 2 == len({context for _, context in cuda.log})
    assert 1 == len(cuda.made)


def test_without_room_for_it_the_reason_is_told_and_the_next_visit_tries_again(cuda: StandIn) -> None:
    before, second = list(cuda.current), SecondContext(0)
    cuda.has_room = False
    assert "cuCtxCreate_v2: CUDA_ERROR_OUT_OF_MEMORY" == second.visit()
    assert (before, []) == (cuda.current, cuda.log)
    cuda.has_room = True
    assert second.visit() is None
    cuda.has_room = False  # what it has, it keeps
    assert second.visit() is None
    assert (before, 2) == (cuda.current, len(cuda.log))


def test_a_context_without_room_for_a_byte_is_left_again(cuda: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    before, second = list(cuda.current), SecondContext(0)
    monkeypatch.setattr(cuda, "cuMemAlloc_v2", lambda *given: 2)
    assert second.visit() is not None
    assert (before, [], 1) == (cuda.current, cuda.log, len(cuda.made))


def test_a_driver_that_refuses_to_give_it_back_hides_no_other_error(
    cuda: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = SecondContext(0)
    second.visit()
    monkeypatch.setattr(cuda, "cuCtxDestroy_v2", lambda context: 719)
    second.close()
    second.visit()
    assert 2 == len(cuda.made)
