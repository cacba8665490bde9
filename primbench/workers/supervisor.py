"""A process between the main process and the worker of an arm: `python -P -m primbench.workers.supervisor ORDER`.

It makes what the arm needs, passes what the main process says on to the worker, and clears everything away when one of
them has ended, however that ended: a container outlives the program that started it. It dies as the worker died.
"""

from __future__ import annotations

from primbench.system import collector

if __name__ == "__main__":
    collector.rest()

import contextlib
import os
import re
import resource
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NoReturn

import msgspec

from primbench.distributed.death import illegal_instruction
from primbench.errors import BackendUnavailable, PrimbenchError
from primbench.runtimes.inherited import of_process
from primbench.runtimes.invocation import python
from primbench.runtimes.leftovers import ToDo, clear, launch_folder, note, sweep
from primbench.runtimes.limits import limited
from primbench.runtimes.mounts import mounted
from primbench.runtimes.order import Order
from primbench.runtimes.table import launch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from primbench.runtimes.invocation import Invocation
    from primbench.spec.arm import Arm

STEP_TIMEOUT_S = 60.0
GOODBYE_MS = 2000  # in which a worker that is not in the middle of a case has ended
BEAT_MS = 5000  # between two signs of life to the supervisor on another machine, when there is nothing to pass on
LOST_AFTER_BEATS = 4  # that are missing: the connection is gone, which the program that holds it may never notice
BEAT = b"\0"  # in no line of JSON
GUARD_S = 0.5  # in which a guard beside the program that holds the connection, as srun has, clears the other side
_HINT = re.compile(r"(Run|See) '.* --help'")


def main() -> None:
    order = msgspec.json.decode(sys.argv[1], type=Order)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the main process's to handle; it ends this process
    for number in (signal.SIGTERM, signal.SIGHUP):  # as that, where a whole job is told to end; the worker heeds them
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores it, and then the worker is to, too
            signal.signal(number, lambda *_: None)
    try:
        sweep()
        with launch_folder() as folder, mounted(order.arm, folder):
            status = run(order, folder)
    except PrimbenchError as refusal:
        from primbench.workers import protocol  # the types of all messages, which every arm's start would wait for

        os.write(1, protocol.encode(protocol.Refusal(reason=refusal.reason, placement=False)) + b"\n")
        sys.exit(refusal.exit_code)
    finally:
        sweep()  # what the main process has left, if it was killed
    if order.is_from_afar:
        sys.exit(status if status >= 0 else 128 - status)
    end_as(status)


def run(order: Order, folder: Path) -> int:
    """The exit status of the worker, the negative number of a signal as subprocess has it.

    Raises BackendUnavailable or InvalidRequest where it cannot be started.
    """
    launched = launch(order.arm, folder, gpus=order.gpus, command=_command(order))
    if launched.after:  # an environment holds what is to stand in no file, and is not kept for nothing
        note(folder, ToDo(after=launched.after, environment=launched.environment))
    try:
        for step in launched.before:
            _make(order.arm, step, launched)
        if order.arm.runtime != "host":
            return _attend(order, launched.worker, launched)
        with limited(order.arm, folder.name) as limits:
            return _attend(order, [*limits.prefix, *launched.worker], launched, limits.enter)
    finally:
        for step in launched.after:
            clear(step, launched.environment)


def _command(order: Order) -> list[str] | None:
    if order.command is None or not order.is_from_afar:
        return order.command
    return [python(order.arm), *order.command[1:]]


def _make(arm: Arm, command: Sequence[str], launched: Invocation) -> None:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            env=launched.environment, timeout=STEP_TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise BackendUnavailable(f"{command[0]} {command[1]} took over {STEP_TIMEOUT_S:g} s", arm=arm.name) from None
    except OSError as error:
        raise _absent(arm, command, error) from None
    if done.returncode:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip() and not _HINT.match(line)]
        why = said[-1] if said else f"exit status {done.returncode}"
        raise BackendUnavailable(f"{command[0]} {command[1]}: {why}", arm=arm.name)


def _absent(arm: Arm, command: Sequence[str], error: OSError) -> BackendUnavailable:
    return BackendUnavailable(f"{command[0]}: {error.strerror}: see `primbench arms`", arm=arm.name)


