from __future__ import annotations

import pytest

from primbench.cuda.rows import Shape, shape_of
from primbench.errors import UnsupportedCase


@pytest.mark.parametrize(
    ("shape", "elements", "dtype"),
    [
        (Shape(pack=8, held=2, threads=256, rows=1), 4096, "bfloat16"),
        (Shape(pack=4, held=2, threads=128, rows=2), 1024, "float32"),
        (Shape(pack=1, held=2, threads=64, rows=4), 77, "float16"),
        (Shape(pack=8, held=8, threads=1024, rows=1), 65_536, "float16"),
    ],
)
def test_threads_hold_all_of_a_row(shape: Shape, elements: int, dtype: str) -> None:
    assert shape == shape_of(elements, dtype)
    assert shape.pack * shape.held * shape.threads >= elements


def test_a_row_that_no_block_can_hold_is_refused() -> None:
    with pytest.raises(
        UnsupportedCase, match=r"65544 elements of float16 is longer than the 65536 that registers hold"
    ):
        shape_of(65_544, "float16")
