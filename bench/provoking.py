"""What slows workers that are measured, while a study runs: other programs, limits, and what is done to them late."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from primbench.runtimes import limits
from primbench.spec.arm import parse_arm

MARK = "env.PROVOKED=1"
LOOK_S = 0.03
NO_EXEC = Path("/run/primbench-noexec")
DISKS = Path("/run/primbench-provoked")
LITTLE_KIB = 16  # as profiles for databases set it


@contextlib.contextmanager
def a_busy_process() -> Iterator[None]:
    """On the first CPU, in a session of its own, as another user's would be, until this process ends."""
    spin = f"import os; os.sched_setaffinity(0, {{0}})\nwhile os.getppid() == {os.getpid()}: pass"
    with subprocess.Popen([sys.executable, "-c", spin], start_new_session=True) as spinning:
        try:
            yield
        finally:
            spinning.kill()


@contextlib.contextmanager
def folders_in_memory() -> Iterator[None]:
    """Two of one kind in NO_EXEC, by root, one of them mounted noexec."""
    with contextlib.ExitStack() as made:
        made.callback(shutil.rmtree, NO_EXEC, ignore_errors=True)
        for name, options in (("exec", "size=512m"), ("noexec", "size=512m,noexec")):
            folder = NO_EXEC / name
            folder.mkdir(parents=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], check=True)
            made.callback(subprocess.check_call, ["umount", str(folder)])
        yield


Do = Callable[[int], object]
"""To a worker, by its number."""


def late(do: Do, is_time: Callable[[int], bool] | None = None) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Do it to each worker of the arm that has MARK, once that has told of its place and waits for a case.

    is_time: tells so of a worker, by its number, where that is another moment.
    """

    @contextlib.contextmanager
    def beside() -> Iterator[None]:
        over, done = threading.Event(), set[int]()

        def watch() -> None:
            while not over.wait(LOOK_S):
                for pid in filter(is_time or _waits_for_a_case, set(_workers()) - done):
                    done.add(pid)
                    do(pid)

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            yield
        finally:
            over.set()
            watching.join()

    return beside


def _workers() -> Iterator[int]:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = [Path("/proc", pid, name).read_bytes() for name in ("environ", "cmdline")]
            if b"PROVOKED=1\0" in words[0] and b"primbench.workers.worker" in words[1]:
                yield int(pid)


def _waits_for_a_case(pid: int) -> bool:
    """By the system call that it is in (0 is read, on x86-64), with its backend loaded."""
    with contextlib.suppress(OSError):
        is_loaded = any(name in Path(f"/proc/{pid}/maps").read_text() for name in ("openblas", "libtorch_cpu"))
        return is_loaded and Path(f"/proc/{pid}/syscall").read_text().startswith("0 ")
    return False


def limited_late(words: str) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Move each worker of the arm into control groups with the limits of another arm."""
    name = f"primbench-late-{os.getpid()}"

    def move(pid: int) -> None:
        for folder, names, _ in os.walk("/sys/fs/cgroup"):  # which groups of others leave meanwhile
            if name in names:
                Path(folder, name, "cgroup.procs").write_text(str(pid))

    return entered(lambda: limits.limited(parse_arm(words), name), late(move))


def watched_late(*command: str) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Run a program that is told the number of each worker of the arm, and ends with it."""
    nowhere = subprocess.DEVNULL
    return late(lambda pid: subprocess.Popen([*command, str(pid)], stdout=nowhere, stderr=nowhere))


def watched_early(*command: str) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """The same from as soon as the worker is there, mostly before it looks around itself."""
    nowhere = subprocess.DEVNULL
    run = lambda pid: subprocess.Popen([*command, str(pid)], stdout=nowhere, stderr=nowhere)  # noqa: E731
    return late(run, lambda pid: True)


def nice_late(pid: int) -> None:
    """Also of its session among the others: where Linux groups processes by these, niceness counts within one alone."""
    os.setpriority(os.PRIO_PROCESS, pid, 8)
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text("8")


def _run(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextlib.contextmanager
def two_disks() -> Iterator[None]:
    """Of one kind, with a file system each, in DISKS, by root: "slow" reads little ahead."""
    with contextlib.ExitStack() as made:
        made.callback(lambda: shutil.rmtree(DISKS, ignore_errors=True))
        for name in ("quick", "slow"):
            folder, image = DISKS / name, Path(os.environ.get("TMPDIR", "/var/tmp"), f"primbench-{name}.img")
            folder.mkdir(parents=True)
            made.callback(image.unlink, missing_ok=True)
            with image.open("wb") as file:
                file.truncate(2**28)
            _run("mkfs.ext4", "-q", image)
            device = _run("losetup", "-f", "--show", image).strip()
            made.callback(_run, "losetup", "-d", device)
            _run("mount", device, folder)
            made.callback(_run, "umount", folder)
            if name == "slow":
                Path("/sys/block", Path(device).name, "queue/read_ahead_kb").write_text(f"{LITTLE_KIB}")
        yield


def drop_late(pid: int) -> None:
    """Have the kernel drop the pages of what a worker has in its temporary files, over and over, as it does on a node
    that is short of memory.
    """
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    folder = next(os.fsdecode(each[7:]) for each in variables if each.startswith(b"TMPDIR="))

    def drop() -> None:
        while Path(f"/proc/{pid}").exists():
            for at, _, names in os.walk(folder):  # which leaves out what is removed meanwhile
                for name in names:
                    _drop(Path(at, name))
            time.sleep(LOOK_S)

    threading.Thread(target=drop, daemon=True).start()


def _drop(path: Path) -> None:
    """Once the disk has them: pages that are still to be written stay."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        os.fdatasync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def idle_late(pid: int) -> None:
    """As `chrt -i` does."""
    os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))


def pause_late(pid: int) -> None:
    """Stop it over and over, for as long as it is there."""

    def pause() -> None:
        with contextlib.suppress(ProcessLookupError):
            while True:
                os.kill(pid, signal.SIGSTOP)
                time.sleep(0.03)
                os.kill(pid, signal.SIGCONT)
                time.sleep(0.02)

    threading.Thread(target=pause, daemon=True).start()


def entered(
    *contexts: Callable[[], contextlib.AbstractContextManager[object]],
) -> Callable[[], contextlib.AbstractContextManager[None]]:
    @contextlib.contextmanager
    def beside() -> Iterator[None]:
        with contextlib.ExitStack() as entering:
            for each in contexts:
                entering.enter_context(each())
            yield

    return beside
