"""Files of other programs as runs of series. Of each what it says of times, its machine and its commit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from primbench.errors import FileError
from primbench.history import asv, google_benchmark, nccl_tests, pytest_benchmark
from primbench.system.inputs import opened

if TYPE_CHECKING:
    from pathlib import Path

    from primbench.history.series import Observed

PROGRAMS = "asv, pytest-benchmark, Google Benchmark or nccl-tests"
MOST_BYTES = 256 * 2**20
_SIDE_FILES = frozenset(("benchmarks.json", "machine.json", "asv.conf.json"))
_ENDS_OF_NAME = (".json", ".txt", ".log", ".out")
_READERS = (asv.run_of, pytest_benchmark.run_of, google_benchmark.run_of, nccl_tests.run_of)
_UNLIKE = (AttributeError, KeyError, TypeError, ValueError, OverflowError, OSError)


def may_be(path: Path) -> bool:
    """Whether a file of a folder is worth a look, by its name."""
    return path.name.endswith(_ENDS_OF_NAME) and path.name not in _SIDE_FILES


def observed(path: Path) -> Observed | None:
    """None of a file that is of none of these programs. Raises FileError of one that cannot be read, or is cut off."""
    text = _text(path)
    if not path.name.endswith(".json"):
        return nccl_tests.run_of_words(path, text)
    try:
        found = json.loads(text)  # which reads NaN, too, as asv writes it
    except (ValueError, RecursionError):
        raise FileError(f"{path}: not a whole JSON document") from None
    if not isinstance(found, dict):
        return None
    try:
        return next((made for run_of in _READERS if (made := run_of(path, found)) is not None), None)
    except _UNLIKE as error:
        name = type(error).__name__
        raise FileError(f"{path}: not as {PROGRAMS} writes it, though it begins so: {name}: {error}") from None


def _text(path: Path) -> bytes:
    try:
        with opened(path) as file:
            text = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from None
    if len(text) > MOST_BYTES:
        raise FileError(f"{path}: longer than {MOST_BYTES >> 20} MiB: not a file of results")
    return text
