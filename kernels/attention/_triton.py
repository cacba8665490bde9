"""Attention in Triton: a program has a block of queries of one head. Import this file only where a kernel is set up."""

# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False, disallow-incomplete-defs=False
# Triton reads each name in an annotation of a kernel's as one that it computes by.

from __future__ import annotations

import math
from typing import Any

import triton
from triton import language as tl

from primbench.backends._triton import is_interpreted

LEAST_SIDE = 16  # of a product of tiles
_BLOCKS = ((128, 64, 4, 3), (128, 128, 8, 3), (128, 64, 8, 2), (64, 64, 4, 3), (64, 32, 4, 2))
"""Queries, keys of a step, warps, steps that are fetched ahead."""


def _configurations() -> list[Any]:
    """Of which the fastest is taken; where nothing is compiled there is nothing to choose."""
    blocks = _BLOCKS[-1:] if is_interpreted() else _BLOCKS
    return [
        triton.Config({"BLOCK_M": m, "BLOCK_N": n}, num_warps=warps, num_stages=stages)
        for m, n, warps, stages in blocks
    ]


@triton.autotune(configs=_configurations(), key=["seq_len", "kv_len", "HEAD_DIM", "CAUSAL"])
@triton.jit
def blocks_of_queries(  # noqa: PLR0917 - Triton takes them by position
    q, k, v, o, scale, seq_len, kv_len, heads, shared_by,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row, o_batch, o_head, o_row,
    CAUSAL: tl.constexpr, HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Softmax as it goes along the keys: what was summed is scaled again where a later key has a larger score.

    scale: of scores, as powers of 2. shared_by: how many heads share keys and values. WIDTH: HEAD_DIM, or the power of
    2 above it. The last query is at the last key.
    """
    sequence, head = (tl.program_id(1) // heads).to(tl.int64), (tl.program_id(1) % heads).to(tl.int64)
    row, along, keys = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, WIDTH), tl.arange(0, BLOCK_N)
    q += sequence * q_batch + head * q_head
    k += sequence * k_batch + head // shared_by * k_head
    v += sequence * v_batch + head // shared_by * v_head
    o += sequence * o_batch + head * o_head
    inside = (row[:, None] < seq_len) & (along[None, :] < HEAD_DIM)
    queries = tl.load(q + row[:, None].to(tl.int64) * q_row + along[None, :], mask=inside, other=0.0)
    largest = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    summed = tl.zeros((BLOCK_M, WIDTH), tl.float32)
    ahead = kv_len - seq_len
    end = kv_len
    if CAUSAL:
        end = tl.minimum(kv_len, (tl.program_id(0) + 1) * BLOCK_M + ahead)
    for start in range(0, end, BLOCK_N):
        key = start + keys
        of_keys = k + key[None, :].to(tl.int64) * k_row + along[:, None]
        part_k = tl.load(of_keys, mask=(key[None, :] < kv_len) & (along[:, None] < HEAD_DIM), other=0.0)
        seen = key[None, :] < kv_len
        if CAUSAL:
            seen = seen & (key[None, :] <= row[:, None] + ahead)
        scores = tl.where(seen, tl.dot(queries, part_k) * scale, -float("inf"))
        higher = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp2(scores - higher[:, None])
        shrunk = tl.exp2(largest - higher)
        of_values = v + key[:, None].to(tl.int64) * v_row + along[None, :]
        part_v = tl.load(of_values, mask=(key[:, None] < kv_len) & (along[None, :] < HEAD_DIM), other=0.0)
        total = total * shrunk + tl.sum(weights, axis=1)
        summed = tl.dot(weights.to(part_v.dtype), part_v, summed * shrunk[:, None])
        largest = higher
    found = summed / total[:, None]
    tl.store(o + row[:, None].to(tl.int64) * o_row + along[None, :], found.to(o.dtype.element_ty), mask=inside)


def attention(q: Any, k: Any, v: Any, o: Any, *, causal: bool) -> Any:
    """Of q[batch,heads,seq_len,head_dim], and k and v of maybe fewer heads and other lengths, written to o."""
    (batch, heads, seq_len, head_dim), (kv_heads, kv_len) = q.shape, k.shape[1:3]
    scale = math.log2(math.e) / math.sqrt(head_dim)
    strides = [stride for each in (q, k, v, o) for stride in each.stride()[:3]]

    def programs(blocks: Any) -> tuple[int, int]:
        return triton.cdiv(seq_len, blocks["BLOCK_M"]), batch * heads

    blocks_of_queries[programs](
        q, k, v, o, scale, seq_len, kv_len, heads, heads // kv_heads, *strides,
        CAUSAL=causal, HEAD_DIM=head_dim, WIDTH=max(LEAST_SIDE, triton.next_power_of_2(head_dim)),
    )  # fmt: skip
    return o
