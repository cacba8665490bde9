"""Faults that are injected into real runs: each is drawn from a seed, says what it is, and says what may come of it."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

ENDED = {0, 1}
LONGEST_WAIT_S = 1.6  # in which a small run ends
SIGNALS = {signal.SIGINT: {130, -2}, signal.SIGTERM: {143, -15}, signal.SIGHUP: {129, -1}, signal.SIGKILL: {-9}}
"""What the front may end as: by the signal itself while it starts or prints."""


@dataclass(frozen=True)
class Fault:
    """words: what it is. exits: of the front, with those of a run that ended before the fault.

    shell: the front's streams. options: of the command line, too. variables: of the environment. begin: in the front's
    process before the program. strike: with the front and the results file, while it runs.
    """

    words: str
    exits: set[int] = field(default_factory=lambda: ENDED)
    shell: str = ""
    options: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    begin: Callable[[], object] | None = None
    strike: Callable[[subprocess.Popen[str], Path], object] | None = None
    hits_file: bool = False


def drawn(dice: random.Random) -> Fault:
    kinds = [_signal_to_front, _signal_to_child, _signal_to_child, _file, _stream, _disk, _late, _half_line]
    return dice.choice(kinds)(dice)


def _after(dice: random.Random) -> float:
    return round(dice.uniform(0, LONGEST_WAIT_S), 3)


def _signal_to_front(dice: random.Random) -> Fault:
    number, after_s = dice.choice(list(SIGNALS)), _after(dice)
    to_group = dice.random() < 0.5

    def strike(front: subprocess.Popen[str], file: Path) -> None:
        time.sleep(after_s)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(front.pid, number) if to_group else front.send_signal(number)

    whom = "the front's process group" if to_group else "the front"
    return Fault(f"{number.name} to {whom} after {after_s} s", ENDED | SIGNALS[number], strike=strike)


def _signal_to_child(dice: random.Random) -> Fault:
    number = dice.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGSTOP, signal.SIGINT])
    whom, after_s = dice.choice(["primbench.workers.worker", "primbench.workers.supervisor", ""]), _after(dice)

    def strike(front: subprocess.Popen[str], file: Path) -> None:
        time.sleep(after_s)
        with contextlib.suppress(psutil.Error):
            children = psutil.Process(front.pid).children(recursive=True)
            for child in [each for each in children if whom in " ".join(each.cmdline())][:1]:
                child.send_signal(number)

    words = f"{number.name} to {whom or 'the first child'} after {after_s} s"
    return Fault(words, strike=strike, options=["--timeout", "3s"])


def _removed(file: Path) -> None:
    file.unlink(missing_ok=True)


def _replaced(file: Path) -> None:
    shutil.copy(file, file.with_suffix(".copy"))
    file.with_suffix(".copy").replace(file)


def _cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def _added_to(file: Path) -> None:
    with file.open("ab") as open_file:
        open_file.write(b"a line\n")


FILE = {"removed": _removed, "replaced": _replaced, "cut": _cut, "added to": _added_to}


def _file(dice: random.Random) -> Fault:
    how, after_s = dice.choice(list(FILE)), _after(dice)

    def strike(front: subprocess.Popen[str], file: Path) -> None:
        time.sleep(after_s)
        with contextlib.suppress(FileNotFoundError):
            FILE[how](file)

    return Fault(f"file {how} after {after_s} s", ENDED | {2}, strike=strike, hits_file=True)  # 2: before it was read


STREAMS = {
    "<&-": ENDED, "2>&-": ENDED, "2>/dev/full": ENDED, "<&- 2>&-": ENDED, ">&-": {1}, ">/dev/full": {1},
    "<&- >&- 2>&-": {1}, "| true": ENDED,
}  # fmt: skip


def _stream(dice: random.Random) -> Fault:
    shell = dice.choice(list(STREAMS))
    return Fault(f"standard streams {shell}", STREAMS[shell], shell=shell)


def _disk(dice: random.Random) -> Fault:
    size_bytes = dice.randrange(1000, 60_000)

    def begin() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, size_bytes))

    return Fault(f"no file may grow beyond {size_bytes} bytes", begin=begin)


def _late(dice: random.Random) -> Fault:
    timeout_ms = dice.randrange(1, 60)
    return Fault(f"--timeout {timeout_ms}ms", options=["--timeout", f"{timeout_ms}ms"])


def _half_line(dice: random.Random) -> Fault:
    number = dice.randrange(1, 8)
    return Fault(f"a worker dies in the middle of its line {number}", variables={"HALF_LINE": str(number)})
