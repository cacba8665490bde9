from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Literal

import pytest

from primbench.errors import PrimbenchError, UnsupportedCase
from primbench.system import seccomp

from ...processes import children

if TYPE_CHECKING:
    import psutil

pytestmark = pytest.mark.skipif(os.uname().machine not in seccomp.NUMBERS, reason="seals know x86_64 and aarch64 only")
LIBC = ctypes.CDLL(None)


def listeners() -> list[psutil.Process]:
    return children("primbench.system.seccomp")


def filters() -> list[str]:
    """What the kernel says of this thread's filters."""
    lines = Path("/proc/thread-self/status").read_text().splitlines()
    return [line for line in lines if line.startswith(("Seccomp", "NoNewPrivs"))]


def test_all_is_refused_within_and_passes_before_and_after() -> None:
    def work(sealed: seccomp.Seal) -> tuple[int, int, int, dict[str, int]]:
        before = LIBC.getppid()
        with sealed.closed():
            answers = [LIBC.getppid() for _ in range(3)]
        return before, max(answers), LIBC.getppid(), sealed.refused

    parent = os.getppid()
    assert (parent, -1, parent, {"getppid": 3}) == seccomp.run(work, "all")


def test_ioctl_is_refused_alone() -> None:
    reader, writer = os.pipe()

    def work(sealed: seccomp.Seal) -> tuple[int, dict[str, int]]:
        with sealed.closed(), pytest.raises(PermissionError):
            fcntl.ioctl(reader, 0x541B, bytes(4))  # FIONREAD
        with sealed.closed():
            return LIBC.getppid(), sealed.refused

    try:
        assert (os.getppid(), {"ioctl": 1}) == seccomp.run(work, "ioctl")
    finally:
        os.close(reader)
        os.close(writer)


def test_a_call_that_is_not_in_the_list_is_told_by_its_number() -> None:
    def work(sealed: seccomp.Seal) -> dict[str, int]:
        with sealed.closed(), pytest.raises(PermissionError):
            os.getsid(0)
        return sealed.refused

    number = {"x86_64": 124, "aarch64": 156}[os.uname().machine]
    assert {f"system call {number}": 1} == seccomp.run(work, "all")


@pytest.mark.parametrize("refuses", ["ioctl", "all"])
def test_threads_wait_for_one_another_under_a_seal(refuses: Literal["ioctl", "all"]) -> None:
    def work(sealed: seccomp.Seal) -> dict[str, int]:
        asked, answered = threading.Event(), threading.Event()

        def answer() -> None:
            asked.wait()
            answered.set()

        other = threading.Thread(target=answer, daemon=True)
        other.start()
        with sealed.closed():
            asked.set()
            answered.wait()
        other.join()
        return sealed.refused

    assert {} == seccomp.run(work, refuses)


def test_the_rest_of_the_process_is_not_sealed() -> None:
    closed, looked = threading.Event(), threading.Event()
    seen: list[int] = []

    def look() -> None:
        closed.wait()
        seen.append(os.getppid())
        looked.set()

    def work(sealed: seccomp.Seal) -> None:
        with sealed.closed():
            closed.set()
            looked.wait()

    before = filters()
    threading.Thread(target=look, daemon=True).start()
    seccomp.run(work, "all")
    assert [os.getppid()] == seen
    assert before == filters()


def test_what_the_work_raises_passes_and_no_listener_is_left() -> None:
    def before(sealed: seccomp.Seal) -> None:
        raise KeyError("before")

    def within(sealed: seccomp.Seal) -> None:
        with sealed.closed():
            raise KeyError("within")

    for work in (before, within):
        with pytest.raises(KeyError, match=work.__name__):
            seccomp.run(work, "all")
    assert [] == listeners()


def test_a_seal_without_its_listener_is_noticed() -> None:
    """Calls fail all the same, but nobody counts them."""

    def work(sealed: seccomp.Seal) -> None:
        with sealed.closed():
            pass
        (listener,) = listeners()
        os.kill(listener.pid, signal.SIGKILL)
        with sealed.closed():
            pass

    with pytest.raises(PrimbenchError, match="the seal does not hold"):
        seccomp.run(work, "all")


def test_an_unknown_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="riscv64"))
    with pytest.raises(UnsupportedCase, match="system calls of riscv64 are not known: a seal is for x86_64, aarch64"):
        seccomp.run(lambda sealed: None, "all")