def _start(
    arm: Arm, command: Sequence[str], launched: Invocation, enter: Callable[[], None] | None
) -> subprocess.Popen[bytes]:
    """A process that first of all is given what the arm has its processes inherit. enter: puts it under limits."""
    told, tells = os.pipe()
    own = [] if arm.is_far else list(of_process(arm))  # there that is the supervisor's

    def limit() -> None:
        what = "its control group"
        try:
            if enter is not None:
                enter()
            for what, take in own:  # noqa: B007 - told where it fails
                take()
        except (OSError, ValueError) as error:
            os.write(tells, f"{what}: {getattr(error, 'strerror', None) or error}".encode())
            raise

    try:
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, env=launched.environment, start_new_session=True,
            preexec_fn=limit,  # noqa: PLW1509 - this process has one thread
        )  # fmt: skip
    except OSError as error:
        raise _absent(arm, command, error) from None
    except subprocess.SubprocessError:  # ``limit`` failed in the child
        reason = os.read(told, 1 << 10).decode()
        raise BackendUnavailable(f"{reason}: ask for less, or be root", arm=arm.name) from None
    finally:
        os.close(told)
        os.close(tells)


def _attend(order: Order, command: Sequence[str], launched: Invocation, enter: Callable[[], None] | None = None) -> int:
    """Pass on what the main process says until one of the two ends. enter: the limits of the worker, first of all."""
    worker = _start(order.arm, command, launched, enter)
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 1)  # the main process sees the end of the worker's output when the worker ends
    ended = os.pidfd_open(worker.pid)
    try:
        _pass_on(order, worker, ended, launched.first)
    finally:
        if order.arm.is_far and _was_killed(ended):
            time.sleep(GUARD_S)
        _kill_session(worker.pid)
        os.close(ended)
    status = worker.wait()
    if status in (-signal.SIGILL, 128 + signal.SIGILL) and not order.arm.is_far:
        print(illegal_instruction({**os.environ, **order.arm.variables}), file=sys.stderr, flush=True)
    return status


def _was_killed(process: int) -> bool:
    """Whether a signal ended it; it stays as it is, so that its number is nobody else's yet."""
    found = os.waitid(os.P_PIDFD, process, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return found is not None and found.si_code == os.CLD_KILLED


def _kill_session(leader: int) -> None:
    """Kill all processes of a session, also those in groups of their own, as Apptainer's mount of an image is."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(int(name)) == leader:
                os.kill(int(name), signal.SIGKILL)


def _let_end(worker: subprocess.Popen[bytes], ended: int) -> None:
    """A worker between two cases ends by itself, and then what its runtime started beside it does, too."""
    assert worker.stdin is not None
    worker.stdin.close()
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.poll(GOODBYE_MS)


def _pass_on(order: Order, worker: subprocess.Popen[bytes], ended: int, first: bytes) -> None:
    """Hand the worker ``first`` and then what the main process writes, until either of the two has ended.

    Never waits for a worker that does not read, which a machine that is not reached does not do. Between two machines
    a sign of life is passed on as well, and it ends once several are missing; a machine that stood still itself, as one
    that is saved and resumed, misses one by that. Raises SystemExit then.
    """
    assert worker.stdin is not None
    takes, unsaid, missing = worker.stdin.fileno(), bytearray(first), 0
    os.set_blocking(takes, False)
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(ended, select.POLLIN)
    while True:
        ready = _ready(poll, takes if unsaid else None, BEAT_MS if _is_between_machines(order) else None)
        if ended in ready:
            return
        missing = 0 if ready else missing + order.is_from_afar
        if missing == LOST_AFTER_BEATS:
            sys.exit(f"the connection is lost: nothing was heard for {missing * BEAT_MS} ms")
        if takes in ready:
            unsaid = _said(takes, unsaid)
        heard = _heard(ready, order)
        if heard is None:
            _let_end(worker, ended)
            return
        unsaid += heard


def _is_between_machines(order: Order) -> bool:
    return order.is_from_afar or order.arm.is_far


def _ready(poll: select.poll, takes: int | None, patience_ms: int | None) -> list[int]:
    """The descriptors that something can be done with, takes among them; none after so long."""
    if takes is not None:
        poll.register(takes, select.POLLOUT)
    found = [descriptor for descriptor, _ in poll.poll(patience_ms)]
    if takes is not None:
        poll.unregister(takes)
    return found


def _heard(ready: Sequence[int], order: Order) -> bytes | None:
    """What is to be passed on, to another machine a sign of life where nothing is; None once the main process ended."""
    if 0 not in ready:
        return b"" if ready or order.is_from_afar else BEAT
    said = os.read(0, 1 << 16)
    return said.replace(BEAT, b"") if said else None


def _said(takes: int, unsaid: bytearray) -> bytearray:
    """What is left to say; nothing to a worker that is ending."""
    try:
        return unsaid[os.write(takes, unsaid) :]
    except BrokenPipeError:
        return bytearray()


def end_as(status: int) -> NoReturn:
    """End as the worker did: by its signal, be it told as an exit status above 128, or with its exit status."""
    number = -status if status < 0 else status - 128
    if number in signal.valid_signals():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # SIGKILL and SIGSTOP cannot be handled
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    sys.exit(status)


if __name__ == "__main__":
    main()
