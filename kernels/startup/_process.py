"""A process that starts something, says so, and ends."""

from __future__ import annotations

import os
import re
import signal
import sys
from typing import TYPE_CHECKING

from primbench.errors import PrimbenchError, UnsupportedCase
from primbench.kernels.startup import _programs

if TYPE_CHECKING:
    from collections.abc import Callable

NOT_CACHED = {"CUDA_CACHE_DISABLE": "1"}  # else the driver compiles the kernel in the first process alone
# The last line where a module, a library, or a GPU is not there: cuda.h has 34 for a stub of the driver, 35 for a
# driver that is too old, 100 for no GPU.
_NOT_THERE = re.compile(r"ModuleNotFoundError|OSError: (.+: cannot open shared object file|\w+: status (34|35|100)$)")
_MOST_BYTES = 1 << 16


class Process:
    """One after the other; each has ended before the next one begins.

    what, library: as the programs have them.
    """

    def __init__(self, what: str, library: str | None) -> None:
        self._what, self._library = what, library
        self._environment = os.environ | NOT_CACHED
        self._pid: int | None = None
        self._errors = os.memfd_create("stderr")

    def run(self) -> tuple[str, float]:
        """What was started, and how long that took by itself. Returns when the process says that it is ready.

        Raises UnsupportedCase where what is to be started is not there, PrimbenchError where it fails.
        """
        said = self._said(_programs.ready, lambda pipe: os.read(pipe, _MOST_BYTES))  # not its end, which takes longer
        own_ns, _, told = said.decode().partition(" ")
        return told, int(own_ns) / 1e9

    def opened(self) -> list[str]:
        """The files that such a process opens. Raises as run() does."""
        paths = map(os.fsdecode, self._said(_programs.opened, _all_of).split(b"\0"))
        return sorted(path for path in paths if os.path.isfile(path))

    def _said(self, program: Callable[[str, str | None, int], str], read: Callable[[int], bytes]) -> bytes:
        self.end()
        source, sink = os.pipe()
        try:
            try:
                self._pid = self._begun(program(self._what, self._library, sink), sink)
            finally:
                os.close(sink)
            said = read(source)
        finally:
            os.close(source)
        if not said:
            raise self._failure()
        return said

    def _begun(self, program: str, sink: int) -> int:
        os.ftruncate(self._errors, 0)
        os.lseek(self._errors, 0, os.SEEK_SET)
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-P", "-c", program],
            self._environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),  # what a sitecustomize prints is no answer
                (os.POSIX_SPAWN_DUP2, self._errors, 2),
                (os.POSIX_SPAWN_DUP2, sink, sink),  # which has it inherited
            ],
        )

    def _failure(self) -> PrimbenchError:
        status = self.end()
        lines = os.pread(self._errors, _MOST_BYTES, 0).decode(errors="replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), f"it ended with exit status {status}")
        kind = UnsupportedCase if _NOT_THERE.match(last) else PrimbenchError
        return kind(f"startup what={self._what}: {last.strip()}")

    def end(self) -> int | None:
        """Wait for the end of the process; its exit status, None where there is none."""
        if self._pid is None:
            return None
        _, status = os.waitpid(self._pid, 0)
        self._pid = None
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        if self._pid is not None:
            os.kill(self._pid, signal.SIGKILL)
        self.end()
        os.close(self._errors)


def _all_of(pipe: int) -> bytes:
    """Until the process has ended."""
    parts = []
    while part := os.read(pipe, _MOST_BYTES):
        parts.append(part)
    return b"".join(parts)
