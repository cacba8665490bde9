from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from primbench.environment import devices, fingerprint
from primbench.environment.devices import has_gpu_node
from primbench.environment.fingerprint import Environment
from primbench.errors import PlacementError
from primbench.gpu.nvidia import gpu, nvml

Look = Callable[..., Environment]


def test_every_field_is_read_from_its_file(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    found = look().devices
    files = ["/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl"]
    assert (files, "580.159.04", True) == (found.gpu_files, found.driver_version, found.mps_control)
    assert (True, False) == (found.driver_is_open, found.mps_of_another)
    assert ["/dev/infiniband/uverbs0"] == found.infiniband_files
    assert found.gdrdrv_file is True
    assert dict.fromkeys(("gpus", "cuda", "refused_files"), "not asked for") == found.missing


def test_older_words_for_the_driver(look: Look) -> None:
    line = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  450.51.06  Sun Jul 19 20:02:54 UTC 2020\n"
    found = look({"proc/driver/nvidia/version": line}).devices
    assert ("450.51.06", False) == (found.driver_version, found.driver_is_open)


def test_device_file_of_wsl2_is_one_of_a_gpu(tree: Callable[[str], Path]) -> None:
    root = tree("wsl2")
    assert has_gpu_node(root)
    assert ["/dev/dxg"] == fingerprint.collect(gpus=False, root=root).devices.gpu_files


def test_service_whose_pipe_is_elsewhere_is_not_reached(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/elsewhere")
    assert look().devices.mps_control is False


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: gives a file away")
def test_service_of_another_user(place: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    root = place()
    os.chown(root / "tmp/nvidia-mps/control", 4711, -1)
    assert fingerprint.collect(gpus=False, root=root).devices.mps_of_another is True


def test_gpus_are_listed_in_the_order_of_cuda(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(devices, "devices_of", lambda root, pid: ("cuda:0", "cuda:1"))  # no GPU is needed to see it
    monkeypatch.setattr(gpu, "described", lambda device: gpu.Gpu(name=f"GPU of {device}"))
    gpus = fingerprint.collect(gpus=True, root=tmp_path).devices.gpus or []
    assert ["GPU of cuda:0", "GPU of cuda:1"] == [each.name for each in gpus]


def test_gpus_that_cannot_be_listed_have_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(root: Path, pid: int) -> tuple[nvml.NvmlDevice, ...]:
        raise PlacementError("GPUs cannot be found: nvmlInit: NVMLError_DriverNotLoaded (9)")

    monkeypatch.setattr(devices, "devices_of", fail)
    found = fingerprint.collect(gpus=True, root=tmp_path).devices
    assert found.gpus is None
    assert "DriverNotLoaded" in found.missing["gpus"]
