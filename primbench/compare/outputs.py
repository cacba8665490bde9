"""Outputs of one case in many processes, by their digests: which are not what the same computation gave elsewhere."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from primbench.doctor.table import causes
from primbench.environment.comparable import meaning_of
from primbench.quantities import Whole
from primbench.results.record import model_of
from primbench.system.meaning import FactId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from primbench.environment.software import Software
    from primbench.measurement import Measurement
    from primbench.measurement.outputs import Output
    from primbench.results.record import Record, Worker
    from primbench.spec.case import Case


class SeenOutput(NamedTuple):
    """What the calls of one process gave."""

    place: str
    """The name of an arm, a file or a node."""
    process: int
    output: Output
    like: bytes
    """Equal for processes of which the same bits are to be expected."""


class Deviation(msgspec.Struct, frozen=True, kw_only=True):
    """An output that is not what it should be, to the last bit."""

    place: str
    process: Whole | None
    """By its number; None where every process of the place gave such an output."""
    calls: Whole
    """How many calls gave it, of all processes that are meant."""
    of_calls: Whole
    """How many calls of these were looked at."""
    parts: Whole
    """How many parts of the output differ."""
    of_parts: Whole
    """How many parts it has, as ``primbench/timing/digest.py`` divides it."""
    others: Whole
    """How many processes gave what was expected, all of them the same."""
    cause: str = ""
    """The id of the cause that it shows, which who walks the table fills in."""


def seen_in(place: str, records: Iterable[Record], workers: Mapping[int, Worker]) -> Iterator[SeenOutput]:
    """What every process gave of which that was kept."""
    for record in records:
        measured, worker = record.measurement, workers.get(-1 if record.worker is None else record.worker)
        if measured is not None and measured.output is not None and worker is not None:
            like = likeness(worker, measured) + _otherwise(record.case)
            yield SeenOutput(place, record.case.process, measured.output, like)


def _otherwise(case: Case) -> bytes:
    """What else its arm has it compute; none where it is the study's own case."""
    return msgspec.json.encode((case.implementation, case.parameters), order="sorted") if case.instead else b""


def deviations(seen: Sequence[SeenOutput]) -> list[Deviation]:
    """Of one case, in all places: what causes that show in outputs find there."""
    found = ((cause.id, each) for cause in causes().values() if cause.in_outputs for each in cause.in_outputs(seen))
    return [replace(each, cause=cause) for cause, each in found]


def likeness(worker: Worker, measured: Measurement) -> bytes:
    """Equal where the same code computes on the same kind of processor, as far as that is known.

    The versions, libraries by build, kernels and variables that they choose by, threads, the model of the CPU with its
    vector instructions, or of the GPU with its driver, and what libraries say of the code that they took.
    """
    environment, devices = worker.environment, worker.environment.devices
    gpu = devices.gpu(worker.device)
    known = [
        environment.primbench_version, worker.versions, *_of_software(environment.software), worker.placement.threads,
        model_of(worker), environment.machine.vectors, gpu and (gpu.driver_version or devices.driver_version),
        measured.algorithm, measured.implementations,
    ]  # fmt: skip
    return hashlib.blake2b(msgspec.json.encode(known, order="deterministic"), digest_size=16).digest()


def _of_software(software: Software) -> list[object]:
    """Python, libraries by build, kernels that these chose, and variables that they read and that need be alike."""
    libraries = {
        name: sorted(each.build_id or f"{each.version} {each.size_bytes}" for each in files)
        for name, files in (software.libraries or {}).items()
    }
    blas = sorted(f"{each.name} {each.version} {each.architecture} {each.threads}" for each in software.blas or ())
    variables = {
        name: value
        for name, value in (software.variables or {}).items()
        if not meaning_of(FactId("software", "variables", name)).varies
    }
    return [software.python_version, libraries, blas, variables, software.threads]
