"""The parent's side: start workers, feed them cases, time them out, replace them, and leave none behind."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, NamedTuple, Self

from msgspec.structs import replace

from primbench.distributed.child import NotStarted
from primbench.distributed.ranks import LocalRanks, Ranks
from primbench.errors import BackendUnavailable, InvalidRequest, PlacementError, PrimbenchError
from primbench.numa.placement import check_cpus
from primbench.results.record import Record, Worker
from primbench.runtimes.afar import sent
from primbench.spec.defaults import DEFAULT_TIMEOUT_S
from primbench.workers.checked import CheckedOutputs
from primbench.workers.fitting import too_many_or_few
from primbench.workers.neighbour import NeighbourGone, timed_beside
from primbench.workers.process import WorkerGone, WorkerProcess
from primbench.workers.protocol import Outcome, Start, Task, WorkerPurpose
from primbench.workers.records import now, record_of
from primbench.workers.starts import start_of
from primbench.workers.turns import take_turns

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from primbench.distributed.followers import Leader
    from primbench.measurement import Measurement
    from primbench.spec.arm import Arm
    from primbench.spec.case import Case
    from primbench.spec.neighbour import Neighbour


class _Running(NamedTuple):
    """A worker that runs."""

    start: Start
    worker: WorkerProcess
    number: int | None = None
    """Number of its Worker line, once that has been made."""


class Session:
    """Runs cases in workers, a fresh one for each arm, process number, backend, device and placement, or failure.

    A context manager: leaving it ends every worker.
    """

    def __init__(
        self,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        trace: bool = False,
        skip_unavailable: bool = False,
        skip_misplaced: bool = False,
        verbose: bool = False,
        first_worker: int = 0,
        leader: Leader | None = None,
        arms: Mapping[str, Arm] | None = None,
    ) -> None:
        """skip_unavailable: a backend that does not reach its device is a skipped case, not an error.

        skip_misplaced: so is a place that cannot be had.

        leader: of the processes that were started beside this one, to have the further ranks of a case from; None
        starts them here.

        arms: what cases mean by the names in ``Case.arm``.
        """
        self._timeout_s = timeout_s
        self._trace = trace
        self._skipped: tuple[type[Exception], ...] = (
            *((BackendUnavailable,) if skip_unavailable else ()),
            *((PlacementError,) if skip_misplaced else ()),
        )
        self._verbose = verbose
        self._next_worker = first_worker
        self._leader = leader
        self._arms = {**(arms or {})}
        self._gpus: int | None = None  # how many the last worker on this machine saw
        self._running: dict[tuple[str, WorkerPurpose], _Running] = {}  # by the arm
        self._checked = CheckedOutputs()
        self._process = 0  # the number of the processes that run now

    def __enter__(self) -> Self:
        if self._arms:
            self._checked.keep_references()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with closing(self._checked):
            self.end_all()

    def run(
        self, cases: Iterable[Case], alone: str | None = None, waiting: Collection[str] = ()
    ) -> Generator[Worker | Record, None, None]:
        """The record of each case as it ends, and a Worker line once each worker is there, before it runs a case.

        A worker of whose line the caller says no, by closing this, runs none and is ended. alone: why these do not take
        turns with other arms, for their records. waiting: arms whose workers of the same pair are left as they are.

        Raises BackendUnavailable and PlacementError as the workers do, also where there is no runtime for an arm;
        InvalidRequest for an arm that was not given. What is left of the cases may be run after these.
        """
        for case in cases:
            if case.arm and case.arm not in self._arms:
                raise InvalidRequest(f"there are {', '.join(self._arms) or 'none'}", arm=case.arm)
            self._end_all_but([case.arm, *waiting], case.process)
            started, clock = now(), time.monotonic()
            worker, outcome = yield from self._outcome(case)
            if alone is not None and (found := outcome.measurement) is not None:
                outcome = replace(outcome, measurement=replace(found, missing=found.missing | {"turns": alone}))
            yield record_of(case, worker, outcome, started, time.monotonic() - clock)

    def start(self, cases: Iterable[Case]) -> None:
        """Start the workers of cases of one pair, and their neighbours, all at once, for open() to wait for."""
        for case in cases:
            self._end_all_but(self._arms, case.process)
            with suppress(PrimbenchError):  # open() tries again, and tells
                if self._running_for(case, "time") is None:
                    self._start(case, "time")
                if (arm := self._arms.get(case.arm)) and arm.neighbour and not self._running_for(case, "neighbour"):
                    self._start(case, "neighbour")

    def open(self, case: Case) -> Generator[Worker, None, None]:
        """Have the worker of a case running, beside those of other arms in the same pair.

        Its line, where it is new. Raises as run() does.
        """
        self._end_all_but(self._arms, case.process)
        yield from self._started(case)
        if beside := self._running.get((case.arm, "neighbour")):
            with suppress(PrimbenchError):  # run() tries again, and tells
                _ = beside.worker.ready

    def prepare(self, cases: Sequence[Case]) -> None:
        """Have the workers of one case in several arms, which run since open(), prepare for it at the same time.

        They do what takes the host alone, before anything is timed or tried out on a device.
        """
        workers = [self._running[case.arm, "time"].worker for case in cases]
        for worker, case in zip(workers, cases, strict=True):
            worker.prepare(case, len(cases))
        for worker in workers:
            worker.prepared(self._timeout_s)

    def run_in_turn(self, cases: Sequence[Case], cpu: int | None, shares_s: dict[str, float]) -> list[Record]:
        """The records of one case in several arms, whose workers run since open() and take turns now.

        cpu: on which all of them call, None for any. shares_s: metric -> how long each samples it.
        """
        started, clock = now(), time.monotonic()
        self.prepare(cases)
        share_s = (time.monotonic() - clock) / len(cases)
        running = [(self._running[case.arm, "time"], case) for case in cases]
        tasks = [
            Task(
                case=case,
                in_turn=True,
                cpu=cpu,
                others_follow=case is not cases[-1],
                shares_s=shares_s,
                known=self._checked.of(case),
            )
            for case in cases
        ]
        workers = [each.worker for each, _ in running]
        ended = take_turns([*zip(workers, tasks, strict=True)], self._timeout_s)
        return [
            record_of(case, each.number, self._ended(case, outcome), started, share_s + active_s)
            for (each, case), (outcome, active_s) in zip(running, ended, strict=True)
        ]

    def too_many_or_few(self, case: Case) -> str | None:
        """Why a case cannot have the ranks that it asks for, by which run() leaves it out; None where it can."""
        return too_many_or_few(case, self._leader.world if self._leader else None, self._arms.get(case.arm), self._gpus)

    def _outcome(self, case: Case) -> Generator[Worker, None, tuple[int | None, Outcome]]:
        """The number of the worker that ran a case, None where none did, and what became of it."""
        arm = self._arms[case.arm] if case.arm else None
        if reason := self.too_many_or_few(case):
            return None, Outcome(status="skipped", reason=reason)
        try:
            yield from self._started(case)
        except self._skipped as refusal:
            return None, Outcome(status="skipped", reason=str(refusal))
        except (WorkerGone, NotStarted) as error:
            return None, Outcome(status="failed", reason=str(error))
        running = self._running[case.arm, "time"]
        try:
            timed = self._timed(case, running.worker, arm.neighbour if arm else None)
        except (WorkerGone, NeighbourGone, NotStarted) as error:
            timed = Outcome(status="failed", reason=str(error))
        return running.number, self._ended(case, timed)

    def _timed(self, case: Case, worker: WorkerProcess, neighbour: Neighbour | None) -> Outcome:
        """Raises WorkerGone, NotStarted, and NeighbourGone with that one ended."""
        if neighbour is None:
            return self._run(case, worker)
        beside = self._running_for(case, "neighbour") or self._start(case, "neighbour")
        try:
            return timed_beside(neighbour, beside.worker, self._timeout_s, lambda: self._run(case, worker))
        except NeighbourGone:
            self._end(case.arm, "neighbour")
            raise

    def _run(self, case: Case, worker: WorkerProcess) -> Outcome:
        return worker.run(case, self._timeout_s, self._checked.of(case))

    def _started(self, case: Case) -> Iterator[Worker]:
        """The line of the worker that is to run a case, where it had to be started."""
        running = self._running_for(case, "time") or self._start(case, "time")
        if running.number is None:
            yield from self._announced(case, running)

    def _ended(self, case: Case, timed: Outcome) -> Outcome:
        """What a worker made of a case, with the trace of another one where that was asked for."""
        if timed.status == "failed":
            self._end(case.arm, "time")
        self._checked.add(case, timed.measurement)
        if self._trace and timed.measurement is not None:
            return replace(timed, measurement=self._with_trace(case, timed.measurement))
        return timed

    def _announced(self, case: Case, running: _Running) -> Iterator[Worker]:
        """The line of a worker that is new, which is ended where the caller leaves on seeing it."""
        try:
            ready = running.worker.ready
        except BaseException:
            del self._running[case.arm, "time"]
            raise
        number, self._next_worker = self._next_worker, self._next_worker + 1
        self._running[case.arm, "time"] = running._replace(number=number)
        arm = self._arms[case.arm] if case.arm else None
        if ready.environment.devices.gpus and not (arm and arm.is_far):
            self._gpus = len(ready.environment.devices.gpus)
        try:
            yield Worker(
                worker=number,
                pid=ready.pid,
                backend=ready.backend,
                device=ready.device,
                environment=ready.environment,
                placement=ready.placement,
                versions=ready.versions,
                arm=arm,
                sent=sent(arm, ready.environment.machine.boot_id) if arm and arm.is_far else None,
                phases_s=running.worker.start_s,
            )
        except GeneratorExit:
            self._end(case.arm, "time")
            raise

    def _with_trace(self, case: Case, measurement: Measurement) -> Measurement:
        """The measurement with what a tracing worker saw, or with the reason why it saw nothing."""
        if not case.on.is_gpu:
            return replace(measurement, missing=measurement.missing | {"trace": "a CPU keeps no log of kernels"})
        if case.ranks > 1:
            return measurement
        try:
            running = self._running_for(case, "trace") or self._start(case, "trace")
            traced = running.worker.run(case, self._timeout_s)
        except (WorkerGone, NotStarted, PlacementError, BackendUnavailable) as error:
            traced = Outcome(status="failed", reason=str(error))
        if traced.trace is None:
            self._end(case.arm, "trace")
            return replace(measurement, missing=measurement.missing | {"trace": traced.reason or "no trace"})
        missing = {name: reason for name, reason in measurement.missing.items() if name != "trace"}
        return replace(measurement, trace=traced.trace, missing=missing)

    def _start_of(self, case: Case, purpose: WorkerPurpose) -> Start:
        return start_of(case, purpose, self._arms.get(case.arm), self._leader.world if self._leader else None)

    def _running_for(self, case: Case, purpose: WorkerPurpose) -> _Running | None:
        """The worker of the case's arm that runs already and may serve it; another one is ended."""
        running = self._running.get((case.arm, purpose))
        if running is not None and running.worker.is_alive and running.start == self._start_of(case, purpose):
            return running
        self._end(case.arm, purpose)
        return None

    def _start(self, case: Case, purpose: WorkerPurpose) -> _Running:
        start = self._start_of(case, purpose)
        arm = self._arms[case.arm] if case.arm else None
        worker = WorkerProcess(start, arm=arm, verbose=self._verbose, ranks=None if arm else self._further_ranks(case))
        running = self._running[case.arm, purpose] = _Running(start, worker)
        return running

    def _further_ranks(self, case: Case) -> Ranks | None:
        """The processes of ranks 1 and up, started; None where the case has one rank."""
        if case.ranks == 1:
            return None
        check_cpus(case.placement)  # here, as the worker checks only once all ranks have started
        return self._leader.start() if self._leader else LocalRanks(case.ranks - 1, verbose=self._verbose)

    def _end(self, arm: str, purpose: WorkerPurpose) -> None:
        running = self._running.pop((arm, purpose), None)
        if running is not None:
            running.worker.end()

    def end_all(self) -> None:
        """Leave no worker running."""
        self._end_all_but((), self._process)

    def _end_all_but(self, arms: Collection[str], process: int) -> None:
        """End workers of other arms, and all of another process number than this."""
        ending = [key for key in self._running if key[0] not in arms or process != self._process]
        for key in ending:
            self._running[key].worker.ask_to_end()
        for key in ending:
            self._end(*key)
        self._process = process
