"""The child process that measures, `python -P -m primbench.workers.worker RUN`: tasks in on stdin, outcomes on stdout.

RUN is the same for all workers of a run, by which they know each other on a GPU.

It is placed before any framework is imported, serves one backend on one device, and is replaced after a failure,
so that a broken CUDA context costs one case.
"""

from __future__ import annotations

from primbench.devices import CPU, Device
from primbench.system import collector

if __name__ == "__main__":
    collector.rest()

from time import perf_counter_ns

from primbench.timing.phases import Phases

BEGUN = Phases(perf_counter_ns)  # before all that takes long to import

import ctypes
import gc
import importlib
import os
import signal
import traceback
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from msgspec.structs import replace

from primbench.backends import Backend, best_available, missing, modules_of
from primbench.distributed.group import ALONE, Group
from primbench.environment import fingerprint
from primbench.environment.devices import has_gpu_node
from primbench.environment.later import Later, later
from primbench.errors import BackendUnavailable, FileError, PlacementError, UnsupportedCase
from primbench.numa import placement
from primbench.registry import add_file
from primbench.system.refused_calls import refused_calls_named
from primbench.timing.case import measure_on
from primbench.timing.collective import LockstepInTurn
from primbench.timing.inputs import made_together
from primbench.timing.raised import one_line
from primbench.timing.trace import trace_on
from primbench.timing.turns import InTurn
from primbench.workers import numpy_threads, protocol
from primbench.workers.calling import call_until_told
from primbench.workers.meeting import come_together, enlist, refused_by
from primbench.workers.protocol import Go, Outcome, Prepare, Prepared, Ready, Refusal, Sampled, Start, Task, TurnOver

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from primbench.environment.fingerprint import Environment
    from primbench.problem import Array
    from primbench.spec.case import Case
    from primbench.timing.turns import GiveAway

_PR_SET_PDEATHSIG = 1


def main() -> None:
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the main process's to handle; it ends this process
    source, sink = own_streams()
    start = protocol.decode_start(source.readline())
    BEGUN.end("import")
    try:
        with refused_calls_named(BackendUnavailable):
            placement.check_cpus(start.placement)  # before ranks are started in an arm
            group = enlist(start)
            refused = refused_by(lambda: come_together(group, start, 0))
            backend, ready = begin(start)
    except BackendUnavailable as refusal:
        say(sink, Refusal(reason=str(refusal), placement=False))
        return
    except PlacementError as refusal:
        together = refusal.are_together
        say(sink, Refusal(reason=refusal.words, placement=True, asked=refusal.asked, are_together=together))
        return
    if start.ranks > 1 and refused is None:
        refused = refused_by(group.agree)  # returns once every rank has opened its backend
    say(sink, ready)
    if start.neighbour is not None:
        call_until_told(backend, start.neighbour, source, partial(say, sink))
        os._exit(0)
    serve(source, sink, backend, start, ready=ready, group=group, refused=refused)
    os._exit(0)  # frameworks take up to half a second to tear down what the kernel frees at once


def serve(
    source: BinaryIO,
    sink: BinaryIO,
    backend: Backend,
    start: Start,
    *,
    ready: Ready,
    group: Group,
    refused: Outcome | None,
) -> None:
    """Prepare for cases and run them as they are asked for, until nobody asks. refused: the outcome of all of them."""
    give_away = partial(give_turn_away, source, sink)
    for_case: Case | None = None
    inputs: tuple[Array, ...] = ()
    while line := source.readline():
        word = protocol.decode_word(line)
        if isinstance(word, Prepare):
            if refused is None:
                group.tell(word)
                for_case, inputs = word.case, prepared(word, backend.device, group)
            say(sink, Prepared())
            continue
        assert isinstance(word, Task)
        if word.case != for_case:
            inputs = ()
        seen: list[Later | None] = []
        over = partial(say, sink, Sampled()) if word.in_turn else None
        outcome = refused or run(
            backend,
            word,
            start,
            group=group,
            page_nodes=ready.placement.page_nodes,
            give_away=give_away,
            inputs=inputs,
            look=partial(look, seen, word.case, ready.environment, over),
        )
        for_case, inputs = None, ()
        say(sink, replace(outcome, later=seen[0] if seen else looked(word.case, ready.environment)))
        gc.collect()
        backend.release()


def look(seen: list[Later | None], case: Case, told: Environment, over: Callable[[], None] | None) -> None:
    """What of the place is not as it was told, added to ``seen``. over: tells others that all is sampled, who wait."""
    if over is not None:
        over()
    seen.append(looked(case, told))


def looked(case: Case, told: Environment) -> Later | None:
    """What of the place is not as it was told; None also after a dry run, of which it has changed no time."""
    if case.method.dry_run:
        return None
    problem = case.known_problem()
    return later(told, problem.folder() if problem else None)


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


def give_turn_away(source: BinaryIO, sink: BinaryIO, done: bool) -> bool:  # noqa: FBT001 - as turns.GiveAway has it
    say(sink, TurnOver(done=done))
    line = source.readline()
    if not line:  # the main process has ended, or its patience with another worker
        os._exit(0)
    go = protocol.decode_word(line)
    assert isinstance(go, Go)
    return go.all_done


