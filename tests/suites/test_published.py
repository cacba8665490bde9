"""DeepBench's published times and the makers' datasheets, against numbers read in them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import primbench.suites as suites
from primbench.errors import InvalidRequest
from primbench.kernels.allreduce import Allreduce
from primbench.kernels.conv import Conv
from primbench.kernels.gemm import Gemm
from primbench.kernels.rnn import Rnn
from primbench.kernels.sparse_gemm import SparseGemm
from primbench.problem import Problem
from primbench.suites import datasheets, deepbench

FIRST_CONV = Conv(n=4, c=1, h=161, w=700, k=32, r=5, s=20, stride_h=2, stride_w=2)


def time_s(device: str, problem: Problem, id: str | None = None) -> float | None:  # noqa: A002
    found = deepbench.read(device).time(problem, id)
    return found.time_s if found else None


@pytest.mark.parametrize(
    ("expected_s", "device", "problem"),
    [
        (38e-6, "V100", Gemm(1760, 16, 1760)),
        (20e-6, "V100", Gemm(1760, 16, 1760, dtype="float16")),
        (999e-6, "T4", Gemm(5124, 700, 2048, dtype="int8")),
        (59e-6, "AMD MI25", Gemm(1760, 16, 1760)),
        (None, "V100", Gemm(1760, 16, 1760, dtype="bfloat16")),
        (None, "V100", Gemm(1760, 16, 1760, dtype="float64")),
        (None, "V100", Gemm(1760, 16, 1760, math_mode="tf32")),
        (None, "V100", Gemm(16, 1760, 1760)),
        (None, "V100", Gemm(1760, 16, 1760, beta=1.0)),
        (None, "V100", Rnn(1760, 16, 50, direction="forward_inference")),
        (62.329e-6, "1080 Ti", Allreduce(400_000, 2, in_place=False)),
        (62.329e-6, "1080 Ti", Allreduce(400_000, 2, in_place=True)),
        (None, "1080 Ti", Allreduce(400_000, 3)),
        (None, "M40", Gemm(1760, 16, 1760, dtype="float16")),
    ],
)
def test_time_is_that_of_the_problem_and_its_dtype(expected_s: float | None, device: str, problem: Problem) -> None:
    assert expected_s == pytest.approx(time_s(device, problem))


@pytest.mark.parametrize(
    ("expected_s", "problem"),
    [
        (78e-6, FIRST_CONV),
        (None, replace(FIRST_CONV, direction="bwd_data")),
        (127e-6, replace(FIRST_CONV, direction="bwd_weights")),
        (4.201e-3, Rnn(1760, 16, 50, direction="forward_training")),
        (2.881e-3, Rnn(1760, 16, 50, direction="bwd_data")),
        (0.588e-3, Rnn(1760, 16, 50, direction="bwd_weights")),
    ],
)
def test_each_direction_has_a_time_of_its_own(expected_s: float | None, problem: Problem) -> None:
    assert expected_s == pytest.approx(time_s("V100", problem))


def test_layout_is_no_part_of_the_problem() -> None:
    nhwc = replace(FIRST_CONV, dtype="float16", layout="nhwc")
    assert pytest.approx(591e-6) == time_s("V100", nhwc) == time_s("V100", replace(nhwc, layout="nchw"))


@pytest.mark.parametrize(
    ("expected", "id"),
    [
        ("gemm/training/087", "gemm/training/087"),
        ("gemm/training/087", None),
        ("gemm/training/087", "gemm/training/001"),  # another problem's
        ("gemm/training/087", "gemm/inference_server/021"),  # the same problem, not timed on a V100
    ],
)
def test_entry_is_the_named_one_among_those_that_are_the_problem_and_have_a_time(expected: str, id: str | None) -> None:  # noqa: A002
    problem = next(entry.problem for entry in suites.read("deepbench") if entry.labels["id"] == expected)
    found = deepbench.read("V100").time(problem, id)
    assert found is not None
    assert expected == found.id


def test_id_tells_exact_repeats_apart() -> None:
    repeated = next(entry.problem for entry in suites.read("deepbench") if entry.labels["id"] == "conv/training/075")
    for each in ("conv/training/023", "conv/training/075"):
        found = deepbench.read("V100").time(repeated, each)
        assert found is not None
        assert each == found.id


def test_size_that_the_sheet_prints_otherwise_is_told() -> None:
    expected = deepbench.Time("gemm/training/042", 4.601e-3, "n=10376")
    assert expected == deepbench.read("V100").time(Gemm(2048, 7133, 2048, trans_b=True), None)


def test_sparse_products_are_the_sparse_ones() -> None:
    assert pytest.approx(34e-6) == time_s("1080 Ti", SparseGemm(7680, 1, 2560, sparsity=0.95))


def test_counts_are_those_of_the_sheets() -> None:
    expected = {"AMD MI25": 548, "NVIDIA Tesla V100": 2 * 591, "NVIDIA T4": 2 * 432 + 182}
    assert expected == {device: len(deepbench.read(device).times) for device in expected}


def test_every_time_is_positive_and_belongs_to_an_entry_() -> None:
    ids = {entry.labels["id"] for entry in suites.read("deepbench")}
    for device in deepbench.devices():
        published = deepbench.read(device)
        assert all(0 < time.time_s < math.inf for time in published.times.values())
        assert {key[0] for key in published.times} <= ids


def test_every_time_comes_from_a_sheet() -> None:
    for device in deepbench.devices():
        published = deepbench.read(device)
        named = {(sheet.set, sheet.dtype) for sheet in published.sheets}
        assert named == {(key[0].split("/")[1], key[2]) for key in published.times}


@pytest.mark.parametrize("name", ["NVIDIA Tesla V100", "nvidia v100", "V100", "v100 nvidia"])
def test_device_is_found_by_its_words(name: str) -> None:
    assert "NVIDIA Tesla V100" == deepbench.read(name).device


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("V9", "published:V9: there are AMD MI25, AMD Vega FE, "),
        ("", "published:: there are AMD MI25"),
        ("TitanX", "published:TitanX: it may be NVIDIA TitanX Maxwell or NVIDIA TitanX Pascal"),
    ],
)
def test_device_that_is_not_one_of_them_is_refused(name: str, reason: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        deepbench.read(name)
    assert str(caught.value).startswith(reason)


def test_datasheet_counts_without_sparsity() -> None:
    found = datasheets.of("NVIDIA H200")
    assert found is not None
    assert (989.5e12, 494.5e12, 4.8e12) == (
        found.flop_per_s["bfloat16"],
        found.flop_per_s["tf32"],
        found.memory_bytes_per_s,
    )
    assert datasheets.of("NVIDIA H200 NVL") is None


@pytest.mark.parametrize("name", datasheets.all_known())
def test_datasheet_names_its_source_and_known_dtypes(name: str) -> None:
    found = datasheets.all_known()[name]
    assert found.source.startswith("https://")
    assert set(found.flop_per_s) <= {"float64", "float32", "tf32", "float16", "bfloat16", "int8", "float8_e4m3"}
    assert 1e11 < found.memory_bytes_per_s < 1e13
    assert found.pcie_bytes_per_s in (None, 16e9, 32e9, 64e9)  # x16 of the third, fourth and fifth generation
    ascending = [
        found.flop_per_s[dtype] for dtype in ("float32", "tf32", "float16", "int8") if dtype in found.flop_per_s
    ]
    assert sorted(ascending) == ascending
