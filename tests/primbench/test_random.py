from __future__ import annotations

import numpy as np
import pytest

from primbench.random import POOL_SIZE, random_array, repeated


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, POOL_SIZE), (POOL_SIZE + 1,), (3, 7, 100_003)])
def test_a_pool_is_repeated_as_numpy_repeats_it(shape: tuple[int, ...]) -> None:
    pool = np.arange(POOL_SIZE, dtype="int32")
    np.testing.assert_array_equal(np.resize(pool, shape), repeated(pool, shape))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_values_fill_the_interval_from_minus_one_to_one(dtype: str) -> None:
    values = random_array(np.random.default_rng(0), (100_000,), dtype)
    assert (values.dtype.name, values.min() >= -1, values.max() <= 1) == (dtype, True, True)
    assert values.min() < -0.999
    assert values.max() > 0.999
    assert abs(float(values.astype("float64").mean())) < 0.01
