"""One worker as its parent has it: started here or in an arm, asked, timed out, ended."""

from __future__ import annotations

import contextlib
import os
import time
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from primbench import __version__
from primbench.devices import CPU
from primbench.distributed.child import Child, readable
from primbench.errors import BackendUnavailable, PlacementError, WorkerError
from primbench.runtimes.leftovers import sweep
from primbench.runtimes.order import Order
from primbench.runtimes.refusals import refusal
from primbench.spec.settings import as_placement_key
from primbench.system.jsonlines import UNREADABLE
from primbench.system.said import Lines
from primbench.timing.references import NOTHING_KNOWN, KnownOfCase
from primbench.workers import protocol
from primbench.workers.applied import ELSEWHERE, mismatch, outside
from primbench.workers.protocol import (
    Called,
    Count,
    Go,
    Outcome,
    Prepare,
    Prepared,
    Ready,
    Refusal,
    Sampled,
    Start,
    Task,
    TurnOver,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.distributed.ranks import Ranks
    from primbench.spec.arm import Arm
    from primbench.spec.case import Case

START_TIMEOUT_S = 120.0
REST_S = 10.0  # for the rest of an answer that has begun to arrive: a pipe holds 64 KiB of it
GRACE_S = 0.2  # in which a rank's death is seen after what it did to the others
MOST_SHOWN = 60  # characters of what was no answer
HEARD_WITHIN_S = 30.0  # a container is made and started meanwhile
LONGEST_WAIT_S = 1.0  # before it is looked how much there is on standard error

_Answer = TypeVar("_Answer", bound=Ready | Prepared | TurnOver | Sampled | Called | Outcome)


class WorkerGone(WorkerError):
    """The worker died or did not answer in time; the message says which, and is the failed case's reason."""


def _first_words(line: bytes) -> str:
    """Of a line that is no answer: what starts with the interpreter, such as a sitecustomize, may have printed it."""
    words = ascii(line[:MOST_SHOWN].decode(errors="replace"))
    return f"worker spoke out of turn, or what starts with its Python printed {words}"


class WorkerProcess:
    """One running worker, and the further ranks of its cases where they have several."""

    def __init__(
        self, start: Start, *, arm: Arm | None = None, verbose: bool = False, ranks: Ranks | None = None
    ) -> None:
        """Start it, and do not wait until it is ready.

        arm: where it runs; None is here, as this process does. ranks: ended with the worker. Raises NotStarted where
        the system has no room for it.
        """
        self._ranks = ranks
        self._start, self._arm = start, arm
        self._began, self.start_s = time.monotonic(), dict[str, float]()
        self._heard = Lines()
        self._gone: WorkerGone | None = None
        peers = self._start_child(arm, start, verbose=verbose)
        with contextlib.suppress(BrokenPipeError):  # what it died of is heard when it is asked for
            self._say(replace(start, peers=peers))

    @cached_property
    def ready(self) -> Ready:
        """What it found around itself, once it has; comes before any case.

        Raises BackendUnavailable or PlacementError where the worker refuses, WorkerGone where it dies, which in an
        arm is BackendUnavailable, too. It has ended then.
        """
        try:
            ready = self._hear(START_TIMEOUT_S, Ready)
            self.start_s = _of_start(ready, time.monotonic() - self._began)
            if self._arm is not None:
                _check(self._arm, self._start, ready)
        except BaseException as error:
            is_silent = isinstance(error, WorkerGone) and self._child.died_silently
            self.end()
            if self._arm is None:
                raise
            said = _heard_of_another(self._arm, self._start, error) if is_silent else error
            raise _of_arm(self._arm, said) from None
        return ready

    def _start_child(self, arm: Arm | None, start: Start, *, verbose: bool) -> tuple[int, ...]:
        """The descriptors by which it reaches the further ranks, which end where it cannot be started."""
        sockets = self._ranks.sockets if self._ranks else ()
        peers = tuple(peer.fileno() for peer in sockets)
        try:
            self._child = _child(arm, start, peers, verbose=verbose)
        except BaseException:
            if self._ranks:
                self._ranks.end()
            raise
        for peer in sockets:  # a rank sees that rank 0 has ended where no other process holds its end
            peer.close()
        return peers

    @property
    def is_alive(self) -> bool:
        return self._child.is_alive

    def prepare(self, case: Case, together: int) -> None:
        """Have it begin with what a case takes of the host alone, and do not wait. together: as Prepare has it."""
        with contextlib.suppress(BrokenPipeError):  # what it died of is heard in prepared()
            self._say(Prepare(case=case, together=together))

    def prepared(self, timeout_s: float) -> None:
        """Wait for that. A worker that is gone is so for the case, whose run() or turn() raises WorkerGone."""
        try:
            self._hear(timeout_s, Prepared)
        except WorkerGone as gone:
            self._gone = gone

    def run(self, case: Case, timeout_s: float, known: KnownOfCase = NOTHING_KNOWN) -> Outcome:
        """known: as Task has it. Raises WorkerGone, after which this worker is of no more use."""
        outcome = self._ask(Task(case=case, known=known), timeout_s, Outcome)
        if outcome.status == "failed" and self._ranks and (fate := self._fate()):
            raise WorkerGone(fate)  # what rank 0 has seen of it was a closed connection
        return outcome

    def turn(self, word: Task | Go, timeout_s: float, spent_s: float) -> TurnOver | Sampled | Outcome:
        """Let it have a turn, in which it goes on with a case or begins one. Raises as run() does.

        timeout_s: of all turns together. spent_s: of that in turns before this one.
        """
        any_of: tuple[type[TurnOver | Sampled | Outcome], ...] = (TurnOver, Sampled, Outcome)
        return self._ask(word, timeout_s, *any_of, spent_s=spent_s)

    def outcome(self, timeout_s: float, spent_s: float) -> Outcome:
        """Of a case that it has Sampled. Raises as run() does."""
        return self._hear(timeout_s, Outcome, spent_s=spent_s)

    def called(self, timeout_s: float) -> Called:
        """How often a neighbour has called so far. Raises as run() does, also where it had to give up."""
        either: tuple[type[Called | Outcome], ...] = (Called, Outcome)
        answer = self._ask(Count(), timeout_s, *either)
        if isinstance(answer, Outcome):
            raise WorkerGone(answer.reason or answer.status)
        return answer

    def ask_to_end(self) -> None:
        """Have it begin to end, before end() waits for that: several end at the same time then."""
        self._child.ask_to_end()

    def end(self) -> None:
        """Kill the worker and everything it started."""
        self._child.end()
        if self._arm is not None and self._child.was_killed:
            sweep()
        if self._ranks:
            self._ranks.end()

    def _say(self, message: Start | Task | Prepare | Go | Count) -> None:
        """Raises BrokenPipeError."""
        self._child.write(protocol.encode(message) + b"\n")

    def _ask(
        self, message: Task | Go | Count, timeout_s: float, *kinds: type[_Answer], spent_s: float = 0.0
    ) -> _Answer:
        _ = self.ready  # it speaks of that before any case
        if self._gone is not None:
            raise self._gone
        try:
            self._say(message)
        except BrokenPipeError:
            raise WorkerGone(self._cause_of_death()) from None
        return self._hear(timeout_s, *kinds, spent_s=spent_s)

    def _hear(self, timeout_s: float, *kinds: type[_Answer], spent_s: float = 0.0) -> _Answer:
        """timeout_s: as it was asked for. spent_s: how much of it has gone by."""
        try:
            line = self._read_line(timeout_s - spent_s)
            answer = protocol.decode_answer(line)
        except TimeoutError:
            option = "" if Ready in kinds else " (--timeout)"
            stopped = self._ranks and self._ranks.stopped()
            because = f": {stopped}" if stopped else ""
            raise WorkerGone(f"no answer within {timeout_s:g} s{option}{because}") from None
        except UNREADABLE as error:
            raise WorkerGone(f"{_first_words(line)}: {error}") from None
        return _due(answer, *kinds)

    def _read_line(self, timeout_s: float) -> bytes:
        deadline = time.monotonic() + timeout_s
        watched = [self._child.stdout, *(self._ranks.watched if self._ranks else ())]
        while not self._heard:
            self._child.shorten_stderr()
            ready = self._ready_by(deadline, watched)
            if self._child.stdout in ready:
                chunk = os.read(self._child.stdout, 1 << 20)
                if not chunk:
                    raise WorkerGone(self._cause_of_death())
                if not self._heard.begun:
                    deadline = max(deadline, time.monotonic() + REST_S)
                self._add(chunk)
            elif ready and self._ranks:
                if fate := self._ranks.fate():
                    raise WorkerGone(fate)
                watched = [self._child.stdout]  # ended as it should: with the worker, which is heard next
        return self._heard.take()

    def _add(self, chunk: bytes) -> None:
        """Raises WorkerGone for what is longer than any answer."""
        try:
            self._heard.add(chunk)
        except UNREADABLE as error:
            raise WorkerGone(f"{_first_words(self._heard.begun)}: {error}") from None

    def _ready_by(self, deadline: float, watched: Sequence[int]) -> list[int]:
        """Raises TimeoutError, having looked last: an answer came in time where this process was stopped by Ctrl-Z."""
        left_s = max(0.0, deadline - time.monotonic())
        ready = readable(watched, min(left_s, LONGEST_WAIT_S))
        if not left_s and (self._heard.begun or not ready):
            raise TimeoutError
        return ready

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


def _due(answer: protocol.Answer, *kinds: type[_Answer]) -> _Answer:
    """The answer, if it is one of these."""
    if isinstance(answer, Refusal):
        if answer.placement:
            raise PlacementError(answer.reason, answer.asked, are_together=answer.are_together)
        raise BackendUnavailable(answer.reason)
    if not isinstance(answer, kinds):
        due = " or ".join(kind.__name__ for kind in kinds)
        raise WorkerGone(f"worker answered {type(answer).__name__} where {due} was due")
    return answer


def _of_start(ready: Ready, all_s: float) -> dict[str, float]:
    """Of a worker that was ready after so long, as Worker.phases_s has it."""
    return {"process": all_s - sum(ready.phases_s.values()), **ready.phases_s}


def _heard_of_another(arm: Arm, start: Start, silent: BaseException) -> WorkerGone:
    """What a worker died of without a word, in the words of another to which nothing is said.

    Podman hands a container its input once that runs. Where that has died without taking it, their connection ends in
    an error, upon which Podman reads no more of what was said: with Podman 4.3, of one in six that die at once.
    """
    another = _child(arm, start, (), verbose=False)
    try:
        ended = readable([another.stdout], HEARD_WITHIN_S)
        cause = another.cause_of_death() if ended else ""
        if another.has_failed and not another.died_silently:
            return WorkerGone(cause)
    finally:
        another.end()
    return WorkerGone(f"{silent} and said nothing, nor did another that was started to hear it")


def _of_arm(arm: Arm, error: BaseException) -> BaseException:
    """The error of a worker in the words of its arm."""
    if isinstance(error, WorkerGone | BackendUnavailable):
        return BackendUnavailable(refusal(arm, error.reason), arm=arm.name)
    if isinstance(error, PlacementError):
        return PlacementError(error.said(as_placement_key))
    return error


def _child(arm: Arm | None, start: Start, peers: Sequence[int], *, verbose: bool) -> Child:
    """The worker, or what starts it in an arm and speaks for it."""
    if arm is None:
        return Child("worker", "primbench.workers.worker", [f"run={os.getpid()}"], inherited=peers, verbose=verbose)
    order = protocol.encode(Order(arm=arm, gpus=start.hands_in_gpus or start.device != CPU)).decode()
    return Child("worker", "primbench.workers.supervisor", [order], verbose=verbose, clears_up=True)


def _check(arm: Arm, start: Start, ready: Ready) -> None:
    """Raises BackendUnavailable: results of two versions, or of a place not as asked for, are not to be compared."""
    inside = ready.environment.primbench_version
    if inside != __version__:
        raise BackendUnavailable(
            f"image {arm.image} has primbench {inside}, this is {__version__}: build the image again", arm=arm.name
        )
    if found := mismatch(arm, start.placement, ready, ELSEWHERE if arm.is_far else outside()):
        raise BackendUnavailable(found, arm=arm.name)
