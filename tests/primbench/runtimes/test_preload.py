"""A library that an arm preloads and that cannot be had, or that the dynamic linker leaves out without a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from primbench.errors import BackendUnavailable, InvalidRequest
from primbench.runtimes.invocation import variables
from primbench.spec.arm import parse_arm
from primbench.workers.process import WorkerProcess
from primbench.workers.protocol import Start

NO_MACHINE = (0xF00D).to_bytes(2, "little")  # which is another one than any linker's
MACHINE = slice(18, 20)  # e_machine of an ELF file's header


@pytest.mark.parametrize(
    ("library", "told"),
    [
        ("nosuch.so", "No such file or directory"),
        ("nosuch/lib.so", "No such file or directory"),
        ("folder", "no plain file: name a library"),
        ("/dev/null", "no plain file: name a library"),
    ],
)
@pytest.mark.parametrize("runtime", ["host", "runc"])
def test_a_library_that_cannot_be_copied_is_refused(runtime: str, library: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    arm = parse_arm(f"{runtime}:preload={tmp_path / library}")
    with pytest.raises(InvalidRequest, match=f"^arm {arm.name}: preload={tmp_path / library}: {told}$"):
        variables(arm, tmp_path)


def test_a_link_to_a_library_is_as_good_as_the_library(tmp_path: Path) -> None:
    mapped = Path("/proc/self/maps").read_text().split()
    (tmp_path / "libmine.so").symlink_to(next(each for each in mapped if "/libc.so" in each or "/ld-musl" in each))
    worker = WorkerProcess(Start(backend="numpy", device="cpu"), arm=parse_arm(f"host:preload={tmp_path}/libmine.so"))
    try:
        assert worker.ready.environment.software.preloads
    finally:
        worker.end()


def test_a_library_of_another_architecture_refuses_the_arm(tmp_path: Path) -> None:
    library = tmp_path / "libmine.so"
    header = bytearray(Path("/proc/self/exe").read_bytes()[:4096])
    header[MACHINE] = NO_MACHINE
    library.write_bytes(header)
    arm = parse_arm(f"host:preload={library}")
    worker = WorkerProcess(Start(backend="numpy", device="cpu"), arm=arm)
    with pytest.raises(BackendUnavailable) as refused:
        worker.ready  # noqa: B018
    told = f"preload={library}: the worker found it not loaded: see whether it is a library for this machine's programs"
    assert told in str(refused.value)
