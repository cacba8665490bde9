"""Peaks that makers print of their GPUs: published/datasheets.toml, which names the sources and what is counted."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path

_FILE = Path(__file__).parent / "published" / "datasheets.toml"


@dataclass(frozen=True)
class Datasheet:
    """flop_per_s: by dtype, and "tf32", without sparsity. pcie_bytes_per_s: one way. None: it does not say."""

    source: str
    flop_per_s: dict[str, float]
    memory_bytes_per_s: float
    pcie_bytes_per_s: float | None = None


def of(name: str) -> Datasheet | None:
    """The datasheet of a GPU by NVML's name; None where there is none here."""
    return all_known().get(name)


@functools.cache
def all_known() -> dict[str, Datasheet]:
    """Every datasheet here, by NVML's name of the GPU."""
    gpus = tomllib.loads(_FILE.read_text(encoding="utf-8"))["gpu"]
    return {
        name: Datasheet(**{field: value for field, value in gpu.items() if field != "names"})
        for gpu in gpus
        for name in gpu["names"]
    }
