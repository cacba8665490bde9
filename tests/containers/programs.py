"""Programs of runtimes, which a machine may lack."""

from __future__ import annotations

import os
import shutil

import pytest

SYSTEM = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"  # where runc is, which a user's PATH may leave out


def program(name: str, package: str, path: str | None = None) -> str:
    """Where a program is; the test is skipped where it is not."""
    found = shutil.which(name, path=path)
    if found is None:
        pytest.skip(f"{name} is not installed: {package}")
    return found
