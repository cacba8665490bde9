"""What an exception says in a line, and where a file of ``--kernels`` raised it."""

from __future__ import annotations

import traceback
from pathlib import Path

from primbench.errors import PrimbenchError
from primbench.registry import named_files
from primbench.system.said import in_short


def one_line(error: Exception) -> str:
    """Its kind first, but where that is the base of ours and says nothing; of a very long line both ends.

    Of what a file of ``--kernels`` raised, or had raised, the function and the line last, as in ``(own.py, line 17,
    Own.loss)``.
    """
    lines = [in_short(line) for line in str(error).strip().splitlines()[:1]]
    name = type(error).__name__
    if lines and type(error) is PrimbenchError:
        return lines[0]
    said = f"{name}: {lines[0]}" if lines and lines[0] not in name else name
    return f"{said}{_where(error)}"


def _where(error: Exception) -> str:
    """The innermost function of such a file; "" where the error is ours, or none of them called what raised it."""
    files = named_files()
    if isinstance(error, PrimbenchError) or not files:
        return ""
    for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
        if frame.f_code.co_filename in files:
            return f" ({Path(frame.f_code.co_filename).name}, line {line}, {frame.f_code.co_qualname})"
    return ""
