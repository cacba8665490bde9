from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from primbench.kernels.embedding import Embedding
from primbench.kernels.embedding import problem as embedding
from primbench.problem import Reference

if TYPE_CHECKING:
    import pytest


def test_bytes_are_those_of_rows_and_indices() -> None:
    assert 4 * 2 * 30 * 5 + 8 * 30 == Embedding(30, 7, 5).bytes_moved()
    assert 2 * (30 + 7) * 5 + 8 * 30 == Embedding(30, 7, 5, "backward", dtype="bfloat16").bytes_moved()


def test_words_come_as_often_as_zipf_has_it_and_their_numbers_tell_nothing() -> None:
    _, indices = Embedding(100_000, 1000, 1, distribution="zipf").inputs(np.random.default_rng(0))
    often = np.bincount(indices, minlength=1000)
    most = np.sort(often)[::-1]
    of_all = 1 / (np.arange(1, 1001) * (1 / np.arange(1, 1001)).sum())
    np.testing.assert_allclose(most[:20] / 100_000, of_all[:20], rtol=0.1)
    assert list(np.argsort(often)[::-1][:5]) != list(range(5))


def test_a_gradient_is_the_sum_of_all_tokens_of_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "CHECKED_ROWS", 6)
    problem = Embedding(12, 30, 4, "backward")
    dy, indices = problem.inputs(np.random.default_rng(0))
    reference = problem.reference(np.random.default_rng(0), dy, indices)
    assert isinstance(reference, Reference)
    whole = np.zeros((30, 4))
    np.add.at(whole, indices, dy)
    np.testing.assert_allclose(whole[reference.index], reference.expected, rtol=1e-6, atol=1e-9)
    assert 6 <= len(reference.index) <= 12
    assert (reference.scale.sum(axis=1) == 0).any(), "a word without tokens is compared to the last bit"
