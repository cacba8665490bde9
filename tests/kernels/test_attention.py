from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from primbench.backends import open_backend
from primbench.errors import InvalidRequest, UnsupportedCase, VerificationError
from primbench.kernels.attention import Attention
from primbench.kernels.attention import problem as attention
from primbench.problem import MEMORY, description_of
from primbench.registry import setup_of
from primbench.timing.verify import check_output


def made(options: dict[str, Any], **sizes: Any) -> Attention:
    defaults: dict[str, Any] = {"batch_size": 2, "heads": 4, "seq_len": 8, "head_dim": 16}
    return Attention(**(defaults | sizes | options))


@pytest.mark.parametrize(
    ("flop", "options"),
    [
        (4 * 2 * 6 * 8**2 * 16, {}),
        (4 * 2 * 6 * 8**2 * 16 // 2, {"causal": True}),
        (5 * 4 * 2 * 6 * 8**2 * 16 // 2, {"mode": "backward"}),
        (7 * 4 * 2 * 6 * 8**2 * 16 // 4, {"mode": "train", "causal": True}),
        (4 * 2 * 6 * 8 * 20 * 16, {"kv_len": 20, "kv_heads": 2}),
        (4 * 2 * 6 * (8 * 12 + 8**2 // 2) * 16, {"kv_len": 20, "mode": "prefill"}),
        (4 * 2 * 6 * 20 * 16, {"seq_len": 1, "kv_len": 20, "mode": "decode"}),
    ],
)
def test_operations_are_those_of_published_figures(flop: int, options: dict[str, Any]) -> None:
    assert flop == made(options, heads=6).flop()


@pytest.mark.parametrize(
    ("elements", "options"),
    [
        (2 * 6 * 8 + 2 * 6 * 8, {}),
        (2 * 6 * 8 + 2 * 2 * 20, {"kv_len": 20, "kv_heads": 2}),
        (4 * 6 * 8 + 4 * 6 * 8, {"mode": "train"}),
        # q, o and both caches, of which the new tokens are written from arrays of their own
        (2 * 6 * 1 + 2 * 2 * 20 + 2 * 2 * 1, {"seq_len": 1, "kv_len": 20, "kv_heads": 2, "mode": "decode"}),
    ],
)
def test_bytes_are_those_of_each_array_once(elements: int, options: dict[str, Any]) -> None:
    problem = made(options, heads=6, batch_size=3)
    assert 2 * 3 * 16 * elements == problem.bytes_moved()


def test_decoding_is_bound_by_memory_and_nothing_else_is() -> None:
    bounds = [Attention(1, 2, 1, 8, kv_len=9, mode=mode).bound() for mode in ("decode", "prefill", "forward")]
    assert [True, False, False] == [bound == MEMORY for bound in bounds]


BOTTOM_RIGHT: dict[str, Any] = {"kv_heads": 2, "kv_len": 33, "causal": True}
CASES: list[dict[str, Any]] = [
    {"mode": "train", "kv_heads": 2},
    {"mode": "train", "causal": True, "layout": "bhsd"},
    BOTTOM_RIGHT | {"mode": "backward"},
    BOTTOM_RIGHT | {"mode": "prefill"},
    {"mode": "decode", "seq_len": 1, "kv_len": 33, "kv_heads": 1},
]


@pytest.mark.wheel
@pytest.mark.parametrize("options", CASES, ids=str)
def test_the_reference_is_what_torch_finds_in_float64(options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    problem = made({"seq_len": 17, "head_dim": 8, "dtype": "float32"} | options)
    inputs = problem.inputs(np.random.default_rng(0))
    arrays = [torch.from_numpy(attention.by_heads(problem.layout, x).astype(np.float64)) for x in inputs]
    if problem.mode in attention.CACHED:
        q, new_k, new_v, k, v = arrays
        k[:, :, -problem.seq_len :], v[:, :, -problem.seq_len :] = new_k, new_v
    else:
        q, k, v, *_ = arrays
    seen = torch.ones(problem.seq_len, problem.kv_len, dtype=torch.bool)
    if problem.causal:
        seen = seen.tril(problem.kv_len - problem.seq_len)
    asked = [x.requires_grad_() for x in (q, k, v)]
    o = torch.nn.functional.scaled_dot_product_attention(*asked, attn_mask=seen, enable_gqa=True)
    found = [] if problem.mode == "backward" else [o.detach()]
    if problem.has_gradients:
        found += torch.autograd.grad(o, asked, arrays[3])
    right = np.concatenate([attention.by_heads(problem.layout, x.numpy()).reshape(-1) for x in found])
    reference = problem.reference(np.random.default_rng(0), *inputs)
    right = right if problem.has_gradients else right.reshape(problem.query_shape)
    np.testing.assert_allclose(right[reference.index], reference.expected, rtol=1e-10, atol=1e-12)
    assert right.size == reference.expected.size


@pytest.mark.wheel
@pytest.mark.parametrize("options", CASES, ids=str)
def test_where_a_sample_is_checked_torch_passes_and_a_slip_does_not(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slip: another query's row of what is compared, by 3 % of it."""
    pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr(attention, "FULL_CHECK_PAIRS", 0)
    backend, rng = open_backend("torch", "cpu"), np.random.default_rng(0)
    problem = made({"seq_len": 17, "head_dim": 8} | options)
    inputs = problem.check_inputs(rng, problem.inputs(rng))
    step = setup_of("attention", "torch")(backend, problem, *map(backend.put, inputs))
    reference = problem.reference(rng, *inputs)
    check_output(backend, problem, step, reference)
    assert str(description_of(step).algorithm).endswith("(the first that takes it)")
    wrong = reference._replace(expected=reference.expected * np.where(np.arange(reference.expected.size) % 9, 1, 1.1))
    with pytest.raises(VerificationError, match="wrong result"):
        check_output(backend, problem, step, wrong)


@pytest.mark.wheel
@pytest.mark.parametrize("mode", ["forward", "train"])
def test_a_mask_that_is_off_by_one_is_found(mode: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    backend, rng = open_backend("torch", "cpu"), np.random.default_rng(0)
    problem = Attention(1, 2, 64, 16, causal=True, mode=mode)
    inputs = problem.inputs(rng)
    step = setup_of("attention", "torch")(backend, problem, *map(backend.put, inputs))
    shifted = [np.roll(x, 1, axis=1) for x in inputs[1:3]]  # as if each query saw one key fewer, and the last one
    reference = problem.reference(rng, inputs[0], *shifted, *inputs[3:])
    with pytest.raises(VerificationError, match="wrong result"):
        check_output(backend, problem, step, reference)


@pytest.mark.parametrize(("which", "name"), [(1, "key"), (2, "value")])
def test_one_new_token_in_a_long_cache_counts(which: int, name: str) -> None:
    problem = Attention(1, 2, 1, 64, kv_len=8192, mode="decode")
    inputs = list(problem.inputs(np.random.default_rng(0)))
    right = problem.reference(np.random.default_rng(1), *inputs)
    inputs[which] = inputs[which][..., ::-1]
    wrong = problem.reference(np.random.default_rng(1), *inputs)
    assert (abs(wrong.expected - right.expected) / right.scale).max() > 2 * problem.tolerance(), name


@pytest.mark.wheel
@pytest.mark.parametrize("algo", ["cudnn", "efficient"])
def test_what_is_for_gpus_says_so(algo: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    backend, problem = open_backend("torch", "cpu"), Attention(1, 2, 8, 8, algo=algo)
    inputs = map(backend.put, problem.inputs(np.random.default_rng(0)))
    with pytest.raises(UnsupportedCase, match=f"{algo} attention is for GPUs: ask for algo=flash or math"):
        setup_of("attention", "torch")(backend, problem, *inputs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kv_heads": 4}, "kv_heads=4: heads=6 is no multiple of it"),
        ({"kv_len": 7, "causal": True}, "kv_len=7: causal needs one for each of seq_len=8"),
        ({"kv_len": 7, "mode": "prefill"}, "kv_len=7"),
    ],
)
def test_nonsense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        Attention(1, 6, 8, 16, **options)


@pytest.mark.parametrize("options", [{}, {"mode": "prefill", "kv_len": 9000}, {"mode": "decode", "kv_len": 9000}])
def test_a_probe_is_smaller_and_of_the_same_kind(options: dict[str, Any]) -> None:
    probe = Attention(4, 32, 4096 if options.get("mode") != "decode" else 1, 128, **options).probe(2**24)
    assert probe is not None
    assert 2**23 < probe.flop() < 2**25
    assert options.get("mode", "forward") == probe.mode


@pytest.mark.wheel
def test_a_backend_that_refuses_before_it_computes_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr("primbench.kernels.attention.torch.ON_CPU", ("efficient", "math"))
    backend, problem = open_backend("torch", "cpu"), made({"seq_len": 9, "mode": "backward"})
    inputs = map(backend.put, problem.inputs(np.random.default_rng(0)))
    step = setup_of("attention", "torch")(backend, problem, *inputs)
    assert "math (the first that takes it)" == description_of(step).algorithm
