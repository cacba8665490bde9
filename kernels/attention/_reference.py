"""Attention and its gradients in float64, some queries of some heads at a time. problem is always an Attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from primbench.dtypes import rounding
from primbench.kernels.attention._cache import CACHED, by_heads, slots
from primbench.problem import Reference
from primbench.random import sample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from primbench.kernels.attention._cache import Cache
    from primbench.problem import Array

CHECKED_HEADS, CHECKED_ROWS = 4, 16  # heads of keys, of all sequences together; queries of each head
MOST_PAIRS = 2**22  # of queries and keys at a time: heads that share keys are multiplied by them together
# float32 is multiplied as three products of TF32, which leave out that of both remainders: CUTLASS, example 27.
THREE_TF32_ROUNDOFF = 2.0**-20


class Sampled(NamedTuple):
    """Some elements of an output of a problem: places in memory, values, and the size of their errors."""

    places: Array
    expected: Array
    scale: Array


class Heads(NamedTuple):
    """float64 q, do[rows, d] of some queries of heads that share k, v[kv_len, d]; p[rows, kv_len] is their softmax."""

    q: Array
    k: Array
    v: Array
    p: Array
    do: Array | None


def reference_of(problem: Any, rng: np.random.Generator, inputs: tuple[Array, ...], *, is_full: bool) -> Reference:
    """The scale is of errors that add up as random ones do: those of P and of its gradient, rounded to the dtype.

    What libraries round before a product, P and dS, is what FlashAttention rounds (Dao et al. 2022, arXiv 2205.14135,
    algorithms 2 and 4): emulated in float64, these roundings and that of O explain the gradients of cuDNN's and of
    FlashAttention's kernels on an H200, but for their own rounding; the efficient backend also rounds P within dS.
    dS has the size of what is subtracted, P dP and P times the row's sum of O dO. In float16 many of them are below
    the smallest normal number, as of long rows, whose P is small: see ``rounding``. Sums are in float32.
    """
    operands = _operands(problem, inputs)
    groups = sample(rng, problem.batch_size * problem.kv_heads, problem.kv_heads * problem.batch_size)
    if not is_full:
        groups = sample(rng, len(groups), CHECKED_HEADS)
    rows = _rows(problem, rng, operands.do, is_full=is_full)
    found = [part for group in groups for part in _of_group(problem, int(group), rows, operands)]
    places, expected, scale = (np.concatenate([each.ravel() for each in parts]) for parts in zip(*found, strict=True))
    if problem.has_gradients:
        return Reference(places, expected, scale)
    return Reference(np.unravel_index(places, problem.output_shape), expected, scale)


class _Operands(NamedTuple):
    """Q and dO, or None, as [batch, heads, sequence, elements], and what gives float64 K and V of one head."""

    q: Array
    do: Array | None
    keys: Callable[[int, int], tuple[Array, Array]]


def _operands(problem: Any, inputs: tuple[Array, ...]) -> _Operands:
    if problem.page_size:
        return _of_pages(problem, problem.cached(inputs))
    found = tuple(by_heads(problem.layout, array) for array in inputs)
    if problem.mode not in CACHED:
        q, k, v, *rest = found
        parts, do = [[k], [v]], rest[0] if rest else None
    else:
        cache, do, old = problem.cached(found), None, problem.kv_len - problem.seq_len
        q, of_k = cache.q, [cache.k[:, :, :old], cache.new_k]
        parts = [of_k, of_k if cache.new_v is None else [cache.v[:, :, :old], cache.new_v]]

    def keys(batch: int, head: int) -> tuple[Array, Array]:
        k, v = (np.concatenate([part[batch, head] for part in of]).astype(np.float64) for of in parts)
        return k, v[:, : problem.value_dim]

    return _Operands(q, do, keys)


def _of_pages(problem: Any, cache: Cache) -> _Operands:
    def one(pages: Array, new: Array, batch: int, head: int) -> Array:
        places = np.arange(cache.lengths[batch])[None]
        own = slots(cache.table[batch, None], places, problem.page_size)[0]
        found = pages[..., head, :].reshape(-1, problem.head_dim)[own]
        found[-problem.seq_len :] = new[batch, :, head]
        exact: Array = found.astype(np.float64)
        return exact

    def keys(batch: int, head: int) -> tuple[Array, Array]:
        k = one(cache.k, cache.new_k, batch, head)
        return k, k[:, : problem.value_dim] if cache.new_v is None else one(cache.v, cache.new_v, batch, head)

    return _Operands(by_heads(problem.layout, cache.q), None, keys)


def _rows(problem: Any, rng: np.random.Generator, do: Array | None, *, is_full: bool) -> Array:
    if is_full:
        return np.arange(problem.seq_len)
    if do is not None:
        return np.flatnonzero(do[0, 0].any(axis=1))  # check_inputs() left these
    return sample(rng, problem.seq_len, CHECKED_ROWS)


def _of_group(problem: Any, group: int, rows: Array, operands: _Operands) -> Iterator[Sampled]:
    """Of the heads that share keys: O where it is an output, then dQ, and dK and dV of all of them together."""
    q, do, _ = operands
    batch, kv_head = divmod(group, problem.kv_heads)
    shared = problem.heads // problem.kv_heads
    keys, values = operands.keys(batch, kv_head)
    together = 1 if do is not None else max(1, MOST_PAIRS // (len(rows) * len(keys)))
    of_k, of_v = [], []
    for heads in np.split(np.arange(shared) + kv_head * shared, range(together, shared, together)):
        own, gradient = _rows_of(q, batch, heads, rows), None if do is None else _rows_of(do, batch, heads, rows)
        some = Heads(own, keys, values, _softmax(problem, own, keys, np.tile(rows, len(heads))), gradient)
        if problem.mode != "backward":
            yield Sampled(_places(problem.output_shape, problem, batch, heads, rows), *_output(problem, some))
        if do is not None:
            dq, dk, dv = _gradients(problem, some)
            places = _places(problem.query_shape, problem, batch, heads, rows)
            yield Sampled(_start(problem, "dq") + places, *dq)
            of_k.append(dk)
            of_v.append(dv)
    if do is not None:
        places = _places(problem.key_shape, problem, batch, np.array([kv_head]), np.arange(problem.kv_len))
        for name, parts in (("dk", of_k), ("dv", of_v)):
            yield Sampled(_start(problem, name) + places, *_added_up(problem, parts))


def _added_up(problem: Any, parts: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """dK or dV of a head of keys, of the parts of the heads that share it, each with its errors."""
    values, errors = (np.stack(each) for each in zip(*parts, strict=True))
    expected = values.sum(axis=0)
    squares = (errors**2).sum(axis=0)
    if len(parts) > 1:  # torch on CPUs adds up heads one by one, and rounds each sum
        squares += (_rounding(problem, np.cumsum(values, axis=0)) ** 2).sum(axis=0)
    return expected, np.sqrt(squares) + _rounding(problem, expected)


def _rows_of(array: Array, batch: int, heads: Array, rows: Array) -> Array:
    """float64[heads rows, elements], of an array as _Operands has it."""
    found: Array = array[batch, heads][:, rows].astype(np.float64)
    return found.reshape(-1, array.shape[-1])


def _start(problem: Any, name: str) -> int:
    """Where an output begins among all of them, one behind the other."""
    of_q, of_k = (int(np.prod(shape)) for shape in (problem.query_shape, problem.key_shape))
    first = of_q if problem.mode == "train" else 0
    return first + {"dq": 0, "dk": of_q, "dv": of_q + of_k}[name]


def _places(shape: tuple[int, ...], problem: Any, batch: int, heads: Array, rows: Array) -> Array:
    """Where rows of a sequence and some heads lie in an array of this shape: [heads, rows, elements]."""
    head, row, element = heads[:, None, None], rows[:, None], np.arange(shape[-1])
    middle = (row, head) if problem.layout == "bshd" else (head, row)
    return np.ravel_multi_index((batch, *middle, element), shape)


def _rounding(problem: Any, size: Array) -> Array:
    """Of what is rounded to the dtype; in float32 of what is multiplied."""
    found = rounding(problem.dtype, size)
    return np.maximum(found, THREE_TF32_ROUNDOFF * np.abs(size)) if problem.dtype == "float32" else found


def _softmax(problem: Any, q: Array, k: Array, rows: Array) -> Array:
    scores = q @ k.T / np.sqrt(problem.head_dim)
    if problem.causal:
        key, last_seen = np.arange(len(k)), (rows + len(k) - problem.seq_len)[:, None]
        scores[key > last_seen] = -np.inf
        if problem.window:
            scores[key <= last_seen - problem.window] = -np.inf
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    found: Array = p / p.sum(axis=1, keepdims=True)
    return found


def _output(problem: Any, heads: Heads) -> tuple[Array, Array]:
    o = heads.p @ heads.v
    return o, np.sqrt(_rounding(problem, heads.p) ** 2 @ heads.v**2) + _rounding(problem, o)


def _gradients(problem: Any, heads: Heads) -> tuple[tuple[Array, Array], ...]:
    """dQ, the heads' part of dK and dV, and the sizes of their errors (Dao et al. 2022, arXiv 2205.14135, B.2)."""
    q, k, v, p, do = heads
    assert do is not None
    by = 1 / np.sqrt(problem.head_dim)
    dp, o = do @ v.T, p @ v
    along = (do * o).sum(axis=1, keepdims=True)
    ds = p * (dp - along)
    of_p, subtracted = _rounding(problem, p), np.abs(dp) + np.abs(along)
    errors = of_p * subtracted + _rounding(problem, p * np.sqrt(((do * o) ** 2).sum(axis=1, keepdims=True)))
    dq = ds @ k * by
    of_q = by * np.sqrt(errors**2 @ k**2) + _rounding(problem, dq)
    of_k = by * np.sqrt((errors**2).T @ q**2)
    of_v = np.sqrt((of_p**2).T @ do**2)
    return (dq, of_q), (ds.T @ q * by, of_k), (p.T @ do, of_v)
