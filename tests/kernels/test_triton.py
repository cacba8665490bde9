"""Kernels of Triton: computed by its interpreter, compiled for a GPU that need not be there."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.wheel
LACKING = "triton is not installed, and comes with a torch for CUDA"
CASES = [
    ("softmax", "--rows", "5", "--classes", "77"),
    ("norm", "--rows", "5", "--features", "77"),
    ("elementwise", "--elements", "3000", "--op", "swiglu"),
    ("gemm", "-m", "130", "-n", "200", "-k", "77"),
    (
        "attention",
        "--batch-size",
        "2",
        "--heads",
        "4",
        "--kv-heads",
        "2",
        "--seq-len",
        "70",
        "--kv-len",
        "99",
        "--head-dim",
        "24",
        "--causal",
        "--dtype",
        "float16",
    ),
]
WHERE = ("--backend", "torch", "--device", "cpu")
HOW = (*WHERE, "--kernel", "triton", "--min-time", "1ms", "--max-time", "5ms", "--json", "-", "-q")
COMPILED = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from primbench.kernels.allreduce_norm._triton import _summed_norm
from primbench.kernels.attention._triton import blocks_of_queries
from primbench.kernels.elementwise._triton import _swiglu
from primbench.kernels.gemm._triton import GROUP, tiled
from primbench.kernels.norm._triton import _norm
from primbench.kernels.softmax._triton import _softmax

def made(kernel, constants, warps, stages, **numbers):
    signature = {}
    for name in kernel.arg_names:
        kind = "constexpr" if name in constants else numbers.get(name) or "i32" if name in numbers else "*bf16"
        signature[name] = kind
    at = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    options = {"num_warps": warps, "num_stages": stages}
    found = triton.compile(ASTSource(kernel, signature, at), target=GPUTarget("cuda", 90, 32), options=options)
    print(found.metadata.name, found.metadata.shared, len(found.asm["cubin"]) > 0)

made(_softmax, {"LOGARITHM": False, "BLOCK": 131072}, 32, 3, classes="i32")
made(_norm, {"IS_LAYER": True, "BLOCK": 128}, 1, 3, features="i32", epsilon="fp32")
made(_norm, {"IS_LAYER": False, "BLOCK": 128, "bias": None}, 1, 3, features="i32", epsilon="fp32")
made(_summed_norm, {"RANKS": 8, "BLOCK": 4096}, 8, 3, buffers="*i64", features="i32", epsilon="fp32")
made(_swiglu, {"BLOCK": 1024}, 4, 3, elements="i32")
numbers = dict.fromkeys(("m", "n", "a_row", "a_column", "b_row", "b_column"), "i32")
numbers |= dict.fromkeys(("seq_len", "kv_len", "heads", "shared_by"), "i32") | {"scale": "fp32"}
numbers |= {f"{of}_{what}": "i32" for of in "qkvo" for what in ("batch", "head", "row")}
for each in blocks_of_queries.configs:
    constants = {"CAUSAL": True, "HEAD_DIM": 128, "WIDTH": 128, **each.kwargs}
    made(blocks_of_queries.fn, constants, each.num_warps, each.num_stages, **numbers)
for each in tiled.configs:
    for k in (64, 77):
        constants = {"k": k, "PRECISION": "ieee", "GROUP": GROUP, **each.kwargs}
        made(tiled.fn, constants, each.num_warps, each.num_stages, **numbers)
"""


def ran(*words: str, interpreted: bool) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    asked = environment | ({"TRITON_INTERPRET": "1"} if interpreted else {})
    return subprocess.run([sys.executable, *words], env=asked, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("case", CASES, ids=[primitive for primitive, *_ in CASES])
def test_its_interpreter_computes_what_the_reference_does(case: tuple[str, ...]) -> None:
    pytest.importorskip("triton", reason=LACKING)
    pytest.importorskip("torch", reason="torch is not installed")
    done = ran("-m", "primbench", *case, *HOW, interpreted=True)
    assert 0 == done.returncode, done.stdout + done.stderr
    (found,) = json.loads(done.stdout)["records"]
    assert ("triton", "ok") == (found["case"]["kernel"], found["status"])


def test_all_are_compiled_for_a_gpu() -> None:
    pytest.importorskip("triton", reason=LACKING)
    done = ran("-c", COMPILED, interpreted=False)
    lines = done.stdout.splitlines()
    assert (20, True) == (len(lines), all(line.endswith("True") for line in lines)), done.stderr
    assert all(int(line.split()[1]) < 227 * 1024 for line in lines)  # which an H100 has of shared memory


def test_without_a_gpu_it_is_refused_in_a_line() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    done = ran("-m", "primbench", *CASES[0], *WHERE, "--kernel", "triton", interpreted=False)
    assert 1 == done.returncode
    assert "triton needs a GPU; with TRITON_INTERPRET=1 in the environment it computes by NumPy" in done.stdout
