"""The GPUs that this process sees, and the files by which it reaches them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from primbench import nvml
from primbench.nvml import Gpu
from primbench.sysfiles import attempt


class Devices(msgspec.Struct, frozen=True, kw_only=True):
    """None is unknown, with the reason in ``missing`` under the field's name.

    gpus: None where they were not asked for. gpu_files: NVIDIA's device files. driver_version: by /proc, so known
    without NVML, too. mps_control: whether a multi-process service can be reached here, by its pipe's folder.
    """

    gpus: list[Gpu] | None = None
    gpu_files: list[str] | None = None
    driver_version: str | None = None
    mps_control: bool | None = None
    missing: dict[str, str] = {}


def collect(root: Path, *, gpus: bool) -> Devices:
    missing: dict[str, str] = {}
    return Devices(gpus=attempt(missing, "gpus", _gpus if gpus else _not_asked), missing=missing)


def _not_asked() -> None:
    raise LookupError("not asked for")


def _gpus() -> list[Gpu]:
    return [nvml.identity(f"cuda:{index}") for index in range(nvml.device_count())]
