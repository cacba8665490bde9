"""System calls that a real filter refuses to a real worker at its start: the call, the error and the way out."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from primbench.errors import PlacementError
from primbench.spec.placement import Placement
from primbench.system.refused_calls import refused_calls_named
from primbench.workers import protocol
from primbench.workers.protocol import Refusal, Start

SECCOMP = str(Path(__file__).parents[2] / "seccomp.py")
CPU = min(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("call", "error", "cpus", "told"),
    [
        (
            "sched_setaffinity",
            "EPERM",
            (CPU,),
            "sched_setaffinity is refused with EPERM (Operation not ",
        ),
        (
            "sched_setaffinity",
            "ENOSYS",
            (CPU,),
            "sched_setaffinity is refused with ENOSYS (Function not ",
        ),
        ("sched_getaffinity", "EPERM", None, "sched_getaffinity is refused with EPERM (Operation not permitted): "),
    ],
)
def test_a_worker_names_the_call_that_is_refused_to_it(
    call: str, error: str, cpus: tuple[int, ...] | None, told: str
) -> None:
    start = Start(backend="numpy", device="cpu", placement=Placement(cpus=cpus))
    filtered = [sys.executable, "-P", SECCOMP, "--errno", error, "--deny", call, "--"]
    done = subprocess.run(
        [*filtered, sys.executable, "-P", "-m", "primbench.workers.worker", "run=1"],
        input=protocol.encode(start) + b"\n", capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert (0, b"") == (done.returncode, done.stderr)
    answer = protocol.decode_answer(done.stdout)
    assert isinstance(answer, Refusal)
    assert (answer.placement, answer.asked) == (cpus is not None, {"cpus": str(CPU)} if cpus else {})
    assert answer.reason.startswith(told)
    assert answer.reason.endswith("allow the call in its profile, or use seccomp=unconfined")


def test_what_is_refused_otherwise_stays_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), refused_calls_named(PlacementError):
        (tmp_path / "absent").read_text()
    with pytest.raises(OSError, match="No space left"), refused_calls_named(PlacementError):
        os.write(os.open("/dev/full", os.O_WRONLY), b"x")


def test_an_error_that_python_raises_is_told_by_the_function_that_does_so() -> None:
    refused = pytest.raises(PlacementError, match=r"^cpus=0: pidfd_open is refused with EPERM \(")
    with refused, refused_calls_named(partial(PlacementError, asked={"cpus": 0})):
        pidfd_open()


def pidfd_open() -> None:
    raise PermissionError(1, os.strerror(1))
