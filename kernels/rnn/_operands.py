"""What goes into a recurrent network."""

from __future__ import annotations

from typing import Any, NamedTuple


class Operands(NamedTuple):
    """The inputs by name."""

    x: Any
    h0: Any
    c0: Any
    dy: Any
    weights: list[Any]
    """w_ih, w_hh, b_ih, b_hh of each layer's directions, as torch lists them."""
