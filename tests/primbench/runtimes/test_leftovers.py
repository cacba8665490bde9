"""Folders of launches, and who clears them away. That all is cleared away is tested in test_supervise.py."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pytest

from primbench.runtimes import leftovers
from primbench.system.locks import lock


def test_a_sweep_while_a_folder_is_made_leaves_it_locked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As another process would, which looks into the folder between any two steps of its making."""

    def after_a_sweeper(descriptor: int) -> bool | None:
        with contextlib.ExitStack() as looking:
            for found in tmp_path.glob("*/to-clear.json"):
                lock(looking.enter_context(found.open("rb+")).fileno())
            return lock(descriptor)

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(leftovers, "lock", after_a_sweeper)
    with leftovers.launch_folder() as folder:
        monkeypatch.undo()
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        leftovers.sweep()
        assert folder.exists()
    assert [] == list(tmp_path.iterdir())
