"""The GPUs that this process sees, and the files by which it reaches them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import msgspec

from primbench.environment import rdma
from primbench.environment.reading import Reader, read_all
from primbench.system import nvml
from primbench.system.files import utf8
from primbench.system.meaning import Meaning
from primbench.system.nvml import Gpu

_GPUS = Meaning("machine", entry=Meaning("limits"), inside=Meaning("machine", "gpu"))  # handed in or not


class Devices(msgspec.Struct, frozen=True, kw_only=True):
    """None is unknown, with the reason in ``missing`` under the field's name.

    gpus: None where they were not asked for. gpu_files: NVIDIA's device files, and /dev/dxg, by which WSL2 reaches GPUs
    of any maker. driver_version: by /proc, so known without NVML, too; driver_is_open: of its modules. mps_control:
    whether a multi-process service can be reached here, by its pipe's folder; mps_of_another: whether it is of a user
    that is neither root nor this one. infiniband_files: those of adapters.
    """

    gpus: Annotated[list[Gpu] | None, _GPUS] = None
    gpu_files: Annotated[list[str] | None, Meaning("confinement")] = None
    driver_version: Annotated[str | None, Meaning("stack", "driver")] = None
    driver_is_open: Annotated[bool | None, Meaning("machine", "driver")] = None
    mps_control: Annotated[bool | None, Meaning("confinement", "mps")] = None
    mps_of_another: Annotated[bool | None, Meaning("confinement", "mps")] = None
    infiniband_files: Annotated[list[str] | None, Meaning("confinement", "network")] = None
    missing: dict[str, str] = {}


def collect(root: Path, *, gpus: bool) -> Devices:
    return Devices(**read_all(READERS if gpus else READERS | {"gpus": Reader("NVML", _not_asked)}, root))


def _not_asked(root: Path) -> None:
    raise LookupError("not asked for")


def _gpus(root: Path) -> list[Gpu]:
    return [nvml.identity(f"cuda:{index}") for index in range(nvml.device_count())]


def _gpu_files(root: Path) -> list[str]:
    """Device files of GPUs below /dev, also those in folders such as /dev/nvidia-caps."""
    found = (root / "dev").iterdir()
    device_files = [path for path in found if path.name.startswith("nvidia") or path.name == "dxg"]
    files = [inner for path in device_files for inner in (path.iterdir() if path.is_dir() else [path])]
    return sorted(utf8("/" + str(path.relative_to(root))) for path in files)


def _driver_version(root: Path) -> str:
    path = root / "proc/driver/nvidia/version"
    found = re.search(r"^NVRM version:.*?\s([0-9]{3,4}\.[0-9.]+)\s", path.read_text(), re.MULTILINE | re.ASCII)
    if found is None:
        raise ValueError(f"{path} names no version of the driver")
    return found[1]


def _mps_pipe(root: Path) -> Path:
    folder = os.environ.get("CUDA_MPS_PIPE_DIRECTORY") or "/tmp/nvidia-mps"  # nvidia-cuda-mps-control(1)
    return root / folder.lstrip("/") / "control"


def _mps_control(root: Path) -> bool:
    return _mps_pipe(root).exists()


def _mps_of_another(root: Path) -> bool:
    pipe = _mps_pipe(root)
    return pipe.exists() and pipe.stat().st_uid not in (0, os.geteuid())


READERS = {
    "gpus": Reader("NVML", _gpus),
    "gpu_files": Reader("/dev/nvidia*, /dev/dxg", _gpu_files),
    "driver_version": Reader("/proc/driver/nvidia/version", _driver_version),
    "driver_is_open": Reader("/proc/driver/nvidia/version", rdma.driver_is_open),
    "mps_control": Reader("$CUDA_MPS_PIPE_DIRECTORY or /tmp/nvidia-mps", _mps_control),
    "mps_of_another": Reader("owner of the pipe in $CUDA_MPS_PIPE_DIRECTORY or /tmp/nvidia-mps", _mps_of_another),
    "infiniband_files": Reader("/dev/infiniband", rdma.device_files),
}


def has_gpu_node(root: Path = Path("/")) -> bool:
    """Whether the driver shows a GPU to this place, told from its device files without touching it."""
    return any((root / "dev").glob("nvidia[0-9]*")) or (root / "dev/dxg").exists()
