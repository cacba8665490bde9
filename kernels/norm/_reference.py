"""Normalisation and its gradients in float64. problem is a Norm in all of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from primbench.dtypes import UNIT_ROUNDOFF, rounding
from primbench.kernels.norm._operands import EPSILON, named_inputs
from primbench.problem import Reference
from primbench.random import sample

if TYPE_CHECKING:
    from primbench.problem import Array

FULL_CHECK = 2**22  # elements
SAMPLED = 32  # rows or channels, and elements of each gradient of a vector
BLOCK = 2**20  # elements of which the means are taken at a time


class Moments(NamedTuple):
    """Of each group: what is taken off, and what is multiplied by, [groups]."""

    mean: Array
    scale: Array


def reference_of(problem: Any, rng: np.random.Generator, *inputs: Array) -> Reference:
    """The scale is the rounding of what is stored, of sums also that of float32 in which they are made.

    The terms of an output are about as large as the normalised x, or 1 where that is smaller, times the weight.
    """
    named = named_inputs(problem, inputs)
    picked = sample(rng, problem.groups, problem.groups if problem.elements <= FULL_CHECK else SAMPLED)
    x, places = _group(problem, named["x"], picked), _places(problem, picked)
    if problem.direction == "forward":
        moments = _moments(problem, named, x, picked)
        expected, terms = _forward(problem, named, _normalised(x, moments), picked)
        scale = rounding(problem.dtype, terms) + _of_variance(problem) * np.abs(expected)
        return Reference(np.unravel_index(places, problem.shape), expected, scale)
    dx, terms = _gradient_of_x(problem, named, x, picked)
    found = [
        (places.ravel(), dx.ravel(), (rounding(problem.dtype, terms) + _of_variance(problem) * np.abs(dx)).ravel())
    ]
    found += _gradients_of_vectors(problem, rng, named)
    index, expected, scale = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Reference(index, expected, scale)


def _places(problem: Any, picked: Array) -> Array:
    """Where in memory the members of some groups lie: [picked, members]."""
    group, member = picked[:, None], np.arange(problem.members)
    if problem.kind != "batch":
        places: Array = group * problem.members + member
    elif problem.layout == "nhwc":
        places = member * problem.features + group
    else:
        image, pixel = np.divmod(member, problem.h * problem.w)
        places = (image * problem.features + group) * (problem.h * problem.w) + pixel
    return places


def _group_axis(problem: Any) -> int:
    if problem.kind != "batch":
        return 0
    return 1 if problem.layout == "nchw" else 3


def _group(problem: Any, array: Array, picked: Array | slice) -> Array:
    """float64[picked, members]"""
    moved = np.moveaxis(array, _group_axis(problem), 0)[picked]
    return moved.reshape(len(moved), -1).astype(np.float64)


def _moments(problem: Any, named: dict[str, Any], x: Array, picked: Array | slice) -> Moments:
    if problem.running_statistics:
        mean, variance = (named[name][picked].astype(np.float64) for name in ("running_mean", "running_var"))
    else:
        mean = np.zeros(len(x)) if problem.kind == "rms" else x.mean(axis=1)
        variance = ((x - mean[:, None]) ** 2).mean(axis=1)
    return Moments(mean, 1 / np.sqrt(variance + EPSILON))


def _normalised(x: Array, moments: Moments) -> Array:
    found: Array = (x - moments.mean[:, None]) * moments.scale[:, None]
    return found


def _vector(problem: Any, vector: Array, picked: Array) -> Array:
    """A weight or bias, such that it can be multiplied with [picked, members]."""
    wide = vector.astype(np.float64)
    return wide[picked][:, None] if problem.kind == "batch" else wide[None]


def _forward(problem: Any, named: dict[str, Any], normalised: Array, picked: Array) -> tuple[Array, Array]:
    weight = _vector(problem, named["weight"], picked)
    expected, terms = normalised * weight, (np.abs(normalised) + 1) * np.abs(weight)
    if named["bias"] is not None:
        bias = _vector(problem, named["bias"], picked)
        expected, terms = expected + bias, terms + np.abs(bias)
    return expected, terms


def _gradient_of_x(problem: Any, named: dict[str, Any], x: Array, picked: Array) -> tuple[Array, Array]:
    """dx, and the size of its terms: g / sigma, less its mean and its part along x, where g is dy times the weight."""
    g = _group(problem, named["dy"], picked) * _vector(problem, named["weight"], picked)
    moments = _moments(problem, named, x, picked)
    along = _normalised(x, moments)
    mean = np.zeros((len(x), 1)) if problem.kind == "rms" else g.mean(axis=1, keepdims=True)
    part = (g * along).mean(axis=1, keepdims=True)
    usual = np.abs(g).mean(axis=1, keepdims=True)
    scale = moments.scale[:, None]
    if problem.running_statistics:
        return g * scale, (np.abs(g) + usual) * scale
    of_means = usual * (1 + np.abs(along)) * (1 + _by_mean(problem, moments)[:, None])
    return (g - mean - along * part) * scale, (np.abs(g) + of_means) * scale


def _of_variance(problem: Any) -> float:
    """By which share a deviation is off, whose square is a sum in float32 of as many squares as a group has members.

    Half of u sqrt(n / 3): one by one, partial sums of positive terms grow evenly, and each is off by u of it, at random
    (Higham & Mary 2019, SIAM J. Sci. Comput. 41(5) A2815). torch sums so on a CPU, images with channels last.
    """
    return 0.0 if problem.running_statistics else UNIT_ROUNDOFF["float32"] * math.sqrt(problem.members / 12)


def _by_mean(problem: Any, moments: Moments) -> Array:
    """By how many u the normalised x is off where a mean is kept in the type of x, as torch does on a CPU: [groups]."""
    found: Array = np.abs(moments.mean) * moments.scale * (problem.kind == "layer")
    return found


def _gradients_of_vectors(
    problem: Any, rng: np.random.Generator, named: dict[str, Any]
) -> list[tuple[Array, Array, Array]]:
    """Of weight, and of bias where there is one: places in the output, values, and the size of their errors.

    Sums may be made by pairs, each partial sum rounded to the type in which x is stored: log2(n) times, each time with
    partial sums whose squares add up to about those of the terms, so that such errors add up to sqrt(log2 n) u of the
    root of the sum of squares (Higham 2002, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2; at
    random, Higham & Mary 2019, SIAM J. Sci. Comput. 41(5) A2815). torch's batch normalisation was off by up to 2.6 u
    of that root on an H200, also in sums of dy alone.
    """
    count = problem.features if problem.elements <= FULL_CHECK else SAMPLED
    picked = sample(rng, problem.features, count)
    if problem.kind == "batch":
        x, dy = _group(problem, named["x"], picked), _group(problem, named["dy"], picked)
        moments = _moments(problem, named, x, picked)
        along = _normalised(x, moments)
    else:
        x, dy = (named[name][:, picked].astype(np.float64).T for name in ("x", "dy"))
        moments = _moments_of_rows(problem, named)
        along = (x - moments.mean) * moments.scale
    off = np.sqrt(((dy * _by_mean(problem, moments)) ** 2).sum(axis=1)) if problem.kind == "layer" else 0.0
    found, start = [], problem.elements
    for terms in [dy * along, *([dy] if named["bias"] is not None else [])]:
        expected = terms.sum(axis=1)
        size = np.abs(expected) + np.sqrt((terms**2).sum(axis=1))
        # The mean in float32, and with it the normalised x, is off by as much where x is near to it.
        usual = np.abs(terms).sum(axis=1) + np.abs(dy).sum(axis=1)
        errors = UNIT_ROUNDOFF[problem.vector_dtype] * size + UNIT_ROUNDOFF["float32"] * usual
        levels = np.sqrt(np.log2(max(2, terms.shape[1])))
        found.append((start + picked, expected, errors + rounding(problem.dtype, levels * size + off)))
        start += problem.features
    return found


def _moments_of_rows(problem: Any, named: dict[str, Any]) -> Moments:
    rows = max(1, BLOCK // problem.features)
    blocks = [slice(first, first + rows) for first in range(0, problem.rows, rows)]
    found = [_moments(problem, named, _group(problem, named["x"], block), block) for block in blocks]
    return Moments(*map(np.concatenate, zip(*found, strict=True)))
