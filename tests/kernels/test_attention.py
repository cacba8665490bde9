from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from primbench.backends import open_backend
from primbench.errors import InvalidRequest, UnsupportedCase, VerificationError
from primbench.kernels.attention import Attention
from primbench.kernels.attention import problem as attention
from primbench.kernels.attention._cache import CACHED, by_heads
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
        (4 * 6 * (20 + 10) * 16, {"seq_len": 1, "kv_len": 20, "mode": "decode", "page_size": 8, "lengths": "uniform"}),
        (4 * 2 * 6 * (1 + 2 + 6 * 3) * 16, {"mode": "prefill", "window": 3}),
        (4 * 2 * 6 * 8 * 3 * 16, {"mode": "prefill", "kv_len": 20, "window": 3}),
        (2 * 2 * 6 * 20 * (16 + 12), {"seq_len": 1, "kv_len": 20, "mode": "decode", "latent_dim": 12}),
    ],
)
def test_operations_are_those_of_published_figures(flop: int, options: dict[str, Any]) -> None:
    assert flop == made(options, heads=6).flop()


PAGES: dict[str, Any] = {"seq_len": 1, "kv_len": 20, "kv_heads": 2, "mode": "decode", "page_size": 8}


@pytest.mark.parametrize(
    ("tokens", "memory", "options"),
    [
        (3 * 20, 9 * 8, {}),
        (20 + 14 + 7, (3 + 2 + 1) * 8, {"lengths": "uniform"}),
        (8 + 12 + 2 + 1, (1 + 2 + 1 + 1) * 8, {"lengths": "zipf", "shared_len": 8}),  # 20, 10, and one page and a token
        (3 * 5, 9 * 8, {"window": 5}),
    ],
)
def test_the_bytes_of_a_cache_are_those_that_are_read_once(tokens: int, memory: int, options: dict[str, Any]) -> None:
    problem = made(PAGES | options, heads=6, batch_size=3)
    others = 2 * 3 * 16 * (2 * 6 + 2 * 2) + 4 * 3 * (3 + 1)  # q, o, new k and v; a table of three pages, and lengths
    assert problem.bytes_moved() == 2 * 2 * 2 * 16 * tokens + others
    assert problem.memory_bytes() == 2 * 2 * 2 * 16 * memory + others
    for seed in (0, 1):
        arrays = problem.inputs(np.random.default_rng(seed))
        assert sum(each.nbytes for each in arrays) == problem.memory_bytes() - 2 * 3 * 6 * 16
        assert sorted(problem.kv_lens) == sorted(problem.cached(arrays).lengths)


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
    arrays = [torch.from_numpy(by_heads(problem.layout, x).astype(np.float64)) for x in inputs]
    if problem.mode in CACHED:
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
    right = np.concatenate([by_heads(problem.layout, x.numpy()).reshape(-1) for x in found])
    reference = problem.reference(np.random.default_rng(0), *inputs)
    right = right if problem.has_gradients else right.reshape(problem.query_shape)
    np.testing.assert_allclose(right[reference.index], reference.expected, rtol=1e-10, atol=1e-12)
    assert right.size == reference.expected.size


SERVING: list[dict[str, Any]] = [
    {"page_size": 4, "kv_heads": 2},
    {"page_size": 4, "lengths": "zipf", "shared_len": 8, "seq_len": 3},
    {"mode": "prefill", "page_size": 8, "lengths": "uniform", "window": 5, "seq_len": 7},
    {"latent_dim": 12, "seq_len": 2},
    {"latent_dim": 16, "page_size": 1, "lengths": "uniform", "window": 9},
    {"window": 4, "layout": "bhsd", "seq_len": 2},
]


def serving(options: dict[str, Any]) -> Attention:
    return made({"mode": "decode", "seq_len": 1, "kv_len": 33, "batch_size": 3} | options)


