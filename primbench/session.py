"""The parent's side: start workers, feed them cases, time them out, replace them, and leave none behind."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from types import TracebackType
from typing import Self, TypeVar

import msgspec
from msgspec.structs import replace

from primbench import protocol
from primbench.children import Child
from primbench.errors import BackendUnavailable, PlacementError, WorkerError
from primbench.followers import Leader
from primbench.measurement import Measurement
from primbench.protocol import Outcome, Ready, Refusal, Start
from primbench.ranks import LocalRanks, Ranks, readable
from primbench.record import Case, Record, Worker

DEFAULT_TIMEOUT_S = 300.0
START_TIMEOUT_S = 120.0
GRACE_S = 0.2  # in which a rank's death is seen after what it did to the others
LONGEST_WAIT_S = 3600.0  # poll(2) counts milliseconds in an int

_Answer = TypeVar("_Answer", Ready, Outcome)


class WorkerGone(WorkerError):
    """The worker died or did not answer in time; the message says which, and is the failed case's reason."""


class WorkerProcess:
    """One running worker, and the further ranks of its cases where they have several."""

    def __init__(self, start: Start, *, verbose: bool = False, ranks: Ranks | None = None) -> None:
        """ranks: ended with the worker.

        Raises BackendUnavailable or PlacementError where the worker refuses, WorkerGone where it dies, WorkerError
        where it cannot be started.
        """
        self._ranks = ranks
        self._unread = b""
        sockets = ranks.sockets if ranks else ()
        peers = tuple(peer.fileno() for peer in sockets)
        try:
            self._child = Child("worker", "primbench.worker", inherited=peers, verbose=verbose)
        except BaseException:
            if ranks:
                ranks.end()
            raise
        for peer in sockets:  # a rank sees that rank 0 has ended where no other process holds its end
            peer.close()
        try:
            self.ready = self._ask(protocol.encode(replace(start, peers=peers)), START_TIMEOUT_S, Ready)
        except BaseException:
            self.end()
            raise

    @property
    def is_alive(self) -> bool:
        return self._child.is_alive

    def run(self, case: Case, timeout_s: float) -> Outcome:
        """Raises WorkerGone, after which this worker is of no more use."""
        outcome = self._ask(protocol.encode(case), timeout_s, Outcome)
        if outcome.status == "failed" and self._ranks and (fate := self._fate()):
            raise WorkerGone(fate)  # what rank 0 has seen of it was a closed connection
        return outcome

    def end(self) -> None:
        """Kill the worker and everything it started."""
        self._child.end()
        if self._ranks:
            self._ranks.end()

    def _ask(self, message: bytes, timeout_s: float, kind: type[_Answer]) -> _Answer:
        try:
            self._child.write(message + b"\n")
            answer = protocol.decode_answer(self._read_line(timeout_s))
        except BrokenPipeError:
            raise WorkerGone(self._cause_of_death()) from None
        except TimeoutError:
            option = " (--timeout)" if kind is Outcome else ""
            stopped = self._ranks and self._ranks.stopped()
            because = f": {stopped}" if stopped else ""
            raise WorkerGone(f"no answer within {timeout_s:g} s{option}{because}") from None
        except msgspec.MsgspecError as error:
            raise WorkerGone(f"worker spoke out of turn: {error}") from None
        if isinstance(answer, Refusal):
            raise (PlacementError if answer.placement else BackendUnavailable)(answer.reason)
        if not isinstance(answer, kind):
            raise WorkerGone(f"worker answered {type(answer).__name__} where {kind.__name__} was due")
        return answer

    def _read_line(self, timeout_s: float) -> bytes:
        deadline = time.monotonic() + timeout_s
        watched = [self._child.stdout, *(self._ranks.watched if self._ranks else ())]
        while b"\n" not in self._unread:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            ready = readable(watched, min(left_s, LONGEST_WAIT_S))
            if self._child.stdout in ready:
                chunk = os.read(self._child.stdout, 1 << 20)
                if not chunk:
                    raise WorkerGone(self._cause_of_death())
                self._unread += chunk
            elif ready and self._ranks:
                if fate := self._ranks.fate():
                    raise WorkerGone(fate)
                watched = [self._child.stdout]  # ended as it should: with the worker, which is heard next
        line, self._unread = self._unread.split(b"\n", 1)
        return line

    def _cause_of_death(self) -> str:
        """The worker's own, unless it may have died of the death of a rank."""
        cause = self._child.cause_of_death()
        return cause if self._child.was_killed else (self._fate() or cause)

    def _fate(self) -> str | None:
        """What a rank died of, if one did so at about this time."""
        if self._ranks is None:
            return None
        readable(self._ranks.watched, GRACE_S)
        return self._ranks.fate()


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
        leader: Leader | None = None,
    ) -> None:
        """skip_unavailable: a backend that does not reach its device is a skipped case, not an error.

        leader: of the processes that were started beside this one, to have the further ranks of a case from; None
        starts them here.
        """
        self._timeout_s = timeout_s
        self._trace = trace
        self._skip_unavailable = skip_unavailable
        self._verbose = verbose
        self._next_worker = first_worker
        self._leader = leader
        self._gpus: int | None = None  # as the last worker saw them
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
        if reason := self._too_many_or_few(case):
            self._number = None
            return Outcome(status="skipped", reason=reason)
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

    def _too_many_or_few(self, case: Case) -> str | None:
        """Why there will not be as many ranks as a case has, if so."""
        if case.ranks == 1:
            return None
        if self._leader is not None:
            world = self._leader.world
            return None if case.ranks == world.size else f"{case.ranks} ranks: {world.launcher} started {world.size}"
        if case.device != "cpu" and self._gpus is not None and case.ranks > self._gpus:
            return f"{case.ranks} ranks need {case.ranks} GPUs, and see {self._gpus}: fewer ranks, or --device cpu"
        cpus = len(case.placement.cpus or os.sched_getaffinity(0))
        return None if case.ranks <= cpus else f"{case.ranks} ranks need a CPU each, and may use {cpus}: fewer ranks"

    def _with_trace(self, case: Case, measurement: Measurement) -> Measurement:
        """The measurement with what a tracing worker saw, or with the reason why it saw nothing."""
        if case.device == "cpu":
            return replace(measurement, missing=measurement.missing | {"trace": "a CPU keeps no log of kernels"})
        if case.ranks > 1:
            return measurement
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
            backend=case.backend,
            device=case.device,
            placement=case.placement,
            purpose="trace" if purpose == "trace" else "time",
            ranks=case.ranks,
            address=self._leader.world.address if self._leader else "127.0.0.1",
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
        worker = WorkerProcess(start, verbose=self._verbose, ranks=self._further_ranks(case.ranks))
        self._running[purpose] = (start, worker)
        if purpose == "time":
            self._announce(worker.ready)
        return worker

    def _further_ranks(self, ranks: int) -> Ranks | None:
        if ranks == 1:
            return None
        return self._leader.start() if self._leader else LocalRanks(ranks - 1, verbose=self._verbose)

    def _announce(self, ready: Ready) -> None:
        self._number = self._next_worker
        self._next_worker += 1
        if ready.environment.devices.gpus:
            self._gpus = len(ready.environment.devices.gpus)
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


def ask_a_worker(candidates: tuple[str, ...], device: str | None) -> Ready:
    """What a worker finds: the backend and device it would choose among the candidates, and its environment.

    Raises BackendUnavailable with the reasons where it finds none.
    """
    only = candidates[0] if len(candidates) == 1 else None
    worker = WorkerProcess(Start(candidates=list(candidates), backend=only, device=device))
    worker.end()
    return worker.ready
