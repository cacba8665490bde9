"""Ratios in digits."""

from __future__ import annotations


def shown_interval(interval: tuple[float, float] | None) -> str:
    return f"[{shown_ratio(interval[0])}, {shown_ratio(interval[1])}]" if interval else "-"


def shown_ratio(ratio: float) -> str:
    """A ratio with three decimals; from 10 on with three significant digits."""
    return f"{ratio:.3f}" if ratio < 10 else f"{ratio:.3g}"
