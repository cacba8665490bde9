from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# What the options of a convolution do together: strides that leave pixels out, taps that meet padding only, odd
# channels a group.
GEOMETRIES: tuple[dict[str, Any], ...] = (
    {"pad_h": 2, "pad_w": 1, "stride_h": 2, "stride_w": 3, "dilation_h": 2, "dilation_w": 1, "groups": 3},
    {"pad_h": 7, "pad_w": 0, "stride_h": 1, "stride_w": 2, "dilation_h": 1, "dilation_w": 3, "groups": 1},
    {"stride_h": 5, "stride_w": 4},
)


@pytest.fixture(params=GEOMETRIES, ids=str)
def geometry(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of a convolution."""
    options: dict[str, Any] = request.param
    return options


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where files are made, in which nothing may be left."""
    folder = tmp_path / "with a space"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    gc.collect()
    assert [] == list(folder.iterdir())
