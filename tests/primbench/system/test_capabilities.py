from __future__ import annotations

from pathlib import Path

from primbench.system.capabilities import capabilities


def test_capabilities_have_the_kernels_numbers(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    bits = {0: "CHOWN", 12: "NET_ADMIN", 21: "SYS_ADMIN", 23: "SYS_NICE", 38: "PERFMON", 40: "CHECKPOINT_RESTORE"}
    (tmp_path / "proc/self/status").write_text(f"CapEff:\t{sum(1 << bit for bit in bits):016x}\n")
    assert [f"CAP_{name}" for name in bits.values()] == capabilities(tmp_path)
