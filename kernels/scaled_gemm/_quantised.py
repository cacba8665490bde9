"""Numbers of few bits on NumPy: drawn, and as the float64 that they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from primbench.dtypes import numpy_dtype
from primbench.random import POOL_SIZE, random_array, repeated

if TYPE_CHECKING:
    from primbench.problem import Array

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""What float4_e2m1 can be, and the same below 0 from 8 on (OCP Microscaling Formats 1.0, section 5.3.3)."""
E8M0_BIAS = 127


def random_packed(rng: np.random.Generator, rows: int, columns: int) -> Array:
    """Of four bits, uint8[rows,columns/2], each number as often as any."""
    pool = rng.integers(0, 256, min(rows * columns // 2, POOL_SIZE)).astype(np.uint8)
    return repeated(pool, (rows, columns // 2))


def random_scales(rng: np.random.Generator, shape: tuple[int, int], scaling: str) -> Array:
    """Of mx 0.5, 1 or 2, as bytes; of nv from 0.5 to 1.5."""
    if scaling == "mx":
        return repeated(rng.integers(E8M0_BIAS - 1, E8M0_BIAS + 2, POOL_SIZE).astype(np.uint8), shape)
    return (random_array(rng, shape, "float32") / 2 + 1).astype(numpy_dtype("float8_e4m3"))


def factors(problem: Any, inputs: tuple[Array, ...], rows: Array, columns: Array) -> tuple[Array, Array]:
    """Some rows of A, and of B, in float64 with their scales."""
    a, b, *scales = inputs
    if problem.scaling == "group":
        return a[rows].astype(np.float64), _of_groups(problem, b[columns], scales[0][:, columns])
    scale_a, scale_b = scales
    if problem.scaling in ("mx", "nv"):
        of_a, of_b = (_number(scale[own]) for scale, own in ((scale_a, rows), (scale_b, columns)))
    else:
        of_a = np.broadcast_to(scale_a.T, (problem.m, scale_a.shape[0]))[rows]
        by_row = scale_b.T if problem.scaling == "row" else np.repeat(scale_b, problem.n // scale_b.shape[0], axis=0)
        of_b = by_row[columns]
    parts = ((a[rows], of_a), (b[columns], of_b))
    scaled_a, scaled_b = (
        _elements(problem, part) * np.repeat(scale, problem.k // scale.shape[1], axis=1) for part, scale in parts
    )
    return scaled_a, scaled_b


def halves(packed: Array) -> Array:
    """uint8[rows,columns] of uint8[rows,columns/2]: the lower four bits first."""
    found: Array = np.stack((packed & 15, packed >> 4), axis=-1).reshape(len(packed), -1)
    return found


def _number(scale: Array) -> Array:
    """Float64 of float8_e4m3, or of the bytes of float8_e8m0."""
    if scale.dtype == np.uint8:
        return np.exp2(scale.astype(np.float64) - E8M0_BIAS)
    return scale.astype(np.float64)


def _elements(problem: Any, stored: Array) -> Array:
    if problem.dtype == "float4_e2m1":
        found: Array = np.array((*E2M1, *(-each for each in E2M1)))[halves(stored)]
        return found
    return stored.astype(np.float64)


def _of_groups(problem: Any, stored: Array, scales: Array) -> Array:
    """int4 by the scale and the zero of its group: scales is [groups,rows,2]."""
    scale, zero = (np.repeat(scales[..., i].T.astype(np.float64), problem.k // len(scales), axis=1) for i in (0, 1))
    found: Array = (halves(stored) - 8.0) * scale + zero
    return found
