"""A virtual machine as an arm: it boots, a worker in it measures, and it tells what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from primbench.results.record import Record, Worker
from primbench.runtimes import qemu
from primbench.spec.arm import parse_arm
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.workers.session import Session
from primbench.workers.trial import refused

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_worker_in_a_virtual_machine_measures_and_tells_where_it_is(kernel: Path) -> None:
    arm = parse_arm(f"qemu:guest-kernel={kernel},env.OMP_NUM_THREADS=1,name=machine")
    case = Case(
        primitive="launch",
        parameters={"call": "getppid"},
        backend="numpy",
        device="cpu",
        method=Method(dry_run=True),
        arm=arm.name,
    )
    with Session(arms={arm.name: arm}) as session:
        worker, record = session.run([case])
    assert isinstance(worker, Worker)
    assert isinstance(record, Record)
    assert ("ok", None) == (record.status, record.reason)
    found = worker.environment
    assert found.machine.kernel in kernel.name
    assert (found.machine.emulator == "QEMU TCG") is not qemu.kvm_works()
    assert "QEMU" in str(found.machine.virtualization)
    assert "1" == (found.software.variables or {})["OMP_NUM_THREADS"]
    assert str((found.confinement.filesystems or {})["Python"]).startswith("overlay")


def test_a_program_that_fails_in_a_virtual_machine_is_told_in_its_own_words(kernel: Path) -> None:
    arm = parse_arm(f"qemu:guest-kernel={kernel},env.PYTHONHOME=/nowhere,name=machine")
    assert "exit status 1: Fatal Python error" in str(refused(arm, within_s=60))
