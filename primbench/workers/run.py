"""From problems to records: choose backends and devices, run every case in workers, write the results file."""

from __future__ import annotations

import functools
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from primbench import backends as backend_files
from primbench import environment
from primbench.environment.devices import has_gpu_node
from primbench.errors import BackendUnavailable, InvalidField, InvalidRequest, OutputError
from primbench.measurement import Method
from primbench.numa.placement import Placement
from primbench.problem import Problem, backends_of, problem_class
from primbench.results.record import SCHEMA_VERSION, Case, Header, Line, Record, Results, Worker, Writer, encode
from primbench.spec.confidential import HIDDEN, hidden, is_secret
from primbench.system.files import utf8
from primbench.workers.protocol import Ready
from primbench.workers.session import DEFAULT_TIMEOUT_S, Session, ask_a_worker

if TYPE_CHECKING:
    import os

ALL = "all"
Place = tuple[str, str]
"""Backend and device."""
Ask = Callable[[tuple[str, ...], str | None], Ready]


def run(
    problems: Sequence[Problem],
    *,
    backend: str | Sequence[str] | None = None,
    device: str | None = None,
    method: Method | None = None,
    placement: Placement | None = None,
    processes: int = 1,
    trace: bool = False,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    output: str | os.PathLike[str] | None = None,
) -> list[Record]:
    """Run problems in worker processes and return their records; a failed case is a record, not an exception.

    backend: one, several, "all", or None for the best one on the device. device: "cpu", "cuda:N", "all", or None for
    the first GPU where there is one. output: a results file to make. Raises InvalidRequest where the request cannot
    be met, OutputError where the file cannot be written.
    """
    wanted = [backend] if isinstance(backend, str) else list(backend or ())
    cases = plan(
        [(problem, {}) for problem in problems],
        backends=wanted,
        device=device,
        method=method or Method(),
        placement=placement or Placement(),
        processes=processes,
    )
    session = Session(timeout_s=timeout_s, trace=trace, skip_unavailable=ALL in wanted)
    found = Results(header=header(["primbench.run"], {}), workers=[], records=[])
    writing = closing(Writer(output, found.header)) if output else nullcontext()
    with session, writing as writer:
        keep(session.run(cases), writer, found)
        check_kept(writer, found)
    return found.records


def plan(
    entries: Iterable[tuple[Problem, Mapping[str, str]]],
    *,
    backends: Sequence[str],
    device: str | None,
    method: Method,
    placement: Placement,
    processes: int,
    elsewhere: bool = False,
) -> list[Case]:
    """Every problem on every backend and device asked for, all of it once a process.

    Cases of one backend and device stand together, so that one worker serves them. An entry labelled with a device
    ("cpu" or "cuda") is for such devices only, and one on a backend without a kernel for it is skipped when it is run.
    elsewhere: nothing runs on what is installed here, and so a backend need not be that is named.
    Raises InvalidRequest where none is left, or a backend has a kernel for none.
    """
    listed, ask = list(entries), functools.cache(ask_a_worker)
    primitives = list(dict.fromkeys(problem.primitive for problem, _ in listed))
    _check_backends(primitives, backends, elsewhere=elsewhere)
    places = {primitive: _places(primitive, backends, device, ask) for primitive in primitives}
    order = list(dict.fromkeys(place for chosen in places.values() for place in chosen))
    cases = [
        Case(
            primitive=problem.primitive,
            parameters=problem.on(place[1]).parameters(),
            backend=place[0],
            device=place[1],
            method=method,
            placement=placement,
            labels=dict(labels),
            process=process,
        )
        for process in range(processes)
        for place in order
        for problem, labels in listed
        if place in places[problem.primitive] and labels.get("device") in (None, place[1].partition(":")[0])
    ]
    if listed and not cases:
        asked = sorted({labels.get("device", "") for _, labels in listed})
        raise InvalidRequest(f"every entry is for {', '.join(asked)}, this run is on {', '.join(p[1] for p in order)}")
    return cases


def choose(primitive: str, backends: Sequence[str], device: str | None, ask: Ask = ask_a_worker) -> list[Place]:
    """The backends and devices that a request means. What only a framework can tell, a worker is asked.

    Raises BackendUnavailable or InvalidRequest for a backend or device that is named and cannot be had.
    """
    _check_backends([primitive], backends)
    return _places(primitive, backends, device, ask)


