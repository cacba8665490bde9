"""What the main process and a worker say to each other, one JSON line a message.

The main process sends Start, then one Task at a time; the worker answers Ready or Refusal, then an Outcome a task.
Before a task it may be told to Prepare, and answers Prepared. In between it gives its turn away as often as it likes,
where the task has others to take turns with, and waits for Go; of such a task it says once it has Sampled all. A worker
that is a neighbour gets no Task: it calls from the first Count on, and answers each.
"""

from __future__ import annotations

import functools
from typing import Any, Literal

import msgspec

from primbench.distributed.networks import NetworkKind
from primbench.environment.fingerprint import Environment
from primbench.environment.later import Later
from primbench.measurement import Measurement, Trace
from primbench.numa.placement import EffectivePlacement
from primbench.spec.case import Case
from primbench.spec.neighbour import Neighbour
from primbench.spec.placement import Placement
from primbench.system.said import in_short
from primbench.timing.references import NOTHING_KNOWN, KnownOfCase

PROTOCOL_VERSION = 7

WorkerPurpose = Literal["time", "trace", "neighbour"]


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is started for. Backend and device left None are chosen by the worker, the backend among the
    candidates.
    """

    protocol_version: int = PROTOCOL_VERSION
    candidates: list[str] = []
    backend: str | None
    device: str | None
    placement: Placement = Placement()
    purpose: WorkerPurpose = "time"
    ranks: int = 1
    """Processes that its cases take, this one being rank 0; device is then its own."""
    sharing: int = 1
    """How many of the ranks no launcher has given CPUs and threads of their own, this one included."""
    peers: tuple[int, ...] = ()
    """Sockets it inherits, by descriptor, one to each further rank in their order."""
    address: str = "127.0.0.1"
    """The host by which those reach it."""
    network: NetworkKind | None = None
    """The network that they are to make between them; None for the one that is there."""
    hands_in_gpus: bool = False
    """Whether a container is given this machine's GPUs."""
    kernels: dict[str, str] = {}
    """Files with primitives and kernels beside primbench's own, path and SHA-256."""
    neighbour: Neighbour | None = None
    """What it calls over and over, with that purpose."""


class Enlist(msgspec.Struct, frozen=True, kw_only=True):
    """What rank 0 tells each further rank first: which one it is, of how many, and what rank 0 itself was told."""

    rank: int
    size: int
    start: Start


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A worker has started."""

    pid: int
    backend: str
    device: str
    environment: Environment
    placement: EffectivePlacement
    versions: dict[str, str]
    phases_s: dict[str, float] = {}
    """Phases of its start, from its first line on, as Worker has them."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The worker cannot work as asked."""

    reason: str
    placement: bool
    """Whether it is the place that cannot be had, not the backend."""
    asked: dict[str, Any] = {}
    """What of the place, as PlacementError has it."""
    are_together: bool = False
    """Whether these are refused together, as PlacementError has it."""


class Task(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A case for a worker."""

    case: Case
    in_turn: bool = False
    """Whether in turn with workers of other arms that time the same case."""
    cpu: int | None = None
    """The CPU on which all of them call; None for any."""
    others_follow: bool = False
    """Whether more of them begin after this one, before any of them samples."""
    shares_s: dict[str, float] = {}
    """Metric -> how long each samples it."""
    known: KnownOfCase = NOTHING_KNOWN
    """What is known of its check."""


class Prepare(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Do of the next case what takes the host alone."""

    case: Case
    together: int
    """How many workers do so at the same time, with this."""


class Prepared(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """It is done, or was of no use, which the case itself tells then."""


class TurnOver(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """It is another worker's turn."""

    done: bool
    """Whether this one has enough samples of the metric that is being sampled."""


class Sampled(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """All that others would disturb is over, of a case with turns: they may go on, and the Outcome follows unasked."""


class Go(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The next turn."""

    all_done: bool
    """Whether all are done with it, and go on to the next metric."""


class Count(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How often has a neighbour called?"""


class Called(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How often it has, calls that are done, and when that was by its clock. One at least since the last Called."""

    calls: int
    time_s: float


class Outcome(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What became of a case: a measurement from a timing worker, a trace from a tracing one, or a reason."""

    status: Literal["ok", "skipped", "failed"]
    reason: str | None = None
    measurement: Measurement | None = None
    trace: Trace | None = None
    later: Later | None = None
    """Where the worker's place was not as it was at its start, once the case was over."""


Answer = Ready | Refusal | Prepared | TurnOver | Sampled | Called | Outcome
Word = Task | Prepare | Go | Count

encode = msgspec.json.encode
decode_start = msgspec.json.Decoder(Start).decode
decode_word = msgspec.json.Decoder(Word).decode


@functools.cache
def _answers() -> msgspec.json.Decoder[Answer]:
    """Made where answers are read: of all their types it takes a tenth of the time in which a worker is imported."""
    return msgspec.json.Decoder(Answer)


def decode_answer(line: bytes) -> Answer:
    """Raises msgspec.MsgspecError. A reason is as long as it is told, whoever the worker is."""
    answer = _answers().decode(line)
    if isinstance(answer, Refusal | Outcome) and answer.reason is not None:
        return msgspec.structs.replace(answer, reason=in_short(answer.reason))
    return answer
