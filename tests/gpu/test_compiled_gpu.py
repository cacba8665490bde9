"""A compiled step on a GPU is taken apart by the kernels that ran: Triton's and those of libraries."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

import primbench
from primbench import Method, suites
from primbench.decompose.written import beside
from primbench.environment.devices import has_gpu_node
from primbench.kernels.aten import Aten
from primbench.registry import add_file

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu_node(), reason="needs an NVIDIA GPU: no /dev/nvidia* here"),
    pytest.mark.filterwarnings("ignore"),  # of torch, by its own modules
]
QUICK = Method(min_time_s=0.005, max_time_s=0.05)


@pytest.fixture
def torch() -> Any:
    pytest.importorskip("triton", reason="triton is not installed")
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_kernels_of_a_compiled_step_are_measured_again(torch: Any, tmp_path: Path, mode: str) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.LayerNorm(256)).cuda()
    compiled = torch.compile(net, mode=mode)
    x = torch.randn(512, 256, device="cuda")

    def step() -> None:
        net.zero_grad()
        compiled(x).square().mean().backward()

    for _ in range(4):
        step()
    with primbench.capture() as found:
        step()
    step()  # goes on as before
    names = {call.name for call in found.calls}
    assert {"addmm", "mm"} <= names
    assert "gelu" not in names
    assert [call.phase for call in found.calls if call.operator.startswith("generated.")].count("backward") >= 1
    path = tmp_path / "step.toml"
    found.write(path)
    assert os.path.exists(beside(path))
    add_file(beside(path))
    parts = [each.problem for each in suites.read(path) if isinstance(each.problem, Aten)]
    generated = [each for each in parts if each.operator.startswith("generated.triton_")]
    assert len(generated) >= 2
    for each in generated:
        measured = primbench.measure(each, "torch", "cuda:0", method=QUICK)
        assert measured.device_s is not None
        assert 0 < measured.device_s.median_s < 1e-3
