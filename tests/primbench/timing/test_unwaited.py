"""Work that goes on elsewhere than on the stream that is timed, without a GPU: its driver and clock are fakes."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from primbench.devices import nth_gpu
from primbench.errors import VerificationError
from primbench.gpu.nvidia import timing as nvidia
from primbench.kernels.gemm import Gemm
from primbench.spec.method import Method
from primbench.timing import unwaited
from primbench.timing.alone import Alone

WORK_NS = 3_000_000


class Queues:
    """What a GPU still has to do, by stream, while the host's clock stands still unless it waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = self.calls = 0
        self._left_ns = {"timed": 0, "other": 0}
        monkeypatch.setattr(unwaited, "CLOCK", lambda: self.now_ns)
        monkeypatch.setattr(nvidia, "finish", lambda: self.wait(*self._left_ns))
        monkeypatch.setattr(nvidia, "l2_set_aside_bytes", lambda: 0)
        self.backend: Any = SimpleNamespace(device=nth_gpu(0), synchronize=lambda: self.wait("timed"))

    def wait(self, *streams: str) -> None:
        for stream in streams:
            self.now_ns += self._left_ns[stream]
            self._left_ns[stream] = 0

    def call_on(self, stream: str) -> Callable[[], None]:
        def call() -> None:
            self.calls += 1
            self._left_ns[stream] += WORK_NS

        return call


@pytest.fixture
def queues(monkeypatch: pytest.MonkeyPatch) -> Queues:
    return Queues(monkeypatch)


def alone(queues: Queues, call: Callable[[], None], **others: Any) -> Alone:
    """Of a kernel that is brought, of which nothing else is checked."""
    return Alone(queues.backend, Gemm(8, 8, 8), Method(check=False), kernel=lambda *_: call, **others)


def test_a_call_that_is_waited_for_is_made_once(queues: Queues) -> None:
    call = queues.call_on("timed")
    alone(queues, call).check(call)
    assert 1 == queues.calls


def test_work_on_another_stream_is_refused_before_calls_are_timed(queues: Queues) -> None:
    call = queues.call_on("other")
    with pytest.raises(VerificationError, match=r"work goes on for 3\.00 ms once the stream is done"):
        alone(queues, call).check(call)
    assert unwaited.TRIES == queues.calls


def test_nothing_is_asked_where_others_use_the_gpu(queues: Queues) -> None:
    call = queues.call_on("other")
    alone(queues, call, has_others=True).check(call)
    assert 0 == queues.calls
