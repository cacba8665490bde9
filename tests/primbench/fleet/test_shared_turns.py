from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from primbench.errors import OutputError
from primbench.fleet import signs
from primbench.fleet.shared_turns import turn

HOLDING = """
import sys, time
from pathlib import Path
from primbench.fleet.shared_turns import turn
from primbench.fleet.signs import signs_of_life
folder = Path(sys.argv[1])
with signs_of_life(folder / "held.jsonl"), turn(folder / "turns", folder / "held.jsonl", of=2, patience_s=60):
    print("mine", flush=True)
    time.sleep(60)
"""


def test_one_at_a_time(tmp_path: Path) -> None:
    having: list[int] = []
    most: list[int] = []

    def take(number: int) -> None:
        with turn(tmp_path / "turns", tmp_path / f"{number}.jsonl", of=5, patience_s=30):
            having.append(number)
            time.sleep(0.02)
            most.append(len(having))
            having.remove(number)

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(take, range(5)))
    assert [1] * 5 == most


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_who_dies_or_is_stopped_in_its_turn_gives_no_more_signs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int
) -> None:
    monkeypatch.setattr(signs, "LOST_S", 0.3)
    with subprocess.Popen([sys.executable, "-c", HOLDING, tmp_path], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            assert b"mine\n" == holder.stdout.readline()
            os.kill(holder.pid, number)
            with turn(tmp_path / "turns", tmp_path / "own.jsonl", of=2, patience_s=60):
                assert b"held.jsonl\nover\n" == (tmp_path / "turns/1").read_bytes()
        finally:
            holder.kill()


class Clock:
    """That of who waits. It goes on as the test says, once who waits has seen all that was done before."""

    def __init__(self) -> None:
        self.now_s, self._looks = 0.0, 0

    def monotonic(self) -> float:
        self._looks += 1
        return self.now_s

    def advance(self, by_s: float) -> None:
        looks, deadline = self._looks, time.monotonic() + 30
        while self._looks < looks + 8:  # those of two files, twice: at the first they may not have been written yet
            assert time.monotonic() < deadline, "nobody waits any more"
            time.sleep(0.01)
        self.now_s += by_s


def test_who_grows_its_file_keeps_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(signs, "time", clock)
    (tmp_path / "turns").mkdir()
    (tmp_path / "turns/1").write_text("busy.jsonl\n")
    busy, done = tmp_path / "busy.jsonl", threading.Event()

    def wait() -> None:
        with turn(tmp_path / "turns", tmp_path / "own.jsonl", of=2, patience_s=0.6):
            done.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    for _ in range(8):  # four times the patience
        with busy.open("a") as file:
            file.write("a record\n")
        clock.advance(0.3)
        assert not done.is_set()
    clock.advance(0.7)
    waiting.join(30)
    assert done.is_set()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "turns").write_text("no folder")
    with (
        pytest.raises(OutputError, match="nodes cannot take turns by it"),
        turn(tmp_path / "turns", tmp_path / "own.jsonl", of=2, patience_s=1),
    ):
        pytest.fail("it has a turn")
