"""The parent's side: start workers, feed them cases, time them out, replace them, and leave none behind."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from types import TracebackType
from typing import Self, TypeVar

import msgspec
from msgspec.structs import replace

from primbench import protocol
from primbench.errors import BackendUnavailable, PlacementError, WorkerError
from primbench.measurement import Measurement
from primbench.protocol import Outcome, Ready, Refusal, Start
from primbench.record import Case, Record, Worker

DEFAULT_TIMEOUT_S = 300.0
START_TIMEOUT_S = 120.0
END_TIMEOUT_S = 10.0
LONGEST_WAIT_S = 3600.0  # poll(2) counts milliseconds in an int

_Answer = TypeVar("_Answer", Ready, Outcome)


class WorkerGone(WorkerError):
    """The worker died or did not answer in time; the message says which, and is the failed case's reason."""


class WorkerProcess:
    """One running worker. Its process group is its own, so that Ctrl-C reaches only the front."""

    def __init__(self, start: Start, *, verbose: bool = False) -> None:
        """Raises BackendUnavailable or PlacementError where the worker refuses, WorkerGone where it dies."""
        self._stderr = None if verbose else tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "primbench.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,
        )
        self._unread = b""
        try:
            self.ready = self._ask(protocol.encode(start), START_TIMEOUT_S, Ready)
        except BaseException:
            self.end()
            raise

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def run(self, case: Case, timeout_s: float) -> Outcome:
        """Raises WorkerGone, after which this worker is of no more use."""
        return self._ask(protocol.encode(case), timeout_s, Outcome)

    def end(self) -> None:
        """Kill the worker and everything it started. A process that a driver call holds is left to the kernel."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            print(
                f"primbench: worker {self._process.pid} is stuck in the driver and ends later",
                file=sys.stderr,
            )
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):  # closing tries again what a dead worker did not take
                    stream.close()

    def _ask(self, message: bytes, timeout_s: float, kind: type[_Answer]) -> _Answer:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(message + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerGone(self._cause_of_death()) from None
        try:
            answer = protocol.decode_answer(self._read_line(timeout_s))
        except TimeoutError:
            option = " (--timeout)" if kind is Outcome else ""
            raise WorkerGone(f"no answer within {timeout_s:g} s{option}") from None
        except msgspec.MsgspecError as error:
            raise WorkerGone(f"worker spoke out of turn: {error}") from None
        if isinstance(answer, Refusal):
            raise (PlacementError if answer.placement else BackendUnavailable)(answer.reason)
        if not isinstance(answer, kind):
            raise WorkerGone(f"worker answered {type(answer).__name__} where {kind.__name__} was due")
        return answer

    def _read_line(self, timeout_s: float) -> bytes:
        assert self._process.stdout is not None
        descriptor, deadline = self._process.stdout.fileno(), time.monotonic() + timeout_s
        poll = select.poll()  # select() knows no descriptor beyond 1023
        poll.register(descriptor, select.POLLIN)
        while b"\n" not in self._unread:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            if not poll.poll(min(left_s, LONGEST_WAIT_S) * 1e3):
                continue
            chunk = os.read(descriptor, 1 << 20)
            if not chunk:
                raise WorkerGone(self._cause_of_death())
            self._unread += chunk
        line, self._unread = self._unread.split(b"\n", 1)
        return line

    def _cause_of_death(self) -> str:
        try:
            status = self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return "worker closed its output but goes on running"
        if status == -signal.SIGKILL:
            return "worker was killed by SIGKILL: the kernel's out-of-memory killer (see dmesg), or somebody"
        cause = f"signal {_signal_name(-status)}" if status < 0 else f"exit status {status}"
        return f"worker died of {cause}{self._last_words()}"

    def _last_words(self) -> str:
        if self._stderr is None:
            return ""
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return f": {lines[-1]}" if lines else ""


def _signal_name(number: int) -> str:
    """Real-time signals but the first and the last have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


