from __future__ import annotations

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
