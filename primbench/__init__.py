"""Timed deep-learning primitives, and what a place (host, container, NUMA node) costs them."""

from __future__ import annotations

__version__ = "0.1.0"