def prepared(word: Prepare, device: Device, group: Group) -> tuple[Array, ...]:
    """The inputs of the case to come, () where they are better made by itself; every rank calls this.

    What memory a network takes is found out as well, for which a process imports for seconds. What is raised here is
    raised by the case again, and told there.
    """
    inputs: tuple[Array, ...] = ()
    with suppress(Exception):
        inputs = made_together(word.case.problem().on(device), word.case.method, word.together * group.size)
    group.agree()
    return inputs if group.size == 1 else ()


def begin(start: Start) -> tuple[Backend, Ready]:
    """Place this process, open the backend, and look around."""
    if start.protocol_version != protocol.PROTOCOL_VERSION:
        raise BackendUnavailable(
            f"the worker's primbench speaks protocol {protocol.PROTOCOL_VERSION}, "
            f"this one {start.protocol_version}: install the same version in both places"
        )
    if not _can_be_there(start.device):
        raise BackendUnavailable(
            f"no GPU is visible inside {os.environ['PRIMBENCH_RUNTIME']}: there is no /dev/nvidia0 or the like"
        )
    collector.rest()
    placed = placement.apply(start.placement, Device.parse(start.device or CPU))
    if start.sharing > 1 and start.device == CPU:
        placement.share_cpus(placed.cpus, start.sharing)
    BEGUN.end("place")
    numpy_threads.rest_beside(start.backend)
    _add_kernels(start.kernels)  # which may import a framework
    if start.backend and missing(start.backend) is None:
        importlib.import_module(modules_of(start.backend)[0])
    BEGUN.end("framework")
    backend = best_available(start.candidates, start.backend, start.device)
    versions = backend.versions()  # loads what is looked at next: the libraries and their threads
    BEGUN.end("context")
    ready = Ready(
        pid=os.getpid(),
        backend=backend.name,
        device=str(backend.device),
        environment=fingerprint.collect(gpus=backend.device.is_gpu),
        placement=replace(placed, threads=placement.read_threads()),
        versions=versions,
    )
    collector.collect_again()
    BEGUN.end("look")
    return backend, replace(ready, phases_s=BEGUN.ended_s)


def _add_kernels(files: Mapping[str, str]) -> None:
    """Raises BackendUnavailable where a file is not here as it is there, which in a container is the rule."""
    try:
        for path, sha256 in files.items():
            add_file(path, sha256)
    except FileError as error:
        inside = os.environ.get("PRIMBENCH_RUNTIME", "host")
        way_out = (
            ""
            if inside == "host"
            else (
                f"; {inside} shares other folders with the host, if any, and has a /tmp of its own: put it there, or "
                "install it in the image as a package with an entry point primbench.kernels"
            )
        )
        raise BackendUnavailable(f"{error}{way_out}") from None


def _can_be_there(device: str | None) -> bool:
    """Whether the device can be here: in a container, a GPU only where device files of GPUs were handed in."""
    is_inside = os.environ.get("PRIMBENCH_RUNTIME", "host") != "host"
    return not (is_inside and device and Device.parse(device).is_gpu) or has_gpu_node()


def turns_of(task: Task, group: Group, give_away: GiveAway | None) -> InTurn | None:
    """give_away: of rank 0, as InTurn has it. None for a task that is not in turn."""
    if not task.in_turn:
        return None
    if group.size > 1:
        return LockstepInTurn(group, give_away, shares_s=task.shares_s)
    if give_away is None:
        return None
    return InTurn(give_away, task.cpu, others_follow=task.others_follow, shares_s=task.shares_s)


def run(
    backend: Backend,
    task: Task,
    start: Start,
    *,
    group: Group = ALONE,
    page_nodes: Sequence[int] | None = None,
    give_away: GiveAway | None = None,
    inputs: tuple[Array, ...] = (),
    look: Callable[[], object] = lambda: None,
) -> Outcome:
    """Measure or trace one case; every exception becomes a reason.

    page_nodes, inputs, look: as measure_on() has them. give_away: for a task in turn, as InTurn has it.
    """
    case = task.case
    try:
        problem = case.problem()
        if start.purpose == "trace":
            return Outcome(status="ok", trace=trace_on(backend, problem, case.method, case.kernel))
        group.tell(task)
        turns = turns_of(task, group, give_away)
        measured = measure_on(
            backend, problem, case.method, group,
            page_nodes=page_nodes, turns=turns, inputs=inputs, known=task.known, look=look, kernel=case.kernel,
        )  # fmt: skip
        return Outcome(status="ok", measurement=measured)
    except UnsupportedCase as reason:
        return Outcome(status="skipped", reason=str(reason))
    except Exception as error:  # whatever a framework raises is the outcome of this case, not of the run
        traceback.print_exc()  # seen with --verbose
        return Outcome(status="failed", reason=one_line(error))


if __name__ == "__main__":
    main()