class Session:
    """Runs cases in workers, a fresh one for each backend, device, placement and process number, and after a failure.

    A context manager: leaving it ends every worker.
    """

    def __init__(
        self,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        trace: bool = False,
        skip_unavailable: bool = False,
        verbose: bool = False,
        first_worker: int = 0,
    ) -> None:
        """skip_unavailable: a backend that does not reach its device is a skipped case, not an error."""
        self._timeout_s = timeout_s
        self._trace = trace
        self._skip_unavailable = skip_unavailable
        self._verbose = verbose
        self._next_worker = first_worker
        self._running: dict[str, tuple[Start, WorkerProcess]] = {}
        self._process = 0
        self._number: int | None = None
        self.started: list[Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_all()

    def run(self, cases: Iterable[Case]) -> Iterator[Worker | Record]:
        """The record of each case as it ends, with a Worker line ahead of the first record it made.

        Raises BackendUnavailable and PlacementError as the workers do.
        """
        for case in cases:
            record = self._run_case(case)
            yield from self.started
            self.started.clear()
            yield record

    def _run_case(self, case: Case) -> Record:
        started, clock = datetime.now(UTC).isoformat(timespec="milliseconds"), time.monotonic()
        outcome = self._outcome(case)
        return Record(
            case=case,
            status=outcome.status,
            reason=outcome.reason,
            measurement=outcome.measurement,
            worker=self._number,
            started_utc=started,
            duration_s=round(time.monotonic() - clock, 6),
        )

    def _outcome(self, case: Case) -> Outcome:
        try:
            timed = self._worker(case, "time").run(case, self._timeout_s)
        except BackendUnavailable as refusal:
            if not self._skip_unavailable:
                raise
            self._number = None
            return Outcome(status="skipped", reason=str(refusal))
        except WorkerGone as gone:
            timed = Outcome(status="failed", reason=str(gone))
        if timed.status == "failed":
            self._end("time")
        if self._trace and timed.measurement is not None:
            return replace(timed, measurement=self._with_trace(case, timed.measurement))
        return timed

    def _with_trace(self, case: Case, measurement: Measurement) -> Measurement:
        """The measurement with what a tracing worker saw, or with the reason why it saw nothing."""
        if case.device == "cpu":
            return replace(measurement, missing=measurement.missing | {"trace": "a CPU keeps no log of kernels"})
        try:
            traced = self._worker(case, "trace").run(case, self._timeout_s)
        except (WorkerGone, BackendUnavailable) as gone:
            traced = Outcome(status="failed", reason=str(gone))
        if traced.trace is None:
            self._end("trace")
            return replace(measurement, missing=measurement.missing | {"trace": traced.reason or "no trace"})
        missing = {name: reason for name, reason in measurement.missing.items() if name != "trace"}
        return replace(measurement, trace=traced.trace, missing=missing)

    def _worker(self, case: Case, purpose: str) -> WorkerProcess:
        start = Start(
            primitive=case.primitive,
            backend=case.backend,
            device=case.device,
            placement=case.placement,
            purpose="trace" if purpose == "trace" else "time",
        )
        if case.process != self._process:
            self._end_all()
            self._process = case.process
        running = self._running.get(purpose)
        if running is not None and running[0] == start and running[1].is_alive:
            return running[1]
        self._end(purpose)
        if purpose == "time":
            self._number = None
        worker = WorkerProcess(start, verbose=self._verbose)
        self._running[purpose] = (start, worker)
        if purpose == "time":
            self._announce(worker.ready)
        return worker

    def _announce(self, ready: Ready) -> None:
        self._number = self._next_worker
        self._next_worker += 1
        self.started.append(
            Worker(
                worker=self._number,
                pid=ready.pid,
                backend=ready.backend,
                device=ready.device,
                environment=ready.environment,
                placement=ready.placement,
                versions=ready.versions,
            )
        )

    def _end(self, purpose: str) -> None:
        running = self._running.pop(purpose, None)
        if running is not None:
            running[1].end()

    def _end_all(self) -> None:
        for purpose in list(self._running):
            self._end(purpose)


def ask_a_worker(primitive: str, backend: str | None, device: str | None) -> Ready:
    """What a worker finds: the backend and device it would choose, and its environment.

    Raises BackendUnavailable with the reasons where it finds none.
    """
    worker = WorkerProcess(Start(primitive=primitive, backend=backend, device=device))
    worker.end()
    return worker.ready
