"""The GPUs that this process sees, and the files by which it reaches them."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path
from typing import Annotated

import msgspec

from primbench.devices import CUDA, Device
from primbench.environment import rdma
from primbench.environment.reading import read_all
from primbench.gpu.nvidia import cuda_start, gpu
from primbench.gpu.nvidia.gpu import Gpu
from primbench.gpu.nvidia.processes import devices_of
from primbench.system.files import utf8
from primbench.system.meaning import Fact, facts_of
from primbench.system.processes import environ_of, folder_of, root_of

_of_one = Fact(layer="limits")  # handed in or not
_confined = functools.partial(Fact, layer="confinement")

NOT_ASKED = "not asked for"
"""What stands for why a fact is missing that a run on a CPU does not read."""


class Devices(msgspec.Struct, frozen=True, kw_only=True):
    """None is unknown, with the reason in ``missing`` under the field's name."""

    # fmt: off
    gpus: Annotated[list[Gpu] | None, Fact("The GPUs that this process sees, where they were asked for.",
        "NVML; of another process, those that it has open",
        lambda root, pid: [gpu.described(each) for each in devices_of(root, pid)], layer="machine", entry=_of_one,
        asks_gpus=True)] = None
    gpu_files: Annotated[list[str] | None, _confined(
        "NVIDIA's device files, and /dev/dxg, by which WSL2 reaches GPUs of any maker.",
        "/dev/nvidia*, /dev/dxg", _gpu_files)] = None
    driver_version: Annotated[str | None, Fact("The version of NVIDIA's driver, which is known without NVML, too.",
        "/proc/driver/nvidia/version", lambda root, pid: _driver_version(root), "driver", layer="stack")] = None
    driver_is_open: Annotated[bool | None, Fact("Whether the driver's modules are the open ones.",
        "/proc/driver/nvidia/version", lambda root, pid: rdma.driver_is_open(root), "driver", layer="machine")] = None
    mps_control: Annotated[bool | None, _confined(
        "Whether a multi-process service can be reached here, by its pipe's folder.",
        "$CUDA_MPS_PIPE_DIRECTORY or /tmp/nvidia-mps", lambda root, pid: _mps_pipe(root, pid).exists(), "mps")] = None
    mps_of_another: Annotated[bool | None, _confined("Whether that is of a user that is neither root nor this one.",
        "owner of the pipe in $CUDA_MPS_PIPE_DIRECTORY or /tmp/nvidia-mps", _mps_of_another, "mps")] = None
    cuda: Annotated[str | None, _confined("What CUDA answers when it is started here: CUDA_SUCCESS.",
        "cuInit()", cuda_start.answer, "cuda-start", of_others=False, asks_gpus=True)] = None
    refused_files: Annotated[dict[str, str] | None, _confined(
        "Device files that CUDA opens and may not here, each with the error, as EPERM by a control group.",
        "open() of the GPUs' device files", lambda root: cuda_start.refused_files(root, _gpu_files(root, 0)),
        of_others=False, by_doctor=True, asks_gpus=True)] = None
    gdrdrv_file: Annotated[bool | None, _confined("Whether the device file of GDRCopy is here.",
        "/dev/gdrdrv", lambda root, pid: (root_of(root, pid) / "dev/gdrdrv").exists(), by_doctor=True)] = None
    infiniband_files: Annotated[list[str] | None, _confined("Device files by which adapters are reached.",
        "/dev/infiniband", lambda root, pid: rdma.device_files(root_of(root, pid)), "network")] = None
    # fmt: on
    missing: dict[str, str] = {}

    @property
    def are_gpus_asked_for(self) -> bool:
        """Whether NVML was, as a run on a CPU does not."""
        return self.missing.get("gpus") != NOT_ASKED

    def gpu(self, device: str) -> Gpu | None:
        """That of a case's device, as in "cuda:0"; None where it is no GPU, or not known."""
        found = Device.parse(device)
        return self.gpus[found.index] if self.gpus and found.kind == CUDA and found.index < len(self.gpus) else None


def collect(root: Path, pid: int = 0, *, gpus: bool) -> Devices:
    facts = facts_of(Devices)
    asked = {name: fact if gpus or not fact.asks_gpus else Fact(read=_not_asked) for name, fact in facts.items()}
    return Devices(**read_all(asked, root, pid))


def _not_asked(root: Path, pid: int) -> None:
    raise LookupError(NOT_ASKED)


def _gpu_files(root: Path, pid: int) -> list[str]:
    """Device files of GPUs below /dev, also those in folders such as /dev/nvidia-caps."""
    own_root = root_of(root, pid)
    found = (own_root / "dev").iterdir()
    device_files = [path for path in found if path.name.startswith("nvidia") or path.name == "dxg"]
    files = [inner for path in device_files for inner in (path.iterdir() if path.is_dir() else [path])]
    return sorted(utf8("/" + str(path.relative_to(own_root))) for path in files)


def _driver_version(root: Path) -> str:
    path = root / "proc/driver/nvidia/version"
    found = re.search(r"^NVRM version:.*?\s([0-9]{3,4}\.[0-9.]+)\s", path.read_text(), re.MULTILINE | re.ASCII)
    if found is None:
        raise ValueError(f"{path} names no version of the driver")
    return found[1]


def _mps_pipe(root: Path, pid: int) -> Path:
    folder = environ_of(root, pid).get("CUDA_MPS_PIPE_DIRECTORY") or "/tmp/nvidia-mps"  # nvidia-cuda-mps-control(1)
    return root_of(root, pid) / folder.lstrip("/") / "control"


def _mps_of_another(root: Path, pid: int) -> bool:
    pipe = _mps_pipe(root, pid)
    return pipe.exists() and pipe.stat().st_uid not in (0, folder_of(root, pid).stat().st_uid if pid else os.geteuid())


def has_gpu_node(root: Path = Path("/")) -> bool:
    """Whether the driver shows a GPU to this place, told from its device files without touching it."""
    return any((root / "dev").glob("nvidia[0-9]*")) or (root / "dev/dxg").exists()
