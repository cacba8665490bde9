"""Which code of the libraries a case took, as a cause: what torch's libraries here really say, set side by side."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from primbench.backends import missing
from primbench.compare.comparison import Explanation
from primbench.compare.pairs import compare
from primbench.measurement import Measurement, Samples
from primbench.measurement.implementation import Implementation
from primbench.results.file import Results
from primbench.spec.case import Case

MadeStudy = Callable[..., Results]
Taken = list[Implementation] | None
Explain = Callable[..., Explanation]

PRODUCT: dict[str, int | float | str | bool] = {"m": 64, "n": 64, "k": 64}
MEASURED = """
import sys, msgspec
from primbench.kernels.gemm import Gemm
from primbench.kernels.rnn import Rnn
from primbench.spec.method import Method
from primbench.timing.case import measure
problems = {
    "gemm": Gemm(64, 64, 64, dtype=sys.argv[1]),
    "rnn": Rnn(hidden_size=64, batch_size=4, seq_len=3, cell="lstm"),
}
found = measure(problems[sys.argv[2]], "torch", "cpu", method=Method(dry_run=True))
print("ours")
sys.stdout.flush()
sys.stderr.write(msgspec.json.encode(found.implementations).decode())
"""
KERNEL = Implementation(library="oneDNN", call="matmul", code="brg_matmul:avx10_1_512")
REFERENCE = Implementation(library="oneDNN", call="matmul", code="ref:any")  # pytorch/pytorch#193951
OF_MKL = Implementation(library="MKL", call="sgemm")


def taken(dtype: str = "float32", what: str = "gemm", **variables: str) -> tuple[Taken, str]:
    """What libraries say in a process of its own, and all that it printed."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", MEASURED, dtype, what],
        env=os.environ | variables, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return msgspec.json.decode(done.stderr, type=list[Implementation] | None), done.stdout


@pytest.fixture
def explained(made_study: MadeStudy) -> Explain:
    """``explained(ratio, one, other)``: of a product that took these in the two arms."""

    def told(ratio: float, one: Taken, other: Taken) -> Any:
        def measured(name: str, case: Case, pair: int) -> Measurement:
            time_s = 2e-3 * (1 + pair / 1e4) * (ratio if name == "other" else 1)
            samples = Samples(samples_s=[time_s] * 9, calls_per_sample=1, taken_by="", stopped="noise")
            return Measurement(batch_s=samples, implementations=other if name == "other" else one)

        case = Case(primitive="gemm", parameters=PRODUCT, backend="torch", device="cpu")
        (arm,) = compare(made_study(["host:name=one", "host:name=other"], [case], measured)).arms
        return arm.cases[0].explanation

    return told


@pytest.mark.wheel
@pytest.mark.skipif(missing("torch") is not None, reason="torch is not installed")
def test_libraries_say_what_they_took_and_nothing_else_is_lost() -> None:
    import torch

    found, printed = taken()
    assert "ours\n" == printed
    if torch.backends.mkl.is_available():
        assert [OF_MKL] == found
    if torch.backends.mkldnn.is_available() and torch.backends.cpu.get_cpu_capability() == "AVX512":
        reference, _ = taken(what="rnn", ONEDNN_MAX_CPU_ISA="SSE41")
        assert [True] == [each.is_reference for each in reference or [] if each.library == "oneDNN"]


@pytest.mark.wheel
@pytest.mark.skipif(missing("torch") is not None, reason="torch is not installed")
def test_whoever_asks_libraries_himself_is_not_asked_over() -> None:
    found, printed = taken("bfloat16", ONEDNN_VERBOSE="1", MKL_VERBOSE="1")
    assert found is None
    assert "onednn_verbose" in printed


def test_the_reference_is_named_where_it_takes_longer(explained: Explain) -> None:
    found = explained(1800.0, [KERNEL], [REFERENCE])
    assert found.causes[0] == (
        "the reference code of oneDNN in other: it takes oneDNN matmul ref:any in other, "
        "oneDNN matmul brg_matmul:avx10_1_512 in one"
    )
    assert "the reference code of oneDNN in other" == found.likely
    assert "the reference code of oneDNN in one" == explained(1 / 1800, [REFERENCE], [KERNEL]).likely


def test_a_product_of_no_library_is_named(explained: Explain) -> None:
    assert "no code of oneDNN or MKL in other" == explained(600.0, [KERNEL], []).likely
    assert "other code of the libraries" == explained(2.0, [KERNEL], [OF_MKL]).likely


def test_it_makes_nothing_faster(explained: Explain) -> None:
    assert not [each for each in explained(0.5, [KERNEL], [REFERENCE]).causes if "reference" in each]
    assert not [each for each in explained(2.0, [], [KERNEL]).causes if "oneDNN" in each]


@pytest.mark.parametrize(("one", "other"), [([REFERENCE], [REFERENCE]), ([], []), (None, [REFERENCE]), (None, None)])
def test_equal_code_and_unknown_code_are_no_cause(explained: Explain, one: Taken, other: Taken) -> None:
    assert not [each for each in explained(2.0, one, other).causes if "oneDNN" in each]
