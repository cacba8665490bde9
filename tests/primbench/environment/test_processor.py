from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from primbench.environment import fingerprint

Place = Callable[..., Path]


@pytest.mark.parametrize(
    ("cpuinfo", "link", "emulator"),
    [
        ("vendor_id\t: VirtualApple\nflags\t\t: fpu sse4_2\n", None, "Rosetta"),
        ("CPU implementer\t: 0x61\nFeatures\t: fp asimd sve\n", "/usr/bin/qemu-x86_64-static", "qemu-x86_64"),
        ("vendor_id\t: AuthenticAMD\nflags\t\t: fpu avx2\n", "/usr/bin/python3.12", "none"),
    ],
)
def test_a_program_that_stands_in_for_the_processor(
    place: Place, cpuinfo: str, link: str | None, emulator: str
) -> None:
    root = place({"proc/cpuinfo": cpuinfo})
    if link is not None:
        (root / "proc/thread-self").mkdir()
        (root / "proc/thread-self/exe").symlink_to(link)
    found = fingerprint.collect(gpus=False, root=root).machine
    assert emulator == found.emulator
    assert found.vectors
