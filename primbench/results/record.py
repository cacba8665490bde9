"""Results files: JSON Lines, a Header first, then Worker and Record lines as they happen.

One that is compressed by xz, as the kept ones are, is read all the same.

Schema 1 is the first one. Every field that came later has a default: what older files hold is read as it was.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from primbench.devices import Device
from primbench.environment.fingerprint import Environment
from primbench.environment.later import Later
from primbench.errors import InvalidRequest
from primbench.measurement import Measurement, notebook
from primbench.numa.placement import EffectivePlacement
from primbench.quantities import Seconds, Time, Whole
from primbench.registry import problem_class
from primbench.results.disturbances import Disturbance, disturbances
from primbench.spec.arm import Arm
from primbench.spec.captured import Captured
from primbench.spec.case import Case
from primbench.spec.fleet import Member
from primbench.spec.naming import name_of
from primbench.spec.study import Study
from primbench.spec.variables import Sent
from primbench.system.said import in_short
from primbench.units import format_percent, format_time

if TYPE_CHECKING:
    from collections.abc import Iterable

SCHEMA_VERSION = 2
Status = Literal["ok", "skipped", "failed"]
HEADINGS = ("case", "time", "noise", "disturbed by")
"""Of a record's row in a notebook."""


class Record(msgspec.Struct, frozen=True, kw_only=True, dict=True, tag_field="kind", tag="record"):
    """What became of a case."""

    case: Case
    status: Status
    """"ok", "skipped" (reason: no such operation, does not fit, hopeless) or "failed" (reason: error, wrong result,
    crash, timeout).
    """
    reason: str | None = None
    """Why it is not "ok", in a line; None of one that is."""
    measurement: Measurement | None = None
    """What was measured; None where nothing was."""
    worker: Whole | None = None
    """Number of the Worker line that tells where it ran; None where it ran nowhere."""
    started_utc: str
    duration_s: Time
    """How long the whole case took, set-up and check included."""
    later: Later | None = None
    """What of the worker's place was, after this case, not as its line says; None where nothing was, or there was no
    worker any more.
    """

    @cached_property  # tables and exports ask for it again and again
    def disturbances(self) -> list[Disturbance]:
        """What disturbed the case; none where nothing was timed."""
        return disturbances(self.measurement) if self.measurement else []

    @property
    def disturbed_by(self) -> list[str]:
        """The same in words."""
        return [each.words for each in self.disturbances]

    @property
    def cache(self) -> Literal["hot", "cold", "step"]:
        """With which it was measured, where it was; "step": as the step leaves it that the case is a part of."""
        is_as_there = self.measurement is not None and self.measurement.input_sets > 1
        return "step" if is_as_there and self.case.method.cache == "hot" else self.case.method.cache

    def __repr__(self) -> str:
        """The case, what became of it, and its time."""
        return f"Record({name_of(self.case)}: {self._outcome()})"

    def _repr_html_(self) -> str:
        """For notebooks."""
        return notebook.table("", HEADINGS, [self.cells()])

    def cells(self) -> tuple[str, str, str, str]:
        """Words of HEADINGS."""
        main = self.measurement.main if self.measurement else None
        noise = main.noise if main else None
        return (
            name_of(self.case),
            self._outcome(),
            format_percent(noise),
            "; ".join(self.disturbed_by),
        )

    def _outcome(self) -> str:
        main = self.measurement.main if self.measurement else None
        if self.status != "ok":
            return f"{self.status}: {self.reason}"
        return format_time(main.median_s, noise=main.noise) if main else "ok"


class Worker(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="worker"):
    """One worker process: what it found around itself, and where it was really placed."""

    worker: Whole
    pid: Whole
    backend: str
    device: str
    environment: Environment
    placement: EffectivePlacement
    versions: dict[str, str]
    arm: Arm | None = None
    """The arm as it was asked for; None outside of studies."""
    sent: Sent | None = None
    """What was sent to another machine of the variables where the study was started; None where it was not sent to one.
    """
    phases_s: dict[str, Seconds] = {}
    """What starting it took, one after the other: "process", until its first line ran, what makes its arm included, and
    until its answer was heard; "import" of primbench; "place", to bind itself; "framework", to import it; "context", to
    open its device; "look" around. {} in files from before they were kept.
    """


class Header(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="header"):
    """The first line of a results file. The environment is that of the process the user started."""

    schema_version: int
    command: list[str]
    started_utc: str
    labels: dict[str, str]
    environment: Environment
    study: Study | None = None
    kernels: dict[str, str] = {}
    """Path -> SHA-256 of the files named by ``--kernels``, which define primitives or kernels beside primbench's."""
    member: Member | None = None
    """Which member of a fleet measured here; None where there is no fleet."""
    captured: dict[str, Captured] = {}
    """What suites say of steps, of cases that are parts of these, by their label "step"."""


Line = Header | Worker | Record


def model_of(worker: Worker) -> str | None:
    """The CPU's or the GPU's name."""
    if not Device.parse(worker.device).is_gpu:
        return worker.environment.machine.cpu_model
    gpu = worker.environment.devices.gpu(worker.device)
    return gpu.name if gpu else None


def as_it_was(record: Record) -> Record:
    """With what was so of its case before the primitive had a field for it, and a reason that can be told."""
    if record.reason is not None:
        record = replace(record, reason=in_short(record.reason))
    case = record.case
    try:
        parameters = problem_class(case.primitive).completed(case.parameters, case.on)
    except InvalidRequest:  # none that is installed here
        return record
    if parameters is case.parameters:
        return record
    return replace(record, case=replace(case, parameters=parameters))


def thread_lacks(records: Iterable[Record], workers: Iterable[Worker]) -> list[str]:
    """Of how many threads those workers asked that ran a record, and how many they had, where these differ."""
    asked = {record.worker: record.case.placement.threads for record in records}
    counts = [(asked.get(each.worker), each.placement.threads, each.backend) for each in workers]
    unlike = [(wanted, had, backend) for wanted, had, backend in counts if None not in (wanted, had) and wanted != had]
    return [
        f"threads={wanted}, and the largest pool has {had} ({backend})"
        for wanted, had, backend in dict.fromkeys(unlike)
    ]
