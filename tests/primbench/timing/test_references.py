from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from primbench.errors import VerificationError
from primbench.kernels.gemm import Gemm
from primbench.problem import Exact, Reference
from primbench.timing import references
from primbench.timing.references import KnownOfCase, ReferenceFolder
from primbench.timing.verify import error_of

PROBLEM = Gemm(20, 30, 40)
INPUTS = PROBLEM.inputs(np.random.default_rng(0))
RIGHT = INPUTS[0] @ INPUTS[1]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReferenceFolder:
    monkeypatch.setattr(references, "READ_BYTES_PER_S", 1e18)  # small ones are made in no time
    return ReferenceFolder(path=str(tmp_path), key="ab" * 32)


def made(found: Any = None) -> Any:
    return found or PROBLEM.reference(np.random.default_rng(1), *INPUTS)


def never() -> Reference:
    raise AssertionError("it was made again")


@pytest.mark.parametrize(
    "index",
    [
        ...,
        np.array([3, 5]),
        slice(2, None, 3),
        (np.array([[1], [2]]), np.array([[0, 4]])),
        (slice(None), np.arange(4)),
    ],
)
def test_it_is_made_once_and_found_as_it_was(kept: ReferenceFolder, index: Any) -> None:
    expected = RIGHT[index].astype(float)
    first = kept.reference_of(PROBLEM, 0, lambda: Reference(index, expected, np.ones_like(expected)))
    again = kept.reference_of(PROBLEM, 0, never)
    assert isinstance(first, Reference)
    assert isinstance(again, Reference)
    assert np.array_equal(RIGHT[again.index], RIGHT[index])
    assert np.array_equal(first.expected, again.expected)
    assert np.array_equal(first.scale, again.scale)
    assert 0 == error_of(RIGHT, PROBLEM, again)


def test_it_is_of_one_problem_and_one_seed(kept: ReferenceFolder) -> None:
    kept.reference_of(PROBLEM, 0, made)
    for problem, seed in ((PROBLEM, 1), (Gemm(20, 30, 41), 0)):
        with pytest.raises(AssertionError, match="made again"):
            kept.reference_of(problem, seed, never)


@pytest.mark.parametrize("place", [0, 40, 500, -1])
def test_a_wrong_result_does_not_pass_by_a_reference_that_was_damaged(kept: ReferenceFolder, place: int) -> None:
    kept.reference_of(PROBLEM, 0, made)
    (path,) = Path(kept.path).iterdir()
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(AssertionError, match="made again"):
        kept.reference_of(PROBLEM, 0, never)
    kept.reference_of(PROBLEM, 0, made)  # and is replaced
    assert isinstance(kept.reference_of(PROBLEM, 0, never), Reference)


def test_a_torn_foreign_or_renamed_one_is_not_believed(kept: ReferenceFolder) -> None:
    kept.reference_of(PROBLEM, 0, made)
    (path,) = Path(kept.path).iterdir()
    whole = path.read_bytes()
    wrong = Reference(..., RIGHT.astype(float) * 1.01, np.ones_like(RIGHT, float))
    foreign = replace(kept, key="cd" * 32)
    foreign.reference_of(PROBLEM, 0, lambda: wrong)  # by who does not know the key
    assert path.read_bytes() != whole
    found = kept.reference_of(PROBLEM, 0, made)
    with pytest.raises(VerificationError):
        error_of(RIGHT * np.float32(1.01), PROBLEM, found)
    for content in (b"", whole[:100], whole + b"-"):
        path.write_bytes(content)
        with pytest.raises(AssertionError, match="made again"):
            kept.reference_of(PROBLEM, 0, never)
    path.unlink()
    kept.reference_of(Gemm(20, 30, 41), 0, made)
    (other,) = Path(kept.path).iterdir()
    other.rename(path)
    with pytest.raises(AssertionError, match="made again"):
        kept.reference_of(PROBLEM, 0, never)


def test_what_is_too_large_made_in_no_time_or_of_no_floats_is_not_kept(
    kept: ReferenceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.reference_of(PROBLEM, 0, lambda: Exact(RIGHT))
    monkeypatch.setattr(references, "MOST_OF_ALL_BYTES", 9000)
    kept.reference_of(PROBLEM, 0, made)
    monkeypatch.setattr(references, "MOST_OF_ALL_BYTES", 1 << 20)
    monkeypatch.setattr(references, "MOST_BYTES", 9000)
    kept.reference_of(PROBLEM, 0, made)
    monkeypatch.setattr(references, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(references, "READ_BYTES_PER_S", 1.0)
    kept.reference_of(PROBLEM, 0, made)
    assert [] == os.listdir(kept.path)


def test_where_there_is_no_folder_it_is_made_each_time(kept: ReferenceFolder) -> None:
    """As on another machine, or in a container that does not see it."""
    gone = replace(kept, path=f"{kept.path}/gone")
    assert isinstance(gone.reference_of(PROBLEM, 0, made), Reference)
    assert isinstance(gone.reference_of(PROBLEM, 0, made), Reference)
    assert isinstance(KnownOfCase().reference_of(PROBLEM, 0, made), Reference)
