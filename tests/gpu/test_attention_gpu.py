"""Attention by a real GPU: each of torch's backends, every mode, and that the fastest is chosen."""

from __future__ import annotations

from typing import Any

import pytest

from primbench import Method, measure
from primbench.backends import missing
from primbench.environment.devices import has_gpu_node
from primbench.errors import UnsupportedCase
from primbench.kernels.attention import Attention

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu_node(), reason="needs an NVIDIA GPU: no /dev/nvidia* here"),
    pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch"))),
]
QUICK = Method(min_time_s=0.002, max_time_s=0.02)
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
]


def problem_of(options: dict[str, Any], dtype: str) -> Attention:
    sizes: dict[str, Any] = {"batch_size": 2, "heads": 8, "seq_len": 512, "head_dim": 64}
    return Attention(**(sizes | options), dtype=dtype)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("options", MODES, ids=str)
def test_every_mode_is_right_and_can_be_a_graph(options: dict[str, Any], dtype: str) -> None:
    measured = measure(problem_of(options, dtype), "torch", "cuda:0", method=QUICK)
    assert measured.verified
    assert measured.device_s is not None
    assert "graph" == measured.device_s.taken_by
    assert "tried: " in str(measured.algorithm)


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