def one_by_one(problem: Attention, inputs: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """O of each query and head, whose keys are looked up token by token: [batch, sequence, heads, elements]."""
    cache, shared = problem.cached(inputs), problem.heads // problem.kv_heads
    found = np.zeros(problem.output_shape)
    for b, i, h in np.ndindex(found.shape[:3]):
        length = problem.kv_len if cache.lengths is None else int(cache.lengths[b])
        own = length - problem.seq_len + i
        first = max(0, own - problem.window + 1) if problem.window else 0
        keys, values = [], []
        for place in range(first, own + 1):
            if place >= length - problem.seq_len:
                k = cache.new_k[b, place - length + problem.seq_len, h // shared]
                v = k if cache.new_v is None else cache.new_v[b, place - length + problem.seq_len, h // shared]
            else:
                page = (b, place)
                if cache.table is not None:
                    page = (cache.table[b, place // problem.page_size], place % problem.page_size)
                k, v = cache.k[page][h // shared], cache.v[page][h // shared]
            keys.append(k.astype(float))
            values.append(v.astype(float)[: problem.value_dim])
        weights = np.exp(np.array(keys) @ cache.q[b, i, h].astype(float) / np.sqrt(problem.head_dim))
        found[b, i, h] = weights @ np.array(values) / weights.sum()
    return found


@pytest.mark.parametrize("options", [each for each in SERVING if "layout" not in each], ids=str)
def test_the_reference_of_a_cache_is_what_is_found_token_by_token(options: dict[str, Any]) -> None:
    problem = serving(options)
    inputs = problem.inputs(np.random.default_rng(0))
    reference = problem.reference(np.random.default_rng(1), *inputs)
    np.testing.assert_allclose(one_by_one(problem, inputs)[reference.index], reference.expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("options", [{"causal": True}, SERVING[1], SERVING[3]], ids=str)
def test_a_reference_of_one_head_at_a_time_is_that_of_all_heads_together(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = made({"seq_len": 3, "kv_len": 9, "kv_heads": 2} | options) if "causal" in options else serving(options)
    inputs = problem.inputs(np.random.default_rng(0))
    together = problem.reference(np.random.default_rng(1), *inputs)
    monkeypatch.setattr("primbench.kernels.attention._reference.MOST_PAIRS", 1)
    alone = problem.reference(np.random.default_rng(1), *inputs)
    orders = [np.lexsort(np.atleast_2d(each.index)) for each in (alone, together)]  # of parts of the output
    for name in ("expected", "scale"):
        found, right = (getattr(each, name)[order] for each, order in zip((alone, together), orders, strict=True))
        np.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-15)


@pytest.mark.wheel
@pytest.mark.parametrize("options", SERVING, ids=str)
@pytest.mark.parametrize("is_full", [True, False])
def test_torch_is_right_with_every_cache(
    options: dict[str, Any], is_full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    if not is_full:
        monkeypatch.setattr(attention, "FULL_CHECK_PAIRS", 0)
    backend, rng, problem = open_backend("torch", "cpu"), np.random.default_rng(0), serving(options)
    inputs = problem.inputs(rng)
    step = setup_of("attention", "torch")(backend, problem, *map(backend.put, inputs))
    check_output(backend, problem, step, problem.reference(rng, *inputs))


@pytest.mark.wheel
@pytest.mark.parametrize("which", ["table", "lengths"])
def test_a_page_of_another_sequence_and_a_token_too_few_are_found(which: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    backend, rng, problem = open_backend("torch", "cpu"), np.random.default_rng(0), serving(SERVING[0])
    inputs = problem.inputs(rng)
    wrong = [each.copy() for each in inputs]
    if which == "table":
        wrong[-2][:, [0, 1]] = wrong[-2][::-1, [0, 1]]
    else:
        wrong[-1] -= 1
    step = setup_of("attention", "torch")(backend, problem, *map(backend.put, wrong))
    with pytest.raises(VerificationError, match="wrong result"):
        check_output(backend, problem, step, problem.reference(rng, *inputs))


@pytest.mark.wheel
@pytest.mark.filterwarnings("default")  # torch warns of its own code while it compiles
def test_flex_attention_reads_pages_where_they_lie() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    backend, rng, problem = open_backend("torch", "cpu"), np.random.default_rng(0), serving(SERVING[1])
    inputs = problem.inputs(rng)
    step = setup_of("attention", "torch", "flex")(backend, problem, *map(backend.put, inputs))
    check_output(backend, problem, step, problem.reference(rng, *inputs))


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
        ({"window": 4}, "window=4: only of causal attention"),
        ({"page_size": 4}, "page_size=4 with mode='forward' layout='bshd': only of a cache"),
        ({"latent_dim": 4, "mode": "prefill", "layout": "bhsd"}, "latent_dim=4 with .*: only of a cache"),
        ({"latent_dim": 4, "mode": "prefill", "kv_heads": 2}, "latent_dim=4: of one kv_heads"),
        ({"latent_dim": 17, "mode": "prefill"}, "latent_dim=17: of one kv_heads, and at most head_dim=16"),
        ({"lengths": "zipf", "mode": "prefill"}, "lengths='zipf': only of a cache in pages"),
        ({"shared_len": 4, "mode": "prefill"}, "shared_len=4: only of a cache in pages"),
        ({"shared_len": 6, "mode": "prefill", "page_size": 4, "kv_len": 16}, "shared_len=6: a multiple of page_size=4"),
        ({"shared_len": 12, "mode": "prefill", "page_size": 4, "kv_len": 16}, "at most kv_len=16 without seq_len=8"),
    ],
)
def test_nonsense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        Attention(1, 6, 8, 16, **options)


@pytest.mark.parametrize(
    "options",
    [{}, {"mode": "prefill", "kv_len": 9000}, {"mode": "decode", "kv_len": 9000, "page_size": 8, "shared_len": 8992}],
)
def test_a_probe_is_smaller_and_of_the_same_kind(options: dict[str, Any]) -> None:
    probe = Attention(4, 32, 4096 if options.get("mode") != "decode" else 1, 128, **options).probe(2**24)
    assert probe is not None
    assert 2**23 < probe.flop() < 2**25
    assert probe.shared_len < probe.kv_len
    assert options.get("mode", "forward") == probe.mode


@pytest.mark.wheel
def test_a_backend_that_refuses_before_it_computes_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr("primbench.kernels.attention.torch.ON_CPU", ("efficient", "math"))
    backend, problem = open_backend("torch", "cpu"), made({"seq_len": 9, "mode": "backward"})
    inputs = map(backend.put, problem.inputs(np.random.default_rng(0)))
    step = setup_of("attention", "torch")(backend, problem, *inputs)
    assert "math (the first that takes it)" == description_of(step).algorithm
