"""deepbench.toml against the lists that it was made from, in which the numbers here were counted."""

from __future__ import annotations

from collections import Counter

import pytest

import primbench.suites as suites
from primbench.kernels.conv import Conv
from primbench.kernels.gemm import Gemm
from primbench.kernels.rnn import Rnn
from primbench.kernels.sparse_gemm import SparseGemm
from primbench.problem import Problem

ENTRIES = suites.read("deepbench")
ROWS = {  # of the original, each of which is one or three problems
    "gemm": {"training": 160, "inference_server": 75, "inference_device": 13},
    "conv": {"training": 94, "inference_server": 107, "inference_device": 16},
    "rnn": {"training": 53, "inference_server": 69, "inference_device": 3},
    "sparse_gemm": {"inference_server": 24, "inference_device": 8},
    "allreduce": {"training": 35},
}
PASSES = {
    ("conv", "training"): ["forward", "bwd_data", "bwd_weights"],
    ("rnn", "training"): ["forward_training", "bwd_data", "bwd_weights"],
    ("conv", "inference_server"): ["forward"],
    ("conv", "inference_device"): ["forward"],
    ("rnn", "inference_server"): ["forward_inference"],
    ("rnn", "inference_device"): ["forward_inference"],
}
FLOP = {  # of one pass, which is that of each
    "gemm": {
        "training": 26_706_398_187_136,
        "inference_server": 1_797_432_942_592,
        "inference_device": 28_882_870_272,
    },
    "conv": {"training": 562_504_360_960, "inference_server": 86_883_119_872, "inference_device": 1_823_997_952},
    "rnn": {"training": 13_727_506_563_072, "inference_server": 2_565_495_324_672, "inference_device": 80_805_888},
    "sparse_gemm": {"inference_server": 184_684_500_173, "inference_device": 26_205_644_391},
}


def of(primitive: str) -> list[suites.Entry]:
    return [entry for entry in ENTRIES if entry.problem.primitive == primitive]


def of_one_pass(primitive: str) -> list[suites.Entry]:
    """One entry for each row of the original: the forward pass where there are several."""
    forward = ("", "forward", "forward_training", "forward_inference")
    return [entry for entry in of(primitive) if entry.problem.parameters().get("direction", "") in forward]


def deepbench_flop(problem: Problem) -> int:
    """As DeepBench counts: of a recurrent layer the recurrent products alone."""
    return problem.recurrent_flop() if isinstance(problem, Rnn) else problem.flop() or 0


def test_primitives_stand_in_the_order_of_the_original() -> None:
    assert list(ROWS) == list(suites.describe("deepbench").counts)


@pytest.mark.parametrize("primitive", ROWS)
def test_counts_are_those_of_the_passes(primitive: str) -> None:
    expected = {name: count * len(PASSES.get((primitive, name), [""])) for name, count in ROWS[primitive].items()}
    assert expected == suites.describe("deepbench").counts[primitive]


@pytest.mark.parametrize("primitive", ROWS)
def test_every_size_is_there_in_its_place_once_a_pass(primitive: str) -> None:
    expected = [
        (f"{primitive}/{name}/{i:03}", name, direction)
        for name, count in ROWS[primitive].items()
        for i in range(1, count + 1)
        for direction in PASSES.get((primitive, name), [None])
    ]
    assert expected == [
        (entry.labels["id"], entry.labels["set"], entry.problem.parameters().get("direction"))
        for entry in of(primitive)
    ]


def test_whole_training_set_is_one_command() -> None:
    training = suites.read("deepbench", only=list(FLOP), set="training", overrides={"dtype": ["float16"]})
    assert 160 + 3 * 94 + 3 * 53 == len(training)
    assert {"float16"} == {entry.problem.parameters()["dtype"] for entry in training}


@pytest.mark.parametrize("primitive", FLOP)
def test_flop_is_that_of_the_original(primitive: str) -> None:
    flop: Counter[str] = Counter()
    for entry in of_one_pass(primitive):
        flop[entry.labels["set"]] += deepbench_flop(entry.problem)
    # Of a sparse matrix the lists count a fraction of the elements, a problem has a whole number of non-zeros.
    assert FLOP[primitive] == pytest.approx(flop, rel=1e-6 if primitive == "sparse_gemm" else 0, abs=0)


@pytest.mark.parametrize(
    ("id", "expected"),
    [
        ("gemm/training/042", Gemm(2048, 7133, 2048, trans_b=True)),
        ("conv/training/001", Conv(n=4, c=1, h=161, w=700, k=32, r=5, s=20, stride_h=2, stride_w=2)),
        ("conv/inference_server/104", Conv(n=2, c=512, h=7, w=7, k=512, r=3, s=3, pad_h=1, pad_w=1)),
        ("rnn/training/053", Rnn(1024, 64, 1500, cell="gru", direction="forward_training")),
        ("rnn/inference_device/003", Rnn(256, 1, 150, cell="lstm", direction="forward_inference")),
        ("sparse_gemm/inference_server/003", SparseGemm(7860, 4, 2560, sparsity=0.95)),
    ],
)
def test_fields_stand_for_what_they_do_in_the_original(id: str, expected: Problem) -> None:  # noqa: A002
    assert expected == next(entry.problem for entry in ENTRIES if entry.labels["id"] == id)


def test_gemm_keeps_the_transposes() -> None:
    expected = {(False, False): 165, (True, False): 73, (False, True): 10}
    problems = [entry.problem for entry in of("gemm")]
    assert expected == Counter((problem.trans_a, problem.trans_b) for problem in problems if isinstance(problem, Gemm))


@pytest.mark.parametrize(("expected", "primitive"), [(9, "conv"), (0, "rnn"), (0, "sparse_gemm")])
def test_exact_repeats_are_kept(expected: int, primitive: str) -> None:
    distinct = {(entry.labels["set"], entry.problem) for entry in of_one_pass(primitive)}
    assert expected == len(of_one_pass(primitive)) - len(distinct)


def test_recurrent_cells() -> None:
    expected = {
        ("training", "vanilla"): 12,
        ("training", "lstm"): 22,
        ("training", "gru"): 19,
        ("inference_server", "lstm"): 15,
        ("inference_server", "gru"): 54,
        ("inference_device", "vanilla"): 2,
        ("inference_device", "lstm"): 1,
    }
    found = [(entry.labels["set"], entry.problem.parameters()["cell"]) for entry in of_one_pass("rnn")]
    assert expected == Counter(found)


def test_sparsities() -> None:
    assert {0.95: 16, 0.9: 16} == Counter(entry.problem.parameters()["sparsity"] for entry in of("sparse_gemm"))


@pytest.mark.parametrize(
    ("primitive", "expected"),
    [
        ("gemm", {"Speech Recognition": 230, "Language Modelling": 14, "Speaker ID": 3, "Keyword Spotting": 1}),
        (
            "conv",
            {
                "Computer Vision": 125,
                "Face Recognition": 46,
                "Speaker ID": 24,
                "Speech Recognition": 14,
                "OCR": 8,
            },
        ),
        (
            "rnn",
            {
                "Speech Recognition": 80,
                "Machine Translation": 21,
                "Language Modelling": 10,
                "Character Language Modelling": 7,
                "Speaker ID": 5,
                "Keyword Spotting": 2,
            },
        ),
        ("sparse_gemm", {"Speech Recognition": 32}),
    ],
)
def test_applications(primitive: str, expected: dict[str, int]) -> None:
    assert expected == Counter(entry.labels["application"] for entry in of_one_pass(primitive))
