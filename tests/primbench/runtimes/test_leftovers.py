"""Folders of launches, and who clears them away. That all is cleared away is tested in test_supervise.py."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
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


HOLDS = (
    "import sys; from primbench.runtimes.leftovers import launch_folder\n"
    "with launch_folder() as folder: (folder / 'held').touch(); print(folder, flush=True); sys.stdin.read()"
)


@pytest.mark.parametrize("command", ["list backends", "show --schema", "gemm --help"])
def test_what_a_killed_front_left_is_cleared_away_by_any_command(tmp_path: Path, command: str) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", HOLDS], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    killed, lives = (Path(each.stdout.readline().strip()) for each in started if each.stdout)
    started[0].send_signal(signal.SIGKILL)
    started[0].wait()
    begun, others = tmp_path / "primbench-abcd1234", tmp_path / "primbench-my-own"
    for folder in (begun, others, tmp_path / "elsewhere"):
        folder.mkdir(mode=0o700)
    (begun / "new").touch()
    os.utime(begun, (time.time() - 3600, time.time() - 3600))
    os.utime(others, (time.time() - 3600, time.time() - 3600))
    (tmp_path / "primbench-linked").symlink_to(tmp_path / "elsewhere")
    assert killed.exists()
    words = [sys.executable, "-P", "-m", "primbench", *command.split()]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert "" == done.stderr
    there = {each.name for each in tmp_path.iterdir()}
    assert {lives.name, others.name, "elsewhere", "primbench-linked"} == there
    assert (lives / "held").exists()
    for each in started:
        each.communicate()
