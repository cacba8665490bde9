"""A process that this one starts and ends, and what it died of."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
from typing import IO, TYPE_CHECKING

from primbench.distributed.death import EXPLAINED, died_of, how_it_ended
from primbench.errors import WorkerError
from primbench.system.said import in_short, shorten, written

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

END_TIMEOUT_S = 10.0
CLEAR_UP_TIMEOUT_S = 60.0
# What srun, pyxis and kubectl add to the last words of what they started, and to their own.
_AFTERWARDS = re.compile(
    r"srun: (error: \S+: tasks? \S+: |Force Terminated |Check SLURM_JOB_ID|cluster configuration)|Try \"srun --help\""
    r"|slurmstepd\S*: error: (pyxis: (child [0-9]+ failed|couldn't start)|spank: |Failed to invoke spank)"
    r"|command terminated with exit code"
)


class Child:
    """A module of primbench as a process. Its process group is its own, so that Ctrl-C reaches only the main process.

    name: what messages call it.
    """

    def __init__(
        self,
        name: str,
        module: str,
        arguments: Sequence[str] = (),
        *,
        inherited: Sequence[int] = (),
        verbose: bool,
        clears_up: bool = False,
    ) -> None:
        """inherited: descriptors that keep their numbers there. verbose: what it prints goes to this stderr.

        clears_up: it is asked to end by the end of its input, and has something to do then.
        Raises NotStarted where the system has no room for it.
        """
        self.name = name
        self._clears_up = clears_up
        with starting(name), contextlib.ExitStack() as undone:
            self._stderr = None if verbose else undone.enter_context(_appended())
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                start_new_session=True,
                pass_fds=inherited,
            )
            undone.pop_all()  # it lives as long as the child

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    @property
    def stdout(self) -> int:
        """The descriptor of its output; at its end the child is dying, too."""
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def write(self, text: bytes) -> None:
        """Raises BrokenPipeError."""
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def end(self) -> None:
        """Kill it and everything it started. A process that a driver call holds is left to the kernel."""
        if not self._clears_up or not self._ends_when_asked():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            try:
                self.process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                print(f"primbench: {self.name} {self.pid} is stuck in the driver and ends later", file=sys.stderr)
        for stream in (self.process.stdin, self.process.stdout, self._stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):  # closing tries again what a dead child did not take
                    stream.close()

    def ask_to_end(self) -> None:
        """Where it clears up after itself: have it begin with that, and do not wait."""
        assert self.process.stdin is not None
        if self._clears_up:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()

    def _ends_when_asked(self) -> bool:
        self.ask_to_end()
        try:
            self.process.wait(CLEAR_UP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return False
        return True

    def cause_of_death(self) -> str:
        """Why a child whose output has ended is gone, in words; waits up to END_TIMEOUT_S for its exit."""
        try:
            status = self.process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return f"{self.name} closed its output but goes on running"
        if self._clears_up and status == -signal.SIGILL:  # it dies as the worker did, of whose place it has told
            return f"{self.name} {died_of(status)}{self._last_words()}"
        return f"{self.name} {how_it_ended(status)}{'' if status in EXPLAINED else self._last_words()}"

    def shorten_stderr(self) -> None:
        """Where it goes on writing there: what nobody reads takes no disk."""
        if self._stderr is not None:
            shorten(self._stderr.fileno())

    @property
    def has_failed(self) -> bool:
        """Whether it has ended otherwise than it should."""
        return bool(self.process.poll())

    @property
    def was_killed(self) -> bool:
        """Whether a signal ended it."""
        return (self.process.poll() or 0) < 0

    @property
    def died_silently(self) -> bool:
        """Whether it ended by itself, otherwise than it should, without a word where words are heard."""
        heard = self._stderr is not None
        return heard and self.has_failed and not self.was_killed and not self._last_words()

    def _last_words(self) -> str:
        if self._stderr is None:
            return ""
        said = written(self._stderr.fileno()).strip().splitlines()
        lines = [line for line in said if not _AFTERWARDS.match(line)] or said
        fatal = [line for line in lines if line.startswith("Fatal Python error: ")]  # faulthandler's line
        return f": {in_short((fatal or lines)[-1])}" if lines else ""


def _appended() -> IO[bytes]:
    """A file without a name whose writers all write at its end, wherever that is by then."""
    made = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the child
    fcntl.fcntl(made, fcntl.F_SETFL, fcntl.fcntl(made, fcntl.F_GETFL) | os.O_APPEND)
    return made


class NotStarted(WorkerError):
    """The system has no room for a process, or not for its arguments; the message says where to look."""


@contextlib.contextmanager
def starting(name: str) -> Iterator[None]:
    """What the system refuses inside becomes NotStarted."""
    try:
        yield
    except OSError as error:
        raise NotStarted(f"{name} cannot be started: {error.strerror}: {_way_out(error)}") from None


def _way_out(error: OSError) -> str:
    if error.errno in (errno.EACCES, errno.ENOENT) and error.filename:
        return f"see {error.filename} and its folders"
    if error.errno == errno.E2BIG:  # execve(2), MAX_ARG_STRLEN
        return (
            "Linux passes on 128 KiB in an argument or a variable and a quarter of `ulimit -s` in all of them, and an "
            "arm with the values that it sets is one argument: shorten these, or pass long ones on as env.NAME"
        )
    return "see the limits of `ulimit -a`"


def readable(descriptors: Sequence[int], timeout_s: float | None) -> list[int]:
    """The descriptors that have data or are at their end within ``timeout_s``; None waits until one is."""
    poll = select.poll()  # select() knows no descriptor beyond 1023
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(None if timeout_s is None else timeout_s * 1e3)]
