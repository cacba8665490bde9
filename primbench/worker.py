"""The child process that measures: `python -P -m primbench.worker`, cases in on stdin, outcomes out on stdout.

It is placed before any framework is imported, serves one backend on one device, and is replaced after a failure,
so that a broken CUDA context costs one case.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
from typing import BinaryIO

from msgspec.structs import replace

from primbench import environment, placement, protocol
from primbench.backends import Backend, best_available
from primbench.errors import BackendUnavailable, PlacementError, UnsupportedCase
from primbench.problem import backends_of
from primbench.protocol import Outcome, Ready, Refusal, Start
from primbench.record import Case
from primbench.timing import measure_on, trace_on

_PR_SET_PDEATHSIG = 1


def main() -> None:
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the front's to handle; it ends this process
    source, sink = own_streams()
    start = protocol.decode_start(source.readline())
    try:
        backend, ready = begin(start)
    except (BackendUnavailable, PlacementError) as refusal:
        say(sink, Refusal(reason=str(refusal), placement=isinstance(refusal, PlacementError)))
        return
    gc.collect()
    gc.freeze()  # what the framework's import left behind would be gone through after every case, for 50 ms
    say(sink, ready)
    while line := source.readline():
        say(sink, run(backend, protocol.decode_case(line), start))
        gc.collect()
        backend.release()
    os._exit(0)  # frameworks take up to half a second to tear down what the kernel frees at once


def die_with_parent() -> None:
    """Ask the kernel to end this process with its parent, however that ends."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def own_streams() -> tuple[BinaryIO, BinaryIO]:
    """The real stdin and stdout for the protocol; a framework finds stdin empty, and what it prints goes to stderr."""
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return source, sink


def say(sink: BinaryIO, message: protocol.Answer) -> None:
    sink.write(protocol.encode(message) + b"\n")
    sink.flush()


def begin(start: Start) -> tuple[Backend, Ready]:
    """Place this process, open the backend, and look around."""
    if start.protocol_version != protocol.PROTOCOL_VERSION:
        raise BackendUnavailable(
            f"the worker's primbench speaks protocol {protocol.PROTOCOL_VERSION}, "
            f"this one {start.protocol_version}: install the same version in both places"
        )
    placed = placement.apply(start.placement, start.device or "cpu")
    backend = best_available(backends_of(start.primitive), start.backend, start.device)
    versions = backend.versions()  # loads what is looked at next: the libraries and their threads
    ready = Ready(
        pid=os.getpid(),
        backend=backend.name,
        device=backend.device,
        environment=environment.collect(gpus=backend.device != "cpu"),
        placement=replace(placed, threads=placement.read_threads()),
        versions=versions,
    )
    return backend, ready


def run(backend: Backend, case: Case, start: Start) -> Outcome:
    """Measure or trace one case; every exception becomes a reason."""
    try:
        if start.purpose == "trace":
            return Outcome(status="ok", trace=trace_on(backend, case.problem(), case.method))
        return Outcome(status="ok", measurement=measure_on(backend, case.problem(), case.method))
    except UnsupportedCase as reason:
        return Outcome(status="skipped", reason=str(reason))
    except Exception as error:  # whatever a framework raises is the outcome of this case, not of the run
        return Outcome(status="failed", reason=one_line(error))


def one_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    name = type(error).__name__
    return f"{name}: {lines[0]}" if lines and lines[0] not in name else name


if __name__ == "__main__":
    main()
