"""Equal places are as rarely told apart as they are to: `tests/figures/false_alarms.py` has a longer table."""

from __future__ import annotations

import numpy as np
import pytest

from ...figures.false_alarms import parts_told


@pytest.mark.parametrize(("parts", "pairs"), [(15, 5), (40, 5), (40, 8)])
def test_a_part_of_a_step_is_rarely_told_of_equal_places(parts: int, pairs: int) -> None:
    """Of bare intervals of 95 %, 55 to 91 % of studies had such a part."""
    dice = np.random.default_rng(77)
    assert parts_told(dice, 100, parts, pairs) <= 0.09  # two standard errors above 5 %
    assert parts_told(dice, 10, parts, pairs, longer=1.2) >= 0.8
