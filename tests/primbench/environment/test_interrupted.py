"""What keeps a process from going on, read in processes that are kept so: interrupts, other threads, slow opens."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from primbench.causes.confinement import MANY_INTERRUPTIONS_HZ
from primbench.environment import interpreter
from primbench.environment.confinement import Confinement
from primbench.system.meaning import facts_of

ROOT = Path("/")


@pytest.fixture
def interrupted() -> Iterator[None]:
    """Every 50 us by a signal, as sampling profilers do."""
    before = signal.signal(signal.SIGALRM, lambda number, frame: None)
    signal.setitimer(signal.ITIMER_REAL, 50e-6, 50e-6)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_what_interrupts_a_process_very_often_is_counted(interrupted: None) -> None:
    """At the best of several tries: on a busy CPU another program has all of some."""
    read = facts_of(Confinement)["interruptions_hz"].value
    assert any(read(ROOT) > MANY_INTERRUPTIONS_HZ for _ in range(50))


def test_temporary_files_are_opened_where_they_are_made_and_none_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = facts_of(Confinement)["open_temporary_s"].value
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert 0 < read(ROOT) < 1
    assert [] == list(tmp_path.iterdir())
    monkeypatch.setenv("TMPDIR", "/proc")
    with pytest.raises(OSError, match="/proc"):
        read(ROOT)


def test_threads_that_others_started_are_named_without_their_numbers() -> None:
    ended = threading.Event()
    threads = [threading.Thread(target=ended.wait, name=name) for name in ("agent", "poll-3")]
    for thread in threads:
        thread.start()
    found = interpreter.other_threads(ROOT)
    ended.set()
    for thread in threads:
        thread.join()
    assert {"agent", "poll"} <= set(found)
    assert not {"agent", "poll"} & set(interpreter.other_threads(ROOT))