def _places(primitive: str, backends: Sequence[str], device: str | None, ask: Ask) -> list[Place]:
    named = [name for name in backends if name != ALL]
    _check_device(device)
    if device is None and not (problem_class(primitive).on_gpus and has_gpu_node()):
        device = "cpu"
    if device == "cpu":
        chosen = named or backend_files.candidates(backends_of(primitive), "cpu")
        if not backends:
            preferred = problem_class(primitive).cpu_backend
            chosen = [preferred] if preferred else chosen[:1]
        if not chosen:
            reasons = (f"{name}: {backend_files.missing(name)}" for name in backends_of(primitive))
            raise BackendUnavailable(f"{primitive} has no backend on a CPU here: {'; '.join(reasons)}")
        return [(name, "cpu") for name in chosen]
    if any(map(backend_files.missing, named)):  # they are elsewhere, and no worker here can tell of their devices
        if device == ALL:
            raise InvalidField(
                f"device=all: {named[0]} would tell which, and is not installed here: name one, as cuda:0"
            )
        return [(name, device or "cuda:0") for name in named]
    ready = ask(tuple(named[:1] or backends_of(primitive)), "cuda:0" if device == ALL else device)
    devices = [ready.device]
    if device == ALL:
        devices = [f"cuda:{number}" for number in range(len(ready.environment.devices.gpus or [ready.device]))]
    names = named or [ready.backend]
    if ALL in backends:
        names = backend_files.candidates(backends_of(primitive), ready.device.split(":")[0])
    return [(name, place) for place in devices for name in names]


def _check_backends(primitives: Sequence[str], backends: Sequence[str], *, elsewhere: bool = False) -> None:
    for name in backends:
        if name == ALL:
            continue
        reason = backend_files.missing(name)
        if reason is not None and not elsewhere:
            raise BackendUnavailable(f"backend={name}: {reason}")
        if primitives and not any(name in backends_of(primitive) for primitive in primitives):
            having = sorted({other for primitive in primitives for other in backends_of(primitive)})
            raise InvalidRequest(
                f"backend {name} has no kernel for {', '.join(primitives)}: ask for {', '.join(having)}"
            )


def _check_device(device: str | None) -> None:
    if device not in (None, "cpu", ALL) and not re.fullmatch(r"cuda:\d{1,3}", device):
        raise InvalidField(f"device={device}: cpu, cuda:N (N from 0) or all")


def header(command: list[str], labels: Mapping[str, str]) -> Header:
    """The first line of a results file made here and now."""
    return Header(
        schema_version=SCHEMA_VERSION,
        command=[hidden(utf8(argument)) for argument in command],
        started_utc=datetime.now(UTC).isoformat(timespec="milliseconds"),
        labels={utf8(name): HIDDEN if is_secret(name) else hidden(utf8(value)) for name, value in labels.items()},
        environment=environment.collect(gpus=False),
    )


def left_to_do(cases: Sequence[Case], held: Results) -> list[Case]:
    """The cases that a results file does not hold yet, one that stands twice in ``cases`` twice.

    A case that failed there is tried again.
    """
    done = Counter(record.case.key() for record in held.latest() if record.status != "failed")
    left = []
    for case in cases:
        if done[case.key()]:
            done[case.key()] -= 1
        else:
            left.append(case)
    return left


def keep(lines: Iterable[Worker | Record], writer: Writer | None, found: Results) -> None:
    """Add the lines to ``found``, each once it is written to the results file.

    Raises OutputError where it cannot be written, or as check_kept() does.
    """
    for line in lines:
        if writer is not None and writer.loss() is None:
            writer.write(line)
        found.add(line)
        check_kept(writer, found)


def check_kept(writer: Writer | None, found: Results) -> None:
    """Raises OutputError where the results file is not there any more as it was left, with where its lines are now."""
    loss = None if writer is None else writer.loss()
    if writer is None or loss is None:
        return
    try:
        kept = f"all that was measured is in {_saved(writer.path, found)}"
    except OSError as error:
        kept = f"what was measured cannot be kept elsewhere: {error.strerror}"
    raise OutputError(f"{writer.path}: {loss} while it was written to; {kept}")


def _saved(path: Path, found: Results) -> str:
    """Beside the file, or where temporary files go: the new file that holds all. Raises OSError."""
    try:
        file, name = tempfile.mkstemp(path.suffix, f"{path.stem}-", path.parent)
    except OSError:
        file, name = tempfile.mkstemp(path.suffix, f"{path.stem}-")
    lines: list[Line] = [found.header, *found.workers, *found.records]
    with open(file, "wb") as sink:
        sink.writelines(map(encode, lines))
    return name
