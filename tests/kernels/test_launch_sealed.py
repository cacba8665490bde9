"""Calls of the CPU under a seal; tests/gpu has those of GPUs."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from primbench import Method, measure
from primbench.backends import missing, open_backend
from primbench.errors import PrimbenchError, VerificationError
from primbench.kernels.launch import Launch
from primbench.kernels.launch._sealed import BURST, CALLS, sealable
from primbench.measurement import Measurement
from primbench.problem import description_of
from primbench.system import seccomp
from primbench.timing.sampling import CLOCK, Pace

if TYPE_CHECKING:
    from click.testing import Result

pytestmark = pytest.mark.skipif(os.uname().machine not in seccomp.NUMBERS, reason="seals know x86_64 and aarch64 only")
METHOD = Method(min_time_s=0.002, max_noise=0.5, max_time_s=1)
BRIEF = Method(min_time_s=0.002, max_time_s=0.01)
ALL_MADE = Method(min_time_s=0.002, max_noise=0.5, max_time_s=60)  # also on a busy machine
SECCOMP = Path(__file__).parents[1] / "seccomp.py"


def sealed(call: str, kind: str, backend: str = "numpy", method: Method = METHOD) -> Measurement:
    return measure(Launch(call, seal=kind), backend=backend, device="cpu", method=method)


def calls(measured: Measurement) -> int:
    times = measured.others["sealed_s"]
    return len(times.samples_s) * times.calls_per_sample


@pytest.mark.parametrize(
    ("call", "kind"), [("ctypes", "ioctl"), ("ctypes", "all"), ("dispatch", "all"), ("thread_wake", "all")]
)
def test_calls_that_need_no_system_call_are_all_made(call: str, kind: str) -> None:
    measured = sealed(call, kind, method=ALL_MADE)
    assert {} == measured.refused_calls
    assert CALLS == calls(measured)
    assert {"first_s", "unsealed_s", "sealed_s"} == set(measured.others)


@pytest.mark.wheel
@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_a_framework_dispatches_without_a_system_call(backend: str) -> None:
    if (reason := missing(backend)) is not None:
        pytest.skip(reason)
    measured = sealed("dispatch", "all", backend, ALL_MADE)
    assert ({}, CALLS) == (measured.refused_calls, calls(measured))


def test_the_control_is_refused_at_every_call_by_name() -> None:
    measured = sealed("getppid", "all")
    assert {"getppid": calls(measured)} == measured.refused_calls
    assert {} == sealed("getppid", "ioctl").refused_calls


def test_a_call_that_fails_under_the_seal_fails_the_case_and_says_what_was_refused() -> None:
    with pytest.raises(PrimbenchError, match=r"after 0 bursts of 10 calls .* PermissionError: .*; refused: \w+ \(1\)"):
        sealed("process_start", "all", method=BRIEF)


def test_a_wrong_output_under_the_seal_fails_the_case() -> None:
    """A step which goes on, and wrongly, where its system call is refused."""
    libc = ctypes.CDLL(None)

    def setup(backend: Any, problem: Any) -> Any:
        output = np.zeros(1)

        def step() -> Any:
            output[0] = libc.getppid() > 0
            return output

        return step

    step: Any = sealable(setup)(open_backend("numpy", "cpu"), Launch(seal="all"))
    with pytest.raises(VerificationError, match=r"wrong result of calls under the seal; refused: getppid \(\d+\)"):
        description_of(step).others["sealed_s"](METHOD, Pace(CLOCK))


def test_what_takes_too_long_ends_with_the_bursts_done() -> None:
    measured = sealed("getppid", "all", method=BRIEF)
    assert 0 < calls(measured) < CALLS
    assert 0 == calls(measured) % BURST
    assert "max time" == measured.others["sealed_s"].stopped


def test_without_a_seal_nothing_is_refused_and_nothing_said() -> None:
    measured = sealed("getppid", "none")
    assert (None, set()) == (measured.refused_calls, set(measured.others) - {"first_s"})


def test_the_table_has_what_was_done_under_the_seal(invoke: Callable[..., Result]) -> None:
    options = ("--backend", "numpy", "--device", "cpu", "--min-time", "2ms", "--call", "ctypes", "--seal", "all")
    header, row = invoke("launch", *options).stdout.splitlines()[1:3]
    assert "seal" in header.split()
    assert ["sealed", "calls", "refused", "calls", "check"] == header.split()[-5:]
    assert ["10000", "0", "not", "checked"] == row.split()[-4:]


def test_a_place_that_allows_no_filter_skips_the_case() -> None:
    command = [sys.executable, "-P", "-m", "primbench", "launch", "--backend", "numpy", "--device", "cpu"]
    options = ["--call", "ctypes", "--seal", "all", "--min-time", "2ms", "--max-time", "10ms"]
    refusing = [sys.executable, "-P", str(SECCOMP), "--deny", "seccomp", "--", *command, *options]
    done = subprocess.run(refusing, capture_output=True, text=True, timeout=120)
    assert "skipped: no seccomp filter with a listener can be had here: Operation not permitted" in done.stdout
