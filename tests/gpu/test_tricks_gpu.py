"""Ways by which a function looks faster than it is that only a GPU shows; others are in test_tricks.py of timing."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest

import primbench
from primbench.environment.devices import has_gpu_node
from primbench.errors import VerificationError
from primbench.kernels.gemm import Gemm
from primbench.kernels.time import Function
from primbench.spec.method import Method
from primbench.timing.case import measure

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu_node(), reason="needs an NVIDIA GPU: no /dev/nvidia* here"),
    pytest.mark.usefixtures("one_second_context"),
]
QUICK = Method(min_time_s=0.005, max_time_s=0.05)
N = 4096


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="torch is not installed")


def arrays(torch: Any) -> tuple[Any, Any]:
    return torch.randn(N, N, device="cuda"), torch.randn(N, N, device="cuda")


def test_work_on_another_stream_is_refused(torch: Any) -> None:
    other = torch.cuda.Stream()

    def trick(a: Any, b: Any) -> Any:
        with torch.cuda.stream(other):
            return a @ b

    with pytest.raises(VerificationError, match=r"work goes on for .* once the stream is done|never written|wrong"):
        primbench.versus({"right": torch.matmul, "trick": trick}, setup=lambda: arrays(torch), method=QUICK, rounds=1)
    with pytest.raises(VerificationError, match=r"work goes on for .* once the stream is done"):
        primbench.time(trick, setup=lambda: arrays(torch), method=QUICK)


def test_work_on_another_stream_that_is_waited_for_passes(torch: Any) -> None:
    other = torch.cuda.Stream()

    def honest(a: Any, b: Any) -> Any:
        other.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(other):
            c = a @ b
        torch.cuda.current_stream().wait_stream(other)
        return c

    assert primbench.time(honest, setup=lambda: arrays(torch), method=QUICK).wall_s is not None


def test_patched_events_make_nothing_faster(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda.Event, "elapsed_time", lambda self, later: 1e-6)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
    measured = primbench.time(torch.matmul, setup=lambda: arrays(torch), method=QUICK)
    assert measured.device_s is not None
    assert measured.device_s.median_s > Gemm(N, N, N).flop() / 200e12  # no GPU has as many of float32 a second


def test_a_cache_that_is_set_aside_is_not_cold(torch: Any, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "import torch\n"
        "def inputs(): return torch.randn(1024, 1024, device='cuda'),\n"
        "def twice(x): return x + x\n"
    )  # fmt: skip
    torch.zeros(1, device="cuda")
    driver = ctypes.CDLL("libcuda.so.1")
    assert not driver.cuCtxSetLimit(6, ctypes.c_size_t(8 << 20))
    try:
        named = {"setup": f"{path}::inputs", "like": f"{path}::twice"}
        cold = Method(min_time_s=0.005, max_time_s=0.05, cache="cold")
        with pytest.raises(VerificationError, match="of the L2 cache are set aside"):
            measure(Function(f"{path}::twice", **named), "torch", "cuda:0", method=cold)
    finally:
        driver.cuCtxSetLimit(6, ctypes.c_size_t(0))


@pytest.mark.parametrize("memory", ["kept", "freed"])
def test_memory_that_was_right_is_no_output(torch: Any, memory: str) -> None:
    calls, kept = [0], list[Any]()

    def trick(a: Any, b: Any) -> Any:
        calls[0] += 1
        if calls[0] < 40:
            kept[:] = [a @ b]
            return kept[0]
        return kept[0] if memory == "kept" else torch.empty_like(a)

    with pytest.raises(VerificationError):
        primbench.versus({"right": torch.matmul, "trick": trick}, setup=lambda: arrays(torch), method=QUICK, rounds=2)


def test_a_function_that_launches_nothing_has_no_device_time(torch: Any) -> None:
    measured = primbench.time(lambda: sum(range(100)), device="cuda:0", method=QUICK)
    assert (measured.device_s, measured.missing["device_s"]) == (None, "a call launches nothing")
    assert measured.wall_s is not None
