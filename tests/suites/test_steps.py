"""The suites of today's models are steps of them: what their products come to is what their weights do."""

from __future__ import annotations

import pytest

import primbench.suites as suites

LLAMA_8B = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336) + 4096 * 128256
LLAMA_70B = 80 * (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672) + 8192 * 128256
MIXTRAL_OF_A_TOKEN = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 4096 * 8 + 2 * 3 * 4096 * 14336) + 4096 * 32000
QWEN_8B = 36 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 12288) + 4096 * 151936  # of 8.2 billion, with the table
BERT = 12 * (4 * 768 * 768 + 2 * 768 * 3072)
DIT = 28 * (4 * 1152 * 1152 + 8 * 1152 * 1152)
PRODUCTS = ("gemm", "grouped_gemm", "batched_gemm", "conv")


def flop(name: str, set_name: str) -> int:
    """Of a step's products and convolutions."""
    entries = suites.read(name, set=set_name)
    return sum(int(each.labels["count"]) * (each.problem.flop() or 0) for each in entries
               if each.problem.primitive in PRODUCTS)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "set_name", "expected", "share"),
    [
        ("llama3-8b", "training", 6 * LLAMA_8B * 8192, 1e-9),
        ("llama3-8b", "decode", 2 * LLAMA_8B * 64, 1e-9),
        ("llama3-70b", "training", 6 * LLAMA_70B * 8192 / 8, 1e-9),
        ("mixtral-8x7b", "training", 6 * MIXTRAL_OF_A_TOKEN * 4096, 1e-9),
        ("qwen3-8b", "decode", 2 * QWEN_8B * 64, 1e-9),
        ("qwen3-8b", "prefill", 2 * ((QWEN_8B - 4096 * 151936) * 2048 + 4096 * 151936), 1e-9),
        ("bert-base", "inference", 2 * BERT * 128, 1e-2),  # and the pooler
        ("dit-xl-2", "inference", 2 * DIT * 16 * 256, 1e-2),  # and what is done once an image
        ("resnet-50", "inference", 2 * 4.09e9, 1e-2),  # multiply-adds as torchvision has them
        ("resnet-50", "training", 3 * 64 * 2 * 4.09e9, 2e-2),  # the first layer has no gradient of its images
    ],
)
def test_products_come_to_what_the_weights_do(name: str, set_name: str, expected: float, share: float) -> None:
    assert expected == pytest.approx(flop(name, set_name), rel=share)


def test_every_entry_says_where_it_is_in_a_step() -> None:
    for name in ("llama3-8b", "llama3-70b", "mixtral-8x7b", "qwen3-8b", "dit-xl-2", "bert-base", "resnet-50"):
        for entry in suites.read(name):
            assert {"set", "phase", "label", "count"} <= entry.labels.keys(), entry


EXPERTS = ("qwen3-30b-a3b", "mixtral-8x7b", "deepseek-v3")
DENSE_OF_DEEPSEEK = 187_000_000 + 3 * 7168 * 18432  # attention as in the others, and a feed-forward without experts


@pytest.mark.parametrize(
    ("name", "layers", "others", "billions"),
    [
        ("llama3-8b", 32, 2 * 128_256 * 4096, 8.03),
        ("llama3-70b", 80, 2 * 128_256 * 8192, 70.6),
        ("qwen3-8b", 36, 2 * 151_936 * 4096, 8.2),
        ("qwen3-30b-a3b", 48, 2 * 151_936 * 2048, 30.5),
        ("mixtral-8x7b", 32, 2 * 32_000 * 4096, 46.7),
        ("deepseek-v3", 58, 2 * 129_280 * 7168 + 3 * DENSE_OF_DEEPSEEK, 671),
    ],
)
def test_products_of_serving_have_the_weights_that_a_model_is_known_by(
    name: str, layers: int, others: float, billions: float
) -> None:
    """Those of a layer, in all layers, and two tables of words. A router has too few to count."""
    sizes = set()
    for entry in suites.read("serving", set=name, only=["gemm", *(["grouped_gemm"] if name in EXPERTS else [])]):
        fields = entry.problem.parameters()
        sizes.add((entry.labels["label"], int(fields.get("groups", 1)) * int(fields["n"]) * int(fields["k"])))
    assert billions * 1e9 == pytest.approx(layers * sum(size for _, size in sizes) + others, rel=0.01)
