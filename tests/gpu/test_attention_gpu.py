"""Attention by a real GPU: each of torch's backends, every mode, and that the fastest is chosen."""

from __future__ import annotations

from typing import Any

import pytest

from primbench import Measurement, Method, measure
from primbench.backends import missing
from primbench.environment.devices import has_gpu_node
from primbench.errors import UnsupportedCase
from primbench.kernels.attention import Attention
from primbench.timing.case import measure_on, opened

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu_node(), reason="needs an NVIDIA GPU: no /dev/nvidia* here"),
    pytest.mark.usefixtures("one_second_context"),
    pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch"))),
    pytest.mark.filterwarnings("ignore"),  # of torch, by its own modules
]
QUICK = Method(min_time_s=0.002, max_time_s=0.02)
PAGES: dict[str, Any] = {"mode": "decode", "seq_len": 1, "kv_len": 3000, "page_size": 256}  # which all kernels take
SERVING: list[dict[str, Any]] = [
    PAGES | {"kv_heads": 2},
    PAGES | {"kv_heads": 2, "lengths": "uniform", "shared_len": 512},
    PAGES | {"mode": "prefill", "seq_len": 300, "lengths": "zipf", "window": 500},
    PAGES | {"latent_dim": 48, "lengths": "uniform"},
]
MODES: list[dict[str, Any]] = [
    {"mode": "forward"},
    {"mode": "forward", "causal": True},
    {"mode": "backward", "causal": True},
    {"mode": "train", "kv_heads": 2, "causal": True},
    {"mode": "train", "kv_len": 300},
    {"mode": "backward", "kv_len": 1000, "causal": True},
    {"mode": "prefill", "kv_heads": 2},
    {"mode": "prefill", "kv_len": 1000},
    {"mode": "decode", "seq_len": 1, "kv_len": 1000, "kv_heads": 2},
    {"mode": "decode", "seq_len": 1, "kv_len": 1000, "layout": "bhsd"},
    {"mode": "forward", "causal": True, "window": 100},
    *SERVING,
]


def problem_of(options: dict[str, Any], dtype: str) -> Attention:
    sizes: dict[str, Any] = {"batch_size": 2, "heads": 8, "seq_len": 512, "head_dim": 64}
    return Attention(**(sizes | options), dtype=dtype)


def measured_by(kernel: str, problem: Attention) -> Measurement:
    with opened(problem, "torch", "cuda:0") as backend:
        return measure_on(backend, problem, QUICK, kernel=kernel)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("options", MODES, ids=str)
def test_every_mode_is_right_and_can_be_a_graph(options: dict[str, Any], dtype: str) -> None:
    measured = measure(problem_of(options, dtype), "torch", "cuda:0", method=QUICK)
    assert measured.verified
    assert measured.device_s is not None
    assert "graph" == measured.device_s.taken_by
    assert "tried: " in str(measured.algorithm)


@pytest.mark.parametrize("kernel", ["flex", "varlen", "flash_attn3", "flashinfer"])
@pytest.mark.parametrize("options", SERVING, ids=str)
def test_each_kernel_reads_pages_right_or_says_why_not(options: dict[str, Any], kernel: str) -> None:
    problem = problem_of(options, "bfloat16")
    try:
        measured = measured_by(kernel, problem)
    except UnsupportedCase as refused:
        if kernel == "flex":
            raise
        pytest.skip(str(refused))
    assert measured.verified


def test_flash_mla_reads_latents_right() -> None:
    problem = Attention(4, 128, 1, 576, kv_len=3000, mode="decode", latent_dim=512, page_size=64, lengths="uniform")
    try:
        measured = measured_by("flash_mla", problem)
    except UnsupportedCase as refused:
        pytest.skip(str(refused))
    assert measured.verified


@pytest.mark.parametrize("algo", ["flash", "cudnn", "efficient", "math"])
@pytest.mark.parametrize("options", MODES, ids=str)
def test_each_backend_is_right_or_says_why_not(options: dict[str, Any], algo: str) -> None:
    measured, refusal = None, ""
    try:
        measured = measure(problem_of(options | {"algo": algo}, "bfloat16"), "torch", "cuda:0", method=QUICK)
    except UnsupportedCase as error:
        refusal = str(error)
    if measured is None:
        assert options not in MODES[:3], f"which all of them can: {refusal}"
        assert refusal.startswith(f"torch's {algo} attention refuses: ")
    else:
        assert measured.verified
        assert algo == measured.algorithm
