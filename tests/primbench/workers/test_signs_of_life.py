"""Between two machines: a supervisor that hears nothing any more ends its worker, and the other one sees to that."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from primbench.runtimes.order import Order
from primbench.spec.arm import parse_arm

if TYPE_CHECKING:
    import pytest

QUICKLY = "from primbench.workers import supervisor; supervisor.{0} = {1}; supervisor.main()"
ECHO = [sys.executable, "-P", "-c", "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"]


@contextmanager
def supervisor(order: Order, constant: str, milliseconds: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-P", "-c", QUICKLY.format(constant, milliseconds), msgspec.json.encode(order).decode()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        try:
            yield running
        finally:
            running.kill()


def test_a_worker_whose_other_side_is_lost_is_ended_and_signs_of_life_are_not_for_it() -> None:
    order = Order(arm=parse_arm("host"), gpus=False, command=ECHO, is_from_afar=True)
    with supervisor(order, "BEAT_MS", 500) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(running.stdout.readline)
            said, alive_until_s = b"\0hel\0lo\n", time.monotonic() + 3  # longer than it may be silent
            while time.monotonic() < alive_until_s or not answer.done():
                running.stdin.write(said)
                running.stdin.flush()
                time.sleep(0.5)
                said = b"\0"
        assert b"hello\n" == answer.result()
        assert 1 == running.wait(timeout=30), "with its input open"
        assert running.stderr is not None
        assert b"the connection is lost: nothing was heard for 2000 ms\n" == running.stderr.read()


def test_who_has_nothing_to_say_to_another_machine_gives_signs_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``cat`` stands for the connection."""
    (tmp_path / "ssh").write_text("#!/bin/sh\nexec /bin/cat\n")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with supervisor(Order(arm=parse_arm("ssh:far"), gpus=False), "BEAT_MS", 50) as running:
        assert running.stdout is not None
        heard = b""
        while not heard.endswith(b"\0\0\0"):
            chunk = os.read(running.stdout.fileno(), 1 << 16)
            assert chunk
            heard += chunk
        assert running.stdin is not None
        running.stdin.close()
        running.stdout.read()
