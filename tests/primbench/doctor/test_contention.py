"""What of the machine at this moment is read from its counters."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from primbench.doctor import contention


def write(root: Path, pages: int) -> None:
    new = root / "proc/new"
    new.parent.mkdir(parents=True, exist_ok=True)
    new.write_text(f"pgpgin 7\nworkingset_refault_anon 5\nworkingset_refault_file {pages}\n")
    new.rename(root / "proc/vmstat")


def test_files_that_are_read_again_meanwhile_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sleep = time.sleep

    def meanwhile(for_s: float) -> None:
        write(tmp_path, 612)
        sleep(for_s)

    write(tmp_path, 100)
    assert 0.0 == contention.collect(tmp_path).reread_bytes_per_s
    monkeypatch.setattr(time, "sleep", meanwhile)
    begun = time.monotonic()
    found = contention.collect(tmp_path).reread_bytes_per_s or 0.0
    assert 512 * 4096 / (time.monotonic() - begun) <= found <= 512 * 65536 / contention.LOOKED_FOR_S


def test_a_kernel_that_counts_none_has_a_reason(tmp_path: Path) -> None:
    found = contention.collect(tmp_path)
    assert found.reread_bytes_per_s is None
    assert "vmstat" in found.missing["reread_bytes_per_s"]


@pytest.mark.skipif(not Path("/proc/vmstat").exists(), reason="no /proc/vmstat")
def test_this_machine_counts_them() -> None:
    assert (contention.collect(Path("/")).reread_bytes_per_s or 0.0) >= 0.0
