"""Settings that a process gives itself before it becomes the worker, and that all it starts inherits."""

from __future__ import annotations

ROWS = ()
